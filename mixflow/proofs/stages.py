"""The stages of training in a proof, one after the other: floats propose where each ends, its tube says when (docs/proofs.md)."""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from ..errors import ProofError
from ..intervals import from_fraction, interval
from ..methods.until import QUANTITIES, is_event
from . import finite
from .approximate import TICK, pieces, whole
from .bounds import whole_numbers
from .claims import SEPARATED, Readings, ball, excess, first
from .hessian import SMALL
from .network import margins, mean_loss, points, start, symmetric
from .tube import Begin, Tube, begin, build

UNKNOWN = 8.0  # z may be off by a few times what stands still: for so long a gate is open where its neuron changes sign
BEYOND = Fraction(1, 1000)  # of a level: how far beyond it the floats go, so that it is surely passed


@dataclass(frozen=True, eq=False)
class Ended:
    """A stage of training as it is proven.

    name   "neurons", "attention" or "convergence"; None if all weights are trained at once
    moves  "all", "w" or "attention"
    end    an `Until`, or how long it lasts, a fraction
    time   (low, high) on the clock of the tube: it ends between; None for a last stage that ends after a time
    """

    name: str | None
    moves: str
    end: Any
    time: tuple[float, float] | None


def moves(stage):
    """What moves in a stage of a method."""
    return "all" if stage.train_w and stage.train_attention else "w" if stage.train_w else "attention"


def moved(tables, what):
    """The tables of a stage in which "all", only "w" or only "attention" moves."""
    if what == "all":
        return tables
    is_w = np.arange(tables.size) < tables.values.shape[1]
    return replace(tables, moving=np.where(is_w == (what == "w"), 1.0, 0.0))


def follow(question, report=None):
    """The `Tube` of all stages of a question of `proof.asked`, and how each `Ended`; ProofError where the argument breaks."""
    K, omega, bias, distance = (question[name] for name in ("classes", "omega", "bias", "distance"))
    full, middle, stages = symmetric(K), start(K, sum(omega) / 2), question["stages"]
    b, wide = float(sum(bias) / 2), from_fraction(bias[0]).hull(from_fraction(bias[1]))
    # A gate is open while b decides the sign of z, and for distant starts a little longer: finer cells would decide nothing.
    spread = float(bias[1] - bias[0]) / 2 + 0.02 * (distance + float(omega[1] - omega[0]))
    space, x, tubes, ended = finite.space() if distance else None, whole(middle.mid), [], []
    for number, stage in enumerate(stages, 1):
        last, tables, t = number == len(stages), moved(full, moves(stage)), ended[-1].time[1] if ended else 0.0
        proposed = _Proposed(tables, b, stage, t, last)
        where = _handed_over(tables, tubes[-1], ended[-1].time, x) if ended else None
        curve, end, mark = proposed.curve(x, spread + (UNKNOWN * where.held if ended else 0.0))
        if where is None:
            where = begin(tables, curve[0], middle, start(K, (omega[1] - omega[0]) / 2), wide, space, distance)
        marks = [mark, *_marks(full, curve, b, end, where.reach < SMALL, ended or not last)]
        tube = build(
            tables, curve, where, wide, end, marks=[m for m in marks if m is not None], space=space, report=report
        )
        time = proposed.ends(Readings(full if space is None else space.tables, tube, wide))
        if not last:
            tube = tube.until(time[1])
            x = whole(tube.pieces[tube.owner[-1]].at(time[1]))
            x = np.where(tables.moving > 0, x, curve[0].coefficients[0])  # what stood still is known to the last bit
        tubes.append(tube)
        ended.append(Ended(stage.name, moves(stage), stage.end if is_event(stage.end) else exact(stage.end), time))
    return tubes[0] if len(tubes) == 1 else Tube.joined(tubes), tuple(ended)


def exact(value):
    """A number as the decimal that Python prints."""
    return Fraction(repr(float(value)))


