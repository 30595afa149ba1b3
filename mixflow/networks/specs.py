"""Any network from its specification."""

from ..errors import SpecError
from ..spec import build
from .transformer import Transformer
from .vanilla import Vanilla

__all__ = ["Transformer", "Vanilla", "network_from_spec"]


def network_from_spec(spec):
    """Build the network that its `spec()` described."""
    if spec.get("kind") == "own":
        raise SpecError(
            f"the run trained {spec['name']}, a network of its own: build it with the code that defines it."
        )
    if spec.get("kind") == "read-out":
        from .reading import rebuilt

        return rebuilt(spec)
    return build("transformer", spec)
