"""Quantities the gradient flow conserves and the one it keeps non-negative (docs/mathematics.md §3, §8).

With `B = [[G_K, A], [Aᵀ, G_Q]]` and `C = W_K P W_Kᵀ − W_Q P W_Qᵀ` (P projects on the span of the features), the flow
keeps C itself: `W_K' = −W_Q ĝᵀ` and `W_Q' = −W_K ĝ` with `ĝ = Φ g Φᵀ` change both terms of C by the same amount. The
Gram state sees its traces, `tr Cⁿ = tr (J B)ⁿ` with `J = diag(Γ⁺, −Γ⁺)`; Γ⁺ undoes the feature coordinates `G̃ = Φᵀ G Φ`
because `P = Φ Γ⁺ Φᵀ`. For orthonormal features these are `tr G_K − tr G_Q` and `tr G_K² − 2 tr A Aᵀ + tr G_Q²`.
Arrays are (..., head, F, F) and the results (..., head).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..checks import array, whole
from ..errors import SpecError

if TYPE_CHECKING:
    from ..types import Array

MOST = 64  # powers of C: far beyond what its size distinguishes


def trace_difference(G_K, G_Q, gram=None):
    """tr C = tr Γ⁺G_K − tr Γ⁺G_Q."""
    inverse = _inverse(gram, np.shape(G_K)[-1])
    return np.einsum("ij,...ji->...", inverse, np.asarray(G_K) - np.asarray(G_Q))


def square_difference(A, G_K, G_Q, gram=None):
    """tr C² = tr (Γ⁺G_K)² − 2 tr Γ⁺A Γ⁺Aᵀ + tr (Γ⁺G_Q)²."""
    return conserved(A, G_K, G_Q, gram, order=2)[..., 1]


def conserved(A: Array, G_K: Array, G_Q: Array, gram: Array | None = None, order: int = 2) -> Array:
    """tr Cⁿ for n = 1 … order, along a new last axis: (..., head, order)."""
    order, JB = whole("order", order, most=MOST), _signed(A, G_K, G_Q, gram)
    traces, power = [], np.broadcast_to(np.eye(JB.shape[-1]), JB.shape)
    for _ in range(order):
        power = power @ JB
        traces.append(np.trace(power, axis1=-2, axis2=-1))
    return np.stack(traces, axis=-1)


def drift(A: Array, G_K: Array, G_Q: Array, gram: Array | None = None, order: int = 2) -> Array:
    """Largest change of each tr Cⁿ since the first entry of the leading axis, relative to its positive part: (order,).

    tr C vanishes at the mean-field start, so the change is measured against what would be there without cancellation,
    the largest `tr (Γ⁺G_K)ⁿ + tr (Γ⁺G_Q)ⁿ` of the trajectory.
    """
    order, values = whole("order", order, most=MOST), conserved(A, G_K, G_Q, gram, order)
    zero = np.zeros_like(A)
    size = np.stack(
        [
            np.abs(conserved(zero, G_K, zero, gram, n)[..., -1]) + np.abs(conserved(zero, zero, G_Q, gram, n)[..., -1])
            for n in range(1, order + 1)
        ],
        axis=-1,
    )
    change = np.abs(values - values[:1]).reshape(-1, order).max(axis=0)
    scale = size.reshape(-1, order).max(axis=0)
    return change / np.where(scale > 0, scale, 1.0)


def joint_gram(A, G_K, G_Q):
    """B = [[G_K, A], [Aᵀ, G_Q]], the Gram matrix of all keys and queries: (..., head, 2F, 2F)."""
    A, G_K, G_Q = (array(name, X) for name, X in (("A", A), ("G_K", G_K), ("G_Q", G_Q)))
    if not A.size or not A.shape == G_K.shape == G_Q.shape or A.ndim < 2 or A.shape[-1] != A.shape[-2]:
        raise SpecError(
            f"A, G_K, G_Q have shapes {A.shape}, {G_K.shape}, {G_Q.shape}: expected three equal shapes (..., F, F)."
        )
    top, bottom = np.concatenate([G_K, A], axis=-1), np.concatenate([A.swapaxes(-1, -2), G_Q], axis=-1)
    return np.concatenate([top, bottom], axis=-2)


def smallest_eigenvalue(A: Array, G_K: Array, G_Q: Array) -> Array:
    """The smallest eigenvalue of B: non-negative, up to rounding, whenever weights with these inner products exist."""
    B = joint_gram(A, G_K, G_Q)
    try:
        return np.linalg.eigvalsh(B)[..., 0]
    except np.linalg.LinAlgError:
        raise SpecError("A, G_K, G_Q have no eigenvalues: expected finite numbers.") from None


def _signed(A, G_K, G_Q, gram):
    B = joint_gram(A, G_K, G_Q)
    inverse = _inverse(gram, np.shape(A)[-1])
    J = np.block([[inverse, np.zeros_like(inverse)], [np.zeros_like(inverse), -inverse]])
    return J @ B


def _inverse(gram, F):
    if gram is None:
        return np.eye(F)
    gram = array("gram", gram, "one row for each feature", ends=(F, F))
    if gram.ndim != 2 or not np.isfinite(gram).all():
        raise SpecError(f"gram has shape {gram.shape}: expected ({F}, {F}) finite numbers.")
    return np.linalg.pinv(gram, hermitian=True)
