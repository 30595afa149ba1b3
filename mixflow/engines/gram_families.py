"""Weights that share rows and enter the loss as products: which blocks S = BᵀB has, and what turns them (`gram_update`)."""

import numpy as np

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
