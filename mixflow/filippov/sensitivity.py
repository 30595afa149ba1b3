"""Derivatives of a flow through its kinks (docs/mathematics.md §15).

Inside a mode S = ∂y/∂p obeys S' = f_y S + f_p; here it is carried along by differentiating each accepted step of the flow, whose
size stays what it was. At an event where g(y) = 0 ends the mode (g = z of a surface reached, λ or 1 − λ of a sliding gate),

    dτ/dp = −(∇g·S⁻ + g_p) / (∇g·f⁻),        S⁺ = S⁻ + (f⁻ − f⁺) dτ/dp        (f⁺ = f⁻ where a sliding gate reaches 0 or 1)

Several surfaces reached at once (twins by symmetry) may come apart along a direction that breaks the symmetry: then each side of
the change has an order in which they are reached, and is followed through it. Where they begin to slide both sides agree: S⁺ is
the one that keeps each of them on its surface. Where they cross the first changes the speed of the next, and the sides may
differ; then the derivative is their mean, and `one_sided` says so.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from ..checks import array
from ..errors import SpecError
from ..jaxed import in_float64, jit
from ..jaxed import jax as configured
from .dop853_program import STAGES, tableau
from .field import padded, prepare
from .gates import ON, SLIDING
from .result import Result

if TYPE_CHECKING:
    from typing import Any

    from ..types import Array, Callable

CHUNK = 16  # steps in one call
APART = 1e-7  # relative; derivatives of simultaneous events that differ by more come apart
TOUCH = 1e-9  # |z| below which the start lies on a surface


@dataclass(frozen=True, eq=False, kw_only=True)
class Sensitivity:
    """What `sensitivity` returns: derivatives along p directions, at the end of the flow.

    state      (p, size) of the state at the end time
    slope      (size,) y' there
    events     (k, p) of the time of each event
    one_sided  (p,) whether the flow has a kink as a function of the parameter, and this is the mean of its two sides; NaN where
               a side has no derivative, because a surface that was reached with others is not reached after them

    Raises nothing by itself.

    >>> import jax.numpy as jnp
    >>> import mixflow as mf
    >>> decay = mf.filippov.Field(velocity=lambda c, y, gates: -c * y, surface=lambda c, y: y, gates=("sign",), constants=2.0)
    >>> found = mf.filippov.sensitivity(mf.filippov.solve(decay, [1.0], 1.0), constants=[1.0])
    >>> bool(abs(found.state[0, 0] + jnp.exp(-2)) < 1e-9)  # ∂/∂c exp(−c t) = −t exp(−c t)
    True
    """

    state: np.ndarray
    slope: np.ndarray
    events: np.ndarray
    one_sided: np.ndarray
    _moment: tuple = field(repr=False)  # what `value` needs: the constants' leaves and tree, their directions, y

    @in_float64
    def value(self, quantity: Callable[..., Any]) -> Array:
        """(p,) derivative of quantity(c, y), a JAX function, at the end time."""
        return self._along(quantity)[0]

    @in_float64
    def speed(self, quantity: Callable[..., Any]) -> Array:
        """How fast quantity(c, y), a JAX function, changes in time at the end."""
        return self._along(quantity)[1]

    @in_float64
    def time(self, quantity: Callable[..., Any]) -> Array:
        """(p,) derivative of the time at which quantity(c, y), a JAX function, has the value that it has at the end."""
        change, speed = self._along(quantity)
        return -change / speed

    def _along(self, quantity):
        leaves, tree, changes, y = self._moment
        moving = tuple(i for i, change in enumerate(changes) if change is not None)
        rows = [changes[i] for i in moving]
        change, speed = _quantity(quantity, tree, moving)(leaves, rows, y, self.state, self.slope)
        return np.asarray(change), float(speed)


@lru_cache(maxsize=32)
def _quantity(quantity, tree, moving):
    """The compiled derivatives of quantity(c, y) along every direction, and in time."""
    jax = configured()

    def along(leaves, rows, y, S, slope):
        def moved(parts, y):
            now = list(leaves)
            for i, part in zip(moving, parts, strict=True):
                now[i] = part
            return jax.numpy.asarray(quantity(jax.tree.unflatten(tree, now), y), float)

        parts = [leaves[i] for i in moving]
        _, push = jax.linearize(moved, parts, y)
        return jax.vmap(push)(rows, S), push([jax.numpy.zeros_like(part) for part in parts], slope)

    return jit(along, quick=True)


@in_float64
def sensitivity(result: Result, *, constants: Any = None, y0: Any = None) -> Sensitivity:
    """Derivatives of a flow along p directions in its constants and its start, through every kink.

    result     of `solve`, with dense=True, of a field whose functions JAX can trace
    constants  None, or the directions of the field's constants: the same pytree, each leaf with a leading axis p, or None
               for a leaf that does not move
    y0         None, or the directions (p, size) of the start

    Returns a Sensitivity. Raises SpecError for directions that do not fit, a field of plain NumPy functions, and a start that
    lies on a surface and leaves it.

    >>> import mixflow as mf
    >>> fall = mf.filippov.Field(velocity=lambda c, y, gates: 1 - 2 * gates, surface=lambda c, y: y, gates=("floor",))
    >>> found = mf.filippov.sensitivity(mf.filippov.solve(fall, [-1.0], 3.0), y0=[[1.0]])
    >>> found.events.round(9).tolist(), abs(found.state.round(9)).tolist()  # starts higher, arrives sooner, ends there too
    ([[-1.0]], [[0.0]])
    """
    if not isinstance(result, Result):
        raise SpecError(f"result is a {type(result).__name__}: expected what mf.filippov.solve returns.")
    track = _Track(result, constants, y0)
    return track.follow()


class _Track:
    """S on its way along a result."""

    def __init__(self, result, constants, y0):
        jax = configured()
        self.result, self.field = result, result.field
        self.ready = prepare(self.field, result.origin)
        if not self.ready.traced:
            raise SpecError(
                "the field's functions are plain NumPy: expected functions that JAX can trace; use jax.numpy."
            )
        self.leaves, tree = jax.tree.flatten(self.ready.constants)
        self.changes, self.p = _directions(self.ready.constants, constants, y0, len(result.origin))
        moving = tuple(i for i, change in enumerate(self.changes) if change is not None)
        self.moved = [jax.numpy.asarray(self.changes[i]) for i in moving]
        self.programs = _programs(self.ready.evaluate, tree, moving)
        self.tree = tree
        self.S = np.zeros((self.p, len(result.origin))) if y0 is None else np.array(y0, float)
        self.one_sided = np.zeros(self.p, bool)

    def follow(self):
        t, _, y, _ = self.result.steps
        ends = np.append(t[1:], self.result.time)
        states = np.concatenate([y[1:], self.result.state[None]])
        modes = _last_at_each_time(self.result.modes)
        starts = np.searchsorted(t, [time for time, _ in modes])
        rows = {}
        self._check_start(modes[0][1], self.result.origin)
        for k, (_, mode) in enumerate(modes):
            stop = starts[k + 1] if k + 1 < len(modes) else len(t)
            span = slice(starts[k], stop)
            self._stretch(mode, (ends - t)[span], y[span])
            if k + 1 < len(modes):
                later, after = modes[k + 1]
                there = states[stop - 1] if stop > 0 else self.result.origin
                rows |= self._event(later, mode, after, there)
        last = self._moment(modes[-1][1], self.result.state)
        events = [rows.get((e.time, e.gate), np.full(self.p, np.nan)) for e in self.result.events]
        moment = self.leaves, self.tree, self.changes, self.result.state
        return Sensitivity(
            state=self.S,
            slope=last["f"],
            events=np.array(events).reshape(-1, self.p),
            one_sided=self.one_sided,
            _moment=moment,
        )

    def _given(self, mode):
        sliding = np.flatnonzero(mode == SLIDING)
        return (mode == ON).astype(float), *padded(tuple(int(i) for i in sliding))

    def _stretch(self, mode, sizes, states):
        given = self._given(mode)
        for i in range(0, len(sizes), CHUNK):
            h, y = sizes[i : i + CHUNK], states[i : i + CHUNK]
            room = CHUNK - len(h)
            pair = np.pad(h, (0, room)), np.pad(y, ((0, room), (0, 0)))
            self.S = np.asarray(self.programs["stretch"](self.leaves, self.moved, *pair, len(h), self.S, *given))

    def _moment(self, mode, y):
        found = self.programs["moment"](self.leaves, self.moved, y, self.S, *self._given(mode))
        return {name: np.asarray(x) for name, x in found.items()}

    def _event(self, time, before, after, y):
        """Carry S across one event; {(time, gate): dτ/dp} of the gates that switched."""
        switched = np.flatnonzero(before != after)
        at, sliding = self._moment(before, y), np.flatnonzero(before == SLIDING)
        reached = [i for i in switched if before[i] != SLIDING]
        if not reached:  # λ at 0 or 1: the field is continuous, and so is S
            place = {gate: k for k, gate in enumerate(sliding)}
            return {
                (time, int(i)): -at["share change"][:, place[i]] / at["share speed"][place[i]]
                for i in switched
                if i in place
            }
        delays = np.array([-at["z change"][:, i] / at["z speed"][i] for i in reached])  # (gates, p)
        mean = delays.mean(axis=0)
        S = self.S + mean[:, None] * (at["f"] - self._moment(after, y)["f"])
        apart = np.abs(delays - mean).max(axis=0) > APART * np.abs(delays).max(axis=0) + 1e-300
        paths = _Paths(lambda mode: self._moment(mode, y), before, after, reached)
        for k in np.flatnonzero(apart):
            up, down = (paths.follow(sign * at["z change"][k], sign * self.S[k]) for sign in (1, -1))
            S[k], delays[:, k] = ((right - left) / 2 for right, left in zip(up, down))
            kink = np.abs(up[0] + down[0]).max() > APART * np.abs(up[0]).max()
            self.one_sided[k] |= kink or not np.isfinite(S[k]).all()
        self.S = S
        own = {(time, int(i)): delays[k] for k, i in enumerate(reached)}
        return own | {(time, int(i)): mean for i in switched if i not in reached}

    def _check_start(self, mode, y):
        at = self._moment(mode, y)
        away = np.abs(at["z change"]).max(axis=0, initial=0) > TOUCH * (1 + np.abs(self.S).max(initial=0))
        bad = np.flatnonzero((np.abs(at["z"]) < TOUCH) & away)
        if len(bad):
            raise SpecError(
                f"the start lies on the surface {self.field.gates[bad[0]]!r} and a direction leaves it: expected a start off "
                "every surface, where derivatives exist; start beside it."
            )


class _Paths:
    """What becomes of a small change where gates that are reached together come apart, in units of the change.

    moment   mode -> what `_Track._moment` gives at the event
    """

    def __init__(self, moment, before, after, reached):
        self.before, self.after, self.reached = before, after, np.array(reached)
        self.moment, self.known = moment, {}

    def follow(self, z, u):
        """(S⁺ (size,), the delay of each gate reached) for one side of a change, from its z (g,) and u (size,) = S⁻."""
        mode, left, now = self.before.copy(), np.ones(len(self.reached), bool), 0.0
        delays = np.zeros(len(left))
        while left.any():
            f, speed = self._at(mode)
            with np.errstate(divide="ignore", invalid="ignore"):
                wait = (-z / speed)[self.reached]
            if not left.all() and not (wait[left] >= 0).all():  # one that is left turns away
                return np.full(len(u), np.nan), np.full(len(left), np.nan)
            soon, far = wait[left].min(), np.abs(wait[left & np.isfinite(wait)]).max(initial=0.0)
            reached = left & (wait - soon <= APART * far)
            u, z, now = u + soon * f, z + soon * speed, now + soon
            mode[self.reached[reached]] = self.after[self.reached[reached]]
            delays[reached], left = now, left & ~reached
        return u - now * self._at(self.after)[0], delays

    def _at(self, mode):
        """y' and the rate of every z in a mode."""
        if (name := mode.tobytes()) not in self.known:
            found = self.moment(mode)
            self.known[name] = found["f"], found["z speed"]
        return self.known[name]


