"""Minibatches of a finite population: the weight of every atom at a step, for each lane.

The generator is JAX's default one (Threefry-2×32 with 20 rounds, Salmon et al. 2011) and so are the draws, written out:
`jax.random` takes twice as long, and a later JAX may draw otherwise. `static/batches.js` has the same lines.
"""

import numpy as np

from ..jaxed import jax, jit, programs

AHEAD = 2048  # steps drawn in one call where a step itself cannot draw (`native`)
TURNS = ((13, 15, 26, 6), (17, 29, 16, 24))


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
        """Arrays for `weights`: probability (n,), and the two words of each lane's key (lanes, 2) where there are draws."""
        found = {"probability": self.probabilities}
        if self.size is not None:
            seeds = np.array([network.seed if self.seed is None else self.seed for network in networks], np.uint64)
            found["key"] = np.stack([seeds >> 32, seeds & 0xFFFFFFFF], axis=1).astype(np.uint32)
        return found

    def weights(self, i, parameters):
        """(n, 1) the probabilities, or (n, lanes) the frequencies among the atoms drawn for step i, ahead or here."""
        if self.size is None:
            return parameters["probability"][:, None]
        if "weight" in parameters:
            return parameters["weight"]
        return self._drawn(i, parameters["probability"], parameters["key"])

    def ahead(self, block, parameters):
        """{"weight": (AHEAD, n, lanes)} of the steps of a block, as `weights` draws them; {} for the whole population."""
        if self.size is None:
            return {}
        key, lanes = parameters["key"], len(parameters["key"])
        alike = (key == key[0]).all()  # and are drawn once
        draw = programs.get(("minibatches", self.size, lanes), lambda: self._block(lanes))
        return {"weight": np.asarray(draw(block * AHEAD, parameters["probability"], key[:1] if alike else key))}

    def _block(self, lanes):
        jnp = jax().numpy

        def draw(first, probability, key):
            found = self._drawn((first + jnp.arange(AHEAD))[:, None], probability, key)  # (n, AHEAD, 1 or lanes)
            return jnp.broadcast_to(jnp.swapaxes(found, 0, 1), (AHEAD, len(probability), lanes))

        return jit(draw)

    def _drawn(self, i, probability, key):
        """(n, …, keys) frequency of each atom among those drawn for the steps i, a number or (…, 1), from keys (keys, 2).

        An atom of probability p waits for an exponential time of rate p; the first is drawn. The logarithm of its wait is
        what JAX compares, log p and a Gumbel number. Two that are equal in all 52 bits would both be drawn.
        """
        jnp, n = jax().numpy, len(probability)
        one = (1,) * max(np.ndim(i), 1)
        step = _encrypted(key.T, 0, jnp.asarray(i, jnp.uint32))  # by step, so that a continued run draws the same
        place = np.arange(self.size * n, dtype=np.uint32).reshape(self.size, n, *one)
        high, low = _encrypted(step, 0, place)
        bits = high.astype(float) * 2.0**20 + (low >> jnp.uint32(12)).astype(float)
        wait = -jnp.log(jnp.maximum(bits * 2.0**-52, np.finfo(float).tiny)) / probability.reshape(n, *one)
        return jnp.sum(wait == jnp.min(wait, axis=1, keepdims=True), axis=0) / self.size


def _encrypted(key, x, y):
    """Two words (x, y) encrypted under a key of two words; arrays of uint32."""
    u = jax().numpy.uint32
    keys = key[0], key[1], key[0] ^ key[1] ^ u(0x1BD11BDA)
    x, y = u(x) + keys[0], y + keys[1]
    for turn in range(5):
        for by in TURNS[turn % 2]:
            x = x + y
            y = ((y << u(by)) | (y >> u(32 - by))) ^ x
        x, y = x + keys[(turn + 1) % 3], y + keys[(turn + 2) % 3] + u(turn + 1)
    return x, y
