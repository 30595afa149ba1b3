"""A network that was written down, as a Run: one state at time 0, so that whatever looks at trained networks can look at it."""

from ..dataset import build
from ..networks.transformer import Transformer
from ..store import Run


def constructed(net):
    """The Run of a `Construction`, with a single save; its method is the construction itself (docs/mathematics.md §9)."""
    history = {name: x[None] for name, x in net.sectors.items()}
    transformer = Transformer(width=net.width, omega=0.0, bias=net.bias)
    return Run(build(net.task, transformer, net, "symmetric", history, time=[0.0], attributes={"finished": 1}))
