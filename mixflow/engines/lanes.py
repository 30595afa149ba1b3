"""Arithmetic on lanes: small matrices whose entries are vectors over runs, the last axis of every array.

A fixed number of runs, `LANES`, advance together in one compiled program; a single run fills every lane with itself.
Each lane sees the same instructions in the same order, so a run's bits do not depend on its neighbours or on its place.
"""

import math

import numpy as np

from ..jaxed import jax
from .gram_update import at_once

LANES = 8  # one AVX-512 register, two AVX2 registers of float64; measured best for single runs and batches together
EXP_RANGE = 700.0  # |x| beyond which exp leaves float64; scores that large mean the run has diverged

_LOG2_E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10  # ln 2 split so that k·high is exact
_LOW_BITS = 1.5 * 2.0**52
_TAYLOR = [1 / math.factorial(i) for i in range(13, -1, -1)]  # |r| ≤ ln2/2: the 14th term is below 1e-17


def _exp(x):
    lax, jnp = jax().lax, jax().numpy
    k = jnp.round(x * _LOG2_E)
    r = (x - k * _LN2_HIGH) - k * _LN2_LOW
    p = jnp.full_like(x, _TAYLOR[0])
    for coefficient in _TAYLOR[1:]:
        p = p * r + coefficient
    # 2^k by its bits. Adding 1.5·2^52 leaves the integer k in the low bits; only AVX-512 could convert it directly.
    power = (lax.bitcast_convert_type(k + _LOW_BITS, jnp.int64) << 52) + (1023 << 52)
    value = p * lax.bitcast_convert_type(power, jnp.float64)
    return jnp.where(jnp.abs(x) <= EXP_RANGE, value, jnp.nan)


def exp(x):
    """exp to 2 units in the last place, NaN beyond ±700.

    Our own because XLA's float64 exp is not vectorised on the CPU: it took 45 % of a K = 2 step, this one takes 8 %. It
    also makes the bits independent of the platform's mathematics library.
    """
    J = jax()
    wrapped = J.custom_jvp(_exp)
    wrapped.defjvp(lambda primals, tangents: ((value := _exp(primals[0])), value * tangents[0]))
    return wrapped(x)


def logistic(x):
    """1 / (1 + e^x); exact in float64 although exp is clipped, because 1 + e^±700 is 1 or e^700 there."""
    jnp = jax().numpy
    return 1 / (1 + exp(jnp.clip(x, -EXP_RANGE, EXP_RANGE)))


def product(X, Y):
    """Matrix product of (i, k, lanes) and (k, j, lanes), written out: a library call costs more than its arithmetic."""
    total = X[:, 0, None] * Y[None, 0]
    for k in range(1, X.shape[1]):
        total = total + X[:, k, None] * Y[None, k]
    return total


def transpose(X):
    """(i, j, lanes) -> (j, i, lanes)"""
    return jax().numpy.swapaxes(X, 0, 1)


def mirrors(lanes):
    """A function that copies the upper triangle of a symmetric matrix (i, i, lanes) to the lower one, where that saves work.

    It does for a single lane, compiled by `native`, which computes nothing that nobody reads; XLA computes both triangles.
    """

    def mirror(X):
        upper = np.triu(np.ones(X.shape[:2], bool))[:, :, None]
        return jax().numpy.where(upper, X, transpose(X)) if lanes == 1 else X

    return mirror


def stages(probability, lanes):
    """A function stage(f, *arrays) that computes f(*arrays) once, as one loop over its result.

    XLA fuses whatever it can, and then computes an intermediate again for every number that reads it: each exponential
    of the gate three times, for example. Its optimization_barrier does not help, the CPU compiler drops it before it
    fuses; a branch that it cannot decide does. Probabilities are never negative, so f always runs; were one, NaN would
    show it. One result per stage: several in one loop run out of registers (a K = 2 update: 0.7 µs against 1.1 µs).
    A single lane is compiled by `native`, which stores what it likes: there f is just called.
    """
    if lanes == 1:
        return at_once
    J = jax()
    always = probability[0] >= 0

    def stage(f, *arrays):
        result = J.eval_shape(f, *arrays)
        return J.lax.cond(always, f, lambda *_: J.numpy.full(result.shape, J.numpy.nan), *arrays)

    return stage
