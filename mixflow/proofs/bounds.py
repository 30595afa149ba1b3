"""Intervals dispose: on every cell of time a proven residual δ, a proven growth μ and proven signs (docs/proofs.md).

A cell is a stretch of one piece. Its tube is the curve x̂(t) with a ball of radius R around every point.
"""

from dataclasses import dataclass

import numpy as np

from ..intervals import Interval, around, interval, matmul, norm, stack
from .approximate import QUANTUM
from .hessian import curvature, growth, size, spectral, turning
from .network import gradient, preactivations
from .series import Series, expansion

TERMS = 8  # of the residual's Taylor series; the last is the remainder
CHUNK = 128  # cells at once: the tables of that many fit a processor's cache
SLACK = 1.02  # on bounds of the Hessian, so that another order of evaluation finds them true as well


@dataclass(frozen=True, eq=False)
class Curves:
    """x̂ on C cells, as series in σ ∈ [−1, 1]: about the middle (tight) and about every point of the cell (for remainders).

    width (C,)  of the cells, exact floats
    """

    middle: Series
    whole: Series
    width: np.ndarray

    @classmethod
    def of(cls, pieces, times, terms=TERMS + 2):
        """`pieces` (C,) and `times` (C, 2), the begin and end of each cell inside its piece."""
        degree = max(len(piece.coefficients) for piece in pieces)
        c = Interval(*np.zeros((2, degree, len(pieces), pieces[0].coefficients.shape[1])))
        for i, piece in enumerate(pieces):
            exact = whole_numbers(piece.coefficients)
            c.lo[: len(exact.lo), i], c.hi[: len(exact.lo), i] = exact.lo, exact.hi
        begin, end = (np.array([getattr(p, name) for p in pieces])[:, None] for name in ("begin", "end"))
        s = [(interval(2 * t) - begin - end) / (end - begin) for t in (times[:, :1], times[:, 1:])]
        middle, half = (s[0] + s[1]) * 0.5, (s[1] - s[0]) * 0.5
        around_all = s[0].hull(s[1])
        scaled = [
            Series(x.c * _powers(half, terms)) for x in (expansion(c, middle, terms), expansion(c, around_all, terms))
        ]
        return cls(*scaled, times[:, 1] - times[:, 0])

    def box(self):
        """x̂ over each cell (C, n), to second order."""
        unit = Interval(np.array(-1.0), np.array(1.0))
        return self.middle.c[0] + self.middle.c[1] * unit + self.whole.c[2] * Interval(np.array(0.0), np.array(1.0))

    def widened(self, room):
        """The same curves and all that are within `room` (n,) or (C, n) of them, coordinate by coordinate."""
        around_all = np.zeros((2, *self.middle.c.shape))
        around_all[0, 0], around_all[1, 0] = -room, room
        return Curves(*(Series(x.c + Interval(*around_all)) for x in (self.middle, self.whole)), self.width)

    def mapped(self, U):
        """The same curves in the coordinates U x, for a matrix of floats U."""
        return Curves(self.middle.linear(U), self.whole.linear(U), self.width)

    def rate(self, terms):
        """x̂' as series of `terms` coefficients, about the middle and about every point."""
        scale = 2.0 / interval(self.width)[:, None]
        weights = np.arange(1.0, terms + 1).reshape(-1, 1, 1)
        return [Series(x.c[1 : terms + 1] * weights * scale) for x in (self.middle, self.whole)]


def point(piece, t):
    """x̂(t) (n,) as an interval, for a time that is a float or an interval."""
    c, s = whole_numbers(piece.coefficients), (interval(t) * 2.0 - piece.begin - piece.end) / (piece.end - piece.begin)
    total = c[-1]
    for k in range(len(c.lo) - 2, -1, -1):
        total = c[k] + total * s
    return total


def whole_numbers(x):
    """Whole numbers in units of 2⁻⁵⁶ as intervals: each is rounded once on its way to a float, and scaling is exact."""
    return around(x * QUANTUM, np.abs(x * QUANTUM) * 2.0**-53)


