"""A field that is affine in its gates, and what the solver derives from it (docs/mathematics.md §7).

    state    y (size,)
    gates    g numbers in [0, 1], one for each surface: 1 where z_i(y) > 0, 0 where z_i(y) < 0, λ where y slides on z_i = 0
    field    y' = velocity(c, y, gates), affine in the gates; z = surface(c, y)

With some gates sliding the solver needs the λ that holds their dz/dt = v + B λ at 0. `derived` finds it for any two JAX
functions: the columns of y' by gate and the rates of z along them are directional derivatives.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ..checks import listed, shown
from ..errors import SpecError
from ..jaxed import host_call
from ..jaxed import jax as configured

# Relative; makes dependent surfaces (twins by symmetry) harmless, at the price of |dz/dt| ≤ RIDGE · |B| while sliding.
RIDGE = 1e-12
AFFINE = 1e-9  # relative deviation from an affine function that is still rounding


class Evaluation(NamedTuple):
    """The field at one state, for a set of s chosen gates (padded) whose own entries in `gates` are 0.

    dy     y' with the chosen gates at the share λ that holds their dz/dt = 0
    share  (s,) that λ
    z      (g,)
    v, N, r   dz/dt = v − N (r · gate) over the chosen gates, (s,), (s, s), (s,)
    """

    dy: Any
    share: Any
    z: Any
    v: Any
    N: Any
    r: Any


@dataclass(frozen=True, eq=False, kw_only=True)
class Field:
    """A vector field with surfaces on which it jumps, affine in one gate for each surface.

    velocity   velocity(c, y, gates) -> y' (size,), affine in the gates (g,) inside (0, 1). It may ask whether a gate is
               exactly 1, so that a term like ReLU(z) = where(gates == 1, z, 0) stays smooth across its surface
    surface    surface(c, y) -> z (g,), of order one near 0: a gate is 1 where its z > 0 and 0 where z < 0
    gates      the names of the g gates, as events will report them
    constants  c, any pytree of numbers and arrays; JAX sees it as an argument, so equal shapes share a compilation
    y0         (size,) a start, used where `solve` is given none
    evaluate   None, or evaluate(c, y, gates, index, real) -> Evaluation where a field of gradient type (N symmetric,
               semi-definite) knows a cheaper way than the derived one; index (s,) are the chosen gates, padded, and
               real (s,) is 1.0 where an entry is not padding
    checks     None, or checks(states (k, size)) -> {name: number}, what a certificate adds: drifts of conserved quantities
    spare      None, or for a field with `evaluate` a pair: constants with which it has gates to spare after its own, whose z is 0
               and which move nothing, and the number of all. Fields of as many share a program of the solver

    Functions that JAX can trace are compiled; plain NumPy functions work too, about a hundred times slower, with rates of
    z by differences (accurate to about 1e-11). Time is not an argument: make it a component of y with velocity 1.
    Raises SpecError for gates that are no names; `solve` tests the functions themselves.

    >>> import mixflow as mf
    >>> relay = mf.filippov.Field(
    ...     velocity=lambda c, y, gates: 1 - 2 * gates,  # towards y = 0 from both sides
    ...     surface=lambda c, y: y,
    ...     gates=("relay",),
    ... )
    >>> relay.n_gates
    1
    """

    velocity: Callable
    surface: Callable
    gates: tuple
    constants: Any = ()
    y0: Any = None
    evaluate: Callable | None = None
    checks: Callable | None = None
    spare: tuple | None = None

    def __post_init__(self):
        names = listed("gates", self.gates, 'a name for each surface, for example gates=("grip",)')
        object.__setattr__(self, "gates", names)
        for name, wanted in (("velocity", ("c", "y", "gates")), ("surface", ("c", "y"))):
            _takes(name, getattr(self, name), wanted)

    @property
    def n_gates(self) -> int:
        return len(self.gates)


def _takes(name, function, wanted):
    """SpecError unless `function` can be called with as many arguments as there are names in `wanted`."""
    expected = f"expected {name}({', '.join(wanted)})"
    if not callable(function):
        raise SpecError(f"{name} = {shown(function)}: {expected}, a function.")
    try:
        inspect.signature(function).bind(*wanted)
    except TypeError:
        raise SpecError(f"{name}{inspect.signature(function)}: {expected}, which depends on nothing else.") from None
    except ValueError:  # some built-in functions have no signature to look at
        return


class Prepared(NamedTuple):
    """A field as the solver wants it: functions for JAX to compile, and the constants on its device.

    gradient   whether N is symmetric and semi-definite, so that dz/dt at an event is unique
    traced     whether JAX sees the functions themselves and can differentiate them
    steps      constants and number of gates of the program that makes steps: those above, or with gates to spare
    """

    surface: Callable
    evaluate: Callable
    constants: Any
    n_gates: int
    gradient: bool
    traced: bool
    steps: tuple


def prepare(field, y):
    """The Prepared field for states of the shape of y; SpecError for functions that do not fit."""
    if not isinstance(field, Field):
        raise SpecError(f"field = {shown(field)}: expected a mixflow.filippov.Field.")
    jax = configured()
    if field.evaluate is not None:
        constants = jax.tree.map(jax.numpy.asarray, field.constants)
        steps = (constants, field.n_gates)
        if field.spare is not None:
            steps = jax.tree.map(jax.numpy.asarray, field.spare[0]), field.spare[1]
        return Prepared(field.surface, field.evaluate, constants, field.n_gates, True, True, steps)
    surface, evaluate, constants, seen = _functions(field, len(y))
    _check(field, np.array(y, float), seen)
    g = field.n_gates
    return Prepared(surface, evaluate, constants, g, False, surface is field.surface, (constants, g))


@lru_cache(maxsize=64)
def _functions(field, size):
    """surface, evaluate, their constants and what the field's own functions take: derived if JAX can trace these, else calls."""
    jax = configured()
    constants = jax.tree.map(jax.numpy.asarray, field.constants)
    shapes = [jax.ShapeDtypeStruct((n,), np.float64) for n in (size, field.n_gates)]
    try:
        jax.eval_shape(field.velocity, constants, *shapes)
        jax.eval_shape(field.surface, constants, shapes[0])
    except (TypeError, ValueError):  # what comes where a NumPy function meets a traced array
        return *_called(field, size), (), field.constants
    return field.surface, derived(field.velocity, field.surface), constants, constants


