"""A network of the user's own: three functions, and everything else (training, seeds, stages, files) works on it."""

from abc import ABC, abstractmethod
from dataclasses import fields


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
    """

    mean_field = False

    @abstractmethod
    def start(self, task):
        """{name: initial array}, every one of them trained; random only through `seed`."""

    @abstractmethod
    def answer(self, weights, task):
        """F of every atom, (n,); its sign is the network's label."""

    @abstractmethod
    def observe(self, weights, task):
        """{"w": neurons, "A": attention scores, "z": inputs of the neurons (off at or below 0), and what else to record}."""

    def spec(self):
        """The class and its fields; JSON-ready if the fields are."""
        return {"kind": "own", "name": type(self).__name__, **{f.name: getattr(self, f.name) for f in fields(self)}}
