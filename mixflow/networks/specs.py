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
            f"the run trained {spec['name']}, a network of its own, which no file brings: give it, built by the code that "
            f"defines it, mf.load(path, network={spec['name']}(…))."
        )
    if spec.get("kind") == "read-out":
        from .reading import rebuilt

        return rebuilt(spec)
    return build("transformer", spec)
