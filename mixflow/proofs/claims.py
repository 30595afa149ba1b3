"""What a tube says about learning: enclosures of the times at which something happens (docs/proofs.md)."""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from ..intervals import Interval, around, concatenate, from_fraction, interval, norm
from ..measure.separability import max_margin
from .bounds import CHUNK, Curves, margins_on, point
from .hessian import curvature
from .network import Tables, gradient, loss, margins, mean_loss, points, preactivations, scores
from .series import Series
from .tube import FRAMED, Tube, chunks

QUARTERS = (0.25, 0.5, 0.75, 1.0)
UNIT = Interval(np.array(-1.0), np.array(1.0))
SEPARATED = Fraction(1, 10)  # the feature margin from which on samples count as separated, as in sweeps
MOVED = 1.0  # a score that moves by 1 changes the odds between two tokens by the factor e (measure/stages.py)


def ball(tube, t, late=0.0):
    """x̂(t) and every x in the tube at time t, as intervals (n,), and the radius; at all times from t to t + late, if given."""
    cells, now = range(tube.cell(t), tube.cell(t + late) + 1), interval(t).hull(interval(t + late))
    held = [
        point(tube.pieces[tube.owner[i]], Interval(*np.clip((now.lo, now.hi), *tube.times[i])) if late else now)
        for i in cells
    ]
    middle = held[0]
    for each in held[1:]:
        middle = middle.hull(each)
    middle, radius = tube.placed(middle), tube.total[cells.start : cells.stop].max()
    return middle, middle + around(0.0, radius), radius


def loss_at(tables, bias, middle, box, radius):
    """ℓ on a `ball`: at its middle, plus or minus radius · |∂ℓ|."""
    z = preactivations(tables, box, bias)
    gates = Interval(np.where(z.lo > 0, 1.0, 0.0), np.where(z.hi < 0, 0.0, 1.0))
    room = (interval(norm(gradient(tables, box, bias, gates))) * radius).hi
    return loss(tables, middle, bias) + Interval(-room, room)


def margins_at(tables, bias, middle, radius):
    """The margins (N,) on a `ball`: at its middle, plus or minus radius · |∂m|."""
    room = (interval(margin_slopes(tables, middle, bias, radius)) * radius).hi
    return margins(tables, middle, bias) + Interval(-room, room)


def margin_slopes(tables, box, bias, radius):
    """A bound (..., N) of |∂m| on balls around boxes: the two neurons of a sample, each with gate 0, 1 or between."""
    slopes = curvature(tables, box, bias, radius).slopes()
    return (interval(slopes[..., : tables.samples]) + slopes[..., tables.samples :]).hi


def first(times, f):
    """[low, high]: f (C,) is negative on every cell before low and positive at high; None if it is nowhere proven positive."""
    positive = np.flatnonzero(f.lo > 0)
    if not len(positive):
        return None
    return float(times[np.flatnonzero(~(f.hi < 0))[0], 0]), float(times[positive[0], 0])


def for_good(times, f):
    """[low, high]: f (C,) is positive from high to the end and negative at low, None if nowhere; None if not at the end."""
    if not f.lo[-1] > 0:
        return None
    doubtful, negative = np.flatnonzero(~(f.lo > 0)), np.flatnonzero(f.hi < 0)
    high = times[doubtful[-1] + 1 if len(doubtful) else 0, 0]
    return float(times[negative[-1], 1]) if len(negative) else None, float(high)


