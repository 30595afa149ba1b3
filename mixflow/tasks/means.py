"""Loss and accuracy as weighted means over atoms, for any list of atoms and any weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..checks import array
from ..errors import SpecError
from .entries import flags

if TYPE_CHECKING:
    from typing import Any

    from ..types import Array

# |y F| below this is a tie. Symmetric states give F = 0 exactly, but the two heads round differently (1e-16 per unit of
# z); margins that training has produced are many orders larger.
TIE = 1e-12


def averages(margin, weight, hard, each=None):
    """loss, accuracy, loss_easy and loss_hard by name; `each` (…, n) is the loss of every atom, logistic if not given."""
    each = np.logaddexp(0, -np.asarray(margin, float)) if each is None else each
    return {"accuracy": mean_accuracy(margin, weight), **mean_losses(each, weight, hard)}


def mean_losses(each: Array, weight: Array, hard: Any) -> dict[str, Any]:
    """loss, loss_easy and loss_hard by name, from the loss (…, n) of every atom."""
    each, weight = _paired("each", each, weight)
    hard = hard if isinstance(hard, np.ndarray) else flags("hard", hard)
    if hard.dtype != bool or hard.shape != weight.shape:
        raise SpecError(f"hard is no list of True and False: expected one for each of the {len(weight)} atoms.")
    parts = {"loss": weight, "loss_easy": weight * ~hard, "loss_hard": weight * hard}
    return {name: mean(each, part) for name, part in parts.items()}


def mean_loss(margin: Array, weight: Array) -> Array:
    """Mean logistic loss log(1 + e^{-yF}) from margins (…, n) and weights (n,); NaN if the weights are all zero."""
    margin, weight = _paired("margin", margin, weight)
    return mean(np.logaddexp(0, -margin), weight)


def mean_accuracy(margin: Array, weight: Array) -> Array:
    """Weighted share of right answers, from margins (…, n) and weights (n,); NaN if the weights are all zero.

    F = 0 counts as half: the untrained network answers nothing (w = 0, F = 0 on every sample) and half is what a coin
    thrown at each tie would score, so training starts at chance, 1/2, and a plateau with undecided hard samples reads as
    easy + hard/2. Counting ties as wrong would let rounding noise of ±1e-16 move the curve.
    """
    margin, weight = _paired("margin", margin, weight)
    # One minus the wrong ones: where none is wrong this is 1, whatever the rounding of weights like 1/24.
    return 1 - mean(np.where(np.abs(margin) <= TIE, 0.5, ~(margin > 0)), weight)


def _paired(name, each, weight):
    """Both as arrays (…, n) and (n,), or a SpecError."""
    weight = array("weight", weight, "one number for each atom")
    if weight.ndim != 1:
        raise SpecError(f"weight has shape {weight.shape}: expected (n,), one number for each atom.")
    return array(name, each, "one number for each atom", ends=weight.shape), weight


def mean(each, weight):
    """Weighted mean over the last axis; NaN if the weights are all zero."""
    weight = np.asarray(weight, float)
    total = weight.sum()
    if total == 0:
        return np.full(each.shape[:-1], np.nan)
    # In this order counts stay exact: 3 right of 4 is 0.75. A sum, not a matrix product, whose last bit would depend on how
    # many times are averaged together.
    return np.sum(each * weight, axis=-1) / total
