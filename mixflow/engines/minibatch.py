"""Minibatches of a finite population: the weight of every atom at a step, for each lane."""

import numpy as np

from ..jaxed import jax


class Minibatches:
    """The whole population, or `method.batch_size` atoms drawn anew at each step.

    `method.batch_seed` seeds the draws of all lanes alike; None lets every network draw its own, from its seed.
    """

    def __init__(self, probabilities, method):
        self.probabilities = probabilities
        self.size, self.seed = getattr(method, "batch_size", None), getattr(method, "batch_seed", 0)

    @property
    def key(self):
        """What a compiled program depends on."""
        return self.size

    def parameters(self, networks):
        """Arrays for `weights`: probability (n,), and the key of each lane's draws where there are any."""
        found = {"probability": self.probabilities}
        if self.size is not None:
            random = jax().random
            seeds = [network.seed if self.seed is None else self.seed for network in networks]
            found["key"] = np.stack([np.asarray(random.key_data(random.key(seed))) for seed in seeds])
        return found

    def weights(self, i, parameters):
        """(n, 1) the probabilities, or (n, lanes) the frequencies among the atoms drawn for step i."""
        if self.size is None:
            return parameters["probability"][:, None]
        one = jax().vmap(lambda key: self.drawn(i, parameters["probability"], key), out_axes=-1)
        return one(parameters["key"])

    def drawn(self, i, probability, key):
        """(n,) frequency of each atom among those drawn for step i from one lane's key."""
        random, jnp = jax().random, jax().numpy
        key = random.fold_in(random.wrap_key_data(key), i)  # by step, so that a continued run draws the same
        atoms = random.categorical(key, jnp.log(probability), shape=(self.size,))
        return jnp.bincount(atoms, length=len(probability)) / self.size
