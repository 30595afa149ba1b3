"""From a slope to a step on lanes: plain descent, unit length, weight decay and the heavy ball (docs/mathematics.md §13).

With ν = 1/|gradient| or 1, weight decay λ, momentum β and the rate η of a part of the network, every weight θ moves by

    v ← β v + ν g + λ θ,      θ ← θ − η v

Directly trained numbers have a velocity of their own; of weights that enter as products inner products suffice (`gram_update`).
"""

import numpy as np

from ..jaxed import jax
from .gram_update import descend, joined, parted, remember


class Rule:
    """How slopes move a state.

    names  what is done besides plain descent, with its numbers (`base.besides`)
    """

    def __init__(self, names):
        self.names = names
        self.remembers, self.decays, self.normalises = (
            name in names for name in ("momentum", "weight_decay", "normalised")
        )

    @property
    def key(self):
        """What a compiled program depends on: numbers are arguments of it."""
        return tuple(sorted(self.names))

    def parameters(self, eta_w, eta_A, score_rate):
        """{name: (lanes,)}: rate_* multiplies slopes, step_* velocities, moves_* the squares of a gradient's length."""
        found = {"rate_w": np.array(eta_w), "rate_A": np.array(eta_A) * score_rate}
        if self.normalises:
            found |= {"moves_w": np.sign(eta_w), "moves_A": np.sign(eta_A) * score_rate}
        if self.remembers:
            found |= {"rate_w": np.ones_like(score_rate), "rate_A": score_rate}
        if self.remembers or self.decays:
            found |= {"step_w": np.array(eta_w), "step_A": np.array(eta_A)}
        numbers = {name: value for name, value in self.names.items() if name in ("momentum", "weight_decay")}
        return found | {name: np.full_like(score_rate, value) for name, value in numbers.items()}

    def velocities(self, names, families, state):
        """What a state that stands still remembers: a velocity for each of the names, a memory for each family of products."""
        if not self.remembers:
            return {}
        found = {f"{name}_velocity": np.zeros_like(state[name]) for name in names}
        return found | {family.memory: family.still(state) for family in families}

    def directly(self, name, state, h, parameters):
        """A directly trained x, and its velocity, after a step; h is its slope times its rate."""
        x, n = state[name], h.shape[-1]
        if not (self.remembers or self.decays):
            return {name: x - h}
        eta = parameters["step_A" if name == "A" else "step_w"][:n]
        if not self.remembers:
            return {name: (1 - eta * parameters["weight_decay"][:n]) * x - h}
        v = parameters["momentum"][:n] * state[f"{name}_velocity"] + h
        v = v + parameters["weight_decay"][:n] * x if self.decays else v
        return {name: x - eta * v, f"{name}_velocity": v}

    def products(self, family, state, h, parameters, algebra, scale=None):
        """The blocks of a family of products, and their memory, after a step.

        h has the slopes times their rates, or without them where the rates are given as `scale`: the length of a gradient
        takes the same products of S and slopes, and they are computed once
        """
        S, X = family.blocks(state), family.turns(h, gram_of(parameters), algebra)
        lanes = S[0, 0].shape[-1]
        scale = None if scale is None else _fit(scale, lanes)
        if not (self.remembers or self.decays):
            return family.state(descend(S, X, algebra, scale=scale))
        eta = _fit(parameters[family.step], lanes)
        decay = _fit(parameters["weight_decay"], lanes) if self.decays else None
        if not self.remembers:
            return family.state(descend(S, X, algebra, shrink=1 - eta * decay, scale=scale))
        sizes = [S[i, i].shape[0] for i in range(1 + max(j for _, j in S))]
        memory, momentum = family.recall(state[family.memory]), _fit(parameters["momentum"], lanes)
        S, memory = remember(joined(S, sizes, algebra), memory, X, sizes, algebra, momentum, decay, eta, scale)
        return family.state(parted(S, sizes)) | {family.memory: family.keep(memory)}


def gram_of(parameters):
    """Γ (F, F, 1), or None where it is the identity."""
    return parameters["gram"][:, :, None] if "gram" in parameters else None


def _fit(x, lanes):
    """Numbers of all lanes, for a family with more or fewer of them side by side."""
    return jax().numpy.tile(x, -(-lanes // len(x)))[:lanes]
