"""The only wiring: train(task, transformer, method) -> Run, by the cheapest model that is exact for them."""

import concurrent.futures
import json
import os
import time as clock

import numpy as np

from .checks import one_of, whole
from .dataset import SCHEMA_VERSION, build
from .dynamics.descent import GradientDescent, descend
from .dynamics.flow import GradientFlow
from .dynamics.three_stage import ThreeStage
from .errors import DivergedError, Interrupted, SpecError
from .flow_run import run_flow
from .models.full import Full
from .models.gram import Gram
from .models.symmetric import Symmetric
from .models.transformer import Transformer
from .progress import Progress
from .provenance import provenance
from .staged_run import run_three_stage
from .store import Run
from .tasks import FiniteTask, Mixture, Sample

MODELS = ("auto", "full", "gram", "symmetric")


def train(task, transformer=None, method=None, *, model="auto", progress=False, on_save=None):
    """Train `transformer` on `task` by `method` and return the Run.

    model     "auto" takes the cheapest exact one; "full", "gram" or "symmetric" forces it
    progress  True draws a bar on stderr; or a function of (done, total)
    on_save   a function of (time, history), given each stretch of saved states as it is computed, for a live display; the
              history is what `dataset.build` takes, and a state at the switch of two stages comes twice

    What either function raises ends the run.
    Raises SpecError for arguments that do not fit together, DivergedError (with the history in `.run`) when the run leaves
    float64, Interrupted (a KeyboardInterrupt, with the history in `.run`) on Ctrl-C.

    >>> run = train(Mixture(classes=2), Transformer(omega=0.3), GradientDescent(learning_rate=0.1, steps=200))
    >>> round(float(run.dataset.loss[-1]), 4)
    0.4853
    """
    transformer, method = _checked(task, transformer, method)
    engine = choose(task, transformer, method, model)
    if isinstance(method, GradientFlow):
        return run_flow(task, transformer, method, engine.name, progress=progress, on_save=on_save)
    if isinstance(method, ThreeStage):
        return run_three_stage(task, transformer, method, engine, progress=progress, on_save=on_save)
    start = engine.start(transformer)
    return _descend_one(engine, task, transformer, method, start, progress=progress, on_save=on_save)


def extend(run, steps, *, progress=False):
    """Go on with a descent run for `steps` more steps; the result is identical to one long run."""
    steps = whole("steps", steps)
    method = run.method
    if not isinstance(method, GradientDescent):
        raise SpecError(
            f"only descent runs can be extended; this one is {run.spec['method']['kind']!r}: train again with a larger until."
        )
    data = run.dataset
    done = int(data.step[-1])
    longer = GradientDescent(**{**_fields(method), "steps": done + steps})
    engine = choose(run.task, run.transformer, longer, data.attrs["model"])
    suffix, names = (
        ("_sector", ("w", "A", "G_K", "G_Q")) if engine.name == "symmetric" else ("", ("w", "A", "G_K", "G_Q"))
    )
    if engine.name == "full":
        start = {name: data[f"final_{name}"].values for name in ("w", "W_K", "W_Q")}
    else:
        start = {name: data[f"{name}{suffix}"].values[-1] for name in names}
    on_grid = data.step.values % method.save_every == 0  # the last save of the shorter run may be off the grid: drop it
    past = {name: data[f"{name}{suffix}"].values[on_grid] for name in names}
    return _descend_one(
        engine, run.task, run.transformer, longer, start, first=done, past=(data.step.values[on_grid], past),
        progress=progress, wall_time=data.attrs["wall_time"],
    )  # fmt: skip