@dataclass(frozen=True, eq=False)
class Readings:
    """What is read on every cell of a tube: quantities as intervals (C,), from margins (C, N) and feature points (C, N, W)."""

    tables: Tables
    tube: Tube
    bias: Interval

    @cached_property
    def margins(self):
        return concatenate([self._margins(cells) for cells in self._chunks], 0)

    @cached_property
    def points(self):
        """Feature points (C, N, W): on the curve, ± radius · |∂p|; entry i of p is the margin at u = e_i with all neurons on."""
        tube, tables, every = self.tube, self.tables, []
        for cells in self._chunks:
            curves, r = self._curves(cells), tube.total[cells]
            middle, whole = (points(tables, Series(x.c[:2])).c for x in (curves.middle, curves.whole))
            box, room = curves.box(), []
            for unit in np.eye(middle.shape[-1]):
                box.lo[:, : len(unit)] = box.hi[:, : len(unit)] = unit
                room.append((interval(margin_slopes(tables, box, self.bias, r)) * r[:, None]).hi)
            every.append(middle[0] + whole[1] * UNIT + around(0.0, np.stack(room, -1)))
        return concatenate(every, 0)

    def _curves(self, cells):
        return self.tube.placed(
            Curves.of([self.tube.pieces[i] for i in self.tube.owner[cells]], self.tube.times[cells])
        )

    @property
    def _chunks(self):
        return list(chunks(self.tube.pieces, self.tube.owner, CHUNK if self.tube.frame is None else FRAMED))

    def _margins(self, cells):
        """The margins (C, N) on a slice of cells."""
        tables, tube, bias, curves = self.tables, self.tube, self.bias, self._curves(cells)
        gates, radius, z = tube.gates(cells), tube.total[cells], tube.z[cells]
        if tube.frame is None:
            room = interval(margin_slopes(tables, curves.box(), bias, radius)) * radius[:, None]
        else:
            gate = Interval(np.where(z.lo > 0, 1.0, 0.0), np.where(z.hi < 0, 0.0, 1.0))
            box, loose, room = curves.box(), tube.loose[cells][:, None], interval(0.0)
            for share in QUARTERS:  # m(x̂ + v) − m(x̂) = ∫ ∂m(x̂ + sv) v ds, quarter by quarter
                slopes = curvature(tables, box, bias, (interval(radius) * share).hi).slopes
                room = room + (interval(slopes(gate)) * loose + slopes(gate, tube.frame[cells])) * 0.25
        return margins_on(tables, curves, bias, gates) + Interval(-room.hi, room.hi)

    def excess(self, quantity, level):
        """A quantity of `Until` (C,), negative before it reaches its level (an interval)."""
        return excess(self.tables, quantity, level, self.margins, self.points if quantity == "feature_margin" else None)

    def silent(self):
        """When the first neuron falls silent."""
        z = self.tube.z
        return first(self.tube.times, Interval(-z.hi.min(-1), -z.lo.min(-1)))

    def right(self):
        """From when on every sample is right."""
        return for_good(self.tube.times, _least(self.margins))

    def separated(self):
        """When the deciding samples' features are first separated."""
        return first(self.tube.times, self.excess("feature_margin", from_fraction(SEPARATED)))

    def half(self, silent):
        """From when on the hard samples' loss is below half of its plateau since a neuron fell silent, if no score had moved."""
        times, early = self.tube.times, self.tube.times[:, 0] < silent[1]
        boxes = (
            concatenate([self._curves(cells).box() for cells in self._chunks], 0)
            + around(0.0, self.tube.total)[:, None]
        )
        if not (scores(self.tables, boxes[early]).size < MOVED).all():
            return None
        hard = mean_loss(self.tables, self.margins, self.tables.hard)
        plateau = Interval(hard.lo[~early].max(), hard.hi[times[:, 1] > silent[0]].max())
        return for_good(times, plateau * 0.5 - hard)


def excess(tables, quantity, level, m, p):
    """A quantity of `Until`, negative before it reaches its level, from margins (..., N) and feature points (..., N, W)."""
    hard = tables.hard
    if quantity == "easy_margin":
        return _least(m[..., ~hard]) - level
    if quantity == "feature_margin":
        return (
            _separation(p[..., hard, :] if len(hard) == 2 else p) - level
        )  # the samples that decide: measure.deciding
    return level - mean_loss(tables, m, hard if quantity == "loss_hard" else None)


def _least(x):
    return x.min(-1) if isinstance(x, np.ndarray) else Interval(x.lo.min(-1), x.hi.min(-1))


def _separation(p):
    """The maximum margin (...) of points (..., N, W) that all have label 1: any w bounds it below, any mean of points above."""
    middle = p if isinstance(p, np.ndarray) else p.mid
    found = [max_margin(each, np.ones(len(each))) for each in middle.reshape(-1, *middle.shape[-2:])]
    if isinstance(p, np.ndarray):
        return np.array([each.margin for each in found]).reshape(middle.shape[:-2])
    w, weights = (np.array([getattr(each, name) for each in found]) for name in ("separator", "weights"))
    low = (p * w[..., None, :]).sum(-1) / np.maximum(norm(w), 1e-300)[..., None]
    mean = (p * weights[..., None]).sum(-2) / interval(weights).sum(-1)[..., None]
    return Interval(np.maximum(low.lo.min(-1), 0.0), norm(mean))
