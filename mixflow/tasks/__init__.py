"""WHAT is learned: a task has `population()`, the exact finite population the engine trains on, and `spec()`."""

from .finite import FiniteTask
from .mixture import Mixture
from .sample import Sample

__all__ = ["FiniteTask", "Mixture", "Sample", "task_from_spec"]


def task_from_spec(spec):
    """Build the task that `task.spec()` described."""
    kinds = {"finite": FiniteTask, "mixture": Mixture, "sample": Sample}
    return kinds[spec["kind"]].from_spec(spec)