@dataclass(frozen=True, eq=False)
class _Proposed:
    """A stage that begins at time t: where floats expect its end."""

    tables: object
    bias: float
    stage: object
    t: float
    last: bool

    def curve(self, x, spread):
        """The pieces, the end of the tube, and the time at which an event is expected, or None."""
        tables, end = self.tables, self.stage.end
        if not is_event(end):
            ticks = math.ceil(exact(end) / Fraction(TICK))
            stop = self.t + (float(end) if self.last else ticks * TICK)
            longest = np.inf if self.last else stop
            curve = pieces(
                tables, x, self.bias, lambda piece: piece.end >= stop, spread=spread, begin=self.t, end=longest
            )
            return list(curve), stop, None

        def beyond(x):
            return _excess(tables, end, self.bias, x, 1 + QUANTITIES[end.quantity] * BEYOND)

        def far_enough(piece):
            return piece.end - self.t >= end.limit or beyond(piece.at(piece.end)) > 0

        curve = list(pieces(tables, x, self.bias, far_enough, spread=spread, begin=self.t))
        stop, mark = _root(curve, beyond), _root(curve, lambda x: _excess(tables, end, self.bias, x))
        if stop is None or mark == self.t:
            found = "is not reached" if stop is None else "holds from the start"
            raise ProofError(
                f"no proof beyond t = {self.t if stop else curve[-1].end:.6g}: {end.quantity} = {end.threshold:g}, the end of the"
                f" stage, {found}; end it otherwise."
            )
        return curve, stop, mark

    def ends(self, readings):
        """(low, high): when the stage ends; None for a last one that ends after a time."""
        end = self.stage.end
        if not is_event(end):
            ticks = exact(end) / Fraction(TICK)
            return None if self.last else (self.t + math.floor(ticks) * TICK, self.t + math.ceil(ticks) * TICK)
        time = first(readings.tube.times, readings.excess(end.quantity, from_fraction(exact(end.threshold))))
        if time is None:
            raise ProofError(
                f"{end.quantity} at t = {readings.tube.times[-1, 1]:.6g} is not proven to have reached {end.threshold:g};"
                " prove another level."
            )
        if self.last:
            return time
        says_so = int(np.searchsorted(readings.tube.times[:, 0], time[1]))
        return time[0], float(readings.tube.times[says_so, 1])  # the last cell is the one that says so


def _excess(tables, end, bias, x, share=1):
    """How far an `Until` is passed at x (..., n), in floats, if its level is multiplied by `share`."""
    p = points(tables, x) if end.quantity == "feature_margin" else None
    return excess(tables, end.quantity, float(exact(end.threshold) * share), margins(tables, x, bias), p)


def _handed_over(tables, tube, time, x):
    """The `Begin` at the whole x (n,) of a stage that moves what stood still in the one before, which ended in `time`."""
    before, here = ball(tube, time[0], time[1] - time[0])[0], whole_numbers(x)
    away = Begin.within(tables, (before - here).size * 1.1)  # a tenth more, for other orders of evaluation
    return Begin(*(float((interval(a) + b[-1]).hi) for a, b in ((away.radius, tube.held), (away.held, tube.radius))))


def _root(curve, f, for_good=False):
    """When f(x) becomes positive along x̂, the first time or for good; None if it does not. Floats."""
    times = np.concatenate([np.linspace(piece.begin, piece.end, 65) for piece in curve])
    values = np.concatenate([f(piece.at(np.linspace(piece.begin, piece.end, 65))) for piece in curve])
    above, below = np.flatnonzero(values >= 0), np.flatnonzero(values < -1e-9)
    if not len(above) or (for_good and (not len(below) or below[-1] + 1 == len(times))):
        return None
    i = below[-1] + 1 if for_good else above[0]
    if i == 0:
        return times[0]
    low, high = times[i - 1], times[i]
    piece = next(piece for piece in curve if piece.begin <= low < piece.end)
    for _ in range(50):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if f(piece.at(middle)) < 0 else (low, middle)
    return high


def _marks(tables, curve, bias, end, small, staged):
    """When the samples become right, and in a small tube when they are separated and when the attention stage ends, in floats."""

    def hard(x):
        return mean_loss(tables, margins(tables, x, bias), tables.hard)

    def separation(x):
        return excess(tables, "feature_margin", float(SEPARATED), None, points(tables, x))

    found = [_root(curve, lambda x: margins(tables, x, bias).min(-1), for_good=True)]
    if small:
        found.append(_root(curve, separation))
        later = [piece for piece in curve if (piece.gates != 1).any()]
        if later and not staged:
            top = max(hard(piece.at(np.linspace(piece.begin, piece.end, 65))).max() for piece in later)
            found.append(_root(later, lambda x: top / 2 - hard(x), for_good=True))
    return [t for t in found if t is not None and t < end]
