"""HOW it moves: each method is a specification (a frozen dataclass) and a function from a start to a history."""

from .descent import GradientDescent
from .flow import GradientFlow
from .optimizers import Optimizer
from .three_stage import ThreeStage, Until

__all__ = ["GradientDescent", "GradientFlow", "Optimizer", "ThreeStage", "Until", "method_from_spec"]


def method_from_spec(spec):
    """Build the method that `method.spec()` described; a network that was written down is its own method."""
    from ..networks.construct import Construction

    methods = {"descent": GradientDescent, "flow": GradientFlow, "optimizer": Optimizer, "three-stage": ThreeStage}
    kinds = {**methods, "construct": Construction}
    return kinds[spec["kind"]].from_spec(spec)
