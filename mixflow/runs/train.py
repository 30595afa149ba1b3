"""The public calls: train one, train many. The only wiring: engine, start, stages, dataset."""

from __future__ import annotations

import concurrent.futures
import json
import time as clock
import warnings
from typing import TYPE_CHECKING

from ..checks import function, listed, shown
from ..engines import choose
from ..errors import DivergedError, Interrupted, SpecError
from ..jaxed import in_float64
from ..measure.stages import located, stamped
from ..measure.watch import watch
from ..methods import GradientDescent
from ..methods.loop import follow
from ..methods.stage import Leg, Member
from ..methods.until import is_event
from ..networks.transformer import Transformer
from ..progress import Progress
from ..provenance import cores
from .batch import Runs, batch, one_schema
from .run import Run
from .schema import joined, labelled, recorded
from .start import begin, kept, origin

if TYPE_CHECKING:
    from typing import Any

    from ..methods import Method
    from ..networks import AnyNetwork
    from ..tasks import Task
    from ..types import Callable, Sequence, Shown

FEW = 1000  # saves, which always fit
MOST_BYTES = 4 * 2**30  # of all that a call records


@in_float64
def train(
    task: Task,
    transformer: AnyNetwork | None = None,
    method: Method | None = None,
    *,
    model: str = "auto",
    start: Any = None,
    progress: Shown = False,
    on_save: Callable[..., object] | None = None,
) -> Run:
    """Train `transformer` on `task` by `method` and return the Run.

    task         a Mixture, a Sample, a FiniteTask, Mnist or a NoisyMixture
    transformer  what is trained: a Transformer (of infinite width if not given), a Vanilla, or a Network of your own
    method       GradientDescent (the default), GradientFlow, ThreeStage or Optimizer
    model        "auto" takes the cheapest exact one; "full", "gram" or "symmetric" forces it
    start        where to begin instead of the transformer's own start: a Run of the same width (its last
                 state), a Construction, or weights by name; `run.spec["start"]` says so
    progress     True draws a bar on stderr; or a function of (done, total)
    on_save      a function of (time, dataset), given each stretch of saved times as it is computed, for a live display;
                 `dataset()` makes the labelled dataset of the stretch; a state at the switch of two stages comes twice

    What either function raises ends the run. Where infinite width freezes a network, makes it random or traps it, a warning says
    so first (`Transformer.limit`).
    Raises SpecError for arguments that do not fit together, DivergedError (with the history in `.run`) when the run
    leaves float64, ChatteringError likewise, Interrupted (a KeyboardInterrupt, with the history in `.run`) on Ctrl-C.

    >>> import mixflow as mf
    >>> run = mf.train(mf.Mixture(classes=2), mf.Transformer(omega=0.3), mf.GradientDescent(learning_rate=0.1, steps=200))
    >>> round(float(run.dataset.loss[-1]), 4)
    0.4853
    """
    network, method = checked(task, transformer, method)
    function("on_save", on_save, "a function of (time, dataset)")
    engine = choose(task, network, method, model)
    if start is None:
        _announce([engine])
    state = begin(engine, network, start)
    room([engine], method, method.stages(network), state)
    bar = Progress.of(progress, unit=method.extent[1])
    began = clock.perf_counter()
    try:
        outcome = _single(engine, network, method, state, bar, on_save)
    finally:
        bar.close()
    run = finished(engine, network, method, outcome, clock.perf_counter() - began, start=origin(start))
    if (why := engine.doubt(run.dataset)) is not None:
        warnings.warn(why, stacklevel=3)
    for switch in outcome.switches:
        if not switch["reached"]:
            warnings.warn(_missed(switch), stacklevel=3)
    return run


def checked(task, network, method):
    """The network and method, defaults filled in; a SpecError if anything is of the wrong kind."""
    network = Transformer() if network is None else network
    method = GradientDescent() if method is None else method
    wanted = (
        ("task", task, ("population", "spec", "unlisted"), "Mixture, Sample, FiniteTask, Mnist or NoisyMixture"),
        ("transformer", network, ("start", "spec", "no_closure"), "Transformer, Vanilla or a Network of your own"),
        ("method", method, ("stages", "spec", "inner"), "GradientDescent, GradientFlow, ThreeStage or Optimizer"),
    )
    for name, value, needs, kinds in wanted:
        if isinstance(value, type) or not all(hasattr(value, each) for each in needs):
            raise SpecError(f"{name} = {shown(value)}: expected {kinds}.")
    return network, method


