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


def attend_finely(S, present):
    """`attend` whose gradient keeps its digits where one key has nearly all of the attention; not for forward derivatives.

    P_k (p_k − Σ_j P_j p_j), p the gradient by P, is P_k Σ_j P_j (p_k − p_j): a difference that is not taken of nearly equal sums.
    """
    J = jax()

    def forward(S):
        P = attend(S, present)
        return P, P

    def pull_back(P, p):
        # A compiled p_k − p_k need not be 0: XLA may compute one of them twice, once rounded and once not.
        other = ~np.eye(P.shape[-2], dtype=bool)[..., None]
        apart = J.numpy.where(other, p[..., :, None, :] - p[..., None, :, :], 0.0)  # (..., key k, key j, query)
        return (P * (P[..., None, :, :] * apart).sum(axis=-2),)

    read = J.custom_vjp(lambda S: attend(S, present))
    read.defvjp(forward, pull_back)
    return read(S)
