"""The stages of a run, read from its trajectory alone, with the evidence for every boundary (docs/mathematics.md §5–6).

A flow is read between its saves, on the solver's dense output, so its boundaries do not depend on what was saved (`times.py`);
what was found there stands in the dataset. Boundaries of a descent are interpolated between saves, and their evidence says so.

    neurons      from the start to T1
    attention    from T1 to T2
    convergence  from T2 to the end of the run

Staged runs (some interval moves the attention while w stands still) have their switches in the trajectory: T1 is where
w stops and A starts, T2 where A stops and w starts again. Simultaneous runs have no switches, so the boundaries are
events of the mechanism itself:

    T1  the first neuron switches off. Until then the network is linear in its neurons and the attention cannot learn
        which identifier belongs to which signal; the contrast grows only from there. (At a bias so large that no neuron
        switches off in time, or that no neuron can because the network is linear: where an attention score has moved by 1.)
    T2  the loss of the hard samples has fallen to half of its plateau, the middle of its steep fall: what moves there
        is the attention, and a level crossed steeply hardly depends on saves or noise.

Where equal samples have different labels (label noise) losses are taken above the least possible ones: no network gets below
those, and what is learned is what is above them.

Convergence starts at T2 if the loss goes on falling, and is complete once it falls like 1/t. A stage that is not there
is returned all the same, with `found` False and the reason.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from ..checks import shown
from ..errors import SpecError
from .between_saves import falls_to, handed_over
from .times import falls, highest, neuron_off, rises
from .trajectory import Trajectory

if TYPE_CHECKING:
    from typing import Any

NAMES = ("neurons", "attention", "convergence")

# A frozen parameter is copied, not recomputed: its saves are equal bit for bit. The tolerance only forgives the
# rounding of a solver's interpolation.
FROZEN = 1e-13

# A score that moves by 1 changes the odds between two tokens by the factor e: the attention pattern is another one.
MOVED = 1.0

# Neurons have learned the easy samples when half of their loss is gone. Only asked where the attention moved first.
LEARNED = 0.5

# loss ~ 1/(t − t*) means that halving the loss takes twice as long each time: log(duration) against −log(loss) has the
# slope 1, whatever t* is, while an exponential decay has 0 and a decay like t^(-1/2) has 2. The later half of the fall
# after T2 gives 0.8–1.4 in runs to t = 2000 (ω from 0.05 to 15, b from 0.1 to 2, K = 2, 3, 4); kinks make it wander.
# The tolerance takes what is nearer to 1 than to either of the other two.
LAW_TOLERANCE = 0.5
STALLED = 2.0  # slower than t^(-1/2): the loss is heading for a floor
FALL = 4.0  # the loss must fall by this factor after T2, four half-octaves, before anything can be said about its law


@dataclass(frozen=True)
class Stage:
    """One stage; `start` and `end` are None and `evidence["reason"]` says why if the run does not have it.

    `complete` is False while the stage still runs at the end of the trajectory: `end` is then no boundary.
    """

    name: str
    start: float | None
    end: float | None
    evidence: dict = field(default_factory=dict)

    @property
    def found(self) -> bool:
        return self.start is not None

    @property
    def complete(self) -> bool:
        return self.found and bool(self.evidence.get("complete", True))

    @property
    def because(self) -> str:
        """The evidence in one phrase."""
        if not self.found:
            return f"no such stage: {self.evidence['reason']}"
        facts = [str(self.evidence["boundary"])] if "boundary" in self.evidence else []
        if "slope" in self.evidence:
            what = "the loss above the least possible" if "least_loss" in self.evidence else "the loss"
            fall, slope = self.evidence["fall"], self.evidence["slope"]
            facts.append(f"{what} fell by {fall:.3g}, halving times grow with slope {slope:.2f}")
        if "loss" in self.evidence:
            facts.append(f"loss {self.evidence['loss']:.4g} there")
        if "save_spacing" in self.evidence:
            facts.append(f"between saves {self.evidence['save_spacing']:.3g} apart")
        return ", ".join(facts + ([] if self.complete else ["still running"]))

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready: name, found, complete, start, end, evidence (NaN as None)."""
        evidence = {  # JSON has no NaN
            key: None if isinstance(x, float) and not math.isfinite(x) else x for key, x in self.evidence.items()
        }
        facts = {"found": self.found, "complete": self.complete, "start": self.start, "end": self.end}
        return {"name": self.name, **facts, "because": self.because, "evidence": evidence}

    def __str__(self):
        if not self.found:
            return f"{self.name}: no such stage ({self.evidence['reason']})"
        return f"{self.name}: {self.start:.6g} to {self.end:.6g}{'' if self.complete else ', still running'}"


