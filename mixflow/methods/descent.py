"""Gradient descent as a specification (docs/mathematics.md §3)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from ..checks import flag, real, seed, whole
from ..spec import Spec, setting
from .stepwise import STEP_LIMIT, Stepwise, factor


@dataclass(frozen=True)
class GradientDescent(Stepwise, Spec, section="method", kind="descent"):
    """Full-batch gradient descent on every weight at once, the paper's experiment; minibatches on request.

    learning_rate   η > 0; time is t = η × step
    steps           number of updates, at least 1
    save_every      record the state every so many steps; step 0 and the last step are always recorded
    batch_size      atoms drawn for each step; the whole population if not given
    batch_seed      of the minibatch draws
    neurons_rate    what η is multiplied by for w and what is trained beside it; 0 freezes them
    attention_rate  the same for the attention
    normalised      divide the gradient by its length, over all weights that are trained: every step is η long
    momentum        β: every weight has a velocity, v ← β v + gradient, θ ← θ − η v
    weight_decay    λ: λ θ is added to the gradient, after it was normalised

    Raises SpecError for a learning rate that is not positive and for counts below 1.

    >>> GradientDescent(learning_rate=0.1, steps=1000).until
    100.0
    """

    learning_rate: float = setting(0.1, partial(real, above=0, fix="the paper uses 0.1"))
    steps: int = setting(20_000, partial(whole, most=STEP_LIMIT))
    save_every: int = setting(10, partial(whole, most=STEP_LIMIT))
    batch_size: int | None = setting(None, whole)
    batch_seed: int = setting(0, seed)
    neurons_rate: float = setting(1.0, factor)
    attention_rate: float = setting(1.0, factor)
    normalised: bool = setting(False, flag)
    momentum: float = setting(0.0, partial(real, least=0, below=1, fix="at 1 the velocity never fades"))
    weight_decay: float = setting(0.0, partial(real, least=0))

    @property
    def no_closure(self) -> str | None:
        """Why training by it does not close on inner products: it does, so None."""
        return None

    @property
    def constants(self) -> dict[str, float]:
        """The numbers of the update rule besides η, where they are not 0."""
        return {name: value for name in ("momentum", "weight_decay") if (value := getattr(self, name))}
