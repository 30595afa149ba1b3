"""The Gram reduction where tokens are vectors of their own: (w, A, G_K, G_Q) in orthonormal coordinates (docs/mathematics.md §8).

Tokens with noise have no finite list of features, but they lie in R^d, and the d basis vectors serve as features with Γ = I: the
reduction closes on matrices of d×d, at any width, infinity included. Images at infinite width: training moves nothing outside the
span of the training tokens, and what a held-out token has outside it meets only zeros, so coordinates in that span are exact.
"""

import functools
import math

import numpy as np

from ..jaxed import jax
from ..networks.initial import others, products
from ..networks.readout import ReadOut
from . import loss as losses
from .gram_families import Attention
from .gram_update import Algebra, descend
from .lanes import EXP_RANGE, exp, stages
from .minibatch import Minibatches
from .on_tokens import OnTokens

COORDINATES = 2000  # the state has 6 times the square of it in numbers
UNROLL = 16  # coordinates up to which a score is a sum written out, arithmetic on vectors over samples


class Vectors(OnTokens):
    """Descent on w (H, r, d), A, G_K, G_Q (a, d, d) for a task of token vectors; equal to every weight's."""

    name = "gram"

    def __init__(self, task, network, method):
        super().__init__(task, network, method)
        self.readout = ReadOut.of(network, task.tokens)
        # A finite width draws its weights on all d coordinates; the mean-field limit needs the training span alone.
        self.tokens = task.tokens.in_span() if network.mean_field else task.tokens
        self.batches = Minibatches(self.tokens.probabilities, method.inner)

    @classmethod
    def own_objection(cls, task, network, method):
        """Why not: a start that is random between features, a token that is not named, matrices that are too large, a flow."""
        if method.flows:
            return "every sample has kinks of its own where all tokens differ; train task.finite()"
        if network.mean_field and network.standard:
            return "initialisation = 'standard' at infinite width starts from random scores between features; set a finite width"
        special = {
            "value_neurons": network.value_neurons,
            "shared_keys": network.shared_keys,
            "tied": network.attention == "tied",
            "answer": hasattr(network, "respond"),
        }
        if chosen := [name for name, given in special.items() if given]:
            return f"{chosen[0]}: it has values and attentions of their own only; leave it out, or train task.finite()"
        if network.queries == "one":
            return "queries = 'one': the task does not say which token asks; use 'mean' or 'sum'"
        if (d := task.tokens.dimension) > COORDINATES:
            return f"the tokens have {d} coordinates, more than {COORDINATES}, the side of the matrices it would need"
        return None

    @classmethod
    def apt(cls, task, network, method):
        """Token vectors."""
        return hasattr(task, "tokens")

    @property
    def key(self):
        """What the compiled program depends on: options, and shapes, which JAX looks at itself."""
        network = self.network
        options = (network.tie_values, network.direct, network.train_bias, network.offset, network.shared_attention)
        return (
            "vectors",
            self.readout,
            network.heads,
            options,
            network.queries,
            self.tokens.test is None,
            self.batches.key,
        )

    def start(self, network):
        """The initial state: of the weights every weight's engine draws, or of the mean-field limit."""
        d, H, r = self.tokens.dimension, network.heads, network.values
        attentions = 1 if network.shared_attention else H
        scale = 1 / math.sqrt(d) if network.standard else network.value_scale
        w = (
            scale * np.random.default_rng([network.seed, 1]).standard_normal((H, r, d))
            if scale
            else np.zeros((H, r, d))
        )
        if network.tie_values:
            w[1] = -w[0]
        state = {"w": w, **others(network, self.tokens)}
        if network.mean_field:
            G = np.broadcast_to(network.score_scale * network.omega**2 * np.eye(d), (attentions, d, d))
            state["A"] = np.zeros((attentions, d, d))
            return state if network.direct else {**state, "G_K": G, "G_Q": G}
        deviation = 1 / math.sqrt(d) if network.standard else network.omega / math.sqrt(network.width)
        K, Q = deviation * np.random.default_rng(network.seed).standard_normal((2, attentions, network.width, d))
        return state | products(network, K, Q)

    def parameters(self, networks, eta_w, eta_A):
        """Arrays the step reads besides the state."""
        (network,), t = networks, self.tokens
        found = {
            **self.batches.parameters(networks),
            "bias": np.array(network.bias),
            "eta_w": np.array(eta_w[0]),
            "eta_A": np.array(eta_A[0]) * network.score_rate(t),
            "labels": t.labels,
            "train": _samples_last(t.train),
            "directions": t.directions,
        }
        return found | ({"test": _samples_last(t.test)} if t.test else {})

    def observe(self, state, parameters):
        """w, A, G_K, G_Q between the watched directions; z of the training samples, z_test of the held-out ones."""
        jnp, D = jax().numpy, parameters["directions"]
        seen = {name: jnp.einsum("fi,hij,gj->hfg", D, state[name], D) for name in ("A", "G_K", "G_Q") if name in state}
        seen |= {name: state[name] for name in ("bias", "read_out", "offset") if name in state}
        seen["w"] = state["w"] @ D.T
        for part, name in (("train", "z"), ("test", "z_test")):
            if part in parameters:
                seen[name] = self.neurons(state, parameters, part)
        return seen

    def step(self, i, state, parameters):
        """One step of gradient descent, the lines of docs/mathematics.md §3 with their second-order terms."""
        jnp = jax().numpy
        weight = self.batches.weights(i, parameters)[:, 0]
        trained = {name: x for name, x in state.items() if name not in ("G_K", "G_Q")}
        g = jax().grad(self.linearised)(trained, parameters, weight)
        if self.network.tie_values:
            g["w"] = jnp.stack([g["w"][0] - g["w"][1], g["w"][1] - g["w"][0]])
        new = {name: state[name] - parameters["eta_w"] * g[name] for name in trained if name != "A"}
        h = parameters["eta_A"] * g["A"]
        if self.network.direct:
            return new | {"A": state["A"] - h}
        attention, algebra = Attention(), Algebra(jnp.matmul, jnp.matrix_transpose)
        return new | attention.state(descend(attention.blocks(state), attention.turns(h, None, algebra), algebra))

    def linearised(self, state, parameters, weight):
        """Σ weight · slope · answer over the training samples, the slope held fixed: its gradient is that of the mean loss."""
        J, readout = jax(), self.readout
        on = readout.act(self.neurons(state, parameters, "train"), J.numpy)
        on = self._pool(on) if readout.before else on
        answer = readout.answer(on, state.get("read_out"), state.get("offset", 0.0))
        slope = losses.slope(self.tokens.loss, parameters["labels"], J.lax.stop_gradient(answer))
        return J.numpy.sum(weight * slope * answer)

    def neurons(self, state, parameters, part):
        """z (H, r, n), or (H, r, n, L) with a neuron for what each query reads, of the samples of a part."""
        O = attend(state["A"], state["w"], parameters[part], parameters["probability"])
        bias = state["bias"][..., None] if "bias" in state else parameters["bias"]
        if self.readout.before:
            return (bias[..., None] if "bias" in state else bias) + jax().numpy.moveaxis(O, 2, -1)
        return bias + self._pool(O, 2)

    def _pool(self, x, axis=-1):
        return x.mean(axis=axis) if self.network.queries == "mean" else x.sum(axis=axis)

    def final(self, state):
        """The whole state, of which a save shows only what is watched."""
        return {
            f"final_{name}": (tuple(f"{name}_{i}" for i in range(np.ndim(x))), np.asarray(x))
            for name, x in state.items()
        }

    def resume(self, dataset):
        """The state after the last step."""
        return {name.removeprefix("final_"): dataset[name].values for name in dataset if name.startswith("final_")}


