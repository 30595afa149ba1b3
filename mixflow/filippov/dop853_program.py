"""The compiled program behind every step of the flow (tableau and error norm: SciPy's DOP853; used by `dop853`).

Compiling the field takes a second, and each program that contains it costs that much again. So one program does all three
things a mode needs, chosen by arguments: a single evaluation (LOOK), steps (ADVANCE), and the search for the mode's end
inside a step (SEEK).
"""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ..jaxed import jax as configured
from ..jaxed import jit

STAGES, EXTRA = 12, 3
TOTAL = STAGES + 1 + EXTRA
Z_SAMPLES = np.arange(1, 9) / 8  # where a step looks for a crossing of z = 0, as fractions of the step
# and for a sliding gate λ leaving [0, 1], which costs an evaluation each
SHARE_SAMPLES = np.array([0.25, 0.5, 0.75, 1.0])
SAFETY, LEAST, MOST = 0.9, 0.2, 10.0  # step size control, as in SciPy
SHARE_SLACK = (
    1e-9  # how far a λ that has only just begun to slide may be outside [0, 1], until it was seen inside by as much
)
SMALLEST = 2e-15  # a step this small, relative to t, no longer changes t
STEPS = 8  # accepted steps in one call, at most; a K = 2 flow has 7 between two events
MOST_ROUNDS = 160  # of a search: enough for bisection alone
SEEK, LOOK, ADVANCE = 0, 1, 2  # what one call of the program does


@lru_cache(maxsize=256)
def layout_of(size, gates, s):
    """The shape of everything that goes into the program and comes out of it besides the path, in order.

    What is asked for, what moves from attempt to attempt (slots `ts`, `hs` for every accepted step), what was seen last.
    """
    asked = dict.fromkeys(("kind", "count", "most", "until", "rtol", "atol", "touch", "a", "b"), ())
    asked |= dict.fromkeys(("gates", "side"), (gates,))
    moving = dict.fromkeys(("again", "over", "known", "refused", "steps", "tried", "t", "h", "surface"), ())
    moving |= {"y": (size,), "slope": (size,), "slack": (gates,), "ts": (STEPS,), "hs": (STEPS,)}
    seen = {"x": (), "rounds": (), "z": (len(Z_SAMPLES), gates), "shares": (len(SHARE_SAMPLES), s)}
    return asked | moving | seen | {"share": (s,), "v": (s,), "N": (s, s), "r": (s,)}


@lru_cache(maxsize=256)
def places(size, gates, s):
    """Where each part begins and ends."""
    layout = layout_of(size, gates, s)
    ends = np.cumsum([math.prod(shape) for shape in layout.values()])
    return {name: slice(a, b) for name, a, b in zip(layout, [0, *ends], ends)}


def split(flat, layout):
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
def program(z, evaluate):
    """The compiled program of a field.

    Written with sums and comparisons instead of matrix products and indexing, its loops are small enough in XLA's eyes to
    become one function; otherwise each of their fifty pieces is a task of its own (jaxed.py).
    """
    jax = configured()
    jnp = jax.numpy
    parts = _Parts(jax, z, evaluate, np.concatenate([tableau()[0], dense_row(SHARE_SAMPLES)]))

    def run(c, path, flat, index, real):
        # Every operation outside the loop is a task of its own, more costly than an evaluation; so the loop carries all
        # numbers in one array and takes them apart inside.
        size = path.shape[-1]
        (gates,) = jax.eval_shape(z, c, jax.ShapeDtypeStruct((size,), np.float64)).shape
        shape = size, gates, len(index)
        layout, again = layout_of(*shape), places(*shape)["again"].start

        def attempt(carry):
            now, path = _step(parts, (c, index, real), split(carry[0], layout), carry[1])
            return jnp.concatenate([jnp.asarray(now[name], float).ravel() for name in layout]), path

        flat, path = jax.lax.while_loop(lambda carry: carry[0][again] > 0, attempt, (flat, path))
        return path, flat

    return jit(run, quick=True)


class _Parts(NamedTuple):
    """What the program is made of."""

    jax: object
    z: Callable
    evaluate: Callable
    points: np.ndarray  # (stages and samples of λ, TOTAL) weights of K at each


