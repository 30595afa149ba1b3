"""The gated field of any finite task at any width: one gate for each head and atom (docs/mathematics.md §3, §7, §8)."""

import numpy as np

from ..networks.transformer import start
from .gated import GatedField, pack, product


def gram_field(task, transformer, *, train_w=True, train_attention=True):
    """The gated field of `transformer` on the population of `task`; gates are ordered head first, then atom.

    train_w, train_attention   which part moves; a frozen part keeps its start (three-stage training, §6)
    """
    task = task.population()
    F, n, H = len(task.features), len(task.atoms), len(task.heads)
    T = len(task.token_feature)
    tokens = np.zeros((T, F))  # row τ: the coefficient of token type τ in the column of its feature
    tokens[np.arange(T), task.token_feature] = task.token_coefficient
    identity = np.array_equal(task.gram, np.eye(F))
    # One shared value vector moves by −(g_+ − g_-) in head + and by the opposite in head −.
    heads = np.array([[1.0, -1.0], [-1.0, 1.0]]) if transformer.tie_values else np.eye(H)
    constants = {
        "count": task.count,
        "tokens": tokens,
        "length": task.length,
        "bias": float(transformer.bias),
        "label": task.labels,
        "weight": task.probabilities,
        "metric_w": np.kron(heads, task.gram) * train_w,
        "rate": np.ones(H) * train_attention,
        "Gamma": None if identity else task.gram,
    }
    return GatedField(
        model="gram",
        surface=_surface,
        constants=constants,
        shape_w=(H, F),
        size=F,
        y0=pack(**start(transformer, task)),
        gate_names=tuple((head, task.names[a]) for head in task.heads for a in range(n)),
        loss_kind=task.loss,
        train_w=train_w,
        train_attention=train_attention,
    )


def _surface(xp, c, w, A):
    """z[h, a] = b + (1/L_a) Σ_q M[a,q] N[a,q] / Z[a,q], a softmax over the multiset of an atom's tokens (§2)."""
    M, P = c["count"], c["tokens"]  # (n, T), (T, F)
    u = xp.sum(w[..., None, :] * P, axis=-1)  # (..., H, T) what each token type says
    E = xp.exp(product(xp, product(xp, P, A), P.T))  # (..., H, T, T) key, query
    Z = product(xp, M, E)  # (..., H, n, T)
    N = product(xp, M, u[..., None] * E)
    # A query type that stands in no atom's list has M = 0; one that does has Z > 0, as it is its own key.
    ratio = xp.where(M > 0, N / xp.where(M > 0, Z, 1.0), 0.0)
    return c["bias"] + xp.sum(M * ratio, axis=-1) / c["length"]
