"""Any network by automatic differentiation: every weight, any update rule, runs side by side as lanes of one vmap.

A network has `key`, `start(spec)` -> (weights, fixed), two dictionaries (or trees) of arrays, `gradient(weights, fixed,
weight)` of its loss with `weight` on each atom, and `observe(weights, fixed)` -> a flat dictionary of arrays.
"""

import numpy as np

from ..jaxed import jax
from .minibatch import batch_weights
from .updates import transformation

LANES = 5  # ten seeds are two groups, one for each of two threads; a single run fills every lane with itself


class Trained:
    """The engine: descent of `kind` on the weights of `network`, full batch or minibatches of `batch_size`.

    batch_seed  of the minibatches; None lets every run draw its own, from the seed of its network
    """

    lanes = LANES

    def __init__(self, name, network, probabilities, kind="sgd", constants=None, batch_size=None, batch_seed=0):
        self.name, self.network, self.kind, self.constants = name, network, kind, constants or {}
        self.probabilities = probabilities
        self.batch_size, self.batch_seed = batch_size, batch_seed

    @property
    def key(self):
        """What the compiled program depends on."""
        return self.name, self.kind, self.batch_size, *sorted(self.constants), self.network.key

    def start(self, spec):
        """Initial weights, and the arrays that are not trained."""
        weights, fixed = self.network.start(spec)
        return {"weights": weights, "fixed": fixed}

    def parameters(self, specs, eta_w, eta_A):
        """Arrays the step reads besides the state; one learning rate for all weights."""
        random = jax().random
        seeds = [spec.seed if self.batch_seed is None else self.batch_seed for spec in specs]
        return {
            "eta": np.asarray(eta_w, float),
            "key": np.stack([np.asarray(random.key_data(random.key(seed))) for seed in seeds]),
            "probability": self.probabilities,
            **{name: np.array(value, float) for name, value in self.constants.items()},
        }

    def stack(self, states):
        """Single runs as lanes, the first axis, and the optimiser's own state."""
        tree = jax().tree
        stacked = tree.map(lambda *x: np.stack(x), *states)
        optimizer = jax().vmap(self._transformation(1.0, self.constants).init)(stacked["weights"])
        return {**stacked, "optimizer": optimizer}

    def unstack(self, saved, lane):
        """The history of one lane."""
        return {name: x[..., lane] for name, x in saved.items()}

    def final(self, state):
        """Nothing: such a run is not continued, because only a part of its state is recorded."""
        return {}

    def observe(self, state, parameters):
        """What the network shows, lanes last."""
        J = jax()
        seen = J.vmap(self.network.observe)(state["weights"], state["fixed"])
        return {name: J.numpy.moveaxis(x, 0, -1) for name, x in seen.items()}

    def step(self, i, state, parameters):
        """One update of every trained weight."""
        J = jax()

        def one(weights, fixed, optimizer, eta, key):
            weight = batch_weights(i, parameters["probability"], key, self.batch_size)
            gradient = self.network.gradient(weights, fixed, weight)
            updates, optimizer = self._transformation(eta, parameters).update(gradient, optimizer, weights)
            return J.tree.map(lambda x, u: x + u, weights, updates), optimizer

        weights, optimizer = J.vmap(one)(
            state["weights"], state["fixed"], state["optimizer"], parameters["eta"], parameters["key"]
        )
        return {"weights": weights, "fixed": state["fixed"], "optimizer": optimizer}

    def _transformation(self, eta, constants):
        return transformation(self.kind, eta, **{name: constants[name] for name in self.constants})
