"""One step of the Dormand-Prince 8(5,3) pair with dense output, compiled whole (tableau and error norm: SciPy's DOP853).

A field this small costs a few microseconds, less than one call from Python, so a stage at a time wastes most of the run;
here one call makes all stages, the dense output and the samples of z and λ the event search needs. The numbers are those
of scipy.integrate.DOP853 (Hairer, Nørsett, Wanner, *Solving Ordinary Differential Equations I*, II.10), tested so.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

STAGES, EXTRA = 12, 3
Z_SAMPLES = np.arange(1, 9) / 8  # where a step looks for a crossing of z = 0, as fractions of the step
SHARE_SAMPLES = np.array(
    [0.25, 0.5, 0.75, 1.0]
)  # and for a sliding gate λ leaving [0, 1], which costs an evaluation each
SAFETY, LEAST, MOST = 0.9, 0.2, 10.0  # step size control, as in SciPy


@dataclass(frozen=True, eq=False)
class Step:
    """An attempted step from (t, y) of size h; accepted if `error` < 1."""

    t: float
    h: float
    y: np.ndarray
    end: np.ndarray  # state at t + h
    slope: np.ndarray  # y' there
    error: float
    dense: np.ndarray  # (7, size)
    z: np.ndarray  # (8, 2n) at Z_SAMPLES
    share: np.ndarray  # (4, s) λ at SHARE_SAMPLES; empty where nothing slides
    evaluations: int

    def at(self, x):
        """The state at the fraction x of the step: (size,) for a number, (k, size) for k numbers."""
        return self.y + _polynomial(self.dense, np.asarray(x, float)[..., None])

    def next_size(self):
        """The size the controller suggests after this attempt."""
        if not np.isfinite(self.error):
            return self.h * LEAST
        factor = SAFETY * self.error ** (-1 / 8) if self.error > 0 else MOST
        return self.h * (min(MOST, max(1.0, factor)) if self.error < 1 else max(LEAST, factor))


def attempt(field, t, y, slope, h, gates, sliding, rtol, atol):
    """Try one step of size h in the mode given by `gates` (device array) and the indices `sliding`."""
    index, real = field.put_indices(sliding) if len(sliding) else (None, None)
    run = _compiled_step(field.compiled["velocity"], field.compiled["contact"], field.compiled["z_many"])
    out = run(field.device, y, slope, h, gates, index, real, rtol, atol)
    end, slope, error, dense, z, share = map(np.asarray, out)
    evaluations = STAGES + EXTRA + (len(SHARE_SAMPLES) if len(sliding) else 0)
    return Step(t, h, y, end, slope, float(error), dense, z, share[:, : len(sliding)], evaluations)


def first_size(field, y, slope, gates, sliding, rtol, atol):
    """A starting step size from the growth of y' over one Euler step (Hairer, Nørsett, Wanner, II.4), as in SciPy."""
    scale = atol + np.abs(y) * rtol
    norm = lambda x: np.sqrt(np.mean((x / scale) ** 2))  # noqa: E731
    d0, d1 = norm(y), norm(slope)
    h0 = 1e-6 if d0 < 1e-5 or d1 < 1e-5 else 0.01 * d0 / d1
    d2 = norm(right_side(field, y + h0 * slope, gates, sliding) - slope) / h0
    h1 = max(1e-6, h0 * 1e-3) if max(d1, d2) <= 1e-15 else (0.01 / max(d1, d2)) ** (1 / 8)
    return min(100 * h0, h1)


def right_side(field, y, gates, sliding):
    """y' in a mode."""
    return field.slide(y, gates, sliding)[0] if len(sliding) else field.velocity(y, gates)


def locate(field, step, gates, sliding, side, slack, a, b):
    """The fraction of a step in [a, b] where the mode ends, and the evaluations spent; the mode must still hold at a.

    side   (2n,) +1 where the neuron is off, −1 where it is on, 0 where it slides
    slack  (2n,) how far each may be beyond its end
    """
    index, real = field.put_indices(sliding) if len(sliding) else (None, None)
    run = _compiled_locate(field.compiled["contact"], field.compiled["z"])
    x, rounds = run(field.device, step.y, step.dense, gates, index, real, side, slack, a, b)
    return float(x), (int(rounds) if len(sliding) else 0)


