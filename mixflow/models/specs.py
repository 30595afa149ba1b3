"""Any network from its specification."""

from .transformer import Transformer
from .vanilla import Vanilla
from .variant import Variant

KINDS = {"transformer": Transformer, "vanilla": Vanilla, "variant": Variant}


def network_from_spec(spec):
    """Build the network that its `spec()` described."""
    return KINDS[spec.get("kind", "transformer")].from_spec(spec)
