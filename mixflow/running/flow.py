"""Gradient flow, wired: a task and a transformer become a gated field, the flow a Run with its events and certificate."""

import json
import time as clock

import numpy as np

from ..dataset import build
from ..engines.gated import flow
from ..engines.gram_field import gram_field
from ..engines.symmetric_field import symmetric_field
from ..errors import DivergedError, Interrupted
from ..filippov import ChatteringError, certify
from ..progress import Progress
from ..store import Run

EVENT = ("time", "head", "atom", "before", "after")


def field_of(task, transformer, model, **trained):
    """The gated field of the model by its name."""
    return (symmetric_field if model == "symmetric" else gram_field)(task, transformer, **trained)


def run_flow(task, transformer, method, model, *, progress=False, on_save=None, certificate=True):
    """Follow the flow and return the Run; what was computed is kept on Ctrl-C, divergence and chattering."""
    began = clock.perf_counter()
    field = field_of(task, transformer, model)
    bar = Progress.of(progress, unit="unit")
    try:
        result = flow(field, field.y0, method, progress=bar, on_save=unpacked(field, on_save))
        proof, interrupted = certified(result, wanted=certificate)
    except (ChatteringError, DivergedError) as error:
        if error.run is not None and len(error.run.times):
            error.run = _run(task, transformer, method, model, field, error.run, error.run.counts, began)
        raise
    finally:
        bar.close()
    run = _run(task, transformer, method, model, field, result, proof, began)
    if interrupted:
        where = "before its certificate" if result.ended == "until" else f"at t = {result.time:g} of {method.until:g}"
        raise Interrupted(f"interrupted {where}; what was computed is kept.", run=run)
    return run


def certified(result, *, wanted=True):
    """The certificate, or the mere counts if it is not wanted or Ctrl-C came; and whether Ctrl-C came."""
    if not wanted or result.ended == "interrupted":
        return result.counts, result.ended == "interrupted"
    try:
        return certify(result), False
    except KeyboardInterrupt:
        return result.counts, True


def unpacked(field, on_save):
    """`on_save` of (time, history) as the flow calls it, with flat states."""
    return None if on_save is None else lambda times, states: on_save(times, field.unpack(states))


def _run(task, transformer, method, model, field, result, proof, began):
    times, states = result.times, result.states
    if result.ended != "until" and (not len(times) or times[-1] < result.time):
        times, states = np.append(times, result.time), np.concatenate([states, result.state[None]])
    attributes = {"finished": int(result.ended == "until"), "certificate": json.dumps(proof)}
    return Run(
        build(
            task, transformer, method, model, field.unpack(states), time=times, extra=event_variables(result.events),
            wall_time=clock.perf_counter() - began, attributes=attributes,
        )
    )  # fmt: skip


def event_variables(events):
    """Every neuron switch as variables along `event`: time, head, atom, before, after."""
    rows = [(event.time, *event.name, event.before, event.after) for event in events]
    columns = dict(zip(EVENT, zip(*rows) if rows else [()] * len(EVENT)))
    return {
        f"event_{name}": ("event", np.array(column, dtype=float if name == "time" else object if column else "U1"))
        for name, column in columns.items()
    }
