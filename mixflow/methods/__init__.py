"""HOW it moves: each method is a specification (a frozen dataclass) that follows a stage; `loop` strings stages together."""

from typing import TYPE_CHECKING, TypeAlias

from ..spec import build
from .descent import GradientDescent
from .flow import GradientFlow
from .optimizers import Optimizer
from .three_stage import ThreeStage
from .until import Until

if TYPE_CHECKING:
    Method: TypeAlias = GradientDescent | GradientFlow | ThreeStage | Optimizer

__all__ = ["GradientDescent", "GradientFlow", "Optimizer", "ThreeStage", "Until", "method_from_spec"]


def method_from_spec(spec):
    """Build the method that `method.spec()` described; a network that was written down is its own method."""
    from ..networks.construct import Construction

    return Construction.from_spec(spec) if spec["kind"] == "construct" else build("method", spec)
