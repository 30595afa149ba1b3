"""WHAT is learned: a task has `population()`, what the engine trains on, and `spec()`."""

from .finite import FiniteTask
from .mixture import Mixture
from .mnist import Mnist
from .sample import Sample

__all__ = ["FiniteTask", "Mixture", "Mnist", "Sample", "task_from_spec"]


def task_from_spec(spec):
    """Build the task that `task.spec()` described."""
    kinds = {"finite": FiniteTask, "mixture": Mixture, "mnist": Mnist, "sample": Sample}
    return kinds[spec["kind"]].from_spec(spec)
