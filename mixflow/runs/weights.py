"""The weights behind a run at any saved time: trained again, weight by weight, up to that time."""

import math
from dataclasses import replace

import numpy as np

from ..checks import real
from ..engines import choose
from ..engines.series import resumed
from ..engines.weights import alike
from ..errors import SpecError
from ..jaxed import in_float64, jax
from ..methods import method_from_spec
from ..methods.loop import follow
from ..methods.stage import Member, Stage
from ..networks.construct import Construction
from ..networks.initial import embedding
from ..networks.specs import network_from_spec
from ..tasks import task_from_spec
from .start import kept


@in_float64
def weights(run, time=None):
    """{name: array} at a saved time, the last if not given; see `Run.weights`.

    Inner products do not determine weights, so the run is repeated on every weight from where it began, the runs before it
    included, which gives the same inner products to rounding. The last state of a run of model "full" is recorded.
    """
    network, data = run.transformer, run.dataset
    _check(network, run.method)
    step = int(data.step[saved(run, time)])
    engine = choose(run.task, network, run.method, "full")
    if step == int(data.step[-1]) and data.attrs["model"] == engine.name:
        return _plain(network, engine.weights(engine.resume(data)))
    given = {name.removeprefix("start_"): x for name, (_, x) in kept(run)[1].items()}
    start = _begun(engine, network, run.spec.get("start"), given)
    _compare(engine, network, start, data)
    return _plain(network, engine.weights(_repeated(engine, network, run.method, run.switches, step, start)))


def saved(run, time=None):
    """The place of a saved time among those of the run, the last if not given; SpecError if it was not saved."""
    times = run.dataset.time.values
    if time is None:
        return len(times) - 1
    place = np.flatnonzero(np.isclose(times, real("time", time), rtol=1e-12, atol=1e-12))
    if not len(place):
        near = float(times[np.abs(times - time).argmin()])
        raise SpecError(
            f"time = {float(time)} was not saved: expected one of the run's {len(times)} times, the nearest is {near}."
        )
    return int(place[0])


def _check(network, method, what=""):
    """SpecError where there are no weights to find; `what` says whose."""
    if network.mean_field:
        raise SpecError(
            f"{what}width = inf: infinitely many weights cannot be listed; train a finite width, for example 64."
        )
    if method.flows or not hasattr(method, "stages"):
        raise SpecError(
            f"{what}only descent has weights at every save, a flow follows inner products; train by GradientDescent."
        )


def _begun(engine, network, start, given):
    """The weights a run began with, from what its spec says (`start.origin`) and the weights it was given by name."""
    if start is None:
        return engine.start(network)
    if start["kind"] == "weights":
        return engine.convert(network, given)
    if start["kind"] == "construct":
        return engine.convert(network, _written(Construction.from_spec(start), network, engine.task.population()))
    same = start["transformer"] == network.spec()  # of one's own, which a spec cannot rebuild
    before = network if same else network_from_spec(start["transformer"])
    task, method = task_from_spec(start["task"]), method_from_spec(start["method"])
    _check(before, method, "the run began where another had ended: ")
    past = choose(task, before, method, "full")
    state = _begun(past, before, start.get("start"), given)
    state = _repeated(past, before, method, start["switches"], start["steps"], state)
    if "weights" in state and start["task"] == engine.task.spec():
        return engine.carried(network, state, alike(method, engine.method))
    return engine.convert(network, _plain(before, past.weights(state)))


def _written(net, network, task):
    """The weights of a construction in a network of at least its classes' width, in the coordinates of its features."""
    if network.width < net.classes:
        raise SpecError(
            f"width = {network.width}: the construction it began at has scores of rank {net.classes}; train at least that width."
        )
    net, back = replace(net, width=network.width), np.linalg.pinv(embedding(task, network.dimension))
    scale = math.sqrt(network.score_scale)
    return {"w": net.w @ back, "W_K": net.W_K @ back / scale, "W_Q": net.W_Q @ back / scale}


def _compare(engine, network, state, data):
    """SpecError where a start has other scores and values than the first save: it is not where the run began."""
    if network.no_closure is not None or "A" not in data or hasattr(engine.task, "tokens"):
        return  # it began with weights, not with inner products
    seen, first = network.observe(engine.weights(state), engine.task.population()), resumed(data, network, 0)
    for name in ("w", "A"):
        size = max(np.abs(first[name]).max(), 1e-300)
        if np.shape(seen[name]) != first[name].shape or np.abs(seen[name] - first[name]).max() > 1e-9 * size:
            raise SpecError(
                "the run began with inner products that the weights of its start do not have: expected a run that began at "
                "weights of its own network; begin it with start=weights by name."
            )


def _repeated(engine, network, method, switches, step, state):
    """The state after `step` steps: the stages of the run, the last one cut short."""
    if not step:
        return state
    rate = method.inner.learning_rate
    if not method.staged:
        method = replace(method, steps=step, save_every=step)
        stages = method.stages(network)
    else:
        ends = [(each["start"], min(each["end"], rate * step)) for each in switches if each["start"] < rate * step]
        kinds = method.stages(network)
        stages = [
            Stage(stage.name, end - start, stage.train_w, stage.train_attention)
            for stage, (start, end) in zip(kinds, ends, strict=False)
        ]
    (outcome,) = follow(engine, method, [Member(network=network, state=state)], stages=stages)
    return outcome.last.state


def _plain(network, found):
    """Arrays by name; a head's only value vector has no axis of its own, and tied values are written out for both heads."""
    found = {name: x for name, x in found.items() if name not in network.frozen_weights}
    found = jax().tree.map(np.asarray, found)
    if network.no_closure is None and "w" in found and found["w"].ndim == 3:
        w = np.concatenate([found["w"], -found["w"]]) if network.tie_values else found["w"]
        found["w"] = w[:, 0] if network.values == 1 else w
    return {name: found[name] for name in sorted(found, key=lambda name: (name != "w", name))}