def _evaluations(parts, field, now, K):
    """The inner loop: the stages of a step, or one look, or the search for the mode's end."""
    jax, points = parts.jax, parts.points
    jnp = jax.numpy
    (c, index, real), seek, side, slack = field, now["kind"] == SEEK, now["side"], now["slack"]
    rows, s = jnp.arange(TOTAL)[:, None], len(index)

    def excess(found):
        """How far the gate that is farthest beyond the end of its mode is beyond it."""
        beyond = jnp.max(jnp.where(side == 0, -jnp.inf, side * found.z - slack))
        if s == 0:
            return beyond
        out = jnp.maximum(-found.share, found.share - 1) - _of_chosen(jnp, index, slack)
        return jnp.maximum(beyond, jnp.max(jnp.where(real > 0, out, -jnp.inf)))

    def go_on(loop):
        i, (a, b, fa, fb, _), *_ = loop
        return jnp.where(seek, (i < 2) | ((fa < 0) & (fb > 0) & (b - a > 1e-15) & (i < MOST_ROUNDS)), i < now["count"])

    def evaluation(loop):
        i, bracket, K, shares, _ = loop
        x = _inside(jnp, bracket, i)
        tabled = jax.lax.dynamic_index_in_dim(jnp.asarray(points), i % len(points), keepdims=False)
        row = jnp.where(seek, dense_row(x), tabled)
        found = parts.evaluate(c, now["y"] + now["h"] * jnp.sum(row[:, None] * K, axis=0), now["gates"], index, real)
        bracket = _narrowed(jnp, bracket, i, x, excess(found))
        K = jnp.where((rows == i) & ~seek, found.dy, K)  # a search keeps the slopes
        shares = jnp.where(jnp.arange(TOTAL, len(points))[:, None] == i, found.share, shares)
        return i + 1, bracket, K, shares, found[1:]

    empty = tuple(jnp.zeros(shape) for shape in ((s,), side.shape, (s,), (s, s), (s,)))
    first = jnp.where(now["known"] > 0, 1, 0)  # y' at the start is known
    loop = first, (now["a"], now["b"], -1.0, 1.0, 0), K, jnp.zeros((len(SHARE_SAMPLES), s)), empty
    i, (a, b, fa, _, _), K, shares, (share, at, v, N, r) = jax.lax.while_loop(go_on, evaluation, loop)
    # Already beyond the end at a: a. Not yet beyond it at b, by a rounding error: b.
    x = jnp.where(fa >= 0, a, b)
    found = {"shares": shares, "share": share, "v": v, "N": N, "r": r, "x": x, "rounds": i}
    return K, at, found


def _step(parts, field, now, path):
    """One attempt: everything after it, and whether to try again."""
    jax, points = parts.jax, parts.points
    jnp = jax.numpy
    left, slot = now["until"] - now["t"], now["steps"].astype(int)
    advancing, seek = now["kind"] == ADVANCE, now["kind"] == SEEK
    h = jnp.where(advancing, jnp.minimum(now["h"], left), now["h"])
    before = jax.lax.dynamic_index_in_dim(path, slot, keepdims=False)[1:]
    K = jnp.where((jnp.arange(TOTAL)[:, None] == 0) & ~seek, now["slope"], before)
    K, seen, found = _evaluations(parts, field, now | {"h": h}, K)
    y = now["y"]
    end = y + h * jnp.sum(points[STAGES][:, None] * K, axis=0)
    error = _error(jnp, now["atol"] + now["rtol"] * jnp.maximum(jnp.abs(y), jnp.abs(end)), h, K)
    fits = (error < 1) & advancing
    factor = SAFETY * jnp.maximum(error, 1e-300) ** (-1 / 8)
    most = jnp.where(now["refused"] > 0, 1.0, MOST)  # no growth straight after a refusal
    growth = jnp.where(fits, jnp.minimum(factor, most), jnp.maximum(factor, LEAST))
    size = h * jnp.where(jnp.isfinite(error), growth, LEAST)
    at = jax.lax.cond(
        advancing, lambda: _samples(jax, parts.z, field[0], y, h, K), lambda: jnp.broadcast_to(seen, now["z"].shape)
    )
    over, slack, surface = _crossing(jnp, field, now, at, found["shares"])
    over, steps = over & fits, now["steps"] + fits

    def pick(new, old):
        return jnp.where(fits, new, old)

    after = jnp.where(now["h"] >= left, now["until"], now["t"] + h)  # exactly, whatever the sum rounds to
    again = (
        advancing
        & (steps < now["most"])
        & ~over
        & ~(fits & (after >= now["until"]))
        & (now["tried"] < 2 * STEPS)
        & jnp.isfinite(size)
        & (size > SMALLEST * after)
    )

    def keep(buffer, x):  # an attempt that fails is overwritten by the next
        return jax.lax.dynamic_update_index_in_dim(buffer, x, slot, 0)

    moved = {
        "again": again,
        "over": over,
        "known": 1.0,
        "refused": ~fits,
        "steps": steps,
        "tried": now["tried"] + 1,
        "t": pick(after, now["t"]),
        "y": pick(end, y),
        "slope": pick(K[STAGES], K[0]),
        "h": size,
        "slack": jnp.where(fits & ~over, slack, now["slack"]),
        "z": at,
        "surface": pick(jnp.maximum(now["surface"], surface), now["surface"]),
        "ts": keep(now["ts"], now["t"]),
        "hs": keep(now["hs"], h),
    }
    return now | found | moved, keep(path, jnp.concatenate([y[None], K]))


