"""Many at once: descent in lanes, flows in threads; each member equals its single run bit for bit."""

import concurrent.futures
import json
import os
import time as clock
from dataclasses import replace

import numpy as np

from ..dataset import SCHEMA_VERSION, build
from ..errors import DivergedError, SpecError
from ..filippov.gates import ChatteringError
from ..jaxed import in_float64
from ..methods.descent import descend
from ..methods.flow import SAVES, GradientFlow
from ..methods.three_stage import ThreeStage, Until
from ..provenance import provenance
from .flow import run_flow
from .three_stage import run_three_stage


def run_many(task, transformers, method, engines, bar):
    """One dataset with a leading `run` dimension."""
    began = clock.perf_counter()
    if isinstance(method, (GradientFlow, ThreeStage)):
        method = _common_times(method, transformers)
        members = _one_by_one(task, transformers, method, engines, bar)
    else:
        members = _in_lanes(task, transformers, method, engines, bar)
    runs = _side_by_side(members, engines, transformers)
    spec = {"task": task.spec(), "transformers": [t.spec() for t in transformers], "method": method.spec()}
    wall_time = clock.perf_counter() - began
    runs.attrs = {"mixflow_schema": SCHEMA_VERSION, "spec": json.dumps(spec), "wall_time": wall_time, **provenance()}
    return runs


def _common_times(method, transformers):
    """The method with saves at times that all members share."""
    if isinstance(method, GradientFlow):
        return (
            replace(method, save_at=SAVES) if method.save_at is None else method
        )  # without each run's own event times
    ends = {end for t in transformers for _, end, _, _ in method.stages(t.bias)}
    if any(isinstance(end, Until) for end in ends):
        raise SpecError(
            "train_many needs one time axis for all runs, but these stages end at events; give durations, for example "
            "ThreeStage(method, neurons=50, attention=500, converge=1000), or call train for each run."
        )
    return replace(method, method=_common_times(method.method, transformers)) if _flows(method) else method


def _flows(method):
    return isinstance(method.method, GradientFlow)


def _one_by_one(task, transformers, method, engines, bar):
    """Flows and staged runs: one after the other in as many threads as cores; a step is one compiled call without the GIL."""
    done = []

    def member(i):
        try:
            if isinstance(method, GradientFlow):
                run = run_flow(task, transformers[i], method, engines[i].name, certificate=False)
            else:
                run = run_three_stage(task, transformers[i], method, engines[i], certificate=False)
            found = run.dataset, -1
        except (ChatteringError, DivergedError) as error:
            if error.run is None:
                raise
            found = error.run.dataset, getattr(error, "step", None) or 0
        done.append(i)
        bar(len(done), len(transformers))
        return found

    found = _in_threads(member, range(len(transformers)))
    # A member that failed has the time of its failure besides the saves that all share.
    whole = [data for data, step in found if step < 0] or [data for data, _ in found]
    longest = max((data.time.values for data in whole), key=len)
    return [_padded(data, longest, step) for data, step in found]


def _in_threads(function, items):
    """Ordered results; on Ctrl-C what has not begun is dropped."""
    pool = concurrent.futures.ThreadPoolExecutor(min(len(items), os.cpu_count() or 1))
    try:
        return list(pool.map(in_float64(function), items))
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _in_lanes(task, transformers, method, engines, bar):
    """Descent: groups of members that share a compiled program, lane by lane, the groups in as many threads as cores."""
    groups = _groups(engines)
    done = dict.fromkeys(range(len(groups)), 0)

    def advance(g):
        def note(at, _):
            done[g] = at
            bar(sum(done.values()), len(groups) * method.steps)

        chosen = groups[g]
        return _descend_group(engines[chosen[0]], [transformers[i] for i in chosen], method, note)

    results = dict(
        zip(
            (i for group in groups for i in group),
            (member for members in _in_threads(advance, range(len(groups))) for member in members),
        )
    )
    longest = method.learning_rate * max((results[i][0] for i in results), key=len)
    found = []
    for i, transformer in enumerate(transformers):
        step, saved, diverged = results[i]
        keep = np.full(len(step), True) if diverged is None else step < diverged
        data = build(
            task, transformer, method, engines[i].name, {name: x[keep] for name, x in saved.items()},
            time=method.learning_rate * step[keep], step=step[keep],
        )  # fmt: skip
        found.append(_padded(data, longest, -1 if diverged is None else diverged))
    return found


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


def _descend_group(engine, transformers, method, progress):
    """Histories (steps, arrays, diverged step) of the members of one group; spare lanes repeat the first member."""
    spare = engine.lanes - len(transformers)
    padded = [*transformers, *[transformers[0]] * spare]
    rate = np.full(engine.lanes, method.learning_rate)
    starts = [engine.start(transformer) for transformer in transformers]
    history = descend(
        engine, [*starts, *[starts[0]] * spare], engine.parameters(padded, rate, rate), method.steps, method.save_every,
        progress=progress,
    )  # fmt: skip
    if history.interrupted:
        raise KeyboardInterrupt
    saved, steps = history.saved, np.array(history.steps)
    return [(steps, engine.unstack(saved, lane), history.diverged.get(lane)) for lane in range(len(transformers))]


def _padded(data, times, diverged):
    """A member's dataset on the common times, NaN where it had diverged."""
    same = np.array_equal(data.time.values, times)
    return (data if same else data.drop_vars("step", errors="ignore").reindex(time=times)), diverged


def _side_by_side(members, engines, transformers):
    """Member datasets along `run`; what belongs to one member alone (its events) is left to its single run."""
    import xarray

    shared = set.intersection(
        *({name for name in data.data_vars if "event" not in data[name].dims} for data, _ in members)
    )
    full = max((data for data, _ in members), key=lambda data: "step" in data.coords)
    runs = xarray.concat(
        [data[sorted(shared)].drop_vars("step", errors="ignore") for data, _ in members],
        dim="run", combine_attrs="drop", join="exact", coords="minimal", compat="override",
    )  # fmt: skip
    numbers = [name for name in ("width", "omega", "bias") if all(hasattr(t, name) for t in transformers)]
    own = {name: ("run", [float(getattr(t, name)) for t in transformers]) for name in numbers}
    events = [data.sizes.get("event", 0) for data, _ in members]
    return runs.assign_coords(
        run=np.arange(len(members)),
        model=("run", [engine.name for engine in engines]),
        diverged_step=("run", [diverged for _, diverged in members]),
        events=("run", events),
        seed=("run", [t.seed for t in transformers]),
        **own,
        **({"step": full.step} if "step" in full.coords else {}),
    )
