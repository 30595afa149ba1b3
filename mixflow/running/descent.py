"""Descent, wired: one run on its own, and its continuation."""

import time as clock
from dataclasses import replace

import numpy as np

from ..dataset import build
from ..errors import DivergedError, Interrupted, SpecError
from ..methods.descent import GradientDescent, descend
from ..progress import Progress
from ..store import Run
from .choose import choose

STATE = ("w", "A", "G_K", "G_Q")


def run_descent(
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


def extend_descent(run, steps, *, progress=False):
    """Go on with a descent run for `steps` more steps; the result is identical to one long run."""
    data, method = run.dataset, run.method
    model = data.attrs["model"]
    # Of these neither the weights nor an optimiser's memory are recorded.
    if model in ("variant", "vanilla", "own"):
        raise SpecError(f"a run of model {model!r} does not record its weights, so it cannot be extended: train again.")
    if not isinstance(method, GradientDescent):
        raise SpecError(
            f"only descent runs can be extended; this one is {run.spec['method']['kind']!r}: train again with a larger until."
        )
    if data.attrs["model"] in ("tokens", "coordinates"):  # the dataset holds what was watched, not the whole state
        raise SpecError("a run on images or noisy tokens cannot be extended bit for bit: train again with more steps.")
    done = int(data.step[-1])
    longer = replace(method, steps=done + steps)
    engine = choose(run.task, run.transformer, longer, data.attrs["model"])
    suffix = "_sector" if engine.name == "symmetric" else ""
    if engine.name == "full":
        start = {name: data[f"final_{name}"].values for name in ("w", "W_K", "W_Q")}
    else:
        start = {name: data[f"{name}{suffix}"].values[-1] for name in STATE}
    on_grid = data.step.values % method.save_every == 0  # the last save of the shorter run may be off the grid: drop it
    past = {name: data[f"{name}{suffix}"].values[on_grid] for name in STATE}
    return run_descent(
        engine, run.task, run.transformer, longer, start, first=done, past=(data.step.values[on_grid], past),
        progress=progress, wall_time=data.attrs["wall_time"],
    )  # fmt: skip
