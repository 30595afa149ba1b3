"""The exact Gram reduction: descent on (w, A, G_K, G_Q), equal to training every weight, at any width (docs/mathematics.md §3, §8)."""

import numpy as np

from ..jaxed import jax
from .lanes import LANES, contract, exp, keep, logistic, product, transpose
from .transformer import start


class Gram:
    """Gradient descent on the Gram state of one finite task, `LANES` runs at a time.

    Both heads lie side by side in the last axis: index h·LANES + lane, h = 0 for head +, 1 for head -.
    """

    name = "gram"
    lanes = LANES

    def __init__(self, task, tie_values=False):
        self.task, self.tie_values = task, tie_values

    @property
    def key(self):
        """What the compiled program depends on; probabilities, learning rate and bias are arguments of it."""
        task = self.task
        arrays = (task.token_feature, task.token_coefficient, task.count, task.labels, task.gram)
        return self.name, self.tie_values, *(array.tobytes() for array in arrays), task.count.shape

    def start(self, transformer):
        """The initial state of one run: w (2, F), A, G_K, G_Q (2, F, F)."""
        return start(transformer, self.task)

    def parameters(self, transformers, eta_w, eta_A):
        """Arrays the step reads besides the state, for `LANES` runs; a rate of zero freezes that part of the model."""
        bias = np.array([transformer.bias for transformer in transformers])
        lanes = {"bias": bias, "eta_w": eta_w, "eta_A": eta_A}
        return {"probability": self.task.probabilities, **{name: np.tile(x, 2) for name, x in lanes.items()}}

    def stack(self, states):
        """`LANES` states of single runs -> one state with lanes: w (F, 2·LANES), A, G_K, G_Q (F, F, 2·LANES)."""
        return {
            name: np.concatenate([np.stack([state[name][h] for state in states], axis=-1) for h in (0, 1)], axis=-1)
            for name in ("w", "A", "G_K", "G_Q")
        }

    def unstack(self, saved, lane):
        """The history of one lane: (saves, F, …, 2·LANES) -> (saves, 2, F, …)."""
        return {name: np.stack([x[..., lane], x[..., LANES + lane]], axis=1) for name, x in saved.items()}

    final = staticmethod(lambda state: {})  # the history itself holds the whole state

    def observe(self, state, parameters):
        """What is recorded at a save: the whole state."""
        return state

    def step(self, i, state, parameters):
        """One step of gradient descent, with its second-order terms (docs/mathematics.md §8)."""
        w, A, G_K, G_Q = state["w"], state["A"], state["G_K"], state["G_Q"]
        g_w, g = self.gradient(w, A, parameters)
        h_w, h = keep(parameters["eta_w"] * g_w, parameters["eta_A"] * g)
        if not np.array_equal(self.task.gram, np.eye(len(self.task.gram))):
            Γ = self.task.gram[:, :, None]
            h_w = sum(Γ[:, k] * h_w[k] for k in range(len(Γ)))
            P, Q = keep(product(Γ, h), product(h, Γ))
        else:
            P = Q = h
        PA, GQ, PG, AQ = keep(product(P, transpose(A)), product(G_K, Q), product(P, G_Q), product(transpose(A), Q))
        return {
            "w": w - h_w,
            "A": A - (GQ + PG) + product(PA, Q),
            "G_K": G_K - (PA + transpose(PA)) + product(PG, transpose(P)),
            "G_Q": G_Q - (AQ + transpose(AQ)) + product(transpose(Q), GQ),
        }

    def gradient(self, w, A, parameters):
        """∂loss/∂w (F, lanes) and g = ∂loss/∂A (F, F, lanes), both heads, in feature coordinates (docs/mathematics.md §8).

        With token types τ, E[k,q] = exp(score of key k for query q), counts M[a,τ] and values u_τ:
            Z_aq = Σ_k M[a,k] E[k,q],   O_aq = Σ_k M[a,k] u_k E[k,q] / Z_aq,   z_a = b + (1/L_a) Σ_q M[a,q] O_aq.
        """
        jnp, task = jax().numpy, self.task
        f, c, M = task.token_feature, task.token_coefficient, task.count
        T = len(f)
        cc = (c[:, None] * c)[:, :, None]
        u = c[:, None] * w[f]
        if np.all(np.abs(cc) == 1):  # signs only: e^{-x} is 1/e^x, which saves most of the exponentials
            e = keep(exp(A))
            E = jnp.where(cc > 0, e[f][:, f], (1 / e)[f][:, f])
        else:
            E = exp(cc * A[f][:, f])
        E, uE = keep(E, u[:, None] * E)
        Z, N = contract(M, E), contract(M, uE)  # (n, T, lanes)
        share = (M / task.length[:, None])[:, :, None] / jnp.where(M[:, :, None] > 0, Z, 1.0)  # M[a,q] / (L_a Z_aq)
        O = N / jnp.where(M[:, :, None] > 0, Z, 1.0)
        share, O = keep(share, O)
        z = parameters["bias"] + sum((M[:, q] / task.length)[:, None] * O[:, q] for q in range(T))  # (n, lanes)
        r = keep(self.gate(z, parameters["probability"]))
        R = r[:, None] * share
        R, RO = keep(R, R * O)
        MR, MRO = contract(M.T, R), contract(M.T, RO)  # (T, T, lanes)
        g_u, g_S = keep(c[:, None, None] * E * MR, cc * (uE * MR - E * MRO))
        g_w = self.fold(sum(g_u[:, q] for q in range(T)))
        if self.tie_values:
            g_shared = g_w[:, :LANES] - g_w[:, LANES:]
            g_w = jnp.concatenate([g_shared, -g_shared], axis=-1)
        return g_w, transpose(self.fold(transpose(self.fold(g_S))))

    def gate(self, z, probability):
        """∂loss/∂z_h of every atom, (n, lanes): the residual where the neuron is on, 0 where it is off."""
        jnp, y = jax().numpy, self.task.labels[:, None]
        on = jnp.maximum(z, 0.0)
        margin = y * (on[:, :LANES] - on[:, LANES:])
        residual = -y * probability[:, None] * logistic(margin)
        return jnp.where(z > 0, jnp.concatenate([residual, -residual], axis=-1), 0.0)

    def fold(self, X):
        """Sum the rows of token types (T, …) into rows of features (F, …).

        Types are sorted by feature; neighbouring features with equally many types are summed as one strided block.
        """
        jnp = jax().numpy
        many = np.bincount(self.task.token_feature, minlength=len(self.task.features))
        blocks, at, i = [], 0, 0
        while i < len(many):
            run = next((j for j in range(i, len(many)) if many[j] != many[i]), len(many)) - i
            block = X[at : at + run * many[i]]
            rows = sum(block[j :: many[i]] for j in range(many[i])) if many[i] else jnp.zeros((run, *X.shape[1:]))
            blocks.append(rows)
            at, i = at + run * many[i], i + run
        return jnp.concatenate(blocks) if len(blocks) > 1 else blocks[0]
