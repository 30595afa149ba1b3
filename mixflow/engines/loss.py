"""What an answer costs and whether it is right: the losses of a finite task (docs/mathematics.md §8).

Shapes: `answer` is F (..., n) with the label y (n,); for "softmax" it is one logit for each class, (..., C, n), and the labels
are the classes.
"""

import numpy as np

from ..jaxed import jax
from .lanes import EXP_RANGE, exp, logistic


def cost(kind, labels, answer, xp=np):
    """(..., n) the loss of every atom: log(1 + e^{-yF}), e^{-yF}, −yF, (F − y)²/2, or −log softmax(answer)[y]."""
    if (
        kind == "softmax"
    ):  # log Σ_c e^{d_c} with d = answer − answer[y], whose own entry is 0: small losses have all their digits
        mine = chosen(labels, answer.shape[-2])
        d = answer - xp.sum(answer * mine, axis=-2, keepdims=True)
        top = xp.maximum(d.max(axis=-2), 0.0)
        others = xp.sum(xp.where(mine, 0.0, xp.exp(d - top[..., None, :])), axis=-2)
        return top + xp.log1p(others + xp.expm1(-top))
    if kind == "squared":
        return (answer - labels) ** 2 / 2
    if kind == "linear":
        return -labels * answer
    return xp.exp(-labels * answer) if kind == "exponential" else xp.logaddexp(0, -labels * answer)


def right(kind, labels, answer):
    """(..., n) the margin: how far the answer is from becoming a wrong one; positive where it is right, 0 at a tie.

    softmax   the logit of the label minus the largest other one; for two classes that is y F
    squared   half of |F − the nearest other label| − |F − y|: positive where the nearest label of the task is the right
              one. With the labels ±1 it is y F, up to |F| = 1.
    others    y F
    """
    if kind == "softmax":
        mine = chosen(labels, answer.shape[-2])
        return np.sum(answer * mine, axis=-2) - np.max(np.where(mine, -np.inf, answer), axis=-2)
    if kind != "squared":
        return labels * answer
    away = np.full(answer.shape, np.inf)
    for value in np.unique(labels):
        away = np.where(labels == value, away, np.minimum(away, np.abs(answer - value)))
    return (away - np.abs(answer - labels)) / 2


def slope(kind, labels, answer):
    """The derivative of every atom's loss by its answer, of the answer's shape, for JAX."""
    jnp = jax().numpy
    if kind == "softmax":
        E = exp(jnp.maximum(answer - jnp.max(answer, axis=-2, keepdims=True), -EXP_RANGE))
        mine = chosen(labels, answer.shape[-2])  # E_y/ΣE − 1 is −(the others)/ΣE, which cancels nothing
        others = jnp.sum(jnp.where(mine, 0.0, E), axis=-2, keepdims=True)
        return jnp.where(mine, -others, E) / jnp.sum(E, axis=-2, keepdims=True)
    if kind == "squared":
        return answer - labels
    if kind == "linear":
        return jnp.broadcast_to(-labels, answer.shape)
    return -labels * (exp(-labels * answer) if kind == "exponential" else logistic(labels * answer))


def chosen(labels, heads):
    """(H, n) True at the head of each atom's label."""
    return np.arange(heads)[:, None] == labels
