"""The paper's Algorithm 1 as a specification: neurons, then attention, then neurons again (docs/mathematics.md §6)."""

import math
import numbers
from dataclasses import dataclass, field

from ..checks import one_of, real
from ..errors import SpecError
from .descent import GradientDescent
from .flow import GradientFlow

# What an event can watch, and whether it must rise or fall to its threshold.
QUANTITIES = {
    "easy_margin": +1,  # the smallest y·F of the easy samples
    "feature_margin": +1,  # the maximum margin of the attention-averaged features (hard samples for K = 2, all beyond)
    "loss": -1,  # the population loss
}


@dataclass(frozen=True)
class Until:
    """End a stage when `quantity` reaches `threshold`, or after `limit` units of time at the latest.

    quantity   "easy_margin" or "feature_margin" (must rise to the threshold) or "loss" (must fall to it)
    threshold  a positive number, in units of the quantity
    limit      the longest a stage may last, in units of time

    Raises SpecError for another quantity and for numbers that are not positive.

    >>> Until("loss", 1e-3).reached(0.5)
    False
    """

    quantity: str
    threshold: float
    limit: float = 1e6

    def __post_init__(self):
        one_of("quantity", self.quantity, tuple(QUANTITIES))
        object.__setattr__(self, "threshold", real("threshold", self.threshold, above=0))
        object.__setattr__(self, "limit", real("limit", self.limit, above=0, fix="it is the longest a stage may last"))

    def excess(self, value):
        """Negative before the event, zero at it."""
        return QUANTITIES[self.quantity] * (value - self.threshold)

    def reached(self, value):
        """Whether the event has happened at this value."""
        return bool(self.excess(value) >= 0)

    def spec(self):
        """A JSON-ready description."""
        return {"quantity": self.quantity, "threshold": self.threshold, "limit": self.limit}


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


@dataclass(frozen=True)
class ThreeStage:
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

    method: GradientDescent | GradientFlow = field(default_factory=GradientDescent)
    neurons: float | Until | None = None
    attention: float | Until = Until("feature_margin", FEATURE_MARGIN)
    converge: float | Until = Until("loss", LOSS)

    def __post_init__(self):
        if not isinstance(self.method, (GradientDescent, GradientFlow)):
            raise SpecError(f"method = {self.method!r}: expected GradientDescent(...) or GradientFlow(...).")
        for name in ("neurons", "attention", "converge"):
            value = getattr(self, name)
            if isinstance(value, Until) or (name == "neurons" and value is None):
                continue
            if not isinstance(value, numbers.Real) or isinstance(value, bool):
                raise SpecError(f"{name} = {value!r}: expected a duration or Until(quantity, threshold).")
            object.__setattr__(self, name, real(name, value, above=0, fix="it is how long the stage lasts"))
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

    def spec(self):
        """A JSON-ready description from which `from_spec` builds an equal method."""
        ends = {name: getattr(self, name) for name in ("neurons", "attention", "converge")}
        ends = {name: end.spec() if isinstance(end, Until) else end for name, end in ends.items()}
        return {"kind": "three-stage", "method": self.method.spec(), **ends}

    @classmethod
    def from_spec(cls, spec):
        kinds = {"descent": GradientDescent, "flow": GradientFlow}
        ends = {name: spec[name] for name in ("neurons", "attention", "converge")}
        ends = {name: Until(**end) if isinstance(end, dict) else end for name, end in ends.items()}
        return cls(kinds[spec["method"]["kind"]].from_spec(spec["method"]), **ends)


def limit(end):
    """The longest a stage with this end may last."""
    return end.limit if isinstance(end, Until) else float(end)


def steps_within(end, learning_rate):
    """How many descent steps fit into a stage: its duration, rounded to whole steps."""
    return max(1, math.floor(limit(end) / learning_rate + 0.5))
