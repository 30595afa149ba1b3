"""Other ways down than plain descent: momentum, sign descent, Adam, AdamW, each with minibatches on request."""

from dataclasses import dataclass, fields

from ..checks import one_of, real, whole
from ..engines.updates import KINDS


@dataclass(frozen=True, kw_only=True)
class Optimizer:
    """An update rule on every weight of a network of finite width (docs/mathematics.md §13).

    kind           "sgd" (plain descent), "momentum", "sign", "adam" or "adamw"
    learning_rate  η > 0; time is t = η × step for every kind, whatever a step does
    steps          number of updates, at least 1
    save_every     record the state every so many steps; step 0 and the last step are always recorded
    momentum       β of kind "momentum", from 0 to below 1
    weight_decay   of kind "adamw"
    batch_size     atoms drawn for each step; the whole population if not given
    batch_seed     of the minibatch draws; if not given, every network draws its own, from its seed

    Raises SpecError for an unknown kind and numbers out of range; training raises DivergedError where weights leave float64.

    >>> Optimizer(kind="adam", learning_rate=0.01, steps=500).until
    5.0
    """

    kind: str
    learning_rate: float = 0.1
    steps: int = 20_000
    save_every: int = 10
    momentum: float = 0.9
    weight_decay: float = 1e-4
    batch_size: int | None = None
    batch_seed: int | None = None

    def __post_init__(self):
        put = lambda name, value: object.__setattr__(self, name, value)  # noqa: E731 (the dataclass is frozen)
        one_of("kind", self.kind, KINDS)
        put("learning_rate", real("learning_rate", self.learning_rate, above=0))
        put("steps", whole("steps", self.steps))
        put("save_every", whole("save_every", self.save_every))
        put("momentum", real("momentum", self.momentum, least=0, below=1, fix="at 1 the velocity never fades"))
        put("weight_decay", real("weight_decay", self.weight_decay, least=0))
        if self.batch_size is not None:
            put("batch_size", whole("batch_size", self.batch_size))
        if self.batch_seed is not None:
            put("batch_seed", whole("batch_seed", self.batch_seed, least=0))

    @property
    def until(self):
        """The time of the last step."""
        return self.learning_rate * self.steps

    @property
    def constants(self):
        """The numbers of the update rule besides η."""
        own = {"momentum": ("momentum",), "adamw": ("weight_decay",)}
        return {name: getattr(self, name) for name in own.get(self.kind, ())}

    def spec(self):
        """A JSON-ready description from which `from_spec` builds an equal method."""
        own = {field.name: getattr(self, field.name) for field in fields(self)}
        return {"rule": own.pop("kind"), "kind": "optimizer", **own}

    @classmethod
    def from_spec(cls, spec):
        given = {key: value for key, value in spec.items() if key not in ("kind", "rule")}
        return cls(kind=spec["rule"], **given)
