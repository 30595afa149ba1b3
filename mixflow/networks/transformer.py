"""The one-layer transformer as a specification, with every option (docs/mathematics.md §2, §13)."""

from __future__ import annotations

import math
import numbers
from dataclasses import KW_ONLY, dataclass, fields
from functools import partial
from typing import TYPE_CHECKING

from ..checks import flag, one_of, real, seed, whole
from ..errors import SpecError
from ..spec import Spec, setting
from . import weights

if TYPE_CHECKING:
    from typing import Any

    from ..tasks import Population, Task
    from ..types import Array, Weights

WIDTH_LIMIT = 10**7  # the start draws 4·m·d numbers; at this width it differs from the mean-field limit by 3e-4
HEAD_LIMIT = 64
VALUE_LIMIT = 256


def _width(name, value):
    if isinstance(value, numbers.Real) and value == math.inf:  # an array has no one truth
        return math.inf
    return whole(name, value, most=WIDTH_LIMIT, fix="or math.inf for the mean-field limit")


def _choice(*choices):
    return partial(one_of, choices=choices)


@dataclass(frozen=True)
class Transformer(Spec, section="transformer", kind="transformer"):
    """One layer of attention with ReLU neurons, before training; the defaults are the paper's symmetric two-headed network.

    width             m, rows of W_K and W_Q in each head; math.inf is the mean-field limit
    omega             ω, scale of the initial W_K, W_Q: entries are N(0, ω²/m)
    bias              b
    tie_values        force w_- = -w_+ (one shared vector, so its gradient is the difference of the heads' gradients)
    seed              of the initial weights; at infinite width only random values depend on it
    dimension         d ≥ the rank of the features; the smallest possible if not given. Only model="full" spends anything on it.
    heads             H; signs alternate, F = Σ_h ± ReLU(z_h), so one head alone cannot answer "−"
    attention         "product": scores from W_Kᵀ W_Q, both trained; "tied": W_K = W_Q; "direct": W_KQ is one trained matrix
    shared_attention  one W_K and W_Q for all heads, each with its own w
    shared_keys       one W_K for all heads, each with its own W_Q and w
    queries           "mean" over the tokens of an atom, their "sum", or "one": only the task's asking token
    activation        "relu" or "linear"
    activate          "after" the queries are averaged, or "before": a neuron for what each query reads
    values            r values in each head, each with a neuron of its own, and a trained read-out u, from 1/√r
    value_scale       initial w: entries N(0, value_scale²) instead of 0
    value_neurons     m₁: w is a product, W_Vᵀ Σ_j ± w_j, of a trained W_V (m × d), which starts as W_K does, and m₁ trained
                      neurons w_j with alternating signs, whose sum starts with the length value_scale. Not given: w is trained
    train_bias        b is trained; one for each neuron
    offset            F − θ with θ trained from 0: what lets one head answer "−"
    scaled_scores     scores divided by √m
    initialisation    "paper": N(0, ω²/m) and w by value_scale; "standard": W_K, W_Q and w all N(0, 1/d)

    Raises SpecError for a width below 1 or above ten million, a negative ω, numbers that are not finite, and options that do
    not go together.

    >>> Transformer(width=math.inf, omega=0.3).mean_field
    True
    >>> Transformer(width=32, heads=4).head_names
    ('+1', '-1', '+2', '-2')
    """

    width: float = setting(math.inf, _width)
    _: KW_ONLY
    omega: float = setting(0.3, partial(real, least=0, most=1e6, fix="the paper takes 0 < omega < 1"))
    bias: float = setting(0.5, real)
    tie_values: bool = setting(False, flag)
    seed: int = setting(0, seed)
    dimension: int | None = setting(None, whole)
    heads: int = setting(2, partial(whole, most=HEAD_LIMIT))
    attention: str = setting("product", _choice("product", "tied", "direct"))
    shared_attention: bool = setting(False, flag)
    shared_keys: bool = setting(False, flag)
    queries: str = setting("mean", _choice("mean", "sum", "one"))
    activation: str = setting("relu", _choice("relu", "linear"))
    activate: str = setting("after", _choice("after", "before"))
    values: int = setting(1, partial(whole, most=VALUE_LIMIT))
    value_scale: float = setting(0.0, partial(real, least=0, most=1e6))
    value_neurons: int | None = setting(None, partial(whole, most=WIDTH_LIMIT))
    train_bias: bool = setting(False, flag)
    offset: bool = setting(False, flag)
    scaled_scores: bool = setting(False, flag)
    initialisation: str = setting("paper", _choice("paper", "standard"))

    def check(self) -> None:
        for objection in self._objections():
            if objection is not None:
                raise SpecError(objection)

    def _objections(self):
        """Options that do not go together, each in a sentence with the fix."""
        if self.tie_values and self.heads != 2:
            yield f"heads = {self.heads} with tie_values: w_- = -w_+ ties two heads; set heads=2 or untie them."
        if self.tie_values and self.value_neurons:
            yield f"value_neurons = {self.value_neurons} with tie_values: each head has a product of its own; untie them."
        if self.shared_keys and self.heads == 1:
            yield "shared_keys with heads = 1: there is one W_K anyway; leave it out."
        if self.shared_keys and (self.shared_attention or self.attention != "product"):
            given = "shared_attention" if self.shared_attention else f"attention={self.attention!r}"
            yield f"shared_keys with {given}: keys are shared by several W_Q of their own; leave one of them out."
        if self.standard and self.value_scale:
            yield (
                f"value_scale = {self.value_scale:g} with initialisation='standard', which draws w from N(0, 1/d): leave "
                "out value_scale."
            )
        if self.values > 1 and not self.value_scale and not self.standard and not self.value_neurons:
            yield (
                f"values = {self.values} with value_scale = 0: neurons that start alike stay alike; set value_scale, for "
                "example 0.1."
            )
        if self.values > 1 and self.value_neurons and self.mean_field:
            yield (
                f"values = {self.values} with value_neurons at infinite width, where w = 0: neurons that start alike stay "
                "alike; set a finite width."
            )
        if self.standard and self.mean_field and not self.scaled_scores:
            yield (
                "initialisation='standard' with width = inf: scores of entries N(0, 1/d) grow like √width; set "
                "scaled_scores=True or a finite width."
            )
        growing = {"value_neurons": self.value_neurons, "attention='tied'": self.attention == "tied"}
        if self.standard and self.mean_field and any(growing.values()):
            which = " and ".join(name for name, given in growing.items() if given)
            yield (
                f"initialisation='standard' with {which} and width = inf: inner products of entries N(0, 1/d) grow like "
                "√width; set a finite width."
            )

    @property
    def mean_field(self) -> bool:
        """Whether the width is infinite."""
        return self.width == math.inf

    @property
    def standard(self) -> bool:
        """Whether W_K, W_Q and w are drawn from N(0, 1/d)."""
        return self.initialisation == "standard"

    @property
    def head_names(self) -> tuple[str, ...]:
        """ "+" and "-", numbered where there are more than two."""
        if self.heads <= 2:
            return ("+", "-")[: self.heads]
        return tuple(f"{'+-'[h % 2]}{h // 2 + 1}" for h in range(self.heads))

    def heads_for(self, task: Population) -> tuple[str, ...]:
        """The names of the heads on a task: this network's, or one for each class under the softmax loss."""
        return task.heads if task.loss == "softmax" else self.head_names

    def options(self) -> dict[str, Any]:
        """The options that differ from the paper's network, by name; numbers that only set the start are not among them."""
        numbers = ("width", "omega", "bias", "seed", "dimension")
        plain = {field.name: field.default for field in fields(self) if field.name not in numbers}
        return {name: getattr(self, name) for name, default in plain.items() if getattr(self, name) != default}

    @property
    def altered(self) -> list[str]:
        """The options by which it is another network than the paper's, which may tie its values."""
        return sorted(set(self.options()) - {"tie_values"})

    @property
    def direct(self) -> bool:
        """Whether the scores themselves are trained: by choice, or in the infinite-width limit of scaled standard scores."""
        return self.attention == "direct" or self._random_limit

    @property
    def _random_limit(self):
        return self.mean_field and self.scaled_scores and self.standard

    @property
    def score_scale(self) -> float:
        """What W_Kᵀ W_Q is multiplied by to give the scores: 1, or 1/√m; 0 where that limit leaves nothing."""
        if not self.scaled_scores:
            return 1.0
        return 0.0 if self.mean_field else self.width**-0.5

    def score_rate(self, task: Population) -> float:
        """What the learning rate is multiplied by where A are the scores themselves (docs/mathematics.md §13).

        Scores divided by √m move like unscaled ones at the rate η/√m (η/m if W_KQ is one matrix). At infinite width with entries
        N(0, 1/d) that is directly trained scores at the rate 2η/d.
        """
        if self._random_limit and self.attention == "product":
            return 2.0 / (self.dimension or len(task.features))
        return self.score_scale**2 if self.attention == "direct" else self.score_scale

    def limit(self, task: Task | None = None, flow: bool = False) -> str | None:
        """What becomes of it at infinite width where that is not the ordinary limit: a sentence, or None (`limits.limit`)."""
        from .limits import limit

        return limit(self, task, flow)

    attention_weights = ("W_K", "W_Q", "W_KQ")  # what the attention stage of a staged run trains

    @property
    def no_closure(self) -> str | None:
        """Why training it does not close on inner products: it does (docs/mathematics.md §3), so None."""
        return None

    @property
    def frozen_weights(self) -> tuple[str, ...]:
        """Names among `start` that are never trained."""
        return () if self.train_bias else ("bias",)

    def objection(self, task: Population) -> str | None:
        """Why it cannot serve on this task, with the fix, or None."""
        if task.loss == "softmax":
            wanted = {"heads": 2, "tie_values": False, "offset": False}
            for name, default in wanted.items():
                if getattr(self, name) != default:
                    return (
                        f"{name} = {getattr(self, name)!r}: the softmax loss has one head for each class; leave it out"
                    )
        if self.queries == "one" and task.query_index is None:
            return "queries = 'one': the task does not say which token asks; give FiniteTask(query=…)"
        return None

    def coordinates(self, task: Population) -> dict[str, Any]:
        """Labels along the dimensions of its variables."""
        heads = list(self.heads_for(task))
        return {"head": heads, "head_pair": [f"{a} {b}" for i, a in enumerate(heads) for b in heads[i + 1 :]]}

    def start(self, task: Population) -> Weights:
        """Initial weights on a FiniteTask, by name (`weights.start`)."""
        return weights.start(self, task)

    def answer(self, weights_by_name: Weights, task: Population) -> Array:
        """F of every atom (n,), or logits (C, n), from weights (`weights.answer`)."""
        return weights.answer(self, weights_by_name, task)

    def observe(self, weights_by_name: Weights, task: Population) -> dict[str, Array]:
        """The Gram state of weights (`weights.observe`)."""
        return weights.observe(self, weights_by_name, task)
