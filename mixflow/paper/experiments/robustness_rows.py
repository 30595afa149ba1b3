"""One row of the robustness table: a setting of a variant, trained over seeds, and what became of the three stages."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Outcome:
    """One seed of one setting.

    stages         the three stages as `measure.stages.detect` returns them
    hard_accuracy  on the hard samples at the end, from 0 to 1
    separation     T2, when the hard samples' loss has halved for good, in units of training time; NaN if it never does
    mechanism      whether the trained attention has the construction's signs (None where it has no such matrix)
    loss           at the end
    """

    stages: list
    hard_accuracy: float
    separation: float
    mechanism: bool | None
    loss: float


@dataclass(frozen=True)
class Row:
    """A variant at one strength.

    variant   e.g. "coherence", "label noise", "momentum"
    group     "task", "model", "optimiser" or "standard transformer"
    strength  a number where the variant has a dial, a word where it has none
    base      the name of the row its separation time is divided by: a Row of group "base", or "" for none
    run       (seeds, full) -> list of Outcome, one for each seed; all seeds in one batch
    says      one plain sentence: what is different from the base case
    """

    variant: str
    group: str
    strength: float | str
    base: str
    run: Callable
    says: str
    threshold: bool = False  # whether the strength at which the picture breaks is searched by bisection
