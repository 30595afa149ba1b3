"""One step of the Dormand-Prince 8(5,3) pair with dense output, compiled whole (tableau and error norm: SciPy's DOP853).

A field this small costs a few microseconds, less than one call from Python, so a stage at a time wastes most of the run;
here one call makes all stages, the dense output and the samples of z and λ the event search needs. The numbers are those
of scipy.integrate.DOP853 (Hairer, Nørsett, Wanner, *Solving Ordinary Differential Equations I*, II.10), tested so.

Compiling the field takes a second, and each program that contains it costs that much again. So one program does all three
things a mode needs, chosen by arguments: a single evaluation, a step, and the search for the mode's end inside a step.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ..jaxed import jax as configured
from ..models.gated import COMPILER

STAGES, EXTRA = 12, 3
TOTAL = STAGES + 1 + EXTRA
Z_SAMPLES = np.arange(1, 9) / 8  # where a step looks for a crossing of z = 0, as fractions of the step
# and for a sliding gate λ leaving [0, 1], which costs an evaluation each
SHARE_SAMPLES = np.array([0.25, 0.5, 0.75, 1.0])
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
    K: object  # (TOTAL + 4, size) y' at every point of the step, on the device
    z: np.ndarray  # (8, 2n) at Z_SAMPLES
    share: np.ndarray  # (4, s) λ at SHARE_SAMPLES; empty where nothing slides
    evaluations: int

    def at(self, x):
        """The state at the fraction x of the step: (size,) for a number, (k, size) for k numbers."""
        return self.y + self.h * (dense_row(np.asarray(x, float)) @ np.asarray(self.K)[:TOTAL])

    def next_size(self):
        """The size the controller suggests after this attempt."""
        if not np.isfinite(self.error):
            return self.h * LEAST
        factor = SAFETY * self.error ** (-1 / 8) if self.error > 0 else MOST
        return self.h * (min(MOST, max(1.0, factor)) if self.error < 1 else max(LEAST, factor))


def look(field, y, gates, chosen):
    """One evaluation at y: y' and λ with the gates `chosen` sliding, and v, N, r of their dz/dt = v − N (r · gate)."""
    out = _call(field, y, gates, chosen, count=1)
    s = len(chosen)
    return out["dy"], out["share"][:s], out["v"][:s], out["N"][:s, :s], out["r"][:s]


def attempt(field, t, y, slope, h, gates, sliding, rtol, atol):
    """Try one step of size h in the mode given by `gates` (device array) and the indices `sliding`."""
    count = TOTAL + (len(SHARE_SAMPLES) if len(sliding) else 0)
    out = _call(field, y, gates, sliding, slope=slope, count=count, h=h, rtol=rtol, atol=atol)
    shares = out["shares"][:, : len(sliding)]
    return Step(t, h, y, out["end"], out["slope"], float(out["error"]), out["K"], out["z"], shares, count - 1)


def first_size(field, y, slope, gates, sliding, rtol, atol):
    """A starting step size from the growth of y' over one Euler step (Hairer, Nørsett, Wanner, II.4), as in SciPy."""
    scale = atol + np.abs(y) * rtol
    norm = lambda x: np.sqrt(np.mean((x / scale) ** 2))  # noqa: E731
    d0, d1 = norm(y), norm(slope)
    h0 = 1e-6 if d0 < 1e-5 or d1 < 1e-5 else 0.01 * d0 / d1
    d2 = norm(look(field, y + h0 * slope, gates, sliding)[0] - slope) / h0
    h1 = max(1e-6, h0 * 1e-3) if max(d1, d2) <= 1e-15 else (0.01 / max(d1, d2)) ** (1 / 8)
    return min(100 * h0, h1)


def locate(field, step, gates, sliding, side, slack, a, b):
    """The fraction of a step in [a, b] where the mode ends, and the evaluations spent; the mode must still hold at a.

    side   (2n,) +1 where the neuron is off, −1 where it is on, 0 where it slides
    slack  (2n,) how far each may be beyond its end
    """
    out = _call(field, step.y, gates, sliding, K=step.K, count=0, h=step.h, side=side, slack=slack, a=a, b=b)
    return float(out["x"]), int(out["rounds"]) if len(sliding) else 0