def _error(jnp, scale, h, K):
    """The error of a step against its tolerance `scale` (size,), by the formulas of orders 5 and 3; 1 is the most admitted."""
    _, _, E3, E5 = tableau()
    five, three = (jnp.sum((jnp.sum(E[:, None] * K[: STAGES + 1], axis=0) / scale) ** 2) for E in (E5, E3))
    return h * five / jnp.sqrt(jnp.maximum((five + 0.01 * three) * len(scale), 1e-300))


def _of_chosen(jnp, index, x):
    """The entries of x (g,) at the chosen gates."""
    return jnp.sum(jnp.where(index[:, None] == jnp.arange(len(x)), x, 0.0), axis=-1)


def _samples(jax, z, c, y, h, K):
    """(8, g) z at Z_SAMPLES."""
    rows = jax.numpy.asarray(dense_row(Z_SAMPLES))
    return jax.lax.map(lambda row: z(c, y + h * jax.numpy.sum(row[:, None] * K, axis=0)), rows)


def _crossing(jnp, field, now, at, shares):
    """Whether the mode ends inside the step, the slack after it, and the largest |z| of a sliding gate at its end."""
    (_, index, real), side, slack, over = field, now["side"], now["slack"], False
    for j in range(len(Z_SAMPLES)):
        beyond = jnp.where(side == 0, -jnp.inf, side * at[j])
        over = over | jnp.any(beyond > slack)
        if len(index) and j % 2 == 1:  # λ is sampled at every second point
            out = jnp.maximum(-shares[j // 2], shares[j // 2] - 1)
            over = over | jnp.any((out > _of_chosen(jnp, index, slack)) & (real > 0))
            inside = (index[:, None] == jnp.arange(len(side))) & ((out < -SHARE_SLACK) & (real > 0))[:, None]
            slack = jnp.where(jnp.any(inside, axis=0), 0.0, slack)
        slack = jnp.where((side != 0) & (beyond < -now["touch"]), 0.0, slack)
    return over, slack, jnp.max(jnp.where(side == 0, jnp.abs(at[-1]), 0.0))


# The search is the Illinois rule: false position that halves the value of an end that stays, so that both ends close in.
# Its first two rounds look at the ends themselves, so that the field stands in the program once. What is sought is the
# largest of many functions, 1e-10 below 0 on one side and 1e-4 above it on the other where one gate has only just left
# its surface while another comes down; the halvings take long then, so every eighth round bisects, late ones every second.


def _inside(jnp, bracket, n):
    """The next point to look at."""
    a, b, fa, fb, _ = bracket
    x = a - fa * (b - a) / (fb - fa)
    bisect = (n % 8 == 7) | ((n > 24) & (n % 2 == 1))
    x = jnp.where((x > a) & (x < b) & ~bisect, x, (a + b) / 2)
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