def _last_at_each_time(modes):
    """The modes that last: several decisions at one time are one event."""
    kept = []
    for time, mode in modes:
        if kept and kept[-1][0] == time:
            kept[-1] = (time, mode)
        else:
            kept.append((time, mode))
    return kept


def _directions(known, constants, y0, size):
    """The directions of each leaf of the constants (or None), and how many there are."""
    jax = configured()
    leaves, tree = jax.tree.flatten(known)
    try:
        changes = [None] * len(leaves) if constants is None else tree.flatten_up_to(constants)
    except Exception:  # JAX says what differs by showing it, and a value may refuse to be shown
        raise SpecError(
            "constants have another structure than the field's: expected the same names or places, with None for those that "
            "do not move."
        ) from None
    changes = [None if change is None else array("constants", change) for change in changes]
    counts = {len(change) for change in changes if change is not None and change.ndim}
    if y0 is not None:
        y0 = array("y0", y0)
        counts.add(len(np.atleast_1d(y0)))
        if np.ndim(y0) != 2 or np.shape(y0)[1] != size:
            raise SpecError(f"y0 has shape {np.shape(y0)}: expected (p, {size}), a direction of the start in each row.")
    if len(counts) != 1:
        raise SpecError(
            f"directions of {sorted(counts)} rows: expected one number p of rows in constants and y0 alike."
        )
    (p,) = counts
    for leaf, change in zip(leaves, changes, strict=True):
        if change is not None and change.shape != (p, *np.shape(leaf)):
            raise SpecError(f"constants have a direction of shape {change.shape}: expected {(p, *np.shape(leaf))}.")
    return changes, p


