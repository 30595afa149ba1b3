"""Three-stage training, wired: descent or flow inside, one Run out, with every switch logged (docs/mathematics.md §6)."""

import json
import time as clock
from functools import partial

import numpy as np

from ..dataset import build
from ..engines.forward import loss_of_each, margin, preactivation
from ..engines.gated import flow
from ..engines.symmetric import type_margin
from ..errors import DivergedError, Interrupted, SpecError
from ..measure.means import mean, mean_loss
from ..measure.separability import deciding, feature_margin
from ..methods.descent import GradientDescent, descend
from ..methods.flow import GradientFlow
from ..methods.three_stage import Until, limit, steps_within
from ..progress import Progress
from ..store import Run
from ..tasks.symmetry import expand
from .flow import certified, event_variables, field_of, unpacked


def run_three_stage(task, transformer, method, engine, *, progress=False, on_save=None, certificate=True):
    """Run the three stages from the transformer's start and return the Run; `run.switches` says what ended each stage.

    certificate   whether the flow solves each stage again at a tighter tolerance, from the same start of the stage
    """
    began = clock.perf_counter()
    stages = method.stages(transformer.bias)
    watch = Watch(task, transformer, engine.name)
    for _, end, _, _ in stages:
        watch.check(end)
    bar = Progress.of(progress, unit="unit")
    inside = (
        _descent_stage if isinstance(method.method, GradientDescent) else partial(_flow_stage, certificate=certificate)
    )
    past, switches, stopped = [], [], None
    state, time = None, 0.0
    try:
        for number, (name, end, train_w, train_A) in enumerate(stages, start=1):
            note = lambda t, _, number=number, end=end: bar(number - 1 + min(1.0, t / limit(end)), 3)  # noqa: E731
            part = inside(
                engine, task, transformer, method.method, state, time, end, (train_w, train_A), watch, note, on_save
            )
            past.append(part)
            switches.append(_switch(number, name, end, time, part, watch))
            state, time, stopped = part["state"], part["time"][-1], part["stopped"]
            if stopped:
                break
    finally:
        bar.close()
    run = Run(_dataset(task, transformer, method, engine, past, switches, stopped, clock.perf_counter() - began))
    if stopped == "interrupted":
        raise Interrupted(f"interrupted in stage {len(past)} at t = {time:g}; what was computed is kept.", run=run)
    if stopped == "diverged":
        raise DivergedError(f"stage {len(past)} diverged near t = {time:g}; lower the learning rate.", run=run)
    return run


class Watch:
    """The quantities an event can watch, from states of one model."""

    def __init__(self, task, transformer, model):
        self.task, self.bias, self.model = task, transformer.bias, model
        self.listed = model != "symmetric" or task.listable
        self.population = task.population() if self.listed else None
        self.samples = deciding(self.population) if self.listed else None

    def check(self, end):
        """Refuse an event this task cannot have."""
        if not isinstance(end, Until):
            return
        if end.quantity == "feature_margin" and self.model == "tokens":
            raise SpecError(
                "feature_margin says nothing on images, which have more dimensions than samples and can always be separated; "
                "end the attention stage after a time, for example attention=300."
            )
        if end.quantity == "feature_margin" and not self.listed:
            raise SpecError(
                f"feature_margin needs the list of atoms, which classes = {self.task.classes} is too many for; "
                "end the attention stage after a time, for example attention=1e4."
            )
        if end.quantity == "feature_margin" and self.listed and self.population.loss != "logistic":
            raise SpecError(
                f"feature_margin is about labels +1 and -1, but the task has loss = {self.population.loss!r}; end the "
                "attention stage after a time, for example attention=500."
            )
        hard = self.population.hard if self.listed else np.array([True, False])
        if (end.quantity == "feature_margin" and not hard.any()) or (end.quantity == "easy_margin" and hard.all()):
            raise SpecError(
                f"the task has no {'hard' if hard.sum() == 0 else 'easy'} samples, so {end.quantity} means nothing."
            )

    def values(self, quantity, history):
        """The quantity at every state of a history with time first."""
        if not self.listed:
            y_margin, weight, hard = type_margin(history, self.task.classes, self.bias)
            if quantity == "loss":
                return mean_loss(y_margin, weight)
        else:
            if self.model == "symmetric":
                history = expand(history, self.task.classes)
            if quantity == "feature_margin":
                return np.atleast_1d(feature_margin(self.population, history["A"], samples=self.samples))
            z = (
                history["z"]
                if "z" in history
                else preactivation(self.population, history["w"], history["A"], self.bias)
            )
            if quantity == "loss":
                return mean(loss_of_each(self.population, z), self.population.probabilities)
            y_margin, hard = margin(self.population, z), self.population.hard
        return y_margin[..., ~hard].min(axis=-1)


