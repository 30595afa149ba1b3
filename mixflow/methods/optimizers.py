"""Other ways down than plain descent: momentum, sign descent, Adam, AdamW, each with minibatches on request."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from ..checks import one_of, real, seed, whole
from ..spec import Spec, setting
from .stepwise import STEP_LIMIT, Stepwise, factor

KINDS = ("sgd", "momentum", "sign", "adam", "adamw")
_ROTATED = (
    "{} looks at every weight by itself: rotated rows of W_K and W_Q have the same inner products but another result; "
    "set a finite width, for example 64"
)
NO_CLOSURE = {
    "sign": _ROTATED.format("sign descent"),
    "adam": _ROTATED.format("Adam"),
    "adamw": _ROTATED.format("AdamW"),
}


@dataclass(frozen=True, kw_only=True)
class Optimizer(Stepwise, Spec, section="method", kind="optimizer"):
    """An update rule on every weight of a network of finite width (docs/mathematics.md §13).

    kind            "sgd" (plain descent), "momentum", "sign", "adam" or "adamw"
    learning_rate   η > 0; time is t = η × step for every kind, whatever a step does
    steps           number of updates, at least 1
    save_every      record the state every so many steps; step 0 and the last step are always recorded
    momentum        β of kind "momentum", from 0 to below 1
    weight_decay    of kind "adamw"
    batch_size      atoms drawn for each step; the whole population if not given
    batch_seed      of the minibatch draws; if not given, every network draws its own, from its seed
    neurons_rate    what η is multiplied by for w and what is trained beside it; 0 freezes them
    attention_rate  the same for the attention

    Raises SpecError for an unknown kind and numbers out of range; training raises DivergedError where weights leave float64.

    >>> Optimizer(kind="adam", learning_rate=0.01, steps=500).until
    5.0
    """

    kind: str = setting(check=partial(one_of, choices=KINDS), key="rule")
    learning_rate: float = setting(0.1, partial(real, above=0))
    steps: int = setting(20_000, partial(whole, most=STEP_LIMIT))
    save_every: int = setting(10, partial(whole, most=STEP_LIMIT))
    momentum: float = setting(0.9, partial(real, least=0, below=1, fix="at 1 the velocity never fades"))
    weight_decay: float = setting(1e-4, partial(real, least=0))
    batch_size: int | None = setting(None, whole)
    batch_seed: int | None = setting(None, seed)
    neurons_rate: float = setting(1.0, factor)
    attention_rate: float = setting(1.0, factor)

    @property
    def rule(self) -> str:
        """The update rule."""
        return self.kind

    @property
    def no_closure(self) -> str | None:
        """Why training by this rule does not close on inner products, or None."""
        return NO_CLOSURE.get(self.kind)

    @property
    def constants(self) -> dict[str, float]:
        """The numbers of the update rule besides η."""
        own = {"momentum": ("momentum",), "adamw": ("weight_decay",)}
        return {name: getattr(self, name) for name in own.get(self.kind, ())}