def detect(run: Any, known: Any = None) -> list[Stage]:
    """The three stages, in order, of a `Trajectory` or of a dataset that has the series of one.

    known  the stages of the run that this one goes on from: what has ended there is not looked for again
    """
    if not isinstance(run, Trajectory):
        if isinstance(run, type) or not all(hasattr(run, each) for each in ("dims", "coords", "attrs")):
            raise SpecError(f"run = {shown(run)}: expected a Trajectory or the dataset of a run, run.dataset.")
        return stored(run) or detect(Trajectory.from_dataset(run))
    if len(run.time) < 2:
        return [_none(name, "the run has fewer than two saves") for name in NAMES]
    moved_w, moved_A = _moved(run.w), _moved(run.A, least=MOVED)
    if not moved_w.any():
        off = ", every one is off from the start: take bias > 0" if run.gates and (run.z[0] <= 0).all() else ""
        return [_none(name, f"the neurons never moved{off}") for name in NAMES]
    if not moved_A.any():
        return _frozen_attention(run, known)
    alone = np.flatnonzero(moved_A & ~moved_w)
    # A single first step moves nothing but w (g = 0 while w = 0), so only an interval without w tells a staged run.
    # Before the first motion of w nothing can move A either.
    if len(alone):
        return _staged(run, moved_w, moved_A, (alone[0], alone[-1]), known)
    return _simultaneous(run, known)


def located(engine, network, outcome, past=None):
    """The stages of a flow, read between its saves; None for a descent. `past` is the dataset that it goes on from."""
    run = Trajectory.of_flow(engine, network, outcome)
    if run is None:
        return None
    return detect(run) if past is None else detect(run.after(Trajectory.from_dataset(past)), stored(past))


def stamped(stages, times):
    """Located stages as a dataset keeps them, JSON-ready, with the saves (k,) they belong to; None if there are none."""
    if stages is None or not len(times):
        return None
    return {"saves": _saves(times), "stages": [stage.to_dict() for stage in stages]}


def stored(dataset):
    """The located stages that a flow's dataset keeps; None if it keeps none, or if it has been cut since."""
    kept = json.loads(dataset.attrs.get("stages", "null"))
    if isinstance(kept, list):  # of a batch
        kept = kept[int(dataset["run"])] if dataset["run"].ndim == 0 else None
    if kept is None or kept["saves"] != _saves(dataset["time"].values[np.isfinite(dataset["loss"].values)]):
        return None
    return [Stage(each["name"], each["start"], each["end"], each["evidence"]) for each in kept["stages"]]


def _saves(times):
    return [len(times), float(times[0]), float(times[-1])] if len(times) else []


def _simultaneous(run, known):
    if known and known[1].found:
        return [known[0], *_fall(run, known[1].start, known[1])]
    if not run.loss[0] > 0:  # linear in the answer: it has no floor, and what falls below 0 has no half
        reason = "the loss is not positive, so halves of it mean nothing"
        return [_none(name, reason) for name in ("neurons", "attention", "convergence")]
    off, moved = neuron_off(run), _score_moved(run)
    early = moved is not None and (off is None or moved < off)
    T1 = moved if early else off
    evidence = {"switch_off": off, "score_moved_by_1": moved}
    if T1 is None:
        reason = "no neuron has switched off and no score has moved by 1: the run stopped early"
        return [_open("neurons", run, run.time[0], evidence), _none("attention", reason), _none("convergence", reason)]
    evidence |= {"boundary": "score moved by 1" if early else "first neuron off"} | _at(run, T1)
    easy_loss = "loss" if np.isnan(run.loss_easy).any() else "loss_easy"
    easy = run.value(lambda r: getattr(r, easy_loss), T1) / getattr(run, easy_loss)[0]
    if early and not easy <= LEARNED:
        reason = f"attention moved first: a score moved by 1 at t = {T1:.6g}, with {easy:.0%} of the easy loss left"
        first, begin = _none("neurons", reason, evidence), float(run.time[0])
    elif run.time[0] >= T1:
        first, begin = _none("neurons", "a neuron is off at the start: take bias > 0", evidence), float(run.time[0])
    else:
        first, begin = Stage("neurons", float(run.time[0]), T1, evidence), T1
    return [first, *_fall(run, begin)]


