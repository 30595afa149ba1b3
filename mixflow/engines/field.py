"""The field of a network's gradient flow, for theory: its parts, its flow, its derivatives (docs/mathematics.md §3, §4, §7)."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np

from ..checks import one_of, shown
from ..errors import SpecError
from ..filippov import certify
from ..jaxed import in_float64, jax, jit
from .gated import flow
from .gram_field import gram_field
from .orbits import Orbits
from .symmetric_field import symmetric_field

if TYPE_CHECKING:
    from ..networks import AnyNetwork
    from ..tasks import Task

NOBODY = (np.zeros(0, np.int64), np.zeros(0))  # no neuron slides


@in_float64
def field(task: Task, transformer: AnyNetwork, model: str = "gram") -> Field:
    """The field y' = f(y, gates) whose flow trains `transformer` on the population of `task`, as a `Field`.

    task         a Mixture, a Sample or a FiniteTask
    transformer  a Transformer; its start is the field's
    model        "gram": y = (w, A, G_K, G_Q) of both heads for any finite task; "symmetric": the 22 numbers of a uniform
                 Mixture at infinite width, one head (all of them where they are no mirror images) and two sectors (common,
                 contrast), for any K

    Raises SpecError where the model cannot represent the problem.

    >>> import mixflow as mf
    >>> found = mf.field(mf.Mixture(classes=5), mf.Transformer(omega=0.3), model="symmetric")
    >>> found.y0.shape, len(found.gate_names), round(float(found.loss(found.y0)), 4)
    ((26,), 10, 0.6931)
    """
    one_of("model", model, ("gram", "symmetric"))
    for name, value, needs, kinds in (
        ("task", task, "population", "a Mixture, a Sample or a FiniteTask"),
        ("transformer", transformer, "heads_for", "a Transformer"),
    ):
        if not hasattr(type(value), needs):
            raise SpecError(f"{name} = {shown(value)}: expected {kinds}.")
    if model == "gram" and task.unlisted is not None:
        raise SpecError(f"{task.unlisted}.")
    build = symmetric_field if model == "symmetric" else gram_field
    return Field(build(task, transformer), task, transformer, model)


class Field:
    """A field that is affine in the ReLU gates of its neurons; states y are flat (size,), many of them (T, size).

    model       "gram" or "symmetric"
    y0          the start
    gate_names  (head, atom) of every gate; a gate is 0 (off), 1 (on) or between (sliding on z = 0)
    constants   the arrays z is made of
    side        of A, G_K, G_Q: F features, or 2 kinds
    """

    def __init__(self, gated, task, transformer, model):
        self.gated, self.task, self.transformer, self.model = gated, task, transformer, model
        self.y0, self.gate_names = gated.y0, gated.gate_names
        self.constants, self.side = gated.constants, gated.shapes["A"][-1]
        self.z, self.loss = gated.z, gated.loss

    def unpack(self, Y):
        """The parts of one state (size,) or many (..., size) by name; a head's only value vector has no axis of its own."""
        parts = self.gated.unpack(Y)
        shape = self.gated.shapes["w"]
        return {**parts, "w": parts["w"][..., 0, :]} if len(shape) == 3 and shape[1] == 1 else parts

    def pack(self, w, A, G_K, G_Q):
        """The flat state y of its parts."""
        return self.gated.pack({"w": w, "A": A, "G_K": G_K, "G_Q": G_Q})

    def flow(self, method, *, y0=None, stop=None):
        """Follow the flow from `y0` (default: the start) by a GradientFlow; `stop(t, y)` ends it where it rises to 0.

        Returns times (T,), states (T, size), events, and `time`, `state`, `ended` of its end.
        """
        return flow(self.gated, self.y0 if y0 is None else y0, method, stop=stop)

    def certify(self, result):
        """What the flow can prove about itself, as plain numbers: a tighter solution, and what must not move."""
        return certify(result)

    @in_float64
    def velocities(self, states, gates):
        """(T, size) y' at states (T, size) with gates (T, n)."""
        return np.asarray(_velocities(self.gated.functions[1])(self.gated.device, states, gates))

    @in_float64
    def shares(self, y, gates, sliding):
        """(k,) the gates λ of the neurons `sliding` that hold them at z = 0, the other gates as given."""
        index = self.gated.put_indices(sliding)
        found = self.gated.functions[2](self.gated.device, y, np.asarray(gates, float), *index).share
        return np.asarray(found)[: len(sliding)]

    def expand(self, y):
        """The state of the "gram" model that a state of the "symmetric" one stands for."""
        parts = {name: x[None] for name, x in self.gated.unpack(y).items()}
        full = Orbits.of(self.transformer).written(parts, self.task.classes)
        return np.concatenate([np.ravel(full[name]) for name in parts])

    @in_float64
    def masked(self, mask):
        """The field of a network whose scores are mask · A; mask has the shape of A."""
        surface = _masked(self.gated.surface, np.asarray(mask, float).tobytes(), np.shape(mask))
        return Field(replace(self.gated, surface=surface), self.task, self.transformer, self.model)

    @cached_property
    @in_float64
    def derivatives(self):
        """Directional derivatives of the field and of z, by name (`Derivatives`)."""
        return Derivatives(self.gated)


@lru_cache(maxsize=8)
def _masked(surface, content, shape):
    mask = np.frombuffer(content).reshape(shape)

    def masked(xp, c, parts):
        return surface(xp, c, {**parts, "A": parts["A"] * mask})

    return masked


@lru_cache(maxsize=8)
def _velocities(evaluate):
    J = jax()

    def one(c, y, gates):
        return evaluate(c, y, gates, *NOBODY).dy

    # One state after another: all at once, the atoms of K = 6 along a run would need gigabytes.
    return jit(lambda c, states, gates: J.lax.map(lambda item: one(c, *item), (states, gates)))


class Derivatives:
    """Of a gated field f(y, gates) and its z(y), along rows (k, size) of directions; NumPy arrays in and out.

    field(y, gates, rows)     (k, size) δf along each row
    sliding(y, gates, rows)   the same with δz (k, n) and δ(z') (k, n) besides, gates held
    shift(y, rows)            (k, n) δz
    speed(y, gates)           (n,) z'
    push(y, gates, moves)     (k, size) δf when the gates move by each row of moves (k, n)
    """

    def __init__(self, gated):
        for name, function in _compiled(*gated.functions[:2]).items():
            setattr(self, name, self._plain(function, gated.device))

    @staticmethod
    def _plain(function, device):
        @in_float64
        def plain(*arguments):
            found = function(device, *arguments)
            return tuple(map(np.asarray, found)) if isinstance(found, tuple) else np.asarray(found)

        return plain


@lru_cache(maxsize=8)
def _compiled(z, evaluate):
    J = jax()

    def f(c, y, gates):
        return evaluate(c, y, gates, *NOBODY).dy

    def speed(c, y, gates):
        return J.jvp(lambda y: z(c, y), (y,), (f(c, y, gates),))[1]

    def along(function, y, rows):
        return J.vmap(lambda row: J.jvp(function, (y,), (row,))[1])(rows)

    def field(c, y, gates, rows):
        return along(lambda y: f(c, y, gates), y, rows)

    def sliding(c, y, gates, rows):
        return along(lambda y: (f(c, y, gates), z(c, y), speed(c, y, gates)), y, rows)

    def shift(c, y, rows):
        return along(lambda y: z(c, y), y, rows)

    def push(c, y, gates, moves):
        return along(lambda gates: f(c, y, gates), gates, moves)

    return {each.__name__: jit(each) for each in (field, sliding, shift, speed, push)}