def _check(field, y, c):
    """SpecError unless the functions give the right shapes, finite numbers, and a velocity affine in the gates."""
    rng = np.random.default_rng(0)
    a, b = rng.uniform(0.1, 0.9, (2, field.n_gates))
    _given("surface", field.surface(c, y.copy()), field.n_gates, "one number for each name in gates")
    at = [
        _given("velocity", field.velocity(c, y.copy(), gates), len(y), "one for each number in y")
        for gates in (a, b, (a + b) / 2)
    ]
    off = np.abs(at[2] - (at[0] + at[1]) / 2).max(initial=0)
    if off > AFFINE * max(np.abs(at).max(initial=0), 1e-300):
        raise SpecError(
            f"velocity is not affine in its gates (half-way between two choices it is off by {off:.2g}): expected "
            "y' = f(y) + F(y) gates; give each product of gates a gate of its own, or write ReLU as where(gates == 1, z, 0)."
        )


def _given(name, value, size, meaning):
    value = np.asarray(value, float)
    if value.shape != (size,):
        raise SpecError(f"{name} returned an array of shape {value.shape}: expected ({size},), {meaning}.")
    if not np.all(np.isfinite(value)):
        raise SpecError(f"{name} returned {value[~np.isfinite(value)][0]} at the start: expected finite numbers.")
    return value


@lru_cache(maxsize=64)
def derived(velocity, surface):
    """evaluate(c, y, gates, index, real) of any two JAX functions."""
    jax = configured()
    jnp = jax.numpy

    def evaluate(c, y, gates, index, real):
        if len(index) == 0:
            return _smooth(jnp, jnp.asarray(velocity(c, y, gates), float), surface(c, y))
        unit = real[:, None] * (index[:, None] == jnp.arange(len(gates)))  # (s, g)
        base, column = jax.linearize(lambda gates: jnp.asarray(velocity(c, y, gates), float), gates)
        columns = jax.vmap(column)(unit)  # (s, size) how each chosen gate moves y
        z, along = jax.linearize(lambda y: surface(c, y), y)
        speeds = jax.vmap(along)(jnp.concatenate([base[None], columns])) @ unit.T  # (s + 1, s)
        return _sliding(jnp, base, columns, z, speeds)

    return evaluate


def _smooth(xp, base, z):
    none = xp.zeros(0)
    return Evaluation(base, none, z, none, xp.zeros((0, 0)), none)


def _sliding(xp, base, columns, z, speeds):
    """The Evaluation from y' without the chosen gates, what each adds, and the rates of the chosen z along all of these."""
    s = len(columns)
    v, N = speeds[0], -speeds[1:].T
    # Padding rows are zero, so the ridge alone keeps them regular, at λ = 0.
    ridge = RIDGE * xp.maximum(xp.max(xp.abs(N)), 1e-300)
    inverse = xp.linalg.inv(N + ridge * xp.eye(s))
    share = inverse @ v
    share = share + inverse @ (v - N @ share)  # takes the ridge back where N is regular
    return Evaluation(base + share @ columns, share, z, v, N, xp.ones(s))


def _called(field, size):
    """surface and evaluate for JAX to compile around plain NumPy functions."""
    g, c = field.n_gates, field.constants

    def z_of(y):
        return np.asarray(field.surface(c, np.array(y)), float)

    def y_of(y, gates):
        return np.asarray(field.velocity(c, np.array(y), np.array(gates)), float)

    def along(y, d):
        """dz/dt along d by a difference of order 4."""
        h = 1e-3 * max(1.0, np.abs(y).max()) / max(np.abs(d).max(initial=0), 1e-300)
        return (8 * (z_of(y + h * d) - z_of(y - h * d)) - (z_of(y + 2 * h * d) - z_of(y - 2 * h * d))) / (12 * h)

    def numbers(y, gates, index, real):
        index = index.astype(int)
        base, z = y_of(y, gates), z_of(y)
        if len(index) == 0:
            return _smooth(np, base, z)
        unit = real[:, None] * (index[:, None] == np.arange(g))
        columns = np.array([y_of(y, gates + e) - base for e in unit])
        speeds = np.array([along(y, d) for d in (base, *columns)]) @ unit.T
        return _sliding(np, base, columns, z, speeds)

    def evaluate(_, y, gates, index, real):
        s = len(index)
        shapes = (size,), (s,), (g,), (s,), (s, s), (s,)
        return Evaluation(*host_call(numbers, shapes, y, gates, index, real))

    def surface(_, y):
        return host_call(lambda y: (z_of(y),), ((g,),), y)[0]

    return surface, evaluate


@lru_cache(maxsize=1024)
def padded(indices):
    """Indices padded to 0, 4, 8, 16, …, and 1.0 where an entry is real: a few shapes serve every sliding set."""
    room = 4 if indices else 0
    while room < len(indices):
        room *= 2
    fill = room - len(indices)
    pair = np.array(indices + (0,) * fill, np.int64), np.array([1.0] * len(indices) + [0.0] * fill)
    return configured().device_put(pair)
