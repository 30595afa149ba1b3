"""HOW it moves: each method is a specification (a frozen dataclass) and a function from a start to a history."""

from .descent import GradientDescent
from .flow import GradientFlow
from .three_stage import ThreeStage, Until

__all__ = ["GradientDescent", "GradientFlow", "ThreeStage", "Until", "method_from_spec"]


def method_from_spec(spec):
    """Build the method that `method.spec()` described."""
    kinds = {"descent": GradientDescent, "flow": GradientFlow, "three-stage": ThreeStage}
    return kinds[spec["kind"]].from_spec(spec)
