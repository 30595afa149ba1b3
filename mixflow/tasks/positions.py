"""A finite task token by token: atoms as rows of positions, the short ones masked at their end."""

import numpy as np

from ..jaxed import jax

MASKED = -1e30  # score of a key that is not there; its exponential is exactly 0


def padded_tokens(task):
    """(n, L) feature index and coefficient of every token in the order of the atom, and which positions are there."""
    place = {name: i for i, name in enumerate(task.features)}
    L = max(map(len, task.atoms))
    feature, coefficient = np.zeros((len(task.atoms), L), int), np.zeros((len(task.atoms), L))
    for a, atom in enumerate(task.atoms):
        for l, (name, value) in enumerate(atom):
            feature[a, l], coefficient[a, l] = place[name], value
    return feature, coefficient, np.arange(L) < np.array([[len(atom)] for atom in task.atoms])


def attend(S, present):
    """Softmax over the keys that are there: probabilities (..., key, query) from scores S and present (..., L)."""
    J = jax()
    return J.nn.softmax(J.numpy.where(present[..., None], S, MASKED), axis=-2)