def _fall(run, T1, known=None):
    """The attention and convergence stages of a simultaneous run, from the fall of the hard samples' loss after T1."""
    if known and known.complete:
        return [known, _convergence(run, known.end)]
    hard = run.loss_hard
    if np.isnan(hard).all():
        half = falls(run, "loss", run.loss[0] / 2)
        none = _none("attention", "the task has no hard samples, so the neurons suffice")
        start = None if half is None else max(half, T1)
        return [none, _convergence(run, start, "the loss has not halved: the run stopped early")]
    plateau = max(highest(run, "loss_hard", T1), known.evidence["plateau"] if known else 0.0)
    T2 = falls(run, "loss_hard", plateau / 2)
    evidence = {"plateau": plateau, "score_change_at_start": run.value(_displacement(run), T1)}
    if T2 is None or T2 <= T1:
        evidence["hard_loss_left"] = float(hard[-1] / plateau)
        reason = f"{hard[-1] / plateau:.0%} of the hard samples' loss is left: the run stopped early"
        return [_open("attention", run, T1, evidence), _none("convergence", reason)]
    evidence |= {"boundary": "hard loss at half its plateau", "steepest_fall": _steepest(run, T1)} | _at(run, T2)
    return [Stage("attention", T1, T2, evidence), _convergence(run, T2)]


def _convergence(run, T2, otherwise=""):
    """The loss keeps falling after T2; the stage is complete once it is seen to fall like 1/t."""
    if T2 is None:
        return _none("convergence", otherwise)
    law = decay(run, T2) | {"smallest_margin_at_end": float(run.margin[-1].min())}
    if run.least.get("loss"):
        law["least_loss"] = run.least["loss"]
    if law["fall"] < FALL:
        reason = f"the loss fell only {law['fall']:.3g}-fold since t = {T2:.6g}: the run stopped early"
        return _none("convergence", reason, law)
    if law["slope"] > STALLED:
        wrong = "; a sample is still wrong" if law["smallest_margin_at_end"] < 0 else ""
        return _none(
            "convergence", f"the loss stalls near {law['loss_at_end']:.3g}, slope {law['slope']:.2f}{wrong}", law
        )
    complete = bool(abs(law["slope"] - 1) <= LAW_TOLERANCE)
    return Stage("convergence", T2, float(run.time[-1]), law | {"complete": complete})


def _off(run, known):
    """When the first neuron switches off, or did in the run that this one goes on from."""
    before = known[0].evidence.get("switch_off") if known else None
    return neuron_off(run) if before is None else before


def _frozen_attention(run, known):
    off, reason = _off(run, known), "the attention never moved"
    return [
        _open("neurons", run, run.time[0], {"switch_off": off}),
        _none("attention", reason),
        _none("convergence", reason),
    ]


def _staged(run, moved_w, moved_A, alone, known):
    """Saves first … last+1 see the attention move alone; a switch between two saves leaves one mixed interval."""
    (first, last), both = alone, moved_w & moved_A
    T1, T2 = float(run.time[first]), float(run.time[last + 1])
    if first > 0 and both[first - 1]:
        T1 = handed_over(run.time, run.w, run.A, first - 1)
    if last + 1 < len(both) and both[last + 1]:
        T2 = handed_over(run.time, run.A, run.w, last + 1)
    evidence = {"boundary": "w stops, A starts", "switch_off": _off(run, known)} | _at(run, T1)
    neurons = Stage("neurons", float(run.time[0]), T1, evidence)
    if not moved_w[:first].any():
        neurons = _none("neurons", "the attention was trained before the neurons", evidence)
    if last + 1 >= len(moved_w):
        reason = "the run ends while only the attention moves"
        return [neurons, _open("attention", run, T1, {"switch": T1}), _none("convergence", reason)]
    attention = Stage("attention", T1, T2, {"boundary": "A stops, w starts"} | _at(run, T2))
    return [neurons, attention, _convergence(run, T2)]


