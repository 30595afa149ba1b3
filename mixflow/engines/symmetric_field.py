"""The gated field of the mean-field transformer for any K: one head, two sectors, 2K gates (docs/mathematics.md §4, §7)."""

import math

import numpy as np

from ..errors import SpecError
from . import loss as losses
from .gated import GatedField
from .gram_families import Attention

C, V = 0, 1  # rows and columns of a sector's 2×2 matrices


def symmetric_field(task, transformer, *, train_w=True, train_attention=True):
    """The gated field of head + on a uniform `Mixture`; head − is its mirror image, z_-(y, n) = z_+(−y, K−1−n).

    Gates: first (y = +, n) for n = 0..K−1, then (y = −, K−1−n) in the same order, where n counts the + signs among the K−1
    other signals: so a column of the (2, K) table is one sample with the two neurons that decide its margin.
    """
    if not getattr(task, "uniform", False):
        raise SpecError(
            "the symmetric model needs a Mixture with uniform priors and orthonormal features; use model='gram'."
        )
    if not transformer.mean_field:
        raise SpecError(f"width = {transformer.width}: the symmetric model needs width=math.inf; use model='gram'.")
    K = task.classes
    binomial = np.array([math.comb(K - 1, n) / 2 ** (K - 1) for n in range(K)])
    scores, values, keys, queries = zip(*(_tokens(K, y, n) for y, n in _gates(K)), strict=True)
    # One shared value vector (w_- = −w_+) and the mirror together leave w_c = 0 and double the gradient of w_v.
    metric = np.diag([0.0, 2.0]) if transformer.tie_values else np.eye(2)
    constants = {
        "scores": np.array(scores).reshape(-1, 8),  # (2K·4·5, 8) over the diagonal and off-diagonal 2×2 entries
        "values": np.array(values).reshape(-1, 2),  # (2K·4·5, 2) over (w_c, w_v)
        "keys": np.array(keys),  # (2K, 4, 5) multiplicity of each key as seen by a query
        "queries": np.array(queries) / (K + 1),  # (2K, 4)
        # On one class's diagonal and off-diagonal entry:  x = (common + (K−1) contrast)/K,  y = (common − contrast)/K.
        "mix": np.array([[1.0, K - 1.0], [1.0, -1.0]]) / K,
        "bias": float(transformer.bias),
        "label": np.ones(K),
        "weight": binomial / 2,  # the loss moves through both heads alike, so head + owns half of its derivative
        "metric_w": metric / K * train_w,  # K equal entries share the derivative by the common value
        "rate": np.array([1.0, 1.0 / max(K - 1, 1)]) * train_attention,  # dimension of each sector
        "rate_others": 1.0 * train_w,
        "Gamma": None,
    }
    G = np.broadcast_to(transformer.omega**2 * np.eye(2), (2, 2, 2))
    return GatedField(
        surface=_surface,
        loss_of=_loss,
        constants=constants,
        shapes={"w": (2,), "A": (2, 2, 2), "G_K": (2, 2, 2), "G_Q": (2, 2, 2)},
        y0=np.concatenate([np.zeros(2 + 8), G.ravel(), G.ravel()]),
        gate_names=tuple(("+", f"y={'+' if y > 0 else '-'} n={n}") for y, n in _gates(K)),
        attention=Attention(),
        loss_weight=2.0,
    )


def _gates(K):
    return [(1, n) for n in range(K)] + [(-1, K - 1 - n) for n in range(K)]


def _tokens(K, y, n):
    """Scores (4, 5, 8), values (4, 5, 2), key counts (4, 5), query counts (4,) of the sample (y, n).

    Queries: c_k, own signal, the others with sign +, the others with sign −. Keys: c_k, own signal, the query itself if
    it is another signal, the other + signals, the other − signals.
    """
    scores, values, keys = np.zeros((4, 5, 2, 2, 2)), np.zeros((4, 5, 2)), np.zeros((4, 5))
    others = {1: n, -1: K - 1 - n}
    DIAGONAL, OFF = 0, 1
    # query: (kind, coefficient, its number)
    queries = [(C, 1, 1), (V, y, 1), (V, 1, others[1]), (V, -1, others[-1])]
    for q, (kind, sign, _) in enumerate(queries):
        same = DIAGONAL if q < 2 else OFF  # is the query of class k, like c_k and the own signal?
        scores[q, 0, same, C, kind], keys[q, 0] = sign, 1
        scores[q, 1, same, V, kind], keys[q, 1] = y * sign, 1
        scores[q, 2, DIAGONAL, V, V], keys[q, 2] = 1, q >= 2
        for key, s in ((3, 1), (4, -1)):
            scores[q, key, OFF, V, kind] = s * sign
            keys[q, key] = max(others[s] - (q >= 2 and s == sign), 0)
        values[q, :, C] = [1, 0, 0, 0, 0]
        values[q, :, V] = [0, y, sign, 1, -1]
    return scores, values, keys, np.array([number for _, _, number in queries], float)


def _surface(xp, c, parts):
    """z (..., 2K) of §2 from the sectors A[common], A[contrast], each (key, query) over (c, v)."""
    w, A = parts["w"], parts["A"]
    lead = A.shape[:-3]
    entries = c["mix"] @ A.reshape(*lead, 2, 4)  # rows: diagonal, off-diagonal
    table = (*lead, *c["keys"].shape)
    E = c["keys"] * xp.exp(entries.reshape(*lead, 8) @ c["scores"].T).reshape(table)
    u = (w @ c["values"].T).reshape(table)
    mean = xp.sum(E * u, axis=-1) / xp.sum(E, axis=-1)  # (..., 2K, 4) what each query hears
    return c["bias"] + xp.sum(c["queries"] * mean, axis=-1)


def _loss(xp, c, on, parts):
    """The share of head + in the loss: half of it, over the columns of the (2, K) table."""
    on = on.reshape(*on.shape[:-1], 2, -1)
    return xp.sum(losses.cost("logistic", c["label"], on[..., 0, :] - on[..., 1, :], xp) * c["weight"], axis=-1)
