"""The paper's Algorithm 1 as a specification: neurons, then attention, then neurons again (docs/mathematics.md §6)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..checks import real
from ..errors import SpecError
from ..spec import Spec, part, setting
from .descent import GradientDescent
from .flow import GradientFlow
from .optimizers import Optimizer
from .stage import Stage
from .until import Until, stage_end

if TYPE_CHECKING:
    from typing import Any

    from ..networks import AnyNetwork

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
class ThreeStage(Spec, section="method", kind="three-stage"):
    """Train w alone, then W_K and W_Q alone, then w alone; each stage ends after a time or at an event.

    method     GradientDescent or Optimizer (its `steps` bound nothing here: the stages do) or GradientFlow (its `until` likewise)
    neurons    stage 1: a duration, or an Until; the default waits for easy margins beyond the switch-off at 2b
    attention  stage 2: a duration, or an Until; the default waits for a feature margin of 0.2
    converge   stage 3: a duration, or an Until; the default waits for loss 1e-3

    Durations are in units of time. Descent looks at an event after every `save_every` steps; the flow locates it by root
    finding.

    Raises SpecError for another method, durations that are not positive, or a flow whose `save_at` lists times.

    >>> ThreeStage(GradientDescent(), neurons=100, attention=500, converge=500).spec()["kind"]
    'three-stage'
    """

    method: GradientDescent | GradientFlow | Optimizer = setting(
        GradientDescent(), part("method", "descent", "flow", "optimizer"), flag=False
    )
    neurons: float | Until | None = setting(None, stage_end)
    attention: float | Until = setting(Until("feature_margin", FEATURE_MARGIN), stage_end)
    converge: float | Until = setting(Until("loss", LOSS), stage_end)

    def check(self) -> None:
        if isinstance(getattr(self.method, "save_at", None), tuple):
            raise SpecError(
                "save_at lists times, but the stages' lengths are not known before; give a number of times instead."
            )

    staged = True

    @property
    def no_closure(self) -> str | None:
        """Why training by it does not close on inner products: it does, so None."""
        return None

    @property
    def inner(self) -> GradientDescent | GradientFlow | Optimizer:
        """The method that follows each stage."""
        return self.method

    @property
    def flows(self) -> bool:
        """Whether it is a flow inside."""
        return self.method.flows

    def stages(self, network: AnyNetwork) -> list[Stage]:
        """The three stages in order."""
        if self.neurons is None and not hasattr(network, "bias"):
            raise SpecError(
                f"neurons is not given, and by default stage 1 waits for margins of 3b, but a {type(network).__name__} has no "
                "bias b; say when it ends, for example neurons=100."
            )
        neurons = default_neurons(network.bias) if self.neurons is None else self.neurons
        return [
            Stage("neurons", neurons, train_attention=False),
            Stage("attention", self.attention, train_w=False),
            Stage("convergence", self.converge, train_attention=False),
        ]

    def longer(
        self, amount: float, end: float, first: int, switches: list[dict[str, Any]]
    ) -> tuple[ThreeStage, list[Stage]]:
        """The method of a run that stands at time `end` and whose last stage goes on by `amount`, and the stage that is left."""
        if len(switches) < 3:
            raise SpecError(
                f"the run ended in stage {len(switches)} of 3, before the last: train again with longer stages."
            )
        rate = 1.0 if self.flows else self.method.learning_rate
        more = rate * real("amount", amount, above=0, fix="it is how much longer the last stage goes on")
        longer = replace(self, converge=end - switches[-1]["start"] + more)
        return longer, [Stage("convergence", more, train_attention=False)]

    @property
    def extent(self) -> tuple[float, str]:
        """How long it is, for a progress bar: the total and its unit."""
        return 3, "stage"

    def shared_times(self) -> ThreeStage:
        """The method with saves at times that all members of a batch share, as far as its stages end together."""
        return replace(self, method=self.method.shared_times())