def _call(
    field,
    y,
    gates,
    chosen,
    *,
    count,
    K=None,
    slope=None,
    side=None,
    slack=None,
    h=0.0,
    rtol=1.0,
    atol=1.0,
    a=0.0,
    b=0.0,
):
    """The compiled program; `count` evaluations of a step, or the search in [a, b] if it is 0.

    Handing an array to the device and back costs more than an evaluation, so all numbers go and come in one.
    """
    nothing = np.zeros(field.n_gates)
    side, slack = (nothing, nothing) if side is None else (side, slack)
    numbers = (h, rtol, atol, a, b, min(1, max(0, count - 1)), count)
    flat = np.concatenate([numbers, y, np.zeros_like(y) if slope is None else slope, side, slack])
    index, real = field.put_indices(chosen)
    K = _no_slopes(len(y)) if K is None else K
    K, flat = _program(*field.functions[:2])(field.device, K, flat, gates, index, real)
    return {"K": K, **_split(np.asarray(flat), _layout(len(y), field.n_gates, len(index)))}


@lru_cache(maxsize=64)
def _no_slopes(size):
    return configured().numpy.zeros((TOTAL + len(SHARE_SAMPLES), size))


def _layout(size, gates, s):
    """The shape of everything the program returns besides K, in order."""
    return {
        "end": (size,), "slope": (size,), "dy": (size,), "error": (), "x": (), "rounds": (),
        "z": (len(Z_SAMPLES), gates), "shares": (len(SHARE_SAMPLES), s), "share": (s,), "v": (s,), "N": (s, s), "r": (s,),
    }  # fmt: skip


def _split(flat, layout):
    """The named parts of a flat array."""
    parts, at = {}, 0
    for name, shape in layout.items():
        end = at + math.prod(shape)
        parts[name] = flat[at:end].reshape(shape)
        at = end
    return parts


@lru_cache(maxsize=1)
def tableau():
    """SciPy's DOP853: A (TOTAL, TOTAL) of the stages, the new point and the extra stages; D (7, TOTAL) of the dense output.

    Every state at which the field is wanted is y + h (row @ K), K the slopes found so far: the rows are A's and, since
    the dense output is linear in K as well, those of the points at which λ is sampled.
    """
    from scipy.integrate import DOP853

    one = np.eye(TOTAL)
    A = np.zeros((TOTAL, TOTAL))
    A[:STAGES, :STAGES] = DOP853.A[:STAGES, :STAGES]
    A[STAGES, :STAGES] = DOP853.B
    A[STAGES + 1 :] = DOP853.A_EXTRA
    new = A[STAGES]
    D = np.concatenate([[new, one[0] - new, 2 * new - one[STAGES] - one[0]], DOP853.D])
    return A, D, DOP853.E3, DOP853.E5


def dense_row(x):
    """(..., TOTAL) weights of K in the state at the fraction x (...) of the step."""
    D = tableau()[1]
    value, x = 0.0, x[..., None]
    for i in range(len(D)):
        value = (value + D[-1 - i]) * (x if i % 2 == 0 else 1 - x)
    return value