def _powers(x, n):
    out = [interval(np.ones_like(x.lo))]
    for _ in range(n - 1):
        out.append(out[-1] * x)
    return Interval(np.stack([p.lo for p in out]), np.stack([p.hi for p in out]))


def residual(tables, curves, bias, gates):
    """δ (C,): a bound of dist(x̂', −∂ℓ(x̂)) over each cell; gates (C, G) of 0 and 1, or −1 where a sign is open."""
    open_cells = (gates < 0).any(-1)
    if open_cells.all():
        box = curves.box()
        gate = Interval(np.maximum(gates, 0.0), np.abs(gates))
        return norm(curves.rate(1)[1].c[0] + gradient(tables, box, bias, gate))
    if open_cells.any():
        raise ValueError("cells with open gates are bounded by themselves.")
    rates = curves.rate(TERMS)
    at_middle = rates[0] + gradient(tables, Series(curves.middle.c[:TERMS]), bias, gates)
    remainder = rates[1] + gradient(tables, Series(curves.whole.c[:TERMS]), bias, gates)
    sizes = np.concatenate([at_middle.c.size[:-1], remainder.c.size[-1:]])
    return norm(interval(sizes).sum(0).hi)


def pulled(tables, curves, bias, gates, held):
    """What adds to δ (C,) because the coordinates that stand still are known within `held` only: held · |∂∇ℓ/∂x| of those."""
    H = curvature(tables, curves.box(), bias).hessian(gates)[:, tables.moving > 0][:, :, tables.moving == 0]
    return (interval(norm(H.reshape(len(gates), -1))) * (SLACK * held)).hi


def signs(tables, curves, bias, radius):
    """z (C, G) on the curve and on the tube of the given radius (C,)."""
    two = [Series(x.c[:2]) for x in (curves.middle, curves.whole)]
    middle, whole = (preactivations(tables, x, bias) for x in two)
    on_curve = middle.c[0] + whole.c[1] * Interval(np.array(-1.0), np.array(1.0))
    slope = curvature(tables, curves.box(), bias, radius).slopes()  # (C, G)
    room = (interval(slope) * radius[:, None]).hi
    return on_curve, on_curve + Interval(-room, room)


def growths(tables, curves, bias, radius, z):
    """μ (C,) over the tubes, the largest over the gates of every neuron whose sign there is open; 0 if only w moves."""
    if tables.convex:
        return np.zeros(len(radius))
    around_curve, (cells, gates) = curvature(tables, curves.box(), bias, radius), _choices(z)
    mu = np.full(len(radius), -np.inf)
    H = around_curve[cells].hessian(gates)
    np.maximum.at(
        mu, cells, growth(H if tables.moving is None else H[:, tables.moving > 0][:, :, tables.moving > 0]).hi
    )  # NaN stays
    return (interval(mu) + around_curve.change(_between(tables, z))).hi


def _between(tables, z):
    """All gates (C, G) that the signs of z allow, the same for twins: what is bounded for one of them stands for all."""
    same = tables.twins[:, None] == tables.twins
    off, on = (np.any(each[:, None, :] & same, -1) for each in (~(z.lo > 0), ~(z.hi < 0)))
    return Interval(np.where(off, 0.0, 1.0), np.where(on, 1.0, 0.0))


def _choices(z):
    """Every cell with every choice of its open gates: indices (M,) of cells and gates (M, G)."""
    cells, gates = [], []
    for i, (low, high) in enumerate(zip(z.lo, z.hi)):
        sign = np.where(low > 0, 1.0, 0.0)
        choices = [sign]
        for neuron in np.flatnonzero(~((low > 0) | (high < 0))):
            flipped = [choice.copy() for choice in choices]
            for choice in flipped:
                choice[neuron] = 1.0
            choices += flipped
        cells += [i] * len(choices)
        gates += choices
    return np.array(cells), np.array(gates)


