"""Any network from its specification."""

from dataclasses import replace

from ..errors import SpecError
from ..spec import build
from .transformer import Transformer
from .vanilla import Vanilla

__all__ = ["Transformer", "Vanilla", "changed", "network_from_spec"]


def changed(network, **fields):
    """The network with other values in some fields; those of its Transformer, where only the read-out is the user's own."""
    return network.__replace__(**fields) if hasattr(network, "__replace__") else replace(network, **fields)


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
