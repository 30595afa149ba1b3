"""The standard transformer's weights (Equinox layers) and forward pass, and what is watched of it (docs/mathematics.md §13).

D = width of the residual stream, H heads, N layers, n atoms, L positions (the longest atom's; shorter ones are masked).
"""

import math

import numpy as np

from ..extras import needs
from ..jaxed import jax, jit, programs
from ..tasks.positions import attend, padded_tokens
from .initial import embedding


class VanillaNetwork:
    """Weights are a tree of Equinox layers; the forward pass is written out, because attention scores must be seen."""

    def __init__(self, task, vanilla):
        self.task, self.vanilla = task, vanilla
        feature, coefficient, self.present = padded_tokens(task)
        self.features = embedding(task).T  # (F, d)
        self.tokens = coefficient[..., None] * self.features[feature]  # (n, L, d)
        self.answers = len(task.heads) if task.loss == "softmax" else 1

    def start(self, vanilla):
        """Initial weights, a tree of Equinox layers; every array of a layer has the layers as first axis."""
        needs("networks")
        inputs = self.tokens.shape[-1]
        sizes = vanilla.width, vanilla.mlp_width, inputs, self.answers, vanilla.layer_norm
        ends, layer = programs.get(("vanilla start", *sizes), lambda: _drawn(*sizes))
        J = jax()
        keys = J.random.split(J.random.key(vanilla.seed), vanilla.layers + 2)
        layers = J.tree.map(lambda *x: np.stack(x), *map(layer, keys[2:]))
        attention = {name: layers.pop(name) for name in ("query", "key")}
        return J.tree.map(np.asarray, ends(*keys[:2])) | {"attention": attention, "layers": layers}

    def forward(self, weights):
        """F (n,) or logits (C, n); by layer: scores (N, n, H, key, query), neurons (N, n, L, M), mean stream (N+1, n, D)."""
        J = jax()
        jnp = J.numpy
        share = self.present / self.present.sum(axis=1, keepdims=True)

        def each(function, x):  # over atoms and positions
            return J.vmap(J.vmap(function))(x)

        def norm(layer, name, x):
            return each(layer[name], x) if self.vanilla.layer_norm else x

        def mean(x):
            return jnp.einsum("nl,nld->nd", share, x)

        def split(x):
            return x.reshape(*x.shape[:2], self.vanilla.heads, -1)

        def block(x, layer):
            y = norm(layer, "norm_attention", x)
            q, k, v = (split(each(layer[name], y)) for name in ("query", "key", "value"))
            S = jnp.einsum("nkhd,nqhd->nhkq", k, q) / math.sqrt(self.vanilla.head_width)
            P = attend(S, self.present[:, None])
            mixed = jnp.einsum("nkhd,nhkq->nqhd", v, P).reshape(x.shape)
            x = x + each(layer["output"], mixed)
            z = each(layer["rise"], norm(layer, "norm_mlp", x))
            x = x + each(layer["fall"], J.nn.relu(z))
            return x, (S, z, mean(x))

        x = each(weights["embed"], jnp.asarray(self.tokens))
        first = mean(x)
        x, (S, z, later) = J.lax.scan(
            block, x, weights["layers"] | weights["attention"]
        )  # one compiled block for any number of layers
        F = each(weights["read"], norm(weights, "norm", x))
        answer = mean(F)[:, 0] if self.answers == 1 else mean(F).T
        return answer, S, z, jnp.concatenate([first[None], later])

    def observe(self, weights):
        """What stage detection and the probes read.

        w       (F,), or (C, F), the read-out applied to each feature's embedding: the direct path from token to answer
        A       (N, n, H, key, query) scores between the tokens of each atom, minus the mean over the query's keys, because
                a shift common to all keys changes nothing; 0 where there is no token
        z       (N, n) the largest pre-activation of the layer's MLP on the atom: at or below 0 the layer is off there
        stream  (N+1, n, D) mean of the residual stream over the tokens, after the embedding and after every layer
        answer  (n,), or (C, n)
        """
        jnp = jax().numpy
        answer, S, z, stream = self.forward(weights)
        key, query = self.present[:, None, :, None], self.present[:, None, None, :]
        S = jnp.where(key, S, 0.0)
        A = jnp.where(key & query, S - S.sum(axis=3, keepdims=True) / key.sum(axis=2, keepdims=True), 0.0)
        top = jnp.where(self.present[..., None], z, -jnp.inf).max(axis=(2, 3))
        w = weights["read"].weight @ weights["embed"].weight @ self.features.T
        return {"w": w[0] if self.answers == 1 else w, "A": A, "z": top, "stream": stream, "answer": answer}


def _drawn(D, M, inputs, answers, norms):
    """Functions of two keys, what is before and behind the layers, and of one, a layer: compiled once for any number of them."""
    import equinox as eqx

    def linear(key, inputs, outputs, bias=True):
        return eqx.nn.Linear(inputs, outputs, use_bias=bias, key=key)

    def ends(first, last):
        made = {"embed": linear(first, inputs, D, bias=False), "read": linear(last, D, answers)}
        return eqx.filter(made | ({"norm": eqx.nn.LayerNorm(D)} if norms else {}), eqx.is_inexact_array)

    def layer(key):
        keys = jax().random.split(key, 6)
        made = {name: linear(k, D, D, bias=False) for name, k in zip(("query", "key", "value", "output"), keys)}
        made |= {"rise": linear(keys[4], D, M), "fall": linear(keys[5], M, D)}
        made |= {"norm_attention": eqx.nn.LayerNorm(D), "norm_mlp": eqx.nn.LayerNorm(D)} if norms else {}
        return eqx.filter(made, eqx.is_inexact_array)

    return jit(ends, quick=True), jit(layer, quick=True)
