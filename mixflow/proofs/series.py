"""Truncated Taylor series in one variable whose coefficients are intervals, for whole arrays at once.

About a point the coefficients are tight; about an interval of points they contain the coefficients about each of its points,
and the last one is then the Lagrange remainder.
"""

import math

import numpy as np

from ..intervals import Interval, interval, matmul, stack


class Series:
    """Σ_k c_k σ^k, k = 0..N; `c` is an interval with the coefficients along its first axis."""

    __slots__ = ("c",)
    __array_ufunc__ = None

    def __init__(self, c):
        self.c = c

    def __len__(self):
        return len(self.c.lo)

    @property
    def shape(self):
        return self.c.shape[1:]

    def __getitem__(self, index):
        """Only indices that start with an ellipsis: they leave the coefficients alone."""
        return Series(self.c[index])

    def reshape(self, *shape):
        return Series(self.c.reshape(len(self), *shape))

    def sum(self, axis=-1):
        return Series(self.c.sum(axis))

    def linear(self, M):
        return Series(self.c.linear(M))

    def __neg__(self):
        return Series(-self.c)

    def __add__(self, other):
        if isinstance(other, Series):
            return Series(self.c + other.c)
        first = self.c[:1] + other
        rest = self.c[1:]
        shape = first.shape[1:]
        lo, hi = (np.broadcast_to(end, (len(rest.lo), *shape)) for end in (rest.lo, rest.hi))
        return Series(Interval(np.concatenate([first.lo, lo]), np.concatenate([first.hi, hi])))

    __radd__ = __add__

    def __sub__(self, other):
        return self + -other

    def __rsub__(self, other):
        return -self + other

    def __mul__(self, other):
        if not isinstance(other, Series):
            return Series(self.c * other)
        return Series(stack([(self.c[: k + 1] * other.c[k::-1]).sum(0) for k in range(len(self))]))

    __rmul__ = __mul__

    def __truediv__(self, other):
        if not isinstance(other, Series):
            return Series(self.c / other)
        inverse, quotient = other.c[0].inverse(), []
        for k in range(len(self)):
            rest = self.c[k]
            if k:
                rest = rest - (stack(quotient) * other.c[k:0:-1]).sum(0)
            quotient.append(rest * inverse)
        return Series(stack(quotient))

    def __rtruediv__(self, other):
        one = np.zeros((len(self), *self.shape))
        one[0] = 1.0
        return Series(interval(one)) / self * other

    def exp(self):
        weights = np.arange(1.0, len(self)).reshape(-1, *[1] * len(self.shape))
        slope, result = self.c[1:] * weights, [self.c[0].exp()]
        for k in range(1, len(self)):
            result.append((slope[:k] * stack(result)[::-1]).sum(0) / float(k))
        return Series(stack(result))


def expansion(coefficients, point, terms):
    """The polynomials Σ_k c_k s^k, coefficients (k, ...), about s = point + σ: `terms` coefficients in σ.

    `point` is a number or an interval with the shape of one coefficient or of none.
    """
    degree = len(coefficients.lo) - 1
    powers = [interval(np.array(1.0))]
    for _ in range(degree):
        powers.append(powers[-1] * point)
    out = []
    for j in range(terms):
        total = interval(np.zeros(coefficients.shape[1:]))
        for k in range(j, degree + 1):
            total = total + powers[k - j] * (coefficients[k] * float(math.comb(k, j)))
        out.append(total)
    return Series(stack(out))


def matrix_product(X, Y):
    """X @ Y for arrays, intervals or series alike."""
    if isinstance(X, np.ndarray):
        return X @ Y
    if isinstance(X, Interval):
        return matmul(X, Y)
    out = []
    for k in range(len(X)):
        total = matmul(X.c[0], Y.c[k])
        for j in range(1, k + 1):
            total = total + matmul(X.c[j], Y.c[k - j])
        out.append(total)
    return Series(stack(out))
