"""The tube: cells of time with δ, μ and a radius, one after the other, that the flow cannot leave (docs/proofs.md)."""

from dataclasses import dataclass, replace

import numpy as np

from ..errors import ProofError
from ..intervals import Interval, concatenate, interval, norm
from .approximate import OPEN, TICK, Piece
from .bounds import CHUNK, SLACK, Curves, Frames, advance, growths, point, pulled, pushed, residual, signs
from .finite import Space
from .hessian import SMALL, spectral
from .network import Tables

CELL = 0.25  # of time: over longer ones the Hessian's intervals would grow; with frames they may be twice as long
CELLS = 16  # of a piece where only w moves and no Hessian is needed: there Taylor's remainder decides
MARK = 2.0**-32  # the shortest cells around a time that is asked for: shorter ones would not know it better
BALL = 1.5  # the ball in which μ and the signs are proven, in radii: the argument needs more than 1
SHARES = (1.25, 1.7)  # of a frame and of b: 1/1.25² + 1/1.7² ≤ 1
FRAMED = 8  # cells at once with frames, which begin anew where a chunk does


@dataclass(frozen=True, eq=False)
class Tube:
    """What is proven, cell by cell (C cells).

    pieces          the polynomials
    owner (C,)      the piece of each cell
    times (C, 2)    begin and end
    delta, mu (C,)  residual and growth
    radius (C,)     at the end of the cell, of the coordinates that move; `first` (S,) at the beginning of each stage of training
    held (C,)       the radius of those that do not
    begins (S,)     the first cell of each stage
    frame, loose    the flow is in x̂ + Yξ + u during the cell, |ξ| ≤ 1, |u| ≤ loose (C,): Y (C, n, n), or None and loose = radius
    z               an interval (C, G): every pre-activation of the flow during the cell
    space           the coordinates of the tube, if they are not those of the pieces
    """

    pieces: list[Piece]
    owner: np.ndarray
    times: np.ndarray
    delta: np.ndarray
    mu: np.ndarray
    radius: np.ndarray
    held: np.ndarray
    first: np.ndarray
    begins: np.ndarray
    z: Interval
    space: Space | None = None
    frame: np.ndarray | None = None
    loose: np.ndarray | None = None

    @property
    def total(self):
        """(C,) how far the flow can be from x̂ during the cell, all coordinates together."""
        return self.radius if not self.held.any() else (interval(self.radius) + self.held).hi

    @classmethod
    def joined(cls, tubes):
        """The tubes of stages one after the other, as one; no frames."""
        cells, pieces = (
            [0, *np.cumsum([len(each) for each in lists])] for lists in zip(*((t.times, t.pieces) for t in tubes))
        )
        every = {
            name: np.concatenate([getattr(tube, name) for tube in tubes])
            for name in ("times", "delta", "mu", "radius", "held", "first", "loose")
        }
        return cls(
            pieces=[piece for tube in tubes for piece in tube.pieces],
            owner=np.concatenate([tube.owner + first for tube, first in zip(tubes, pieces)]),
            begins=np.array(cells[:-1]),
            z=concatenate([tube.z for tube in tubes], 0),
            **every,
        )

    def until(self, t):
        """The tube up to time t, the end of a cell."""
        count = int(np.searchsorted(self.times[:, 1], t)) + 1
        names = ("owner", "times", "delta", "mu", "radius", "held", "loose", "z")
        return replace(self, **{name: getattr(self, name)[:count] for name in names})

    def placed(self, x):
        """x (an interval over its last axis, or curves) in the coordinates of the tube."""
        if self.space is None:
            return x
        return x.mapped(self.space.embedding) if isinstance(x, Curves) else x.linear(self.space.embedding)

    def gates(self, cells):
        """The gates of x̂ (C, G) on a slice of cells."""
        gates = np.array([self.pieces[i].gates for i in self.owner[cells]])
        return gates if self.space is None else gates[:, self.space.neurons]

    def cell(self, t):
        """The cell that holds time t."""
        return min(int(np.searchsorted(self.times[:, 1], t)), len(self.times) - 1)


