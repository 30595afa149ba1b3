"""What the engines share whose tokens are vectors of their own, such as images: who is refused, and what is measured."""

from .base import Engine, not_plain
from .series import token_coordinates, token_series


class OnTokens(Engine):
    """An engine for tasks with `tokens`, by plain descent."""

    vectors_only = True

    @classmethod
    def objection(cls, task, network, method):
        """Why not: it needs tokens as vectors in the network's dimension, one attention layer, and a rule that closes."""
        if not hasattr(task, "tokens"):
            return "it is for tokens that are vectors of their own, such as images"
        if network.no_closure is not None or method.inner.no_closure is not None:
            return "it needs a list of features, but every token is its own; train task.finite()"
        d = task.tokens.dimension
        if network.dimension not in (None, d):
            return f"dimension = {network.dimension}: the tokens have {d} coordinates; leave it out"
        return cls.own_objection(task, network, method) or not_plain(method)

    @classmethod
    def own_objection(cls, task, network, method):
        """What else it cannot do, or None. To override."""
        return None

    def work(self):
        """A token of its own at every place of every sample."""
        samples, length, dimension = self.tokens.train.tokens.shape
        return samples * length**2 * dimension / 288

    def measure(self, history, network, listed=None):
        """The dataset's variables, averaged over training samples, held-out ones beside them (docs/schema.md)."""
        return token_series(self.task, network, history)

    def coordinates(self, listed=None):
        """Labels of heads and watched directions."""
        return token_coordinates(self.task, self.network)
