"""HOW it moves: each method is a specification (a frozen dataclass) and a function from a start to a history."""

from .descent import GradientDescent

__all__ = ["GradientDescent", "method_from_spec"]


def method_from_spec(spec):
    """Build the method that `method.spec()` described."""
    kinds = {"descent": GradientDescent}
    return kinds[spec["kind"]].from_spec(spec)
