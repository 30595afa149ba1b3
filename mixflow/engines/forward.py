"""The exact forward pass on Gram states, in NumPy, vectorised over any leading axes (docs/mathematics.md §2, §8).

Shapes: `...` are leading axes (time, run); h heads, "+" and "-" or one for each class; n atoms; T token types
τ = (feature, coefficient); F features. `A` is (..., h, F, F) with row = key and column = query, `w` is (..., h, F). `task` is
anything with `population()`. Every number depends on its own slice of the leading axes only, so a batch equals its
members bit for bit. `ask` = (how often each type asks (n, T), what the sum is divided by (n,)), the mean over queries if not
given (`readout.asking`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..checks import array, listed, shown
from ..errors import SpecError
from ..tasks.finite import finite_population
from .loss import cost, right

if TYPE_CHECKING:
    from ..tasks.finite import FiniteTask
    from ..types import Array

CHUNK = 2**22  # float64 entries (32 MiB) in the largest temporary: K = 8 × 2000 times would otherwise want 1.6 GB

# exp(S − max over all types) loses nothing while the spread stays below this (the smallest double is e^-745 and a sum
# of counts times values must not underflow); beyond it the maximum is taken over the atom's own tokens.
SPREAD = 600.0


def scores(task, A):
    """Attention scores s_k s_q A[f_k, f_q] between token types: (..., h, key τ, query τ)."""
    task, A = _checked(task, A)
    f, s = task.token_feature, task.token_coefficient
    return A[..., f[:, None], f] * np.outer(s, s)


def attention(task, A):
    """Attention probabilities: (..., h, n, key τ, query τ).

    Entry [a, k, q] is the total probability that a query of type q in atom a gives to the tokens of type k, so it sums
    to one over k. It is 0 for keys that are absent from the atom and for queries that are absent.
    """
    task, A = _checked(task, A)
    M, T = task.count, len(task.token_feature)
    return _chunked(lambda S: _probabilities(M, S) * (M[:, None, :] > 0), scores(task, A), (*M.shape, T))


def key_mass(task, A, ask=None):
    """Attention received by each key type, averaged over the atom's queries: (..., h, n, key τ)."""
    task, A = _checked(task, A)
    ask = _asking(task, ask)
    return _chunked(lambda S: _mass(task.count, S, *ask), scores(task, A), task.count.shape)


def features(task: FiniteTask, A: Array, ask: tuple[Array, Array] | None = None) -> Array:
    """Attention-averaged features φ_h(a) in feature coordinates, z_h(a) = b + φ_h(a)·w_h: (..., h, n, F).

    ask  how often each token type asks (n, T) and what the sum is divided by (n,), as `networks.readout.asking(network, task)`
         gives them; the mean over all tokens if not given
    """
    task, A = _checked(task, A)
    X, shape, ask = _token_matrix(task), (len(task.count), len(task.features)), _asking(task, ask)
    return _chunked(lambda S: _mass(task.count, S, *ask) @ X, scores(task, A), shape)


def preactivation(task: FiniteTask, w: Array, A: Array, bias: float, ask: tuple[Array, Array] | None = None) -> Array:
    """z_h(a) = b + (1/L_a) Σ_q M[a,q] Σ_k P[a,k,q] s_k w[f_k]: (..., h, n).

    ask  (M (n, T), L (n,)) of a network with other queries, as `networks.readout.asking(network, task)` gives them
    """
    task, A = _checked(task, A)
    b = array("bias", bias, "a number")
    S, u, lead = _scores_and_values(task, w, A)
    shape = (*lead, len(task.count))
    if b.ndim > len(shape) or any(own not in (1, s) for own, s in zip(b.shape[::-1], shape[::-1])):
        raise SpecError(f"bias has shape {b.shape}: expected a number, or what fits z with its shape {shape}.")
    M, ask = task.count, _asking(task, ask)
    z = np.empty((len(S), len(M)))
    for part in _parts(len(S), M.size):
        z[part] = (_mass(M, S[part], *ask) @ u[part])[..., 0]
    return b + z.reshape(*lead, len(M))


def readings(task, w, A):
    """What each query type reads, O = Σ_k P[a,k,q] s_k w[f_k]: (..., h, n, query τ), also for types that are not in the atom."""
    task, A = _checked(task, A)
    S, u, lead = _scores_and_values(task, w, A)
    n, T = task.count.shape
    O = np.empty((len(S), n, T))
    for part in _parts(len(S), n * T * T):
        O[part] = np.einsum("iakq,ik->iaq", _probabilities(task.count, S[part]), u[part][..., 0])
    return O.reshape(*lead, n, T)


