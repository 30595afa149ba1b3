"""A network of the user's own: three functions, and everything else (training, seeds, stages, files) works on it."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING

from ..errors import SpecError

if TYPE_CHECKING:
    from typing import Any

    from ..tasks import Population, Task
    from ..types import Array, History, Variables, Weights

SEEN = ("w", "A", "z")  # what stage detection reads


class Network(ABC):
    """Subclass it as a frozen dataclass with a field `seed`, and train it like a `Transformer` (docs/your-own.md).

    All arrays may have any shape. `task` is a FiniteTask; write `answer` and `observe` with jax.numpy. Training raises
    SpecError if the class is no frozen dataclass with a `seed`, or if `answer` or `observe` returns something else.

    >>> from dataclasses import dataclass
    >>> import numpy as np, mixflow as mf
    >>> @dataclass(frozen=True)
    ... class Vote(mf.Network):  # no attention: the tokens of an atom are averaged
    ...     seed: int = 0
    ...     def start(self, task):
    ...         return {"w": np.zeros(len(task.features))}
    ...     def answer(self, weights, task):
    ...         tokens = np.eye(len(task.features))[task.token_feature] * task.token_coefficient[:, None]
    ...         return task.count / task.length[:, None] @ tokens @ weights["w"]
    ...     def observe(self, weights, task):
    ...         return {"w": weights["w"], "A": np.zeros((1, 1)), "z": self.answer(weights, task)}
    >>> run = mf.train(mf.Mixture(), Vote(), mf.GradientDescent(steps=500))
    >>> float(run.dataset.accuracy[-1])  # the hard samples are ties
    0.75

    Where only the read-out is your own, give a function instead of a class: `mf.Network(answer, transformer, parameters=…)`. Its
    training closes on inner products as a Transformer's does: it has infinite width, flow, every rule that closes, and `extend`.

    answer       answer(O, parameters) -> F of every atom (n,), in jax.numpy. O (head, atom, query) is what each query reads, 0
                 beyond an atom's end; with several values they have an axis behind the heads
    transformer  the Transformer whose attention and values it reads; its own read-out options are not used
    parameters   {name: initial array} of what the read-out trains
    neurons      neurons(O, parameters) -> z of any shape, if it has ReLUs: answer then gets ReLU(z) in the place of O, and a
                 flow goes through their kinks exactly

    >>> import jax.numpy as jnp
    >>> def gated(O, parameters):  # one head reads, the other says how much of it counts
    ...     what, how_much = O.mean(axis=-1)
    ...     return parameters["scale"] * what * jnp.tanh(1 + how_much)
    >>> network = mf.Network(gated, mf.Transformer(omega=0.5), parameters={"scale": 1.0})
    >>> run = mf.train(mf.Mixture(), network, mf.GradientFlow(until=5.0, save_at=3))
    >>> run.dataset.attrs["model"], run.dataset.scale.dims
    ('gram', ('time',))
    """

    def __new__(cls, *arguments, **options):
        if cls is Network:
            from .reading import ReadOutNetwork as cls
        return object.__new__(cls)

    mean_field = False
    altered = ("answer",)  # what makes it another network than the paper's
    no_closure = "its answer is a function of its own weights, not of inner products between features alone"
    attention_weights = ()  # names among `start` that the attention stage of a staged run trains
    frozen_weights = ()  # names among `start` that are never trained
    axes = {}  # noqa: RUF012 (read only) names of the axes of what `observe` gives, e.g. {"w": ("feature",)}

    @abstractmethod
    def start(self, task: Population) -> Weights:
        """{name: initial array}, every one of them trained; random only through `seed`."""

    @abstractmethod
    def answer(self, weights: Weights, task: Population) -> Array:
        """F of every atom, (n,), its sign is the network's label; (C, n) logits for the softmax loss."""

    @abstractmethod
    def observe(self, weights: Weights, task: Population) -> dict[str, Array]:
        """{"w": neurons, "A": attention scores, "z": inputs of the neurons (off at or below 0), and what else to record}.

        With "answer" among it, where `observe` computes it anyway, it is not computed again.
        """

    def objection(self, task: Population) -> str | None:
        """Why it cannot serve on this task, with the fix, or None."""
        frozen = is_dataclass(self) and self.__dataclass_params__.frozen
        if not frozen or "seed" not in [f.name for f in fields(self)]:
            return (
                f"{type(self).__name__} is not a frozen dataclass with a field `seed`: write @dataclass(frozen=True) above the "
                "class and `seed: int = 0` in it"
            )
        return None

    def variables(self, task: Population, history: History) -> Variables:
        """{variable: (dimensions, values)} of what `observe` gave over time; axes without a name are numbered."""
        found = {}
        for name, x in history.items():
            named = self.axes.get(name, ())
            rest = tuple(f"{name}_{i}" for i in range(1 + len(named), x.ndim))
            found[name] = (("time", *named, *rest), x)
        return found

    def limit(self, task: Task | None = None, flow: bool = False) -> str | None:
        """What infinite width does to it: there is none, so None."""
        return None

    def coordinates(self, task: Population) -> dict[str, Any]:
        """Labels along the dimensions of `variables`: none of its own."""
        return {}

    def spec(self) -> dict[str, Any]:
        """The class and its fields; JSON-ready if the fields are."""
        given = {f.name: getattr(self, f.name) for f in fields(self)}
        try:
            json.dumps(given)
        except TypeError as error:
            raise SpecError(f"{type(self).__name__} has a field that cannot be written down: {error}.") from None
        return {"kind": "own", "name": type(self).__name__, **given}


def seen(network, weights, task):
    """What `observe` of a network gives, with its answer, checked."""
    found = dict(network.observe(weights, task))
    if missing := [name for name in SEEN if name not in found]:
        raise SpecError(
            f"{type(network).__name__}.observe gives no {', '.join(missing)}: stages are read from {', '.join(SEEN)}."
        )
    return found
