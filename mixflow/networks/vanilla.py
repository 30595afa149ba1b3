"""A standard transformer as a specification: multi-head attention, MLP, residuals, layer norm (docs/mathematics.md §13)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from ..checks import flag, seed, whole
from ..errors import SpecError
from ..spec import Spec, setting

if TYPE_CHECKING:
    from typing import Any

    from ..tasks import Population, Task
    from ..types import Array, History, Variables, Weights

LAYER_LIMIT = 16
SIZE_LIMIT = 1024


@dataclass(frozen=True)
class Vanilla(Spec, section="transformer", kind="vanilla"):
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

    layers: int = setting(1, partial(whole, most=LAYER_LIMIT))
    heads: int = setting(2, partial(whole, most=SIZE_LIMIT))
    width: int = setting(16, partial(whole, most=SIZE_LIMIT))
    mlp_width: int = setting(32, partial(whole, most=SIZE_LIMIT))
    layer_norm: bool = setting(True, flag)
    seed: int = setting(0, seed)

    mean_field = False
    altered = ("vanilla",)  # what makes it another network than the paper's
    no_closure = (
        "its layers, embedding and norms feed each other, so training does not close on inner products of features"
    )
    attention_weights = ("attention",)  # the queries and keys of every layer
    frozen_weights = ()

    def check(self) -> None:
        if self.width % self.heads:
            raise SpecError(f"width = {self.width} with heads = {self.heads}: expected a multiple of the heads.")

    @property
    def head_width(self) -> int:
        """Rows of each head's keys and queries."""
        return self.width // self.heads

    def objection(self, task: Population) -> str | None:
        """It serves on every listed task."""
        return None

    def start(self, task: Population) -> Weights:
        """Initial weights on a FiniteTask."""
        return self._on(task).start(self)

    def answer(self, weights: Weights, task: Population) -> Array:
        """F of every atom (n,), or logits (C, n)."""
        return self._on(task).forward(weights)[0]

    def observe(self, weights: Weights, task: Population) -> dict[str, Array]:
        """What stage detection and the probes read (`vanilla_network`)."""
        return self._on(task).observe(weights)

    def variables(self, task: Population, history: History) -> Variables:
        """w, A and z as docs/mathematics.md §13 defines them, the attention between identifiers and signals, and the probes."""
        from .probes import answer_probe, identifier_attention, signal_probes

        classes = ("class",) if task.loss == "softmax" else ()
        signals, _ = signal_probes(task, history["stream"])
        return {
            "w": (("time", *classes, "feature"), history["w"]),
            "A": (("time", "layer", "atom", "head", "key_token", "query_token"), history["A"]),
            "z": (("time", "layer", "atom"), history["z"]),
            "attention": (("time", "layer", "head", "pair"), identifier_attention(task, history["A"])),
            "probe_signal": (("time", "depth", "signal"), signals),
            "probe_answer": (("time", "depth"), answer_probe(task, history["stream"])),
        }

    def limit(self, task: Task | None = None, flow: bool = False) -> str | None:
        """What infinite width does to it: it has a finite one, so None."""
        return None

    def coordinates(self, task: Population) -> dict[str, Any]:
        """Labels along the dimensions of `variables`."""
        from .probes import PAIRS

        return {"pair": list(PAIRS), "signal": [name for name in task.features if name.startswith("v")]}

    def _on(self, task):
        from .vanilla_network import VanillaNetwork

        return VanillaNetwork(task, self)
