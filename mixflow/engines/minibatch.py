"""Minibatches of a finite population: the weight of every atom at a step, for each lane.

The generator is JAX's default one (Threefry-2×32 with 20 rounds, Salmon et al. 2011) and so are the draws, written out:
`jax.random` takes twice as long, and a later JAX may draw otherwise. `static/batches.js` has the same lines.
"""

import numpy as np

from ..checks import shown
from ..errors import SpecError
from ..jaxed import jax
from ..native import threefry

AHEAD = 2048  # steps drawn in one call where a step itself cannot draw (`native`), or as many as make WORDS
WORDS = 2**21  # and the most for one step, 0.4 GB where JAX draws them
CACHED = 2**14  # words that are drawn at a time, so that they stay in the cache


class Minibatches:
    """The whole population, or `method.batch_size` atoms drawn anew at each step.

    `method.batch_seed` seeds the draws of all lanes alike; None lets every network draw its own, from its seed.
    """

    def __init__(self, probabilities, method):
        self.probabilities = probabilities
        self.size, self.seed = getattr(method, "batch_size", None), getattr(method, "batch_seed", 0)
        if self.size is not None and self.size * len(probabilities) > WORDS:
            raise SpecError(
                f"batch_size = {shown(self.size)} draws from {len(probabilities)} samples: expected at most "
                f"{WORDS // len(probabilities)}; leave it out for the whole population, which is the limit of large batches."
            )

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
        return self._drawn(jax().numpy, i, parameters["probability"], parameters["key"])

    def ahead(self, block, parameters):
        """{"weight": (steps, n, lanes)} of the steps of a block, as `weights` draws them; {} for the whole population."""
        if self.size is None:
            return {}
        p, keys = parameters["probability"], parameters["key"]
        many = min(AHEAD, WORDS // (self.size * len(p)))
        steps = block * many + np.arange(many)[:, None]
        cuts = range(0, many, max(1, CACHED // (self.size * len(p))))
        weight = np.empty((many, len(p), len(keys)))
        for lane, key in enumerate(keys):
            if lane and (key == keys[0]).all():
                weight[..., lane] = weight[..., 0]
                continue
            for cut in cuts:
                part = steps[cut : cut + cuts.step]
                weight[cut : cut + cuts.step, :, lane] = self._drawn(np, part, p, key[None])[..., 0].T
        return {"weight": weight}

    def _drawn(self, xp, i, probability, key):
        """(n, …, keys) frequency of each atom among those drawn for the steps i, a number or (…, 1), from keys (keys, 2).

        An atom of probability p waits for an exponential time of rate p; the first is drawn. The logarithm of its wait is
        what JAX compares, log p and a Gumbel number. Two that are equal in all 52 bits would both be drawn.
        """
        n, one = len(probability), (1,) * max(np.ndim(i), 1)
        step = _encrypted(xp, key.T, xp.asarray(i).astype(np.uint32))  # by step, so that a continued run draws the same
        place = np.arange(self.size * n, dtype=np.uint32).reshape(self.size, n, *one)
        high, low = _encrypted(xp, step, place)
        low >>= np.uint32(12)
        bits = high * 2.0**-32
        bits += low * 2.0**-52
        with np.errstate(divide="ignore"):  # who has no probability waits for ever
            wait = xp.log(xp.maximum(bits, np.finfo(float).tiny)) / -probability.reshape(n, *one)
        return xp.sum(wait == xp.min(wait, axis=1, keepdims=True), axis=0) * (1 / self.size)


def _encrypted(xp, key, y):
    """The words (0, y) encrypted under a key of two words; arrays of uint32, of NumPy or JAX (`xp`).

    JAX has a loop over the five turns: written out, its fused kernels compute what is used twice twice, 10^10 operations.
    """
    if xp is np:
        return threefry.encrypted(*key, y)
    keys = xp.stack([key[0], key[1], key[0] ^ key[1] ^ np.uint32(threefry.PARITY)])
    y = y + keys[1]

    def turn(i, words):
        x, y = words
        for by in xp.asarray(threefry.TURNS, np.uint32)[i % 2]:
            x = x + y
            y = ((y << by) | (y >> (np.uint32(32) - by))) ^ x
        return x + keys[(i + 1) % 3], y + keys[(i + 2) % 3] + xp.asarray(i + 1).astype(np.uint32)

    return jax().lax.fori_loop(0, 5, turn, (keys[0] + xp.zeros_like(y), y))
