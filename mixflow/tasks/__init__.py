"""WHAT is learned: a task has `population()`, what the engine trains on, and `spec()`."""

from ..spec import build
from . import variants
from .finite import FiniteTask
from .mixture import Mixture
from .mnist import Mnist
from .sample import Sample
from .variants import NoisyMixture

__all__ = ["FiniteTask", "Mixture", "Mnist", "NoisyMixture", "Sample", "task_from_spec", "variants"]


def task_from_spec(spec):
    """Build the task that `task.spec()` described."""
    return build("task", spec)
