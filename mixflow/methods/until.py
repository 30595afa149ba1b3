"""Where a stage ends: after a time, or where a quantity reaches a threshold (docs/mathematics.md §6)."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from ..checks import one_of, real, shown
from ..errors import SpecError
from ..spec import Spec, build, setting

if TYPE_CHECKING:
    from typing import Any

# What an event can watch, and whether it must rise or fall to its threshold.
QUANTITIES = {
    "easy_margin": +1,  # the smallest y·F of the easy samples
    "feature_margin": +1,  # the maximum margin of the attention-averaged features (hard samples for K = 2, all beyond)
    "loss": -1,  # the population loss
    "loss_hard": -1,  # that of the hard samples
}


@dataclass(frozen=True)
class Until(Spec, section="until", kind="until"):
    """End a stage when `quantity` reaches `threshold`, or after `limit` units of time at the latest.

    quantity   "easy_margin" or "feature_margin" (must rise to the threshold), "loss" or "loss_hard" (must fall to it)
    threshold  a positive number, in units of the quantity
    limit      the longest a stage may last, in units of time

    Raises SpecError for another quantity and for numbers that are not positive.

    >>> Until("loss", 1e-3).reached(0.5)
    False
    """

    quantity: str = setting(check=partial(one_of, choices=tuple(QUANTITIES)))
    threshold: float = setting(check=partial(real, above=0))
    limit: float = setting(1e6, partial(real, above=0, fix="it is the longest a stage may last"))

    def excess(self, value: Any) -> Any:
        """Negative before the event, zero at it."""
        return QUANTITIES[self.quantity] * (value - self.threshold)

    def reached(self, value: Any) -> Any:
        """Whether the event has happened at this value."""
        return bool(self.excess(value) >= 0)


def is_event(end):
    """Whether a stage ends at an event rather than after a time."""
    return isinstance(end, Until)


def stage_end(name, value):
    """A duration, an Until, or an Until written as its table or as "loss:0.001"; or a SpecError."""
    if isinstance(value, numbers.Real) and not isinstance(value, bool):
        return real(name, value, above=0, fix="it is how long the stage lasts")
    if isinstance(value, str) and ":" in value:
        quantity, _, threshold = value.partition(":")
        try:
            value = {"quantity": quantity, "threshold": float(threshold)}
        except ValueError:
            value = None
    if not isinstance(value, (dict, Until)):
        raise SpecError(f"{name} = {shown(value)}: expected a duration or Until(quantity, threshold).")
    return build("until", value, name)


def limit(end):
    """The longest a stage with this end may last."""
    return end.limit if is_event(end) else float(end)


def steps_within(end, learning_rate):
    """How many descent steps fit into a stage: its duration, rounded to whole steps."""
    return max(1, math.floor(limit(end) / learning_rate + 0.5))
