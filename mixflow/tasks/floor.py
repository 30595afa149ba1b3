"""What no network can do better: equal samples with different labels leave a least loss (docs/mathematics.md §8).

A *sample* here is a multiset of tokens; an atom is a sample with a label. Under label noise a sample has several atoms.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..checks import array, shown
from ..errors import SpecError
from .finite import finite_population
from .means import mean_losses

if TYPE_CHECKING:
    from typing import Any

    from ..types import Array, History

TINY = 1e-12  # a loss above the least possible never falls below this, so that its logarithm can be followed to the end


class Samples:
    """The distinct samples of a finite task, and the atoms of each.

    of       (n,) the sample each atom belongs to
    share    (n,) the probability of the atom, given its sample; 0 where the sample never occurs
    label    (n,) the probability of the atom's label, given its sample: more where the same atom is listed twice
    occurs   (n,) whether the atom's sample occurs at all
    """

    def __init__(self, task):
        task = finite_population("Samples", task)
        self.task = task
        self.of = np.unique(task.count, axis=0, return_inverse=True)[1].ravel()
        total = np.bincount(self.of, task.probabilities)[self.of]
        self.occurs = total > 0
        self.share = np.divide(task.probabilities, total, out=np.zeros_like(total), where=self.occurs)
        alike = np.unique(np.column_stack([self.of, task.labels]), axis=0, return_inverse=True)[1].ravel()
        self.label = np.bincount(alike, self.share)[alike]

    @property
    def evenly(self) -> Array:
        """(n,) weights with which every sample that occurs counts once, however rare, its labels by their probability."""
        return self.share / self.share.sum()

    @property
    def likeliest(self) -> Array:
        """(n,) whether the atom's label is the likeliest one of its sample: the answer that is right most often."""
        most = np.zeros(self.of.max() + 1)
        np.maximum.at(most, self.of, self.label)
        return self.occurs & (self.label >= most[self.of])

    @property
    def least_loss(self) -> Array:
        """(n,) the least mean loss that any answer reaches on the atom's sample.

        The entropy of its labels, for logistic and softmax loss; 2√(pq) for exponential loss of labels with probabilities p
        and q; half their variance, for squared loss.
        """

        def sum_up(x):
            return np.bincount(self.of, x)[self.of]

        if self.task.loss == "squared":
            y = self.task.labels
            least = (sum_up(self.share * y**2) - sum_up(self.share * y) ** 2) / 2
        elif self.task.loss == "exponential":
            p = sum_up(self.share * (self.task.labels > 0))
            least = 2 * np.sqrt(p * (1 - p))
        else:
            least = -sum_up(self.share * np.log(self.label, where=self.label > 0, out=np.zeros_like(self.label)))
        return np.where(least > TINY, least, 0.0)  # what is less is rounding


def above_least(series: History, least: Array, weight: Array, hard: Array) -> dict[str, Any]:
    """`series` with its mean losses (loss, loss_easy, loss_hard) taken above the least possible ones, and `least` with those.

    least, weight, hard  (n,) of every atom; the weights are those of the means
    """
    wanted = ("loss", "loss_easy", "loss_hard")
    known: Any = series  # a caller's table may be anything
    if not isinstance(known, dict) or not all(name in known for name in wanted):
        raise SpecError(f"series = {shown(known)}: expected a dictionary with {', '.join(wanted)}.")
    least = array("least", least, "the least loss of every atom")
    if least.ndim != 1:
        raise SpecError(f"least has shape {least.shape}: expected (n,), the least loss of every atom.")
    series = {**series, **{name: array(name, series[name]) for name in wanted}}
    floors = {name: float(floor) for name, floor in mean_losses(least, weight, hard).items()}
    return series | {name: np.maximum(series[name] - floors[name], TINY) for name in floors} | {"least": floors}