@lru_cache(maxsize=64)
def _program(z, evaluate):
    jax = configured()
    jnp = jax.numpy
    A, _, E3, E5 = tableau()
    points = np.concatenate([A, dense_row(SHARE_SAMPLES)])
    rows_z = dense_row(Z_SAMPLES)

    def run(c, K, flat, gates, index, real):
        s, size, n_gates = len(index), K.shape[1], len(gates)
        h, rtol, atol, a, b, first, count = flat[:7]
        shapes = {"y": (size,), "slope": (size,), "side": (n_gates,), "slack": (n_gates,)}
        y, slope, side, slack = _split(flat[7:], shapes).values()
        seek = count == 0
        rows = jnp.arange(len(points))[:, None]
        K = jnp.where((rows == 0) & ~seek, slope, K)
        chosen = index[:, None] == jnp.arange(n_gates)

        def excess(found):
            """How far the neuron that is farthest beyond the end of its mode is beyond it."""
            beyond = jnp.max(jnp.where(side == 0, -jnp.inf, side * found.z - slack))
            if s == 0:
                return beyond
            out = jnp.maximum(-found.share, found.share - 1) - jnp.sum(jnp.where(chosen, slack, 0.0), axis=-1)
            return jnp.maximum(beyond, jnp.max(jnp.where(real > 0, out, -jnp.inf)))

        def go_on(state):
            n, (a, b, fa, fb, _), *_ = state
            return jnp.where(seek, (n < 2) | ((fa < 0) & (fb > 0) & (b - a > 1e-15) & (n < 60)), n < count)

        def evaluation(state):
            n, bracket, K, shares, _ = state
            x = _inside(jnp, bracket, n)
            tabled = jax.lax.dynamic_index_in_dim(jnp.asarray(points), n % len(points), keepdims=False)
            row = jnp.where(seek, dense_row(x), tabled)
            found = evaluate(c, y + h * jnp.sum(row[:, None] * K[:TOTAL], axis=0), gates, index, real)
            bracket = _narrowed(jnp, bracket, n, x, excess(found))
            here = (rows == n) & ~seek  # a search keeps the slopes
            return n + 1, bracket, jnp.where(here, found.dy, K), jnp.where(here, found.share, shares), found[1:]

        # Written with sums and comparisons instead of matrix products and indexing, the loop is small enough in XLA's eyes
        # to become one function; otherwise each of its fifty pieces is a task of its own (jaxed.py).
        empty = tuple(jnp.zeros(shape) for shape in ((s,), (n_gates,), (s,), (s, s), (s,)))
        state = first.astype(int), (a, b, -1.0, 1.0, 0), K, jnp.zeros((len(points), s)), empty
        n, (a, b, fa, _, _), K, shares, last = jax.lax.while_loop(go_on, evaluation, state)
        used = K[:TOTAL]
        end = y + h * (points[STAGES] @ used)
        scale = atol + rtol * jnp.maximum(jnp.abs(y), jnp.abs(end))
        five, three = (jnp.sum((E @ K[: STAGES + 1] / scale) ** 2) for E in (E5, E3))
        error = h * five / jnp.sqrt(jnp.maximum((five + 0.01 * three) * len(y), 1e-300))
        share, _, v, N, r = last
        found = {
            "end": end, "slope": K[STAGES], "dy": K[0], "error": error,
            # Already beyond the end at a: a. Not yet beyond it at b, by a rounding error: b.
            "x": jnp.where(fa >= 0, a, b), "rounds": n.astype(float),
            "z": jax.vmap(z, in_axes=(None, 0))(c, y + h * (rows_z @ used)),
            "shares": shares[TOTAL:], "share": share, "v": v, "N": N, "r": r,
        }  # fmt: skip
        return K, jnp.concatenate([found[name].ravel() for name in _layout(size, n_gates, s)])

    return jax.jit(run, compiler_options=COMPILER)


# The search is the Illinois rule: false position that halves the value of an end that stays, so that both ends close in.
# Its first two rounds look at the ends themselves, so that the field stands in the program once.


def _inside(jnp, bracket, n):
    """The next point to look at."""
    a, b, fa, fb, _ = bracket
    x = a - fa * (b - a) / (fb - fa)
    x = jnp.where((x > a) & (x < b) & (n % 8 != 7), x, (a + b) / 2)
    return jnp.where(n == 0, a, jnp.where(n == 1, b, x))


def _narrowed(jnp, bracket, n, x, fx):
    """The bracket (a, b, f(a), f(b), which end stayed) after a look at x."""
    a, b, fa, fb, kept = bracket
    left = jnp.where(n < 2, n == 0, fx < 0)
    return (
        jnp.where(left, x, a),
        jnp.where(left, b, x),
        jnp.where(left, fx, jnp.where(kept == -1, fa / 2, fa)),
        jnp.where(left, jnp.where(kept == 1, fb / 2, fb), fx),
        jnp.where(n < 2, 0, jnp.where(left, 1, -1)),
    )