def edges(begin, end, longest, finest_begin=None, finest_end=None):
    """Ends of cells from begin to end: at most so long, halving towards either side down to the finest length given for it."""
    ticks, longest = round((end - begin) / TICK), round(longest / TICK)

    def halves(finest):
        lengths = 2 ** np.arange(longest.bit_length())
        return [] if finest is None else [int(k) for k in lengths if k * TICK >= finest and k < ticks // 2]

    left, right = halves(finest_begin), [ticks - k for k in halves(finest_end)]
    low, high = max(left, default=0), min(right, default=ticks)
    count = max(1, -(-(high - low) // longest))
    middle = [low + (high - low) * i // count for i in range(count + 1)]
    return begin + np.array(sorted({0, ticks, *left, *middle, *right})) * TICK


def partition(pieces, end, longest, marks=()):
    """Owners (C,) and times (C, 2) of the cells up to `end`, halving towards changes of sign and marks.

    longest  of a cell, or None: then each piece has CELLS of them
    """
    opened = [(piece.gates == OPEN).any() for piece in pieces]
    finest = {round(mark / TICK) * TICK: MARK for mark in marks}
    for piece, is_open in zip(pieces, opened):
        if is_open:
            finest |= dict.fromkeys((piece.begin, piece.end), (piece.end - piece.begin) / 4)
    owner, times = [], []
    for i, piece in enumerate(pieces):
        joints = sorted({piece.begin, piece.end, *(t for t in finest if piece.begin < t < piece.end)})
        for low, high in zip(joints, joints[1:]):
            most = (piece.end - piece.begin) / CELLS if longest is None else longest
            cuts = [low, high] if opened[i] else edges(low, high, most, finest.get(low), finest.get(high))
            cells = [cell for cell in zip(cuts, cuts[1:]) if cell[0] < end]
            owner += [i] * len(cells)
            times += cells
    return np.array(owner), np.array(times)


@dataclass(frozen=True, eq=False)
class Begin:
    """Where the flow is when a stage begins: x̂ + Yξ + u, |ξ| ≤ 1, with |u| ≤ radius where it moves and ≤ held where not."""

    radius: float
    held: float = 0.0
    frame: np.ndarray | None = None

    @property
    def reach(self):
        """How far the flow can be from x̂ where it moves."""
        return self.radius if self.frame is None else float((interval(self.radius) + spectral(self.frame)).hi)

    @classmethod
    def within(cls, tables, away):
        """From a bound (n,) of the distance from x̂, coordinate by coordinate; a millionth more, for other roundings."""
        parts = (
            [norm(away)]
            if tables.moving is None
            else [norm(away * share) for share in (tables.moving, 1 - tables.moving)]
        )
        return cls(*(float((interval(each) * (1 + 1e-6)).hi) for each in parts))


def begin(tables, piece, x0, side, bias, space=None, distance=0.0):
    """The `Begin` of all starts x0 ± side (n,); with a `space` (finite.Space) in its coordinates, off by `distance` in them."""
    away = (x0 - point(piece, 0.0)).size
    Y, ball = side.mid[:, None] * np.eye(1, len(away)), (away + interval((side - side.mid).size)).hi
    if space is not None:
        Y, ball = distance * space.starts, (away + interval(side.size)).hi
    if tables.moving is not None:
        return Begin.within(tables, (interval(ball) + np.abs(Y[:, 0])).hi)
    Y, start = frame(Y, bias), Begin.within(tables, ball)
    return replace(
        start, radius=float((start.radius + interval(spectral(Y)) * 1e-15).hi), frame=Y
    )  # the frame was rounded


def build(tables, pieces, start, bias, end, *, marks=(), space=None, report=None):
    """Prove a tube around the pieces from a `Begin` up to time `end`, for every bias in an interval.

    With a `space` (finite.Space) the tube is one of its coordinates.

    Raises ProofError where the argument breaks: a neuron that pushes itself on may change its sign, or the radius explodes.
    """
    r, Y, first = start.radius, start.frame, start.reach
    framed, found, guess = first >= SMALL, [], None
    apart = max(first, start.held)
    if tables.moving is not None and apart >= SMALL:
        raise ProofError(
            f"no proof beyond t = {pieces[0].begin:.6g}: starts {apart:.2g} apart need frames, which stages have not."
        )
    owner, times = partition(pieces, end, None if tables.convex else 2 * CELL if framed else CELL, marks)
    for chunk in chunks(pieces, owner, FRAMED if framed else CHUNK):
        curves = Curves.of([pieces[i] for i in owner[chunk]], times[chunk])
        gates = np.array([pieces[i].gates for i in owner[chunk]])
        if space is not None:
            tables, curves, gates = space.tables, curves.mapped(space.embedding), gates[:, space.neurons]
        cell = _Cells(tables, curves, bias, gates, times[chunk], start.held)
        whole = r if Y is None else float((interval(r) + spectral(Y)).hi)
        rows = cell.framed(r, Y, guess) if whole >= SMALL and tables.moving is None else None
        if rows is None:
            rows = cell.settled(whole, guess)
        found.append(rows)
        guess, r, Y = rows["mu"].max(), rows["r"], rows["last"]
        if report:
            report(chunk.stop, len(owner))

    def every(name):
        return np.concatenate([rows[name] for rows in found])

    parts = {name: every(name) for name in ("delta", "mu", "radius", "loose")}
    parts["frame"] = every("frame") if framed else None
    parts |= {"held": np.full(len(owner), start.held), "first": np.array([first]), "begins": np.array([0])}
    return Tube(pieces, owner, times, z=Interval(every("low"), every("high")), space=space, **parts)


def frame(Y, bias):
    """Y (n, n) with room for a column along which b pushes, if it is an interval: ξ and b have shares of one |ξ| ≤ 1."""
    return np.hstack([SHARES[0] * Y, np.zeros((len(Y), 1))]) if bias.hi - bias.lo > 1e-12 else Y


def chunks(pieces, owner, most=CHUNK):
    """Slices of at most so many cells; those with an open gate by themselves."""
    start = 0
    opened = np.array([(piece.gates == OPEN).any() for piece in pieces])[owner]
    while start < len(owner):
        stop = start
        while stop < len(owner) and stop < start + most and opened[stop] == opened[start]:
            stop += 1
        yield slice(start, stop)
        start = stop


@dataclass(frozen=True, eq=False)
class _Cells:
    """A chunk of cells: what `Curves` says, the gates of x̂ (C, G), the times (C, 2), the radius of what stands still."""

    tables: Tables
    curves: Curves
    bias: Interval
    gates: np.ndarray
    times: np.ndarray
    held: float = 0.0

    def settled(self, r, guess):
        """What is proven from a ball of radius r, as a dictionary of arrays over the cells."""
        if self.tables.moving is None:
            return self._settled(residual(self.tables, self.curves, self.bias, self.gates), r, guess)
        wide = replace(self, curves=self.curves.widened(self.held * (1 - self.tables.moving)))
        if (self.gates == OPEN).any():
            delta = residual(self.tables, wide.curves, self.bias, self.gates)
        else:
            more = pulled(self.tables, wide.curves, self.bias, self.gates, self.held)
            delta = (interval(residual(self.tables, self.curves, self.bias, self.gates)) + more).hi
        return wide._settled(delta, r, guess)

    def _settled(self, delta, r, guess):
        none = np.zeros(len(delta))
        mu, radii, z = self._settle(delta, r, guess, none, none)
        none = frame(np.zeros((self.curves.middle.shape[-1],) * 2), self.bias)
        common = {"delta": delta, "mu": mu, "low": z.lo, "high": z.hi, "r": radii[-1]}
        return {**common, "radius": radii, "loose": radii, "frame": np.array([none] * len(delta)), "last": None}

    def framed(self, r, Y, guess):
        """The same from x̂ + Yξ + u, |u| ≤ r, or from a ball of radius r; None where a sign may change: there balls do better."""
        if (self.gates == OPEN).any():
            return None
        if Y is None:
            r, Y = 0.0, frame(r * np.eye(self.curves.middle.shape[-1]), self.bias)
        f, delta = pushed(self.tables, self.curves, self.bias, self.gates)
        push = np.zeros((len(f), *Y.shape))
        if Y.shape[1] > Y.shape[0]:
            push[:, :, -1] = -SHARES[1] * self.bias.rad * f
        frames = Frames.of(self.tables, self.curves, self.bias, self.gates, Y, push)
        z = signs(self.tables, self.curves, self.bias, (interval(frames.reach) * 1.05 + 2 * r).hi)[1]
        if not ((z.lo > 0) | (z.hi < 0)).all():
            return None
        delta = (interval(delta) + frames.residual(self.tables, self.curves, self.bias, z)).hi
        mu, radii, z = self._settle(delta, r, guess, frames.reach, frames.jump)
        if not ((z.lo > 0) | (z.hi < 0)).all():
            return None
        common = {"delta": delta, "mu": mu, "low": z.lo, "high": z.hi, "r": radii[-1]}
        radius, loose = ((interval(each) + radii).hi for each in (frames.reach, frames.loose))
        return {**common, "radius": radius, "loose": loose, "frame": frames.Y, "last": frames.last}

    def _settle(self, delta, r, guess, reach, jump):
        """μ (C,), radii (C,) and z: a guess of μ gives radii, these a proven μ on balls around x̂ + Yξ, until it is below it."""
        tables, curves, bias, width = self.tables, self.curves, self.bias, self.curves.width
        if guess is None:
            guess = 1.1 * growths(tables, curves, bias, reach, signs(tables, curves, bias, reach)[1]).max()
        guess = np.full(len(width), guess)
        for _ in range(12):
            radii = _radii(r, guess, delta, width, jump)
            if not radii[-1] <= 1e6:
                break
            ball = (interval(radii) * BALL + reach).hi
            on_curve, z = signs(tables, curves, bias, ball)
            _demand(self.gates, on_curve, z, tables.samples, self.times)
            m = growths(tables, curves, bias, ball, z) * SLACK
            if (m <= guess).all():
                return m, _radii(r, m, delta, width, jump), z
            guess = np.where(m <= guess, guess, 1.05 * m)
            if not np.isfinite(guess).all():
                break
        raise ProofError(
            f"no proof beyond t = {self.times[0, 0]:.6g}: the radius {r:.3g} of the tube grows without bound."
        )


def _radii(r, mu, delta, width, jump):
    out = []
    for *each, more in zip(mu, delta, width, jump):
        r = advance(r, *each) + 2 * more
        out.append(r)
    return np.array(out)


def _demand(gates, on_curve, z, N, times):
    """The conditions of the lemma on the signs: of x̂ as its gates say, and of self-supporting neurons on the whole tube."""
    right = np.where(gates > 0, on_curve.lo > 0, on_curve.hi < 0) | (gates == OPEN)
    steady = (z.lo[:, :N] > 0) & (gates[:, :N] == 1)
    for holds, what in (
        (right, "x̂ has not the signs its gates say"),
        (steady, "a neuron that pushes itself on may be silent"),
    ):
        if not holds.all():
            cell, neuron = np.argwhere(~holds)[0]
            raise ProofError(f"no proof beyond t = {times[cell, 0]:.6g}: {what} (neuron {neuron}).")