@lru_cache(maxsize=32)
def _programs(evaluate, tree, moving):
    """The compiled pieces of a field: S along a stretch of steps, and everything at one moment."""
    jax = configured()
    jnp = jax.numpy

    def rebuilt(leaves, parts):
        leaves = list(leaves)
        for i, part in zip(moving, parts, strict=True):
            leaves[i] = part
        return jax.tree.unflatten(tree, leaves)

    def parts_of(leaves):
        return [leaves[i] for i in moving]

    def stretch(leaves, moved, sizes, states, count, S, gates, index, real):
        def motion(parts, y):
            return evaluate(rebuilt(leaves, parts), y, gates, index, real).dy

        def step(k, S):
            return _carried(jax, motion, parts_of(leaves), moved, states[k], sizes[k], S)

        return jax.lax.fori_loop(0, count, step, S)

    def moment(leaves, moved, y, S, gates, index, real):
        def seen(parts, y):
            found = evaluate(rebuilt(leaves, parts), y, gates, index, real)
            return found.z, found.share

        f = evaluate(jax.tree.unflatten(tree, leaves), y, gates, index, real).dy
        (z, _), push = jax.linearize(seen, parts_of(leaves), y)
        change = jax.vmap(push)(moved, S)
        speed = push([jnp.zeros_like(part) for part in parts_of(leaves)], f)
        return {
            "f": f,
            "z": z,
            "z change": change[0],
            "share change": change[1],
            "z speed": speed[0],
            "share speed": speed[1],
        }

    return {each.__name__: jit(each, quick=True) for each in (stretch, moment)}


def _carried(jax, motion, parts, moved, y, h, S):
    """S after one step of size h from y: each stage of the step differentiated along the moved parts and S (p, size)."""
    jnp = jax.numpy
    A = jnp.asarray(tableau()[0][: STAGES + 1, :STAGES])

    def stage(i, slopes):
        K, dK = slopes
        f, push = jax.linearize(motion, parts, y + h * jnp.sum(A[i][:, None] * K, axis=0))
        df = jax.vmap(push)(moved, S + h * jnp.sum(A[i][:, None, None] * dK, axis=0))
        return K.at[i].set(f), dK.at[i].set(df)

    empty = jnp.zeros((STAGES, len(y))), jnp.zeros((STAGES, *S.shape))
    _, dK = jax.lax.fori_loop(0, STAGES, stage, empty)
    return S + h * jnp.sum(A[STAGES][:, None, None] * dK, axis=0)
