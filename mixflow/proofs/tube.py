"""The tube: cells of time with δ, μ and a radius, one after the other, that the flow cannot leave (docs/proofs.md)."""

from dataclasses import dataclass

import numpy as np

from ..errors import ProofError
from .approximate import OPEN, TICK, Piece
from .bounds import CHUNK, Curves, advance, growths, point, residual, signs
from .finite import Space
from .intervals import Interval, interval, norm

CELL = 0.25  # of time: over longer ones the Hessian's intervals would grow
BALL = 1.5  # the ball in which μ and the signs are proven, in radii: the argument needs more than 1
SLACK = 1.02  # on μ, so that another order of evaluation finds it true as well


@dataclass(frozen=True, eq=False)
class Tube:
    """What is proven, cell by cell (C cells).

    pieces          the polynomials
    owner (C,)      the piece of each cell
    times (C, 2)    begin and end
    delta, mu (C,)  residual and growth
    radius (C,)     at the end of the cell; `first` at the beginning of the first
    z               an interval (C, G): every pre-activation of the flow during the cell
    space           the coordinates of the tube, if they are not those of the pieces
    """

    pieces: list[Piece]
    owner: np.ndarray
    times: np.ndarray
    delta: np.ndarray
    mu: np.ndarray
    radius: np.ndarray
    first: float
    z: Interval
    space: Space | None = None

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


def edges(begin, end, finest_begin=None, finest_end=None):
    """Ends of cells from begin to end: at most CELL long, halving towards either side down to the finest length given for it."""
    ticks, longest = round((end - begin) / TICK), round(CELL / TICK)

    def halves(finest):
        lengths = 2 ** np.arange(longest.bit_length())
        return [] if finest is None else [int(k) for k in lengths if k * TICK >= finest and k < ticks // 2]

    left, right = halves(finest_begin), [ticks - k for k in halves(finest_end)]
    low, high = max(left, default=0), min(right, default=ticks)
    count = max(1, -(-(high - low) // longest))
    middle = [low + (high - low) * i // count for i in range(count + 1)]
    return begin + np.array(sorted({0, ticks, *left, *middle, *right})) * TICK


def partition(pieces, end, marks=()):
    """Owners (C,) and times (C, 2) of the cells up to `end`, halving towards changes of sign and towards `marks`."""
    opened = [(piece.gates == OPEN).any() for piece in pieces]
    finest = {round(mark / TICK) * TICK: TICK for mark in marks}
    for piece, is_open in zip(pieces, opened):
        if is_open:
            finest |= dict.fromkeys((piece.begin, piece.end), (piece.end - piece.begin) / 4)
    owner, times = [], []
    for i, piece in enumerate(pieces):
        joints = sorted({piece.begin, piece.end, *(t for t in finest if piece.begin < t < piece.end)})
        for low, high in zip(joints, joints[1:]):
            cuts = [low, high] if opened[i] else edges(low, high, finest.get(low), finest.get(high))
            cells = [cell for cell in zip(cuts, cuts[1:]) if cell[0] < end]
            owner += [i] * len(cells)
            times += cells
    return np.array(owner), np.array(times)


def build(tables, pieces, x0, bias, end, *, marks=(), space=None, distance=0.0, report=None):
    """Prove a tube around the pieces from the box x0 (n,) of starts up to time `end`, for every bias in an interval.

    With a `space` (finite.Space) the tube is one of its coordinates, and starts may be off the box by `distance` in them.

    Raises ProofError where the argument breaks: a neuron that pushes itself on may change its sign, or the radius explodes.
    """
    owner, times = partition(pieces, end, marks)
    # A millionth more, so that balls with other roundings contain the start as well.
    r = first = float(((interval(norm((x0 - point(pieces[0], 0.0)).size)) + distance) * (1 + 1e-6)).hi)
    delta, mu, radius, z_lo, z_hi = [], [], [], [], []
    guess = None
    for chunk in chunks(pieces, owner, CHUNK if space is None else space.chunk):
        curves = Curves.of([pieces[i] for i in owner[chunk]], times[chunk])
        gates = np.array([pieces[i].gates for i in owner[chunk]])
        if space is not None:
            tables, curves, gates = space.tables, curves.mapped(space.embedding), gates[:, space.neurons]
        d = residual(tables, curves, bias, gates)
        m, radii, z = _settle(tables, curves, bias, d, r, guess, gates, times[chunk])
        guess, r = m.max(), radii[-1]
        for each, new in zip((delta, mu, radius, z_lo, z_hi), (d, m, radii, z.lo, z.hi)):
            each.append(new)
        if report:
            report(chunk.stop, len(owner))
    whole = [np.concatenate(each) for each in (delta, mu, radius)]
    return Tube(pieces, owner, times, *whole, first, Interval(np.concatenate(z_lo), np.concatenate(z_hi)), space)


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


def _settle(tables, curves, bias, delta, r, guess, gates, times):
    """μ (C,), radii (C,) and z on a chunk of cells: a guess of μ gives radii, these a proven μ, until it is below the guess."""
    width, N = curves.width, tables.samples
    if guess is None:
        still = np.zeros(len(width))
        guess = 1.1 * growths(tables, curves, bias, still, signs(tables, curves, bias, still)[1]).max()
    guess = np.full(len(width), guess)
    for _ in range(12):
        radii = _radii(r, guess, delta, width)
        if not radii[-1] <= 1e6:
            break
        ball = (interval(radii) * BALL).hi
        on_curve, z = signs(tables, curves, bias, ball)
        _demand(gates, on_curve, z, N, times)
        m = growths(tables, curves, bias, ball, z) * SLACK
        if (m <= guess).all():
            return m, _radii(r, m, delta, width), z
        guess = np.where(m <= guess, guess, 1.05 * m)
        if not np.isfinite(guess).all():
            break
    raise ProofError(f"no proof beyond t = {times[0, 0]:.6g}: the radius {r:.3g} of the tube grows without bound.")


def _radii(r, mu, delta, width):
    out = []
    for each in zip(mu, delta, width):
        r = advance(r, *each)
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