def _announce(engines):
    """Warn, before anything is computed, where infinite width freezes a network, makes it random or traps it."""
    about = [(engine.network, None if engine.vectors_only else engine.task, engine.method.flows) for engine in engines]
    said = {network.limit(task, flow): None for network, task, flow in about}
    for sentence in filter(None, said):
        warnings.warn(sentence, stacklevel=4)  # the caller of train, behind the door to float64


def room(engines, method, stages, state=None):
    """SpecError, before anything is computed, if what these runs record would not fit into memory."""
    saves = len(engines) * sum(method.inner.saves(stage) or 0 for stage in stages)
    each = sum(engines[0].save_bytes(state).values()) if saves > FEW else 0
    if saves * each > MOST_BYTES:
        name = "save_at" if method.flows else "save_every"
        raise SpecError(
            f"{saves} saves of {each} bytes are {saves * each / 2**30:.3g} GB, above {MOST_BYTES / 2**30:g} GB: save at most "
            f"{MOST_BYTES // each // len(engines)} times in all ({name})."
        )


def _missed(switch):
    """What to say of a stage whose event did not come."""
    who = "the run" if switch["name"] is None else f"stage {switch['stage']} ({switch['name']})"
    what = "stood still" if switch["trigger"] == "standstill" else "reached its limit"
    return (
        f"{who} {what} at t = {switch['end']:g}: {switch['quantity']} was {switch['value']:.6g} and was to reach "
        f"{switch['threshold']:g}; choose another end."
    )


def _single(engine, network, method, state, bar, on_save=None):
    """The outcome of one run, which fills every lane of its engine."""

    def show(times, history):
        on_save(times, lambda: _stretch(engine, network, times, history))

    def note(share):
        bar(*portion(method, share))

    leg = Leg(progress=note, on_save=show if on_save is not None else None)
    (outcome,) = follow(engine, method, [Member(network=network, state=state)], leg=leg, watch=watched(engine))
    return outcome


def portion(method, share):
    """(done, total) of a method for a progress bar; whole steps where it has steps."""
    total = method.extent[0]
    return (round(share * total) if isinstance(total, int) and total > 3 else share * total), total


def watched(engine):
    """How a stage's event is watched on this engine."""
    return lambda end, network: watch(engine, end, network)


def _stretch(engine, network, times, history):
    return labelled(engine.coordinates(), engine.measure(history, network), time=times)


def finished(engine, network, method, outcome, wall_time, past=None, start=(None, {})):
    """The Run of an outcome, which goes on from the Run `past`; or the error that ended it, with the Run."""
    start = start if past is None else kept(past)
    last = outcome.last
    if not len(outcome.time) and past is None:
        raise last.error or DivergedError("the start is not finite: lower omega.", step=0)
    if len(outcome.time):
        data = recorded(engine, network, method, outcome, wall_time=wall_time, start=start)
        run = Run(data if past is None else joined(past.dataset, data, method), network)
    else:
        run = Run(past.dataset, network)
    stages = located(engine, network, outcome, None if past is None else past.dataset)
    if (seen := stamped(stages, run.dataset.time.values)) is not None:
        run.dataset.attrs["stages"] = json.dumps(seen, allow_nan=False)
    if last.error is not None:
        last.error.run = run
        raise last.error
    where = f"stage {len(outcome.parts)}" if method.staged else "the run"
    if last.ended == "diverged":
        reached, rate = int(run.dataset.step[-1]), method.inner.learning_rate
        raise DivergedError(
            f"{where} diverged at step {last.diverged} (t = {last.diverged * rate:g}) with learning_rate = {rate:g}; the history "
            f"up to step {reached} is kept, {engine.cure(run.dataset)}.",
            step=last.diverged,
            run=run,
        )
    if last.ended == "interrupted":
        where = last.where or f"at t = {float(run.dataset.time[-1]):g}"
        raise Interrupted(f"interrupted {where}; what was computed is kept.", run=run)
    return run


