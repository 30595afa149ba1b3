"""A network that was written down, as a Run: one state at time 0, so that whatever looks at trained networks can look at it."""

from ..engines.symmetric import Symmetric
from ..jaxed import in_float64
from ..networks.transformer import Transformer
from .run import Run
from .schema import attributes, labelled


@in_float64
def constructed(net):
    """The Run of a `Construction`, with a single save; its method is the construction itself (docs/mathematics.md §9)."""
    network = Transformer(width=net.width, omega=0.0, bias=net.bias)
    engine = Symmetric(net.task, network, net)
    variables = engine.measure({name: x[None] for name, x in net.sectors.items()}, network)
    attrs = attributes(engine, network, net, 0.0, finished=1)
    return Run(labelled(engine.coordinates(), variables, time=[0.0], attrs=attrs))