def advance(r, mu, delta, width):
    """The radius after a cell: (r + wδ)(1 + x + x²) with x = wμ ≤ 1, which is at least e^x (r + δ(1 − e^(−x))/μ)."""
    x = (interval(mu) * width).hi
    grown = (interval(r) + interval(delta) * width) * (1.0 + interval(x) + interval(x) * x)
    return float(grown.hi) if 0 <= x <= 1 else np.inf


def pushed(tables, curves, bias, gates):
    """How b pushes: its middle b₀, a vector f (C, n) of floats, and δ (C,) ≥ |x̂' + ∇ℓ(x̂; b) − (b − b₀) f| on every cell."""
    middle, room = interval(bias.mid), bias.rad
    box = curves.box()
    x = Series(stack([box, interval(np.zeros(box.shape))]))
    b = Series(stack([bias, interval(np.ones_like(bias.lo))]).reshape(2, 1, 1))
    slope = gradient(tables, x, b, gates).c[1]  # ∂∇ℓ/∂b over the cell
    f = slope.mid
    away = (interval(norm((slope - f).size)) + interval(norm(f)) * 1e-15) * room  # products with f are rounded
    return f, (interval(residual(tables, curves, middle, gates)) + away).hi


@dataclass(frozen=True, eq=False)
class Frames:
    """Starts of cells x̂ + Yξ, |ξ| ≤ 1, carried along by Y' = −HY + F: on cell i as Y_i + s(1 − sH/2 + s²H²/6) V, V = −HY_i + F.

    Y (C, n, k)       floats at the begin of each cell; `last` (n, k) at the end of the last
    reach, loose (C,) on the cell: bounds of |Y(s)|, and of |Y(s) − Y_i|
    delta (C,)        a bound of |Y' + ∇²ℓ(x̂) Y − F| on the cell
    jump (C,)         what rounding adds at its end
    """

    Y: np.ndarray
    last: np.ndarray
    reach: np.ndarray
    loose: np.ndarray
    delta: np.ndarray
    jump: np.ndarray

    @classmethod
    def of(cls, tables, curves, bias, gates, Y, push):
        """From Y (n, k) at the begin of the first cell, with F = push (C, n, k)."""
        H, off = turning(tables, curves, bias, gates)
        begin, speed, jump = [], [], []
        for each, F, h in zip(H, push, curves.width):
            V = step = matmul(-each, Y) + F
            for k in (3.0, 2.0):
                step = matmul(-each, step) * h / k + V
            begin.append(Y)
            speed.append(V)
            product = step * h + Y
            Y = product.mid
            jump.append(size(product - Y))
        begin, speed = np.array(begin), interval(spectral(stack(speed)))
        x = interval(size(H)) * curves.width
        loose = x.exp() * speed * curves.width  # 1 + x/2 + x²/6 ≤ e^x
        reach = interval(spectral(begin)) + loose
        delta = (x * x * x / 6.0 * speed + interval(off) * reach).hi
        return cls(begin, Y, reach.hi, loose.hi, delta, np.array(jump))

    def residual(self, tables, curves, bias, z):
        """What carrying the frame adds to δ (C,)."""
        around_curve = curvature(tables, curves.box(), bias, self.reach)
        return (interval(self.delta) + around_curve.remainder(_between(tables, z), self.Y, self.loose)).hi


def margins_on(tables, curves, bias, gates):
    """The margins (C, N) of x̂ over each cell, by their Taylor series; with an open gate, from the box."""
    N = tables.samples
    if (gates < 0).any():
        z = preactivations(tables, curves.box(), bias).relu()
        return z[:, :N] - z[:, N:]
    middle, whole = (preactivations(tables, Series(x.c[:TERMS]), bias) * gates for x in (curves.middle, curves.whole))
    sizes = [each.c[..., :N] - each.c[..., N:] for each in (middle, whole)]
    room = interval(np.concatenate([sizes[0].size[1:-1], sizes[1].size[-1:]])).sum(0).hi
    return sizes[0][0] + Interval(-room, room)
