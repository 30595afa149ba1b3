"""The transformer with one thing changed, or several: a specification around a `Transformer` (docs/mathematics.md §13)."""

from dataclasses import dataclass, field, fields

from ..checks import flag, one_of, real, whole
from ..errors import SpecError
from .transformer import Transformer

HEAD_LIMIT = 64
VALUE_LIMIT = 256


@dataclass(frozen=True)
class Variant:
    """A `Transformer` of finite width with parts changed; with nothing changed it is model="full" itself.

    transformer        width, ω, bias, tie_values, seed and dimension
    heads              H; signs alternate, F = Σ_h ± ReLU(z_h), so one head alone cannot answer "−"
    shared_attention   one W_K and W_Q for all heads, each with its own w
    offset             F − θ with θ trained from 0: what lets one head answer "−"
    value_scale        initial w: entries N(0, value_scale²) instead of 0
    train_bias         b is trained, from the transformer's bias; one for each neuron
    relu_per_query     the neuron acts on what each query reads, and its answers are averaged, instead of the other way round
    value_dimension    r values, each with a neuron of its own, and a trained read-out u, from 1/√r; needs random values
    initialisation     "paper": N(0, ω²/m) and w by value_scale; "standard": W_K, W_Q and w all N(0, 1/d)
    scaled_scores      scores divided by √m

    Raises SpecError for numbers out of range and for parts that do not go together.

    >>> Variant(Transformer(width=32, seed=3), heads=4).head_names
    ('+1', '-1', '+2', '-2')
    """

    transformer: Transformer = field(default_factory=lambda: Transformer(width=64))
    heads: int = 2
    shared_attention: bool = False
    offset: bool = False
    value_scale: float = 0.0
    train_bias: bool = False
    relu_per_query: bool = False
    value_dimension: int = 1
    initialisation: str = "paper"
    scaled_scores: bool = False

    def __post_init__(self):
        put = lambda name, value: object.__setattr__(self, name, value)  # noqa: E731 (the dataclass is frozen)
        if not isinstance(self.transformer, Transformer):
            raise SpecError(f"transformer = {self.transformer!r}: expected a Transformer, for example Transformer(64).")
        put("heads", whole("heads", self.heads, most=HEAD_LIMIT))
        put("value_dimension", whole("value_dimension", self.value_dimension, most=VALUE_LIMIT))
        put("value_scale", real("value_scale", self.value_scale, least=0, most=1e6))
        one_of("initialisation", self.initialisation, ("paper", "standard"))
        for name in ("shared_attention", "offset", "train_bias", "relu_per_query", "scaled_scores"):
            flag(name, getattr(self, name))
        self._check_together()

    def _check_together(self):
        if self.transformer.mean_field:
            raise SpecError("width = inf: a Variant stores every weight; set the width, for example Transformer(64).")
        if self.transformer.tie_values and self.heads != 2:
            raise SpecError(
                f"heads = {self.heads} with tie_values: w_- = -w_+ ties two heads; set heads=2 or untie them."
            )
        if self.initialisation == "standard" and self.value_scale:
            raise SpecError(
                f"value_scale = {self.value_scale:g} with initialisation='standard', which draws w from N(0, 1/d): leave "
                "out value_scale."
            )
        if self.value_dimension > 1 and not self.value_scale and self.initialisation == "paper":
            raise SpecError(
                f"value_dimension = {self.value_dimension} with value_scale = 0: neurons that start alike stay alike; set "
                "value_scale, for example 0.1."
            )

    width = property(lambda self: self.transformer.width)
    omega = property(lambda self: self.transformer.omega)
    bias = property(lambda self: self.transformer.bias)
    tie_values = property(lambda self: self.transformer.tie_values)
    seed = property(lambda self: self.transformer.seed)
    dimension = property(lambda self: self.transformer.dimension)
    mean_field = False

    @property
    def head_signs(self):
        """+1, −1, +1, … : with which sign each head enters the answer."""
        return tuple(1.0 if h % 2 == 0 else -1.0 for h in range(self.heads))

    @property
    def head_names(self):
        """ "+" and "-", numbered where there are more than two."""
        if self.heads <= 2:
            return ("+", "-")[: self.heads]
        return tuple(f"{'+-'[h % 2]}{h // 2 + 1}" for h in range(self.heads))

    @classmethod
    def of(cls, network):
        """The network as a variant: a plain Transformer is one with nothing changed."""
        return network if isinstance(network, cls) else cls(network)

    def spec(self):
        """A JSON-ready description from which `from_spec` builds an equal variant: the transformer's fields and its own."""
        own = {name: getattr(self, name) for name in self._own()}
        return {"kind": "variant", **self.transformer.spec(), **own}

    @classmethod
    def from_spec(cls, spec):
        own = cls._own()
        base = {name: value for name, value in spec.items() if name not in (*own, "kind")}
        return cls(Transformer.from_spec(base), **{name: spec[name] for name in own})

    @classmethod
    def _own(cls):
        return [each.name for each in fields(cls) if each.name != "transformer"]
