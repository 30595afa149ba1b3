"""Floats propose: the flow as piecewise polynomials, by Chebyshev collocation between the times at which a neuron changes sign.

Nothing here is trusted. A piece is a polynomial in s ∈ [−1, 1] with whole coefficients in units of 2⁻⁵⁶, chosen so that
neighbouring pieces meet exactly; times are whole multiples of 2⁻³⁴, so that their differences are exact floats.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.polynomial import chebyshev

from ..errors import ProofError
from .network import gradient, preactivations

QUANTUM_BITS, TICK_BITS = 56, 34
QUANTUM, TICK = 2.0**-QUANTUM_BITS, 2.0**-TICK_BITS
STRADDLE = 2 * TICK  # half the length of the piece around a change of sign
DEGREE = 12
SETTLED = 2e-13  # the last Chebyshev coefficients of a piece: rounding makes smaller ones worthless
LONGEST = 64.0  # longer pieces would not be cheaper: the cells are what costs; where only w moves, cells grow with their piece
OPEN = -1.0


@dataclass(frozen=True, eq=False)
class Piece:
    """x̂ on [begin, end]: Σ_k c_k s^k with s = −1 at begin and 1 at end.

    coefficients (k, n)  whole numbers in units of 2⁻⁵⁶
    gates (G,)           0, 1, or −1 where the sign of z is open
    """

    begin: float
    end: float
    coefficients: np.ndarray
    gates: np.ndarray

    def at(self, t):
        """x̂ at times t (...,), in floats: (..., n)."""
        t = np.asarray(t, float)
        s = (2 * t - self.begin - self.end) / (self.end - self.begin)
        powers = s[..., None] ** np.arange(len(self.coefficients))
        return powers @ (self.coefficients * QUANTUM)

    @property
    def last(self):
        """x̂(end) in units of 2⁻⁵⁶, exactly."""
        return self.coefficients.sum(0)


@lru_cache(maxsize=4)
def _collocation(degree):
    """From derivatives at Chebyshev's nodes: their coefficients, x − x(−1) at the nodes, and the same as monomials."""
    nodes = np.cos(np.pi * (np.arange(degree) + 0.5) / degree)
    fit = np.linalg.inv(chebyshev.chebvander(nodes, degree - 1))
    integral = np.array([chebyshev.chebint(row, lbnd=-1) for row in np.eye(degree)]).T @ fit
    rows = [chebyshev.cheb2poly(row) for row in np.eye(degree + 1)]
    monomials = np.array([np.pad(row, (0, degree + 1 - len(row))) for row in rows]).T
    return fit, chebyshev.chebvander(nodes, degree) @ integral, monomials @ integral


def _smooth(tables, x, t, h, bias, gates):
    """The piece from the whole x over a time h with fixed gates by Picard's iteration, and the size of its last coefficients."""
    fit, increments, monomials = _collocation(DEGREE)
    begin = x * QUANTUM
    X, change = np.repeat(begin[None], DEGREE, 0), np.inf
    for _ in range(60):
        F = -gradient(tables, X, bias, gates)
        new = begin + 0.5 * h * (increments @ F)
        last, change = change, np.abs(new - X).max()
        X = new
        if change < 1e-18 or last / 2 <= change < 1e-13:  # rounding decides from here on
            break
    else:
        return None, np.inf
    F = -gradient(tables, X, bias, gates)
    c = np.rint(0.5 * h * (monomials @ F) / QUANTUM).astype(np.int64)
    c[0] = x - (c[1:] * (-1) ** np.arange(1, DEGREE + 1)[:, None]).sum(0)
    return Piece(t, t + h, c, gates), 0.5 * h * np.abs(fit[-2:] @ F).max()


