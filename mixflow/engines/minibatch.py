"""Minibatches of a finite population: the weight of every atom at a step."""

from ..jaxed import jax


def batch_weights(i, probability, key, batch_size):
    """(n,) weight of each atom at step i: its probability, or its frequency among `batch_size` atoms drawn from `key`."""
    if batch_size is None:
        return probability
    random, jnp = jax().random, jax().numpy
    key = random.fold_in(random.wrap_key_data(key), i)  # by step, so that a continued run draws the same
    drawn = random.categorical(key, jnp.log(probability), shape=(batch_size,))
    return jnp.bincount(drawn, length=len(probability)) / batch_size
