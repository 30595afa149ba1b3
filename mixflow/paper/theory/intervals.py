"""Interval arithmetic on NumPy arrays, rounded outwards: what it returns contains every value the inputs allow.

Small and vectorised on purpose: the libraries we know work one number at a time, and an enclosure of a trajectory needs some
10⁷ operations. Every result is widened by more than the rounding error of the operation in float64 (a sum of n numbers errs by at
most n ulp of the sum of their sizes; NumPy's exp by a few ulp).
"""

from dataclasses import dataclass

import numpy as np

ROUND = 2.0**-50  # eight ulp


@dataclass(frozen=True, eq=False)
class Interval:
    """lo ≤ x ≤ hi, entry by entry."""

    lo: np.ndarray
    hi: np.ndarray

    @property
    def size(self):
        """The largest |x|."""
        return np.maximum(np.abs(self.lo), np.abs(self.hi))

    @property
    def T(self):
        """The last two axes exchanged."""
        return Interval(self.lo.swapaxes(-1, -2), self.hi.swapaxes(-1, -2))

    def __getitem__(self, index):
        return Interval(self.lo[index], self.hi[index])

    def reshape(self, *shape):
        return Interval(self.lo.reshape(*shape), self.hi.reshape(*shape))

    def __neg__(self):
        return Interval(-self.hi, -self.lo)

    def __add__(self, other):
        other = interval(other)
        return _outwards(self.lo + other.lo, self.hi + other.hi)

    def __sub__(self, other):
        return self + -interval(other)

    def __mul__(self, other):
        other = interval(other)
        ends = [a * b for a in (self.lo, self.hi) for b in (other.lo, other.hi)]
        return _outwards(np.minimum.reduce(ends), np.maximum.reduce(ends))

    def sum(self, axis):
        room = ROUND * self.lo.shape[axis] * self.size.sum(axis)
        return Interval(self.lo.sum(axis) - room, self.hi.sum(axis) + room)

    def exp(self):
        return _outwards(np.exp(self.lo), np.exp(self.hi))

    def relu(self):
        return Interval(np.maximum(self.lo, 0), np.maximum(self.hi, 0))

    def falling_logistic(self):
        """1 / (1 + e^x), which falls."""
        return _outwards(1 / (1 + np.exp(self.hi)), 1 / (1 + np.exp(self.lo)))

    def inside(self, other):
        """Where this lies within the other."""
        return (self.lo >= other.lo) & (self.hi <= other.hi)

    def hull(self, other):
        return Interval(np.minimum(self.lo, other.lo), np.maximum(self.hi, other.hi))


def interval(x):
    """An array as an interval of no width; an interval as it is."""
    return x if isinstance(x, Interval) else Interval(np.asarray(x, float), np.asarray(x, float))


def linear(X, M):
    """X @ M for an interval X (…, n) and a matrix of numbers M (n, m)."""
    up, down = np.maximum(M, 0), np.minimum(M, 0)
    room = ROUND * len(M) * (X.size @ np.abs(M))
    return Interval(X.lo @ up + X.hi @ down - room, X.hi @ up + X.lo @ down + room)


def product(X, Y):
    """The matrix product of two intervals (…, i, k) and (…, k, j)."""
    return (X[..., :, :, None] * Y[..., None, :, :]).sum(-2)


def shares(E):
    """E_k / Σ E for independent E_k ≥ 0 along the last axis: each is largest when it is and the others are least."""
    others = E.sum(-1)
    rest_lo, rest_hi = others.lo[..., None] - E.lo, others.hi[..., None] - E.hi
    room = ROUND * 8 * others.hi[..., None]
    with np.errstate(invalid="ignore", divide="ignore"):
        low = E.lo / (E.lo + np.maximum(rest_hi + room, 0))
        high = E.hi / (E.hi + np.maximum(rest_lo - room, 0))
    return _outwards(np.where(E.hi > 0, low, 0.0), np.where(E.hi > 0, np.minimum(high, 1), 0.0))


def _outwards(lo, hi):
    room = ROUND * np.maximum(np.abs(lo), np.abs(hi)) + 1e-300
    return Interval(lo - room, hi + room)