def _descent_stage(engine, task, transformer, method, state, time, end, trained, watch, note, on_save):
    """One stage by descent; events are looked for at every save."""
    rate, lanes = method.learning_rate, engine.lanes
    train_w, train_A = trained
    parameters = engine.parameters(
        [transformer] * lanes, np.full(lanes, rate * train_w), np.full(lanes, rate * train_A)
    )

    def stop(part):
        hits = np.flatnonzero(end.excess(watch.values(end.quantity, engine.unstack(part, 0))) >= 0)
        return int(hits[0]) if len(hits) else None

    event = isinstance(end, Until)
    start = [engine.start(transformer)] * lanes if state is None else state
    done = round(time / rate)  # steps are counted through all stages, so that saves keep one grid
    history = descend(
        engine, start, parameters, done + steps_within(end, rate), method.save_every, first=done,
        progress=lambda at, total: note((at - done) * rate, total), stop=stop if event else None,
        on_save=on_save and (lambda steps, part: on_save(rate * np.array(steps), engine.unstack(part, 0))),
    )  # fmt: skip
    saved, steps = engine.unstack(history.saved, 0), np.array(history.steps)
    stopped = "interrupted" if history.interrupted else "diverged" if history.diverged else None
    if history.diverged:
        good = steps < history.diverged[0]
        saved, steps = {name: x[good] for name, x in saved.items()}, steps[good]
    return {
        "time": rate * steps,
        "steps": steps,
        "history": saved,
        "state": [history.state] if lanes == 1 else [_lane(engine, history.state)] * lanes,
        "stopped": stopped,
        "events": (),
        "counts": {"steps": int(steps[-1]) - done},
    }


def _lane(engine, state):
    """One run's state out of the lanes, as `stack` takes it."""
    return {
        name: x[0] for name, x in engine.unstack({name: np.asarray(x)[None] for name, x in state.items()}, 0).items()
    }


def _flow_stage(engine, task, transformer, method, state, time, end, trained, watch, note, on_save, *, certificate):
    """One stage by the flow; an event is located by root finding."""
    field = field_of(task, transformer, engine.name, train_w=trained[0], train_attention=trained[1])

    def excess(t, y):
        return float(end.excess(watch.values(end.quantity, field.unpack(y[None]))[0]))

    until = time + limit(end)
    stage = GradientFlow(until=until, rtol=method.rtol, atol=method.atol, save_at=method.save_at)
    start = field.y0 if state is None else state
    result = flow(
        field, start, stage, start_time=time,
        stop=excess if isinstance(end, Until) else None, progress=lambda t, _: note(t - time, 0),
        on_save=unpacked(field, on_save),
    )  # fmt: skip
    proof, interrupted = certified(result, wanted=certificate)
    times, states = result.times, result.states
    inside = times < result.time
    times, states = np.append(times[inside], result.time), np.concatenate([states[inside], result.state[None]])
    return {
        "time": times,
        "history": field.unpack(states),
        "state": result.state,
        "stopped": "interrupted" if interrupted else None,
        "events": result.events,
        "counts": result.counts,
        "certificate": proof,
    }


def _switch(number, name, end, began, part, watch):
    """What ended a stage, as the log keeps it."""
    finished = float(part["time"][-1])
    found = {"stage": number, "name": name, "start": float(began), "end": finished}
    if part["stopped"]:
        return {**found, "trigger": part["stopped"], "reached": False}
    if not isinstance(end, Until):
        return {**found, "trigger": "time", "reached": True}
    last = {key: x[-1:] for key, x in part["history"].items()}
    value = float(watch.values(end.quantity, last)[0])
    close = abs(value - end.threshold) <= 1e-6 * end.threshold  # the flow stops at the root, up to its rounding
    reached = end.reached(value) or close
    return {
        **found,
        "trigger": end.quantity if reached else "limit",
        "reached": reached,
        "quantity": end.quantity,
        "threshold": end.threshold,
        "value": value,
    }


def _dataset(task, transformer, method, engine, parts, switches, stopped, wall_time):
    """The stages one after the other; the state at a switch is kept once."""
    skip = lambda i, x: x if i == 0 else x[1:]  # noqa: E731 (a stage begins where the one before ended)
    history = {
        name: np.concatenate([skip(i, part["history"][name]) for i, part in enumerate(parts)])
        for name in parts[0]["history"]
    }
    time = np.concatenate([skip(i, part["time"]) for i, part in enumerate(parts)])
    step = None
    if "steps" in parts[0]:
        step = np.concatenate([skip(i, part["steps"]) for i, part in enumerate(parts)])
    events = [event for part in parts for event in part["events"]]
    final = engine.final(parts[-1]["state"][0]) if engine.name in ("full", "tokens") else None
    attributes = {
        "finished": int(not stopped),
        "switches": json.dumps(switches),
        "counts": json.dumps([part["counts"] for part in parts]),
    }
    if "certificate" in parts[0]:
        proofs = [{"stage": switch["name"], **part["certificate"]} for switch, part in zip(switches, parts)]
        attributes["certificate"] = json.dumps(proofs)
    return build(
        task, transformer, method, engine.name, history, time=time, step=step, final=final,
        extra=event_variables(events) if isinstance(method.method, GradientFlow) else None,
        wall_time=wall_time, attributes=attributes,
    )  # fmt: skip