def decay(run, T2):
    """How the loss falls after T2: its factor, the slope of log(halving time), and the fit loss = 1/(κ (t − t*)).

    Times are taken where the loss passes half-octave levels, so neither save spacing nor t* matters, and the later half
    of the levels (at least four) is fitted, because the law is about the limit. For a fit the interpolation between a flow's
    own steps is enough: roots would cost as much as the flow.
    """

    def lowest(r):  # descent may flicker at kinks; the record low is what a level crossing sees
        return np.maximum(np.minimum.accumulate(r.loss), 1e-300)

    low = lowest(run)
    top, end = math.exp(run.value(lambda r: np.log(lowest(r)), T2)), float(low[-1])
    if not math.isfinite(top / end):
        return {"loss_at_start": top, "loss_at_end": end, "fall": math.inf}
    levels = top * 2 ** (-0.5 * np.arange(int(2 * math.log2(top / end)) + 1))
    result = {"loss_at_start": top, "loss_at_end": end, "fall": top / end}
    if len(levels) < 5:
        return result
    crossing = np.array([T2, *(falls_to(run.time, low, level) for level in levels[1:])])
    late = slice(min(len(levels) // 2, len(levels) - 5), None)
    t, level = crossing[late], levels[late]
    duration = np.maximum(np.diff(t), 1e-12 * (run.time[-1] - run.time[0]))
    kappa, shift = np.polyfit(t, 1 / level, 1)
    slope = np.polyfit(-np.log(level[1:]), np.log(duration), 1)[0]
    return result | {"slope": float(slope), "kappa": float(kappa), "origin": float(-shift / kappa)}


def _moved(path, least=1e-300):
    """(T−1,) whether the parameters moved between consecutive saves.

    Scores have a unit of their own, `least`: where a step far too large has saturated every sample, scores of 1e-20 still
    creep, and that is no learning.
    """
    return np.abs(np.diff(path, axis=0)).max(axis=1) > FROZEN * max(np.abs(path).max(), least)


def _displacement(run):
    """How far the scores have moved since the start of the run, as a function of any part of it: (T,)."""
    return lambda part: np.abs(part.A - run.A[0]).max(axis=1)


def _score_moved(run):
    change = _displacement(run)

    def between(i):
        return float(np.interp(MOVED, change(run)[i : i + 2], run.time[i : i + 2]))

    return rises(run, lambda part: change(part) - MOVED, between)


def _steepest(run, T1):
    """When the hard samples' loss falls fastest after T1."""
    rate = np.diff(run.loss_hard) / np.diff(run.time)
    middle = (run.time[1:] + run.time[:-1]) / 2
    late = middle >= T1
    return float(middle[late][np.argmin(rate[late])]) if late.any() else None


def _at(run, t):
    def least(part):
        return part.margin.min(axis=1)

    values = {
        name: run.value(lambda part, name=name: getattr(part, name), t) + run.least.get(name, 0.0)
        for name in ("loss", "loss_easy", "loss_hard")
    }
    values |= {"smallest_margin": run.value(least, t), "score_change": run.value(_displacement(run), t)}
    if not run.exact(t) and t not in run.time:
        i = min(np.searchsorted(run.time, t, side="right"), len(run.time) - 1)
        values["save_spacing"] = float(run.time[i] - run.time[i - 1])
    return {name: value for name, value in values.items() if not math.isnan(value)}


def _none(name, reason, evidence=None):
    return Stage(name, None, None, {**(evidence or {}), "reason": reason})


def _open(name, run, start, evidence):
    return Stage(name, float(start), float(run.time[-1]), {**evidence, "complete": False})
