"""A standard transformer as a specification: multi-head attention, MLP, residuals, layer norm (docs/mathematics.md §13)."""

from dataclasses import asdict, dataclass

from ..checks import flag, whole
from ..errors import SpecError

LAYER_LIMIT = 16
SIZE_LIMIT = 1024


@dataclass(frozen=True)
class Vanilla:
    """A pre-norm transformer encoder with ReLU MLPs, mean over tokens and a linear read-out; nothing of the paper's symmetry.

    layers      blocks of attention and MLP, each added to the residual stream
    heads       in every layer; must divide width
    width       of the residual stream
    mlp_width   neurons of every MLP
    layer_norm  before every attention, every MLP and the read-out
    seed        of the initial weights, uniform in ±1/√(inputs) as Equinox and PyTorch draw them

    Tokens enter as coefficient × a trained embedding of their feature. The task does not depend on the order of the tokens,
    so there are no positions. Raises SpecError for sizes out of range and a width that the heads do not divide.

    >>> Vanilla(layers=2).head_width
    8
    """

    layers: int = 1
    heads: int = 2
    width: int = 16
    mlp_width: int = 32
    layer_norm: bool = True
    seed: int = 0

    mean_field = False

    def __post_init__(self):
        put = lambda name, value: object.__setattr__(self, name, value)  # noqa: E731 (the dataclass is frozen)
        put("layers", whole("layers", self.layers, most=LAYER_LIMIT))
        for name in ("heads", "width", "mlp_width"):
            put(name, whole(name, getattr(self, name), most=SIZE_LIMIT))
        if self.width % self.heads:
            raise SpecError(f"width = {self.width} with heads = {self.heads}: expected a multiple of the heads.")
        flag("layer_norm", self.layer_norm)
        put("seed", whole("seed", self.seed, least=0))

    @property
    def head_width(self):
        """Rows of each head's keys and queries."""
        return self.width // self.heads

    def spec(self):
        """A JSON-ready description from which `from_spec` builds an equal network."""
        return {"kind": "vanilla", **asdict(self)}

    @classmethod
    def from_spec(cls, spec):
        return cls(**{key: value for key, value in spec.items() if key != "kind"})
