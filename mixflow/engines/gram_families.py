"""Weights that share rows and enter the loss as products: which blocks S = BᵀB has, and what turns them (`gram_update`)."""

import numpy as np

from ..jaxed import jax
from .gram_update import slopes, squared_length

BASE = {(0, 0): "G_K", (0, 1): "A", (1, 1): "G_Q"}  # S of [W_K | W_Q] by the names of its blocks


class Attention:
    """[W_K | W_Q] of every attention, on lanes: G_K, A, G_Q."""

    memory, step = "attention_memory", "step_A"

    def __init__(self, orthonormal):
        self.orthonormal = orthonormal

    def blocks(self, state):
        """S by blocks."""
        return {pair: state[name] for pair, name in BASE.items()}

    def state(self, S):
        """The parts of a state, from S by blocks."""
        return {name: S[pair] for pair, name in BASE.items()}

    def turns(self, g, parameters, algebra):
        """X = H Γ̂ of g = ∂loss/∂A, or of a multiple of it."""

        def left(_, h):
            return h if self.orthonormal else algebra.stage(algebra.product, parameters["gram"][:, :, None], h)

        def right(h, _):
            return h if self.orthonormal else algebra.stage(algebra.product, h, parameters["gram"][:, :, None])

        return slopes(self._slopes(g), left, right)

    def squares(self, state, g, parameters, algebra):
        """|∂loss/∂W_K|² + |∂loss/∂W_Q|², (lanes,)."""
        return squared_length(self.blocks(state), self._slopes(g), self.turns(g, parameters, algebra), algebra)

    def _slopes(self, g):
        return {(0, 1): g}

    def still(self, state):
        """The memory of one run that stands still: (a, 2, 2F, 2F)."""
        a, F, _ = state["A"].shape
        return np.zeros((a, 2, 2 * F, 2 * F))

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

    def __init__(self, orthonormal, vectors):
        self.orthonormal, self.vectors = orthonormal, vectors

    def blocks(self, state):
        """S by blocks."""
        w, N = self.recall(state["w"]), self.recall(state["N"])
        return {(0, 0): self.recall(state["G_V"]), (0, 1): w[:, None], (1, 1): N[None, None]}

    def state(self, S):
        """The parts of a state, from S by blocks."""
        return {"G_V": self.keep(S[0, 0]), "w": self.keep(S[0, 1][:, 0]), "N": self.keep(S[1, 1][0, 0])}

    def turns(self, g_w, parameters, algebra):
        """X = H Γ̂ of γ = ∂loss/∂w (c, F, lanes), or of a multiple of it; Γ̂ = diag(Γ, m₁)."""
        many = jax().numpy.tile(parameters["value_neurons"], self.vectors)

        def left(_, h):
            return h if self.orthonormal else algebra.product(parameters["gram"][:, :, None], h)

        def right(h, _):
            return many * h

        return slopes({(0, 1): self.recall(g_w)[:, None]}, left, right)

    def squares(self, state, g_w, parameters, algebra):
        """|∂loss/∂W_V|² + Σ_j |∂loss/∂w_j|², (lanes,)."""
        H = {(0, 1): self.recall(g_w)[:, None]}
        each = squared_length(self.blocks(state), H, self.turns(g_w, parameters, algebra), algebra)
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