@in_float64
def train_many(
    task: Task,
    networks: Sequence[AnyNetwork],
    method: Method | None = None,
    *,
    model: str = "auto",
    progress: Shown = False,
) -> Runs:
    """Train many networks on one task; returns `Runs`.

    task      as in `train`
    networks  a list of networks; they may differ in everything but their heads, values and other labels of what they record
    method    one method for all
    model     "auto", "full", "gram" or "symmetric", as in `train`
    progress  True draws a bar on stderr; or a function of (done, total)

    Each member equals its single run bit for bit, and goes on as it does: runs share a compiled program, lane by lane, and never
    each other's numbers. What only some members record is NaN for the others, and missing in `runs[i]`. A member that diverges
    (or chatters) is NaN from its last good save on, with its step in `diverged_step`. Flows share their save times, so a member's
    own event times are not among them, and come without a certificate. Ctrl-C raises Interrupted with the finished members in
    `.run`.

    Raises SpecError for an empty list, for arguments that do not fit together, and for networks that differ in the labels of what
    they record, as one head and two.

    >>> import mixflow as mf
    >>> seeds = [mf.Transformer(width=8, seed=seed) for seed in range(3)]
    >>> mf.train_many(mf.Mixture(), seeds, mf.GradientDescent(steps=100, save_every=50)).dataset.loss.shape
    (3, 3)
    """
    networks = list(listed("networks", networks, "a list of networks"))
    if not networks:
        raise SpecError("networks is empty: give at least one Transformer.")
    method = checked(task, networks[0], method)[1]
    for network in networks:
        if network is None:  # a default stands for one network, not for one of many
            raise SpecError("networks holds None: expected networks, for example mf.Transformer(seed=1).")
        checked(task, network, method)
    method = method.shared_times()
    engines = [choose(task, network, method, model) for network in networks]
    one_schema(engines)
    room(engines, method, method.stages(networks[0]))
    _announce(engines)
    bar = Progress.of(progress, unit="run")
    began = clock.perf_counter()
    try:
        outcomes, interrupted = together(engines, networks, method, bar, _settled)
    finally:
        bar.close()
    kept = [i for i, outcome in enumerate(outcomes) if outcome is not None]
    if not kept:
        raise Interrupted("interrupted before any run was finished.")
    engines, networks_kept, outcomes = ([each[i] for i in kept] for each in (engines, networks, outcomes))
    runs = Runs(batch(engines, networks_kept, outcomes, method, wall_time=clock.perf_counter() - began), networks_kept)
    if interrupted:
        raise Interrupted(f"interrupted with {len(kept)} of {len(networks)} runs finished and kept.", run=runs)
    return runs


def _settled(engine, network, outcome):
    """The outcome with its stages, without the steps of a flow, which many runs together have no room for."""
    outcome.stages = located(engine, network, outcome)
    for part in outcome.parts:
        part.dense = None
    return outcome


def together(engines, networks, method, bar, read, rates=None):
    """What is read of each network's run (None where Ctrl-C came first) and whether it came: groups of lanes in threads.

    read    read(engine, network, outcome), called as soon as a run is over
    rates   learning rates of the members, where they differ
    """
    groups = _groups(engines, networks, method)
    outcomes, done = [None] * len(networks), [0.0] * len(groups)

    def advance(g):
        chosen = groups[g]
        engine = engines[chosen[0]]
        members = [
            Member(network=networks[i], state=engine.start(networks[i]), rate=None if rates is None else rates[i])
            for i in chosen
        ]

        def note(share):
            done[g] = share * len(chosen)
            bar(sum(done), len(networks))

        leg = Leg(progress=note, certificate=False)
        found = follow(engine, method, members, leg=leg, watch=watched(engine))
        if not any(outcome.last.ended == "interrupted" for outcome in found):
            for i, outcome in zip(chosen, found, strict=True):
                outcomes[i] = read(engine, networks[i], outcome)

    try:
        _in_threads(advance, range(len(groups)))
    except KeyboardInterrupt:
        return outcomes, True
    return outcomes, False


def _groups(engines, networks, method):
    """Indices of members that share a program, at most `lanes` at a time; one by one where a stage flows or ends at an event."""
    alone = method.flows or any(is_event(stage.end) for network in networks for stage in method.stages(network))
    by_key = {}
    for i, engine in enumerate(engines):
        by_key.setdefault(engine.key, []).append(i)
    groups = []
    for indices in by_key.values():
        lanes = 1 if alone else engines[indices[0]].lanes
        groups += [indices[j : j + lanes] for j in range(0, len(indices), lanes)]
    return groups


def _in_threads(function, items):
    """Call it for every item; on Ctrl-C what has not begun is dropped."""
    pool = concurrent.futures.ThreadPoolExecutor(min(len(items), cores()))
    try:
        for _ in pool.map(in_float64(function), items):
            pass
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
