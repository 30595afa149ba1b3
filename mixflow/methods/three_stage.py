"""The paper's Algorithm 1 as a specification: neurons, then attention, then neurons again (docs/mathematics.md §6)."""

import math
import numbers
from dataclasses import dataclass
from functools import partial

from ..checks import one_of, real, shown
from ..errors import SpecError
from ..spec import Spec, build, part, setting
from .descent import GradientDescent
from .flow import GradientFlow

# What an event can watch, and whether it must rise or fall to its threshold.
QUANTITIES = {
    "easy_margin": +1,  # the smallest y·F of the easy samples
    "feature_margin": +1,  # the maximum margin of the attention-averaged features (hard samples for K = 2, all beyond)
    "loss": -1,  # the population loss
}


@dataclass(frozen=True)
class Until(Spec, section="until", kind="until"):
    """End a stage when `quantity` reaches `threshold`, or after `limit` units of time at the latest.

    quantity   "easy_margin" or "feature_margin" (must rise to the threshold) or "loss" (must fall to it)
    threshold  a positive number, in units of the quantity
    limit      the longest a stage may last, in units of time

    Raises SpecError for another quantity and for numbers that are not positive.

    >>> Until("loss", 1e-3).reached(0.5)
    False
    """

    quantity: str = setting(check=partial(one_of, choices=tuple(QUANTITIES)))
    threshold: float = setting(check=partial(real, above=0))
    limit: float = setting(1e6, partial(real, above=0, fix="it is the longest a stage may last"))

    def excess(self, value):
        """Negative before the event, zero at it."""
        return QUANTITIES[self.quantity] * (value - self.threshold)

    def reached(self, value):
        """Whether the event has happened at this value."""
        return bool(self.excess(value) >= 0)


# Defaults that reach loss 1e-3 for K = 2 at every ω in [0.05, 0.9] and b in [0.1, 1] (tests/test_three_stage.py).
# Neurons: easy margins of 3b, at least 1. The attention can tell own from other signals only after the easy samples of the
#   other label have switched off (§5), at 2α/3 = b, where the easy margin is b + 2α/3 = 2b; half as much again leaves no
#   doubt. For small b the floor of 1 makes stage 2 three to five times faster: its force grows with w.
# Attention: a feature margin of 0.2. It starts at 0. Where the frozen w leaves stage 2 least (ω = 0.05, b = 0.5) it
#   saturates at 0.2357, which is √2/6; elsewhere it passes 0.37. A larger margin would shorten stage 3, whose length goes
#   like 1/margin² (46,000 units at 0.15, 12,000 at 0.3), but would not always be reached.
FEATURE_MARGIN = 0.2
LOSS = 1e-3


def default_neurons(bias):
    """The default end of stage 1: easy margins half as large again as 2b, where the first neuron switches off."""
    return Until("easy_margin", max(3 * bias, 1.0))


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


@dataclass(frozen=True)
class ThreeStage(Spec, section="method", kind="three-stage"):
    """Train w alone, then W_K and W_Q alone, then w alone; each stage ends after a time or at an event.

    method     GradientDescent (its `steps` bound nothing here: the stages do) or GradientFlow (its `until` likewise)
    neurons    stage 1: a duration, or an Until; the default waits for easy margins beyond the switch-off at 2b
    attention  stage 2: a duration, or an Until; the default waits for a feature margin of 0.2
    converge   stage 3: a duration, or an Until; the default waits for loss 1e-3

    Durations are in units of time. Descent looks at an event after every `save_every` steps; the flow locates it by root
    finding.

    Raises SpecError for another method, durations that are not positive, or a flow whose `save_at` lists times.

    >>> ThreeStage(GradientDescent(), neurons=100, attention=500, converge=500).spec()["kind"]
    'three-stage'
    """

    method: GradientDescent | GradientFlow = setting(GradientDescent(), part("method", "descent", "flow"), flag=False)
    neurons: float | Until | None = setting(None, stage_end)
    attention: float | Until = setting(Until("feature_margin", FEATURE_MARGIN), stage_end)
    converge: float | Until = setting(Until("loss", LOSS), stage_end)

    def check(self):
        if isinstance(self.method, GradientFlow) and isinstance(self.method.save_at, tuple):
            raise SpecError(
                "save_at lists times, but the stages' lengths are not known before; give a number of times instead."
            )

    def stages(self, bias):
        """The three stages in order: name, when it ends, whether w moves, whether the attention moves."""
        neurons = default_neurons(bias) if self.neurons is None else self.neurons
        return [
            ("neurons", neurons, True, False),
            ("attention", self.attention, False, True),
            ("convergence", self.converge, True, False),
        ]


def limit(end):
    """The longest a stage with this end may last."""
    return end.limit if isinstance(end, Until) else float(end)


def steps_within(end, learning_rate):
    """How many descent steps fit into a stage: its duration, rounded to whole steps."""
    return max(1, math.floor(limit(end) / learning_rate + 0.5))