def _straddling(tables, x, t, half, bias, gates, neuron):
    """The short piece of length 2·half around a change of sign, with the mean of the velocities; and the gates after it."""
    after, opened = gates.copy(), gates.copy()
    after[neuron], opened[neuron] = 1 - gates[neuron], OPEN
    velocity = -sum(gradient(tables, x * QUANTUM, bias, each) for each in (gates, after)) / 2
    step = np.rint(half * velocity / QUANTUM).astype(np.int64)
    return Piece(t, t + 2 * half, np.stack([x + step, step]), opened), after


def whole(x):
    """x (...,) in units of 2⁻⁵⁶, rounded."""
    return np.rint(x / QUANTUM).astype(np.int64)


def pieces(tables, x, bias, stop, *, spread=0.0, begin=0.0, end=np.inf):
    """Yield the pieces of the flow from the whole x (n,) at time `begin` until `stop(piece)` is true of the last one.

    Where a neuron changes sign its gate is open for as long as |z| ≤ spread, at least for 4 ticks. No piece goes beyond `end`.

    Raises ProofError where the polynomials do not settle or a neuron changes sign again at once: there it slides.
    """
    t, h, longest = begin, 1.0, np.inf if tables.convex else LONGEST
    gates = (preactivations(tables, x * QUANTUM, bias) > 0).astype(float)
    while True:
        h = min(h, end - t)
        piece, tail = _smooth(tables, x, t, h, bias, gates)
        if tail > SETTLED:
            h /= 2
            if h < 2.0**-16:
                raise ProofError(
                    f"no proof beyond t = {t:.6g}: the polynomials that approximate the flow do not settle."
                )
            continue
        crossing = _crossing(tables, piece, bias, gates)
        if crossing is None:
            yield piece
            if stop(piece):
                return
            h = min(2 * h, longest) if tail < SETTLED / 2**DEGREE else h
        else:
            neuron, time, speeds = crossing
            # From z = 1.15 spread to −1.15 spread: at the speed of this side up to the piece, on it with the mean of both.
            room = STRADDLE + np.ceil(1.15 * spread / speeds[0] / TICK) * TICK
            half = STRADDLE + np.ceil(1.15 * spread / np.mean(speeds) / TICK) * TICK
            if not spread:
                # Then ticks decide: from one more than that to one beyond, however much slower the far side is.
                least = (speeds[0] * (room + TICK) + speeds[1] * TICK) / sum(speeds)
                half = max(half, np.ceil(least / TICK) * TICK)
            before = np.floor((time - t) / TICK) * TICK - room
            if before < 2**10 * TICK:
                raise ProofError(
                    f"no proof beyond t = {t:.6g}: neuron {neuron} slides on z = 0 from there, and x̂ is not built for sliding."
                )
            piece, _ = _smooth(tables, x, t, before, bias, gates)
            yield piece
            if stop(piece):
                return
            piece, gates = _straddling(tables, piece.last, piece.end, half, bias, gates, neuron)
            yield piece
        x, t = piece.last, piece.end
        if t >= end:
            return


def _crossing(tables, piece, bias, gates):
    """The first neuron whose z changes sign inside the piece against its gate, when, and how fast before and after; or None."""
    times = np.linspace(piece.begin, piece.end, 65)

    def against(t):
        return np.where(gates > 0, 1.0, -1.0) * preactivations(tables, piece.at(t), bias)

    wrong = (against(times[1:]) < 0).any(-1)
    if not wrong.any():
        return None
    low, high = times[np.argmax(wrong)], times[np.argmax(wrong) + 1]
    for _ in range(60):
        middle = 0.5 * (low + high)
        if (against(middle) < 0).any():
            high = middle
        else:
            low = middle
    neuron, x = int(np.argmin(against(high))), piece.at(high)
    speeds = []
    for gate in (gates[neuron], 1 - gates[neuron]):
        side = np.where(np.arange(len(gates)) == neuron, gate, gates)
        there = preactivations(tables, x - 1e-4 * gradient(tables, x, bias, side), bias)
        speeds.append(abs(there - preactivations(tables, x, bias))[neuron] / 1e-4)
    return neuron, high, speeds
