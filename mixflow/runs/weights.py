"""The weights behind a run at any saved time: trained again, weight by weight, up to that time."""

from dataclasses import replace

import numpy as np

from ..checks import real
from ..engines import choose
from ..errors import SpecError
from ..jaxed import in_float64
from ..methods.loop import follow
from ..methods.stage import Member, Stage


@in_float64
def weights(run, time=None):
    """{name: array} at a saved time, the last if not given; see `Run.weights`.

    Inner products do not determine weights, so the run is repeated on every weight, which gives the same inner products to
    rounding. The last state of a run of model "full" is recorded.
    """
    network, method, data = run.transformer, run.method, run.dataset
    if network.mean_field:
        raise SpecError("width = inf: infinitely many weights cannot be listed; train a finite width, for example 64.")
    if method.flows or not hasattr(method, "stages"):
        raise SpecError(
            "only descent has weights at every save, a flow follows inner products; train by GradientDescent."
        )
    step = int(data.step[saved(run, time)])
    engine = choose(run.task, network, method, "full")
    if step == int(data.step[-1]) and data.attrs["model"] == engine.name:
        return _plain(network, engine.weights(engine.resume(data)))
    state = engine.start(network)
    if step:
        state = _repeated(engine, network, method, run.switches, step, state)
    return _plain(network, engine.weights(state))


def saved(run, time=None):
    """The place of a saved time among those of the run, the last if not given; SpecError if it was not saved."""
    times = run.dataset.time.values
    if time is None:
        return len(times) - 1
    place = np.flatnonzero(np.isclose(times, real("time", time), rtol=1e-12, atol=1e-12))
    if not len(place):
        near = times[np.abs(times - time).argmin()]
        raise SpecError(
            f"time = {time:g} was not saved: expected one of the run's {len(times)} times, the nearest is {near:g}."
        )
    return int(place[0])


def _repeated(engine, network, method, switches, step, state):
    """The state after `step` steps: the stages of the run, the last one cut short."""
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
    found = {name: np.asarray(x) for name, x in found.items() if name not in network.frozen_weights}
    if network.no_closure is None and "w" in found and found["w"].ndim == 3:
        w = np.concatenate([found["w"], -found["w"]]) if network.tie_values else found["w"]
        found["w"] = w[:, 0] if network.values == 1 else w
    return {name: found[name] for name in sorted(found, key=lambda name: (name != "w", name))}
