"""Intervals on NumPy arrays, rounded outwards from nothing but IEEE 754 arithmetic.

A result contains every value that the inputs allow. The only premise is that +, −, ×, ÷ and √ of float64 return a float
nearest to the exact result, as IEEE 754 demands. The exponential is summed here, so no library of functions is trusted; sums
and matrix products may run in any order and with fused operations, because the bound used for them holds for every order.

An acceptance is always written as `value <= bound`: a bound that overflowed is NaN or infinite and is refused by itself, and
nothing is raised but SpecError, for what is no array and for shapes that do not fit, and by NumPy inside a formula.

>>> import numpy as np
>>> import mixflow as mf
>>> third = mf.intervals.interval(np.array([1.0])) / 3.0
>>> third.lo < 1 / 3 < third.hi, float(third.hi[0] - third.lo[0]) < 1e-15
(array([ True]), True)
>>> x = mf.intervals.Interval(np.array([0.0]), np.array([1.0]))
>>> e = (x.exp() - 1.0).hi[0]
>>> 0 <= e - (np.e - 1) < 1e-14
np.True_
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from .checks import array, listed, shown
from .errors import SpecError

if TYPE_CHECKING:
    from typing import Any

    from .types import Array, Sequence

__all__ = ["Interval", "around", "concatenate", "from_fraction", "interval", "matmul", "norm", "stack"]

UNIT = 2.0**-52  # twice the relative error of one operation
TINY = 1e-300  # far above the absolute error of an operation that underflows


def _down(x):
    # |x|·2⁻⁵² is at least one spacing of the floats at x, so the difference is at most the next float below x.
    return x - (np.abs(x) * UNIT + TINY)


def _up(x):
    return x + (np.abs(x) * UNIT + TINY)


class Interval:
    """lo ≤ x ≤ hi, entry by entry; lo and hi are arrays of one shape."""

    __slots__ = ("hi", "lo")
    __array_ufunc__ = None  # so that array * interval asks the interval

    def __init__(self, lo, hi):
        self.lo, self.hi = lo, hi

    @property
    def shape(self) -> tuple[int, ...]:
        return self.lo.shape

    @property
    def size(self) -> int:
        """The largest |x|."""
        return np.maximum(np.abs(self.lo), np.abs(self.hi))

    @property
    def mid(self) -> Array:
        return 0.5 * self.lo + 0.5 * self.hi

    @property
    def rad(self) -> Array:
        """At least the distance from `mid` to either end."""
        mid = self.mid
        return _up(np.maximum(_up(self.hi - mid), _up(mid - self.lo)))

    def __getitem__(self, index):
        return Interval(self.lo[index], self.hi[index])

    def reshape(self, *shape: int) -> Interval:
        return Interval(self.lo.reshape(*shape), self.hi.reshape(*shape))

    def swap(self) -> Interval:
        """The last two axes exchanged."""
        return Interval(self.lo.swapaxes(-1, -2), self.hi.swapaxes(-1, -2))

    def __neg__(self):
        return Interval(-self.hi, -self.lo)

    def __add__(self, other):
        other = interval(other)
        return Interval(_down(self.lo + other.lo), _up(self.hi + other.hi))

    __radd__ = __add__

    def __sub__(self, other):
        other = interval(other)
        return Interval(_down(self.lo - other.hi), _up(self.hi - other.lo))

    def __rsub__(self, other):
        return interval(other) - self

    def __mul__(self, other):
        other = interval(other)
        a, b, c, d = self.lo * other.lo, self.lo * other.hi, self.hi * other.lo, self.hi * other.hi
        low, high = np.minimum(np.minimum(a, b), np.minimum(c, d)), np.maximum(np.maximum(a, b), np.maximum(c, d))
        return Interval(_down(low), _up(high))

    __rmul__ = __mul__

    def __truediv__(self, other):
        return self * interval(other).inverse()

    def __rtruediv__(self, other):
        return interval(other) * self.inverse()

    def inverse(self) -> Interval:
        """1/x; where 0 is possible the result is NaN, which no check accepts."""
        away = (self.lo > 0) | (self.hi < 0)
        lo, hi = np.where(away, self.lo, np.nan), np.where(away, self.hi, np.nan)
        return Interval(_down(1 / hi), _up(1 / lo))

    def square(self) -> Interval:
        size, least = self.size, np.maximum(np.maximum(self.lo, -self.hi), 0.0)
        return Interval(np.maximum(_down(least * least), 0.0), _up(size * size))

    def sqrt(self) -> Interval:
        return Interval(np.maximum(_down(np.sqrt(np.maximum(self.lo, 0.0))), 0.0), _up(np.sqrt(self.hi)))

    def sum(self, axis: int | tuple[int, ...] | None = -1) -> Interval:
        """Σ along one axis: n numbers summed in any order err by at most n·2⁻⁵³/(1 − n·2⁻⁵³) of the sum of their sizes."""
        n = self.lo.shape[axis] * UNIT
        low, high = self.lo.sum(axis), self.hi.sum(axis)
        return Interval(_down(low - n * np.abs(self.lo).sum(axis)), _up(high + n * np.abs(self.hi).sum(axis)))

    def linear(self, M: Array) -> Interval:
        """Σ_j M_ij x_j along the last axis, for a matrix of floats M (i, j)."""
        up, down, n = np.maximum(M, 0.0).T, np.minimum(M, 0.0).T, M.shape[1]
        room = (2 * n + 4) * UNIT * (self.size @ np.abs(M).T)
        return Interval(_down(self.lo @ up + self.hi @ down - room), _up(self.hi @ up + self.lo @ down + room))

    def exp(self) -> Interval:
        return Interval(exp_bounds(self.lo).lo, exp_bounds(self.hi).hi)

    def log(self) -> Interval:
        """Natural logarithm: a guess, confirmed by the exponential."""
        low, high = np.log(self.lo), np.log(self.hi)
        low, high = low - 1e-14 * (1 + np.abs(low)), high + 1e-14 * (1 + np.abs(high))
        right = (exp_bounds(low).hi <= self.lo) & (exp_bounds(high).lo >= self.hi)
        return Interval(np.where(right, low, np.nan), np.where(right, high, np.nan))

    def relu(self) -> Interval:
        return Interval(np.maximum(self.lo, 0.0), np.maximum(self.hi, 0.0))

    def inside(self, other: Interval) -> bool:
        """Where this lies within the other."""
        return (self.lo >= other.lo) & (self.hi <= other.hi)

    def hull(self, other: Interval) -> Interval:
        return Interval(np.minimum(self.lo, other.lo), np.maximum(self.hi, other.hi))


def interval(x: Any) -> Interval:
    """An array of floats as an interval of no width; an interval as it is."""
    if isinstance(x, Interval):
        return x
    x = array("x", x, "an array of numbers, or an Interval")
    return Interval(x, x)


def around(x: Any, radius: Any) -> Interval:
    """x ± radius for arrays of floats."""
    x, radius = array("x", x), array("radius", radius)
    _fit(np.broadcast_shapes, x.shape, radius.shape)
    return Interval(_down(x - radius), _up(x + radius))


def stack(intervals: Sequence[Interval], axis: int = 0) -> Interval:
    """Intervals of one shape along a new axis."""
    return _joined(np.stack, intervals, axis)


def concatenate(intervals: Sequence[Interval], axis: int = -1) -> Interval:
    """Intervals one after the other along an axis."""
    return _joined(np.concatenate, intervals, axis)


def _joined(join, intervals, axis):
    chosen = listed("intervals", intervals, "a list of Intervals")
    for x in chosen:
        if not isinstance(x, Interval):
            raise SpecError(
                f"intervals holds {shown(x)}: expected Intervals; mf.intervals.interval makes one of an array."
            )
    return Interval(_fit(join, [x.lo for x in chosen], axis), _fit(join, [x.hi for x in chosen], axis))


def _fit(function, *arguments):
    """What a function of NumPy says of these shapes and axes, or a SpecError where they do not fit."""
    try:
        return function(*arguments)
    except (ValueError, TypeError, IndexError, OverflowError) as error:
        raise SpecError(
            f"shapes or axes that do not fit together: {' '.join(str(error).split()).rstrip('.')}."
        ) from None


def from_fraction(value: Fraction) -> Interval:
    """The tightest interval of floats around an exact rational number."""
    try:
        value, near = Fraction(value), float(value)
    except Exception:  # no number, or one too large for a float
        raise SpecError(f"value = {shown(value)}: expected a rational number within the range of floats.") from None
    low = near if Fraction(near) <= value else math.nextafter(near, -math.inf)
    high = near if Fraction(near) >= value else math.nextafter(near, math.inf)
    return Interval(np.array(low), np.array(high))


def _ln2():
    """ln 2 = 2 artanh(1/3) = 2 Σ 3^(−2k−1)/(2k+1) as an interval; what is left out after 40 terms is below 9⁻⁴⁰."""
    value = sum(Fraction(2, (2 * k + 1) * 3 ** (2 * k + 1)) for k in range(40))
    coarse = Fraction(int(value * 2**32), 2**32)  # so few digits that a whole multiple is a float without error
    rest = from_fraction(value - coarse).hull(from_fraction(value - coarse + Fraction(1, 9**40)))
    return float(coarse), rest


_LN2, _LN2_REST = _ln2()
_INVERSES = [from_fraction(Fraction(1, n)) for n in range(1, 15)]


def exp_bounds(x):
    """The interval of exp at points x, |x| < 700: exp x = 2^k exp y with |y| < 0.36, and exp y by its series."""
    x = np.asarray(x, float)
    inside = np.abs(x) < 700
    k = np.rint(np.where(inside, x, 0.0) / _LN2)
    y = interval(x) - k * _LN2 - k * _LN2_REST  # the product k · coarse is exact
    result = interval(np.ones_like(x))
    for inverse in reversed(_INVERSES):
        result = 1.0 + result * y * inverse
    # Lagrange: the rest of the series is at most |y|^15/15! · e^0.36 < 3e-19.
    room = np.where(inside & (y.size < 0.36), 3e-19, np.nan)
    scale = np.ldexp(1.0, k.astype(int))
    return Interval(_down(result.lo - room) * scale, _up(result.hi + room) * scale)


def matmul(X: Interval | Array, Y: Interval | Array) -> Interval:
    """X @ Y over the last two axes, either of them intervals or floats (Rump's midpoint and radius form).

    For floats the computed product errs by at most n·2⁻⁵³/(1 − n·2⁻⁵³) · |X||Y| in any order of summation, fused or not.
    """
    X, Y = interval(X), interval(Y)
    Xm, Ym, Xr, Yr = X.mid, Y.mid, X.rad, Y.rad
    if not Xm.ndim or not Ym.ndim:
        raise SpecError(f"X and Y have shapes {Xm.shape} and {Ym.shape}: expected matrices.")
    n = Xm.shape[-1]
    product, Xa, Ya = _fit(np.matmul, Xm, Ym), np.abs(Xm), np.abs(Ym)
    radius = Xa @ (Yr + n * UNIT * Ya) + Xr @ (Ya + Yr)
    radius = radius * (1 + 4 * (n + 4) * UNIT) + TINY
    return around(product, radius)


def norm(x: Any, axis: int | tuple[int, ...] | None = -1) -> Interval:
    """An upper bound of the Euclidean length along one axis."""
    x = interval(x)
    if isinstance(axis, bool) or not isinstance(axis, int) or not -x.lo.ndim <= axis < x.lo.ndim:
        raise SpecError(f"axis = {shown(axis)}: expected one of the {x.lo.ndim} axes of x.")
    return x.square().sum(axis).sqrt().hi
