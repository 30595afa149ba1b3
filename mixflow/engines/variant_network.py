"""The variants' forward pass in jax, and their network for the engine (docs/mathematics.md §13).

H heads, r values in each, a = H or 1 attentions, n atoms of at most L tokens, F features, width m, dimension d.
"""

import math

import numpy as np

from ..jaxed import jax
from ..networks.transformer import draw_weights, embedding
from ..networks.variant import Variant
from .positions import attend, padded_tokens


def read(task, w, A):
    """What each query reads, o (H, r, n, L): values w (H, r, F), scores A (a, F, F), both in feature coordinates.

    Token by token, so that a softmax takes its own maximum: sign descent and Adam drive scores beyond what one table of
    exponentials for all atoms (docs/mathematics.md §8) can hold. At K = 2 it costs the same.
    """
    f, s, present = padded_tokens(task)
    S = A[:, f[:, :, None], f[:, None, :]] * (s[:, :, None] * s[:, None, :])  # (a, n, key, query)
    P = attend(S, present)
    P = jax().numpy.broadcast_to(P, (len(w), *P.shape[1:]))
    return jax().numpy.einsum("hrnk,hnkq->hrnq", w[..., f] * s, P)


def respond(task, w, A, bias, signs, *, read_out=None, offset=0.0, relu_per_query=False):
    """z, (H, r, n), or (H, r, n, L) with one neuron for each query, and the answer F (n,).

    bias (H, r), signs (H,), read_out (H, r) or None for 1.
    """
    J = jax()
    present = padded_tokens(task)[2]
    share = present / present.sum(axis=1, keepdims=True)  # (n, L) of the queries
    o = read(task, w, A)
    average = lambda x: J.numpy.sum(share * x, axis=-1)  # noqa: E731
    z = bias[..., None, None] + o if relu_per_query else bias[..., None] + average(o)
    on = J.nn.relu(z)
    on = average(on) if relu_per_query else on
    weight = np.asarray(signs)[:, None] * (1.0 if read_out is None else read_out)
    return z, J.numpy.einsum("hr,hrn->n", weight * J.numpy.ones(w.shape[:2]), on) - offset


def logistic_loss(task, F, weight):
    """Mean logistic loss of the answers F (n,) with `weight` on each atom."""
    J = jax()
    return J.numpy.sum(weight * J.nn.softplus(-task.labels * F))


class VariantNetwork:
    """One variant's weights and answers: w (H, r, d), W_K and W_Q (a, m, d), b (H, r), u (H, r), θ."""

    def __init__(self, task, variant):
        self.task, self.variant = task, Variant.of(variant)
        self.embedding = embedding(task, variant.dimension)

    @property
    def key(self):
        """What the compiled program depends on: everything but the seed, ω and the initial values."""
        task = self.task
        arrays = (*padded_tokens(task), task.labels, self.embedding)
        spec = {**self.variant.spec(), "seed": 0, "omega": 0.0, "bias": 0.0, "value_scale": 0.0, "initialisation": ""}
        return tuple(spec.items()), *((array.shape, array.tobytes()) for array in arrays)

    def start(self, variant):
        """Initial (weights, fixed)."""
        variant = Variant.of(variant)
        d, H, r = len(self.embedding), variant.heads, variant.value_dimension
        standard = variant.initialisation == "standard"
        attentions = 1 if variant.shared_attention else H
        W_K, W_Q = draw_weights(variant.transformer, self.task, attentions, 1 / math.sqrt(d) if standard else None)
        # A stream of its own, so that random values leave W_K and W_Q as they were.
        w = np.random.default_rng([variant.seed, 1]).standard_normal((H, r, d))
        w *= 1 / math.sqrt(d) if standard else variant.value_scale
        if variant.tie_values:
            w[1] = -w[0]
        weights, fixed = {"w": w, "W_K": W_K, "W_Q": W_Q}, {}
        (weights if variant.train_bias else fixed)["bias"] = np.full((H, r), variant.bias)
        if r > 1:
            weights["read_out"] = np.full((H, r), 1 / math.sqrt(r))
        if variant.offset:
            weights["offset"] = np.zeros(())
        return weights, fixed

    def features(self, weights):
        """Values (H, r, F), and keys and queries (a, m, F), divided by m^{1/4} each where scores are divided by √m."""
        scale = self.variant.width**-0.25 if self.variant.scaled_scores else 1.0
        return weights["w"] @ self.embedding, *(scale * (weights[name] @ self.embedding) for name in ("W_K", "W_Q"))

    def answer(self, weights, fixed):
        """z and F of every atom."""
        both = {**weights, **fixed}
        w, K, Q = self.features(weights)
        A = jax().numpy.einsum("ami,amj->aij", K, Q)
        return respond(
            self.task, w, A, both["bias"], self.variant.head_signs, read_out=both.get("read_out"),
            offset=both.get("offset", 0.0), relu_per_query=self.variant.relu_per_query,
        )  # fmt: skip

    def gradient(self, weights, fixed, weight):
        """Of the loss with `weight` on each atom; tied values share one gradient."""
        J = jax()
        g = J.grad(lambda x: logistic_loss(self.task, self.answer(x, fixed)[1], weight))(weights)
        if self.variant.tie_values:
            shared = g["w"][0] - g["w"][1]
            g["w"] = J.numpy.stack([shared, -shared])
        return g

    def observe(self, weights, fixed):
        """In feature coordinates, every head with its attention: w, A, G_K, G_Q, z, the answer F, and what else is trained."""
        jnp, H = jax().numpy, self.variant.heads
        w, K, Q = self.features(weights)
        inner = lambda X, Y: jnp.broadcast_to(jnp.einsum("ami,amj->aij", X, Y), (H, *[X.shape[-1]] * 2))  # noqa: E731
        z, F = self.answer(weights, fixed)
        if self.variant.value_dimension == 1:
            w, z = w[:, 0], z[:, 0]
        others = {name: weights[name] for name in ("bias", "read_out", "offset") if name in weights}
        if "bias" in others and self.variant.value_dimension == 1:
            others["bias"] = others["bias"][:, 0]
        return {"w": w, "A": inner(K, Q), "G_K": inner(K, K), "G_Q": inner(Q, Q), "z": z, "answer": F, **others}
