"""Any network from its specification."""

from ..errors import SpecError
from ..spec import register
from .transformer import Transformer
from .vanilla import Vanilla
from .variant import Variant

KINDS = {"transformer": Transformer, "vanilla": Vanilla, "variant": Variant}
for kind in ("transformer", "vanilla"):
    register("transformer", kind, KINDS[kind])


def network_from_spec(spec):
    """Build the network that its `spec()` described."""
    kind = spec.get("kind", "transformer")
    if kind == "own":
        raise SpecError(
            f"the run trained {spec['name']}, a network of its own: build it with the code that defines it."
        )
    return KINDS[kind].from_spec(spec)