def train_many(task, models, method=None, *, model="auto", progress=False):
    """Train many transformers on one task; returns one dataset with a leading `run` dimension.

    Each member equals its single run bit for bit: runs share a compiled program, lane by lane, and never each other's
    numbers. A member that diverges is NaN from its last good save on, with its step in `diverged_step`.
    """
    models = list(models)
    if not models:
        raise SpecError("models is empty: give at least one Transformer.")
    checked = [_checked(task, transformer, method) for transformer in models]
    method = checked[0][1]
    engines = [choose(task, transformer, method, model) for transformer in models]
    groups = _groups(engines)
    total = len(groups) * method.steps
    done = dict.fromkeys(range(len(groups)), 0)
    bar = Progress.of(progress, unit="step")

    def advance(g):
        def note(at, _):
            done[g] = at
            bar(sum(done.values()), total)

        return _descend_group([engines[i] for i in groups[g]], [models[i] for i in groups[g]], method, progress=note)

    began = clock.perf_counter()
    results = [None] * len(models)
    try:
        with concurrent.futures.ThreadPoolExecutor(min(len(groups), os.cpu_count() or 1)) as pool:
            for g, members in enumerate(pool.map(advance, range(len(groups)))):
                for i, member in zip(groups[g], members, strict=True):
                    results[i] = member
    finally:
        bar.close()
    return _gather(task, models, engines, method, results, clock.perf_counter() - began)


def choose(task, transformer, method, model="auto"):
    """The engine: the cheapest exact one, or the one asked for, or a SpecError that says why it cannot serve."""
    one_of("model", model, MODELS)
    inner = method.method if isinstance(method, ThreeStage) else method
    if isinstance(inner, GradientFlow) and model == "full":
        raise SpecError("model='full' has no gradient flow; use model='gram', which is exact at any width.")
    symmetric_objection = _why_not_symmetric(task, transformer, inner)
    if model == "symmetric" and symmetric_objection:
        raise SpecError(f"model='symmetric' cannot represent this: {symmetric_objection}; use model='gram'.")
    if model == "symmetric" or (model == "auto" and not symmetric_objection):
        return Symmetric(task, transformer.tie_values)
    minibatch = getattr(inner, "batch_size", None)
    if minibatch is not None and model == "gram":
        raise SpecError(
            "model='gram' trains on the whole population, not on minibatches; use model='full' or no batch_size."
        )
    if minibatch is not None and transformer.mean_field:
        raise SpecError(
            "minibatches need a finite width, because model='full' stores every weight; set width, for example 256."
        )
    if model == "full" and transformer.mean_field:
        raise SpecError("model='full' with width=inf: infinitely many weights cannot be stored; use model='gram'.")
    population = task.population()
    if model == "full" or minibatch is not None:
        return Full(population, transformer.tie_values, minibatch, getattr(inner, "batch_seed", 0))
    return Gram(population, transformer.tie_values)


def _why_not_symmetric(task, transformer, inner):
    if not isinstance(task, Mixture):
        return "it needs a Mixture, whose classes are exchangeable"
    if not task.uniform:
        return "it needs uniform priors and orthonormal features"
    if not transformer.mean_field:
        return f"width = {transformer.width} breaks the symmetry between classes; only width=inf keeps it"
    if getattr(inner, "batch_size", None) is not None:
        return "minibatches break the symmetry between classes"
    return None


def _checked(task, transformer, method):
    transformer = Transformer() if transformer is None else transformer
    method = GradientDescent() if method is None else method
    for name, value, kinds in (
        ("task", task, (Mixture, Sample, FiniteTask)),
        ("transformer", transformer, (Transformer,)),
        ("method", method, (GradientDescent, GradientFlow, ThreeStage)),
    ):
        if not isinstance(value, kinds):
            raise SpecError(f"{name} = {value!r}: expected {' or '.join(kind.__name__ for kind in kinds)}.")
    return transformer, method