def margin(task: FiniteTask, z: Array) -> Array:
    """y·F = y (ReLU z_+ − ReLU z_-): (..., n) from z (..., h, n); what it is for the other losses, `loss.right` says."""
    task = finite_population("margin", task)
    return right(task.loss, task.labels, _answer(task, z))


def loss_of_each(task: FiniteTask, z: Array) -> Array:
    """The loss of every atom, (..., n) from z (..., h, n) of the paper's network."""
    task = finite_population("loss_of_each", task)
    return cost(task.loss, task.labels, _answer(task, z))


def _answer(task, z):
    z = array("z", z)
    H, n = len(task.heads), len(task.labels)
    if z.ndim < 2 or z.shape[-2:] != (H, n):
        raise SpecError(f"z has shape {z.shape}: expected (..., {H}, {n}), heads by atoms.")
    on = np.maximum(z, 0)
    return on if task.loss == "softmax" else on[..., 0, :] - on[..., 1, :]


def _asking(task, ask):
    if ask is None:
        return task.count, task.length
    pair = listed("ask", ask, "how often each token type asks (n, T), and what the sum is divided by (n,)", most=2)
    if len(pair) != 2:
        raise SpecError(f"ask = {shown(ask)}: expected two arrays, as `networks.readout.asking` gives them.")
    n, T = task.count.shape
    often, share = array("ask[0]", pair[0], ends=(n, T)), array("ask[1]", pair[1], ends=(n,))
    if (often.ndim, share.ndim) != (2, 1):
        raise SpecError(f"ask has shapes {often.shape} and {share.shape}: expected ({n}, {T}) and ({n},).")
    return often, share


def _scores_and_values(task, w, A):
    """Scores (i, T, T) and values s_k w[f_k] (i, T, 1) with leading axes flattened, and those axes."""
    w = array("w", w)
    if w.shape != A.shape[:-1]:
        raise SpecError(f"w has shape {w.shape}: expected {A.shape[:-1]}, one vector for each matrix of A.")
    u = (w @ _token_matrix(task).T)[..., None]
    T = u.shape[-2]
    return scores(task, A).reshape(-1, T, T), u.reshape(-1, T, 1), A.shape[:-2]


def _checked(task, A):
    task, A = finite_population("attention", task), array("A", A)
    F = len(task.features)
    if A.ndim < 2 or A.shape[-2:] != (F, F):
        raise SpecError(f"A has shape {A.shape}: expected (..., head, {F}, {F}), key by query features of the task.")
    return task, A


def _token_matrix(task):
    """(T, F): the token types as vectors of feature coordinates."""
    X = np.zeros((len(task.token_feature), len(task.features)))
    X[np.arange(len(X)), task.token_feature] = task.token_coefficient
    return X


def _parts(total, size):
    step = max(1, CHUNK // size)
    return [slice(i, min(i + step, total)) for i in range(0, total, step)]


def _chunked(function, S, shape):
    """`function` over the flattened leading axes of S (..., T, T), a few at a time."""
    lead, T = S.shape[:-2], S.shape[-1]
    S = S.reshape(-1, T, T)
    out = np.empty((len(S), *shape))
    for part in _parts(len(S), max(int(np.prod(shape)), shape[0] * T)):
        out[part] = function(S[part])
    return out.reshape(*lead, *shape)


def _mass(M, S, ask, share):
    """Pooled attention on each key type: (i, n, T) from scores S (i, T, T) and counts M (n, T).

    One exponential E[k,q] serves all atoms: Z = M E are the softmax denominators, and the sum over queries is a second
    matrix product, 2 n T² multiplications in place of n T² exponentials.
    """
    E = np.exp(S - S.max(axis=-2, keepdims=True))  # (i, key, query)
    # The floor keeps Z > 0 in slices that are too wide and done again below; it touches no other.
    Z = M @ np.maximum(E, np.exp(-SPREAD - 50))  # (i, n, query)
    R = ask / (share[:, None] * Z)  # (i, n, query)
    mass = M * (R @ E.swapaxes(-1, -2))  # (i, n, key)
    wide = np.ptp(S, axis=-2).max(axis=-1) > SPREAD
    for i in np.flatnonzero(wide):
        mass[i] = np.einsum("akq,aq->ak", _probabilities(M, S[i]), ask / share[:, None])
    return mass


def _probabilities(M, S):
    """Softmax over the atom's own keys, stable for any scores: (..., n, key, query) from S (..., key, query)."""
    present = M[:, :, None] > 0  # (n, key, 1)
    S = S[..., None, :, :]
    top = np.max(np.where(present, S, -np.inf), axis=-2, keepdims=True)
    E = M[:, :, None] * np.exp(np.where(present, S - top, -np.inf))
    return E / E.sum(axis=-2, keepdims=True)
