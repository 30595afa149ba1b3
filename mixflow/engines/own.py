"""A network of the user's own on one task, as the engine wants it."""

from dataclasses import fields, is_dataclass, replace

from ..errors import SpecError
from ..jaxed import jax
from .positions import padded_tokens
from .variant_network import logistic_loss

SEEN = ("w", "A", "z")  # what stage detection reads


class OwnNetwork:
    """The network on one task, as the engine wants it."""

    def __init__(self, task, network):
        frozen = is_dataclass(network) and network.__dataclass_params__.frozen
        if not frozen or "seed" not in [f.name for f in fields(network)]:
            raise SpecError(
                f"{type(network).__name__} is not a frozen dataclass with a field `seed`: write @dataclass(frozen=True) above "
                "the class and `seed: int = 0` in it."
            )
        self.task, self.network = task, network

    @property
    def key(self):
        """What the compiled program depends on: everything but the seed."""
        arrays = (*padded_tokens(self.task), self.task.labels, self.task.gram)
        return replace(self.network, seed=0), *((array.shape, array.tobytes()) for array in arrays)

    def start(self, network):
        """Initial (weights, fixed)."""
        return network.start(self.task), {}

    def gradient(self, weights, fixed, weight):
        """Of the loss with `weight` on each atom."""
        return jax().grad(lambda x: logistic_loss(self.task, self.network.answer(x, self.task), weight))(weights)

    def observe(self, weights, fixed):
        """What the network shows, and its answer."""
        seen = self.network.observe(weights, self.task)
        if missing := [name for name in SEEN if name not in seen]:
            raise SpecError(
                f"{type(self.network).__name__}.observe gives no {', '.join(missing)}: stages are read from {', '.join(SEEN)}."
            )
        return {**seen, "answer": self.network.answer(weights, self.task)}
