"""Weights that share rows and enter the loss as products: which blocks S = BᵀB has, and what turns them (`gram_update`)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..jaxed import jax
from .gram_update import slopes, squared_length

BASE = {(0, 0): "G_K", (0, 1): "A", (1, 1): "G_Q"}  # S of [W_K | W_Q] by the names of its blocks


@dataclass(frozen=True)
class Attention:
    """[W_K | W_Q] of every attention: G_K, A, G_Q.

    tied   W_K = W_Q: there is W_K alone, and S = A
    heads  that share one W_K: [W_K | W_Q¹ | W_Q² | …], and G_QQ are the products of queries of two heads
    lanes  numbers of a head where heads lie side by side in the last axis; None: heads are the first axis
    """

    tied: bool = False
    heads: int = 1
    lanes: int | None = None

    memory: ClassVar = "attention_memory"
    step: ClassVar = "step_A"

    @classmethod
    def of(cls, network, task, lanes=None):
        """That of a Transformer; None where scores are trained directly."""
        if network.direct:
            return None
        return cls(network.attention == "tied", len(network.heads_for(task)) if network.shared_keys else 1, lanes)

    def part(self, x, i):
        """What of x belongs to head i."""
        return x[i] if self.lanes is None else x[..., i * self.lanes : (i + 1) * self.lanes]

    def whole(self, parts):
        """The reverse."""
        jnp = jax().numpy
        return jnp.stack(parts) if self.lanes is None else jnp.concatenate(parts, axis=-1)

    @property
    def pairs(self):
        """The blocks of G_QQ."""
        return [(i, j) for i in range(1, 1 + self.heads) for j in range(i + 1, 1 + self.heads)]

    def blocks(self, state):
        """S by blocks."""
        if self.tied:
            return {(0, 0): state["A"]}
        if self.heads == 1:
            return {pair: state[name] for pair, name in BASE.items()}
        S = {(0, 0): self.part(state["G_K"], 0)}
        for h in range(self.heads):
            S |= {(0, 1 + h): self.part(state["A"], h), (1 + h, 1 + h): self.part(state["G_Q"], h)}
        return S | {pair: self.part(state["G_QQ"], k) for k, pair in enumerate(self.pairs)}

    def state(self, S):
        """The parts of a state, from S by blocks."""
        if self.tied:
            return {"A": S[0, 0]}
        if self.heads == 1:
            return {name: S[pair] for pair, name in BASE.items()}
        each = range(1, 1 + self.heads)
        return {
            "G_K": self.whole([S[0, 0]]),
            "A": self.whole([S[0, i] for i in each]),
            "G_Q": self.whole([S[i, i] for i in each]),
            "G_QQ": self.whole([S[pair] for pair in self.pairs]),
        }

    def slopes(self, g, transpose):
        """The blocks of H of g = ∂loss/∂A."""
        if self.tied:
            return {(0, 0): g + transpose(g)}
        return {(0, 1): g} if self.heads == 1 else {(0, 1 + h): self.part(g, h) for h in range(self.heads)}

    def turns(self, g, Gamma, algebra):
        """X = H Γ̂ of g, or of a multiple of it; Gamma is None where it is the identity."""

        def left(_, h):
            return h if Gamma is None else algebra.stage(algebra.product, Gamma, h)

        def right(h, _):
            return h if Gamma is None else algebra.stage(algebra.product, h, Gamma)

        return slopes(self.slopes(g, algebra.transpose), left, right)

    def squares(self, state, g, Gamma, algebra):
        """|∂loss/∂W_K|² + |∂loss/∂W_Q|², (lanes,)."""
        H = self.slopes(g, algebra.transpose)
        return squared_length(self.blocks(state), H, self.turns(g, Gamma, algebra), algebra)

    def still(self, state):
        """The memory of one run that stands still: (a, 2, nF, nF), n matrices side by side."""
        a, F, _ = state["A"].shape
        n, many = (1, a) if self.tied else (1 + self.heads, a // self.heads)
        return np.zeros((many, 2, n * F, n * F))

    def recall(self, memory):
        """(M, V) of the velocities, from what a state keeps."""
        return memory

    def keep(self, memory):
        """What a state keeps of them."""
        return memory


class Values:
    """[W_V | Σ_j a_j w_j] of every value vector: G_V, w, N. All m₁ neurons move alike, so their sum moves m₁ times as fast.

    Value vectors lie side by side in the last axis, each with all its lanes.
    """

    memory, step = "value_memory", "step_w"

    def __init__(self, vectors):
        self.vectors = vectors

    def blocks(self, state):
        """S by blocks."""
        w, N = self.recall(state["w"]), self.recall(state["N"])
        return {(0, 0): self.recall(state["G_V"]), (0, 1): w[:, None], (1, 1): N[None, None]}

    def state(self, S):
        """The parts of a state, from S by blocks."""
        return {"G_V": self.keep(S[0, 0]), "w": self.keep(S[0, 1][:, 0]), "N": self.keep(S[1, 1][0, 0])}

    def turns(self, scaled, Gamma, algebra):
        """X = H Γ̂ of (γ, m₁), γ = ∂loss/∂w (c, F, lanes) or a multiple of it; Γ̂ = diag(Γ, m₁)."""
        g_w, neurons = scaled
        many = jax().numpy.tile(neurons, self.vectors)

        def left(_, h):
            return h if Gamma is None else algebra.product(Gamma, h)

        def right(h, _):
            return many * h

        return slopes({(0, 1): self.recall(g_w)[:, None]}, left, right)

    def squares(self, state, scaled, Gamma, algebra):
        """|∂loss/∂W_V|² + Σ_j |∂loss/∂w_j|², (lanes,)."""
        H = {(0, 1): self.recall(scaled[0])[:, None]}
        each = squared_length(self.blocks(state), H, self.turns(scaled, Gamma, algebra), algebra)
        return each.reshape(self.vectors, -1).sum(axis=0)

    def still(self, state):
        """The memory of one run that stands still: (H, r, 2, F + 1, F + 1)."""
        H, r, F = state["w"].shape
        return np.zeros((H, r, 2, F + 1, F + 1))

    def recall(self, x):
        """(c, …, lanes) -> (…, c·lanes)."""
        x = jax().numpy.moveaxis(x, 0, -2)
        return x.reshape(*x.shape[:-2], -1)

    def keep(self, x):
        """(…, c·lanes) -> (c, …, lanes)."""
        return jax().numpy.moveaxis(x.reshape(*x.shape[:-1], self.vectors, -1), -2, 0)
