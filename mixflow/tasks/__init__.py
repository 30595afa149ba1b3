"""WHAT is learned: a task has `population()`, what the engine trains on, and `spec()`."""

from typing import TYPE_CHECKING, TypeAlias

from ..spec import build
from . import variants
from .finite import FiniteTask
from .mixture import Mixture
from .mnist import Mnist
from .sample import Sample
from .variants import NoisyMixture

if TYPE_CHECKING:
    from .tokens import Tokens

    Task: TypeAlias = Mixture | Sample | FiniteTask | Mnist | NoisyMixture  # what `train` learns
    Population: TypeAlias = FiniteTask | Tokens  # what `task.population()` lists, and a network sees

__all__ = ["FiniteTask", "Mixture", "Mnist", "NoisyMixture", "Sample", "task_from_spec", "variants"]


def task_from_spec(spec):
    """Build the task that `task.spec()` described."""
    return build("task", spec)