def _samples_last(part):
    """The tokens (L, d, n)."""
    return np.moveaxis(part.tokens, 0, -1).copy()


def attend(A, w, X, probability):
    """What every query reads, (H, r, L, n), from scores A (a, d, d), values w (H, r, d) and tokens X (L, d, n).

    The pull-back is written out, line by line (`lanes.stages`, which asks for the probabilities), with samples as the last axis
    throughout: what JAX derives from sums of small products takes four times as long.
    """
    read = jax().custom_vjp(lambda *given: _forward(*given)[0])
    read.defvjp(_forward, _pull_back)
    return read(A, w, X, probability)


def _forward(A, w, X, probability):
    """O (H, r, L, n), and what its pull-back reads: P (a, key, query, n), u (H, r, L, n), X and the probabilities."""
    jnp, stage, (L, d, _) = jax().numpy, stages(probability, X.shape[-1]), X.shape

    def keys(A, X):
        if d > UNROLL:
            return jnp.einsum("aij,kin->akjn", A, X)
        return sum(A[:, None, i, :, None] * X[:, i, None] for i in range(d))

    def values(w, X):
        if d > UNROLL:
            return jnp.einsum("hri,kin->hrkn", w, X)
        return sum(w[:, :, None, i, None] * X[:, i] for i in range(d))

    def scores(Y, X):
        if d > UNROLL:
            return jnp.einsum("akjn,qjn->akqn", Y, X)
        return sum(Y[:, :, None, j] * X[:, j] for j in range(d))

    def exponentials(S):
        largest = functools.reduce(jnp.maximum, [S[:, k, None] for k in range(L)])
        return exp(jnp.maximum(S - largest, -EXP_RANGE))

    def read(P, u):
        return sum(P[:, None, k] * u[:, :, k, None] for k in range(L))

    E = stage(exponentials, stage(scores, stage(keys, A, X), X))
    P, u = stage(lambda E: E / sum(E[:, k, None] for k in range(L)), E), stage(values, w, X)
    return stage(read, P, u), (P, u, X, probability)


def _pull_back(kept, dO):
    """∂loss/∂A and ∂loss/∂w from ∂loss/∂O (H, r, query, n)."""
    jnp, (P, u, X, probability) = jax().numpy, kept
    stage, L = stages(probability, X.shape[-1]), len(X)

    def by_values(P, dO):
        return sum(P[:, None, :, q] * dO[:, :, q, None] for q in range(L))

    def by_scores(P, u, dO):
        dP = [
            sum(u[:, r, k, None] * dO[:, r] for r in range(u.shape[1])) for k in range(L)
        ]  # (H, query, n) of each key
        mean = sum(P[:, k] * dP[k] for k in range(L))
        dS = jnp.stack([P[:, k] * (dP[k] - mean) for k in range(L)], axis=1)
        return dS if len(P) == len(dS) else dS.sum(axis=0, keepdims=True)

    def by_keys(dS, X):
        return sum(dS[:, :, q, None] * X[q] for q in range(L))  # (a, key, d, n)

    V = stage(by_keys, stage(by_scores, P, u, dO), X)
    return jnp.einsum("kin,akjn->aij", X, V), jnp.einsum("hrkn,kin->hri", stage(by_values, P, dO), X), None, None
