"""What an answer costs and whether it is right: the three losses of a finite task (docs/mathematics.md §8).

Shapes: `on` is ReLU(z), (..., H, n), heads by atoms; `labels` (n,). The heads are + and − with F = on[+] − on[−] for
"logistic" and "squared", one for each class for "softmax".
"""

import numpy as np

from ..jaxed import jax
from .lanes import EXP_RANGE, exp


def cost(kind, labels, on, xp=np):
    """(..., n) the loss of every atom: log(1 + e^{-yF}), (F − y)²/2, or −log softmax(on)[y]."""
    if kind == "softmax":
        top = on.max(axis=-2, keepdims=True)
        log_sum = xp.log(xp.sum(xp.exp(on - top), axis=-2)) + top[..., 0, :]
        return log_sum - xp.sum(on * chosen(labels, on.shape[-2]), axis=-2)
    F = on[..., 0, :] - on[..., 1, :]
    return (F - labels) ** 2 / 2 if kind == "squared" else xp.logaddexp(0, -labels * F)


def right(kind, labels, on):
    """(..., n) the margin: how far the answer is from becoming a wrong one; positive where it is right, 0 at a tie.

    logistic  y F
    softmax   the logit of the label minus the largest other one; for two classes that is y F
    squared   half of |F − the nearest other label| − |F − y|: positive where the nearest label of the task is the right
              one. With the labels ±1 it is y F, up to |F| = 1.
    """
    if kind == "softmax":
        mine = chosen(labels, on.shape[-2])
        return np.sum(on * mine, axis=-2) - np.max(np.where(mine, -np.inf, on), axis=-2)
    F = on[..., 0, :] - on[..., 1, :]
    if kind == "logistic":
        return labels * F
    away = np.full(F.shape, np.inf)
    for value in np.unique(labels):
        away = np.where(labels == value, away, np.minimum(away, np.abs(F - value)))
    return (away - np.abs(F - labels)) / 2


def slope(kind, labels, on):
    """(..., H, n) the derivative of every atom's loss by ReLU(z_h), for JAX; "logistic" is written out in the engines."""
    jnp = jax().numpy
    if kind == "squared":
        r = on[..., 0, :] - on[..., 1, :] - labels
        return jnp.stack([r, -r], axis=-2)
    E = exp(jnp.maximum(on - jnp.max(on, axis=-2, keepdims=True), -EXP_RANGE))
    return E / jnp.sum(E, axis=-2, keepdims=True) - chosen(labels, on.shape[-2])


def chosen(labels, heads):
    """(H, n) True at the head of each atom's label."""
    return np.arange(heads)[:, None] == labels
