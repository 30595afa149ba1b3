"""HOW it moves: each method is a specification (a frozen dataclass) and a function from a start to a history."""

from .descent import GradientDescent
from .flow import GradientFlow
from .three_stage import ThreeStage, Until

__all__ = ["GradientDescent", "GradientFlow", "ThreeStage", "Until", "method_from_spec"]


def method_from_spec(spec):
    """Build the method that `method.spec()` described; a network that was written down is its own method."""
    from ..models.construct import Construction

    kinds = {"descent": GradientDescent, "flow": GradientFlow, "three-stage": ThreeStage, "construct": Construction}
    return kinds[spec["kind"]].from_spec(spec)
