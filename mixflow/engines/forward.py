"""The exact forward pass on Gram states, in NumPy, vectorised over any leading axes (docs/mathematics.md §2, §8).

Shapes: `...` are leading axes (time, run); h heads, "+" and "-" or one for each class; n atoms; T token types
τ = (feature, coefficient); F features. `A` is (..., h, F, F) with row = key and column = query, `w` is (..., h, F). `task` is
anything with `population()`. Every number depends on its own slice of the leading axes only, so a batch equals its
members bit for bit.
"""

import numpy as np

from ..errors import SpecError
from .loss import cost, right

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
    return _chunked(lambda S: _probabilities(M, S), scores(task, A), (*M.shape, T))


def key_mass(task, A):
    """Attention received by each key type, averaged over the atom's queries: (..., h, n, key τ)."""
    task, A = _checked(task, A)
    return _chunked(lambda S: _mass(task.count, S), scores(task, A), task.count.shape)


def features(task, A):
    """Attention-averaged features φ_h(a) in feature coordinates, z_h(a) = b + φ_h(a)·w_h: (..., h, n, F)."""
    task, A = _checked(task, A)
    X, shape = _token_matrix(task), (len(task.count), len(task.features))
    return _chunked(lambda S: _mass(task.count, S) @ X, scores(task, A), shape)


def preactivation(task, w, A, bias):
    """z_h(a) = b + (1/L_a) Σ_q M[a,q] Σ_k P[a,k,q] s_k w[f_k]: (..., h, n)."""
    task, A = _checked(task, A)
    w = np.asarray(w, float)
    if w.shape != A.shape[:-1]:
        raise SpecError(f"w has shape {w.shape}: expected {A.shape[:-1]}, one vector for each matrix of A.")
    u = (w @ _token_matrix(task).T)[..., None]  # (..., h, T, 1)  s_k w[f_k]
    M = task.count
    lead, T = A.shape[:-2], M.shape[1]
    S, u = scores(task, A).reshape(-1, T, T), u.reshape(-1, T, 1)
    z = np.empty((len(S), len(M)))
    for part in _parts(len(S), M.size):
        z[part] = (_mass(M, S[part]) @ u[part])[..., 0]
    return bias + z.reshape(*lead, len(M))


def margin(task, z):
    """y·F = y (ReLU z_+ − ReLU z_-): (..., n) from z (..., h, n); what it is for the other losses, `loss.right` says."""
    task, on = _answers(task, z)
    return right(task.loss, task.labels, on)


def loss_of_each(task, z):
    """The loss of every atom, (..., n) from z (..., h, n)."""
    task, on = _answers(task, z)
    return cost(task.loss, task.labels, on)


def _answers(task, z):
    task, z = task.population(), np.asarray(z, float)
    H, n = len(task.heads), len(task.labels)
    if z.ndim < 2 or z.shape[-2:] != (H, n):
        raise SpecError(f"z has shape {z.shape}: expected (..., {H}, {n}), heads by atoms.")
    return task, np.maximum(z, 0)


def _checked(task, A):
    task, A = task.population(), np.asarray(A, float)
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


def _mass(M, S):
    """Mean attention on each key type: (i, n, T) from scores S (i, T, T) and counts M (n, T).

    One exponential E[k,q] serves all atoms: Z = M E are the softmax denominators, and the mean over queries is a second
    matrix product, 2 n T² multiplications in place of n T² exponentials.
    """
    E = np.exp(S - S.max(axis=-2, keepdims=True))  # (i, key, query)
    # The floor keeps Z > 0 in slices that are too wide and done again below; it touches no other.
    Z = M @ np.maximum(E, np.exp(-SPREAD - 50))  # (i, n, query)
    R = M / (M.sum(axis=1, keepdims=True) * Z)  # (i, n, query)
    mass = M * (R @ E.swapaxes(-1, -2))  # (i, n, key)
    wide = np.ptp(S, axis=-2).max(axis=-1) > SPREAD
    share = M / M.sum(axis=1, keepdims=True)  # (n, query)
    for i in np.flatnonzero(wide):
        mass[i] = np.einsum("akq,aq->ak", _probabilities(M, S[i]), share)
    return mass


def _probabilities(M, S):
    """Softmax over the atom's own keys, stable for any scores: (..., n, key, query) from S (..., key, query)."""
    present = M[:, :, None] > 0  # (n, key, 1)
    S = S[..., None, :, :]
    top = np.max(np.where(present, S, -np.inf), axis=-2, keepdims=True)
    E = M[:, :, None] * np.exp(np.where(present, S - top, -np.inf))
    return E / E.sum(axis=-2, keepdims=True) * (M[:, None, :] > 0)