@lru_cache(maxsize=64)
def _compiled_locate(contact, z):
    import jax
    import jax.numpy as jnp

    def run(c, y, dense, gates, index, real, side, slack, a, b):
        def excess(x):
            state = y + _polynomial(dense, x)
            beyond = jnp.max(jnp.where(side == 0, -jnp.inf, side * z(c, state) - slack))
            if index is None:
                return beyond
            share = contact(c, state, gates, index, real)[1]
            out = jnp.maximum(-share, share - 1) - slack[index]
            return jnp.maximum(beyond, jnp.max(jnp.where(real > 0, out, -jnp.inf)))

        # The Illinois rule: false position that halves the value of an end that stays, so that both ends close in. The
        # first two rounds look at the ends themselves, so that `excess` is compiled once.
        def go_on(s):
            a, b, fa, fb, _, n = s
            return (n < 2) | ((fa < 0) & (fb > 0) & (b - a > 1e-15) & (n < 60))

        def narrow(s):
            a, b, fa, fb, kept, n = s
            x = a - fa * (b - a) / (fb - fa)
            x = jnp.where((x > a) & (x < b) & (n % 8 != 7), x, (a + b) / 2)
            x = jnp.where(n == 0, a, jnp.where(n == 1, b, x))
            fx = excess(x)
            left = jnp.where(n < 2, n == 0, fx < 0)
            return (
                jnp.where(left, x, a),
                jnp.where(left, b, x),
                jnp.where(left, fx, jnp.where(kept == -1, fa / 2, fa)),
                jnp.where(left, jnp.where(kept == 1, fb / 2, fb), fx),
                jnp.where(n < 2, 0, jnp.where(left, 1, -1)),
                n + 1,
            )

        a, b, fa, _, _, n = jax.lax.while_loop(go_on, narrow, (a, b, -1.0, 1.0, 0, 0))
        # Already beyond the end at a: a. Not yet beyond it at b, by a rounding error: b.
        return jnp.where(fa >= 0, a, b), n

    return jax.jit(run)


def _polynomial(dense, x):
    """The change of state at the fraction x of the step, which broadcasts against a state."""
    value = 0.0
    for i in range(len(dense)):
        value = (value + dense[-1 - i]) * (x if i % 2 == 0 else 1 - x)
    return value


@lru_cache(maxsize=64)
def _compiled_step(velocity, contact, z_many):
    import jax
    import jax.numpy as jnp
    from scipy.integrate import DOP853

    # Every point at which the field is wanted is y + h (row @ K): the stages, the new point, the extra stages of the dense
    # output and, since that output is linear in K as well, the points at which λ is sampled. One loop serves them all.
    total = STAGES + 1 + EXTRA
    one = np.eye(total)
    A = np.zeros((total, total))
    A[:STAGES, :STAGES] = DOP853.A[:STAGES, :STAGES]
    A[STAGES, :STAGES] = DOP853.B
    A[STAGES + 1 :] = DOP853.A_EXTRA
    new = A[STAGES]
    D = np.concatenate([[new, one[0] - new, 2 * new - one[STAGES] - one[0]], DOP853.D])  # (7, total)
    rows_z, rows_share = (_polynomial(D[:, None], x[:, None]) for x in (Z_SAMPLES, SHARE_SAMPLES))
    E3, E5 = DOP853.E3, DOP853.E5

    def run(c, y, slope, h, gates, index, real, rtol, atol):
        points = jnp.asarray(A if index is None else np.concatenate([A, rows_share]))

        def stage(s, carry):
            K, share = carry
            x = y + h * (points[s] @ K[:total])
            if index is None:
                return K.at[s].set(velocity(c, x, gates)), share
            dy, at_x, *_ = contact(c, x, gates, index, real)
            return K.at[s].set(dy), share.at[s].set(at_x)

        K = jnp.zeros((len(points), len(y))).at[0].set(slope)
        share = jnp.zeros((len(points), 0 if index is None else len(index)))
        K, share = jax.lax.fori_loop(1, len(points), stage, (K, share))
        K, share = K[:total], share[total:]
        end = y + h * (new @ K)
        scale = atol + rtol * jnp.maximum(jnp.abs(y), jnp.abs(end))
        five, three = (jnp.sum((E @ K[: STAGES + 1] / scale) ** 2) for E in (E5, E3))
        error = h * five / jnp.sqrt(jnp.maximum((five + 0.01 * three) * len(y), 1e-300))
        return end, K[STAGES], error, h * (D @ K), z_many(c, y + h * (rows_z @ K)), share

    return jax.jit(run)