def _descend_one(
    engine, task, transformer, method, start, *, first=0, past=None, progress=False, on_save=None, wall_time=0.0
):
    """One run on its own: every lane of the engine does the same work."""
    lanes = engine.lanes
    bar = Progress.of(progress, unit="step")
    began = clock.perf_counter()
    rate = np.full(lanes, method.learning_rate)
    try:
        history = descend(
            engine, [start] * lanes, engine.parameters([transformer] * lanes, rate, rate), method.steps, method.save_every,
            first=first, record_first=past is None, progress=bar,
            on_save=on_save and (lambda steps, part: on_save(rate[0] * np.array(steps), engine.unstack(part, 0))),
        )  # fmt: skip
    finally:
        bar.close()
    step = np.array(history.steps, np.int64)
    saved = engine.unstack(history.saved, 0) if history.parts else {}
    if past is not None:
        step = np.concatenate([past[0], step])
        saved = {name: np.concatenate([past[1][name], saved[name]]) if saved else past[1][name] for name in past[1]}
    diverged = history.diverged.get(0)
    if diverged is not None:
        keep = step < diverged
        step, saved = step[keep], {name: x[keep] for name, x in saved.items()}
    reached = int(step[-1])
    attributes = {"finished": int(diverged is None and not history.interrupted), "steps_done": reached}
    run = Run(
        build(
            task, transformer, method, engine.name, saved, time=method.learning_rate * step, step=step,
            final=None if diverged is not None else engine.final(history.state),
            wall_time=wall_time + clock.perf_counter() - began, attributes=attributes,
        )
    )  # fmt: skip
    if diverged is not None:
        raise DivergedError(
            f"the run diverged at step {diverged} (t = {diverged * method.learning_rate:g}) with learning_rate = "
            f"{method.learning_rate:g}; the history up to step {reached} is kept, lower the learning rate.",
            step=diverged,
            run=run,
        )
    if history.interrupted:
        raise Interrupted(f"interrupted after step {reached} of {method.steps}; what was computed is kept.", run=run)
    return run


def _groups(engines):
    """Indices of members that can share a program, at most `lanes` at a time, in order."""
    by_key = {}
    for i, engine in enumerate(engines):
        by_key.setdefault(engine.key, []).append(i)
    return [
        indices[j : j + engines[indices[0]].lanes]
        for indices in by_key.values()
        for j in range(0, len(indices), engines[indices[0]].lanes)
    ]


def _descend_group(engines, transformers, method, progress):
    """Histories (steps, arrays, diverged step) of the members of one group; spare lanes repeat the first member."""
    engine, members = engines[0], len(engines)
    spare = engine.lanes - members
    padded = [*transformers, *[transformers[0]] * spare]
    rate = np.full(engine.lanes, method.learning_rate)
    starts = [engine.start(transformer) for transformer in transformers]
    history = descend(
        engine, [*starts, *[starts[0]] * spare], engine.parameters(padded, rate, rate), method.steps, method.save_every,
        progress=progress,
    )  # fmt: skip
    if history.interrupted:
        raise KeyboardInterrupt
    saved = history.saved
    return [
        (np.array(history.steps), engine.unstack(saved, lane), history.diverged.get(lane)) for lane in range(members)
    ]


def _gather(task, transformers, engines, method, results, wall_time):
    """Member datasets side by side along `run`."""
    import xarray

    longest = max((steps for steps, _, _ in results), key=len)
    members = []
    for transformer, engine, (step, saved, diverged) in zip(transformers, engines, results, strict=True):
        keep = step < diverged if diverged is not None else np.full(len(step), True)
        member = build(
            task, transformer, method, engine.name, {name: x[keep] for name, x in saved.items()},
            time=method.learning_rate * step[keep], step=step[keep],
        )  # fmt: skip
        members.append(
            member.drop_vars("step").reindex(time=method.learning_rate * longest) if not keep.all() else member
        )
    shared = set.intersection(*(set(member.data_vars) for member in members))
    runs = xarray.concat(
        [member[sorted(shared)] for member in members],
        dim="run",
        combine_attrs="drop",
        join="exact",
        coords="minimal",
        compat="override",
    )
    runs = runs.assign_coords(
        run=np.arange(len(members)),
        step=("time", longest),
        model=("run", [engine.name for engine in engines]),
        diverged_step=("run", [-1 if diverged is None else diverged for _, _, diverged in results]),
        **{name: ("run", [float(getattr(t, name)) for t in transformers]) for name in ("width", "omega", "bias")},
        seed=("run", [t.seed for t in transformers]),
    )
    spec = {"task": task.spec(), "transformers": [t.spec() for t in transformers], "method": method.spec()}
    runs.attrs = {"mixflow_schema": SCHEMA_VERSION, "spec": json.dumps(spec), "wall_time": wall_time, **provenance()}
    return runs


def _fields(method):
    return {key: value for key, value in method.spec().items() if key != "kind"}
