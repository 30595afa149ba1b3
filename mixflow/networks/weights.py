"""Every weight of the one-layer transformer, token by token, in JAX (docs/mathematics.md §2, §13).

H heads, r values in each, a = H or 1 attentions, n atoms of at most L tokens, F features, width m, dimension d. Weights by
name: w (H, r, d), one vector for both heads where values are tied, or W_V (H, r, m, d) and value_neurons (H, r, m₁, m); W_K and
W_Q (a, m, d), without W_Q where it is W_K, or W_KQ (a, d, d); bias (H, r); and read_out (H, r), offset () where they are.
"""

import numpy as np

from ..jaxed import jax
from ..tasks.positions import attend, attend_finely, padded_tokens
from .initial import draw_weights, embedding, neuron_signs, others, products
from .readout import ReadOut


def start(network, task):
    """Initial weights."""
    drawn = draw_weights(network, task)
    weights = {"bias": np.full((len(network.heads_for(task)), network.values), network.bias), **others(network, task)}
    if network.tie_values:
        drawn["w"] = drawn["w"][:1]
    if network.attention == "direct":
        drawn["W_KQ"] = np.einsum("ami,amj->aij", drawn.pop("W_K"), drawn.pop("W_Q"))
    if network.attention == "tied":
        del drawn["W_Q"]
    return weights | drawn


def observe(network, weights, task):
    """The Gram state in feature coordinates, as `initial.start` has it: the scores A, and G_K and G_Q on their scale."""
    jnp, Phi, scale = jax().numpy, embedding(task, network.dimension), network.score_scale
    seen = {name: weights[name] for name in ("read_out", "offset") if name in weights}
    if network.train_bias:
        seen["bias"] = weights["bias"]
    seen["w"] = values(network, weights) @ Phi
    if network.value_neurons is not None:
        V, total = weights["W_V"] @ Phi, _behind(network, weights)
        seen |= {"G_V": jnp.einsum("hrmf,hrmg->hrfg", V, V), "N": jnp.sum(total**2, axis=-1)}
    if "W_KQ" in weights:
        return {**seen, "A": scale * (Phi.T @ weights["W_KQ"] @ Phi)}
    K = weights["W_K"] @ Phi  # (a, m, F)
    return seen | products(network, K, weights["W_Q"] @ Phi if "W_Q" in weights else K, jnp)


def values(network, weights):
    """w (H, r, d) of both heads, also where one vector serves them, or where it is a product."""
    jnp = jax().numpy
    if network.value_neurons is not None:
        return jnp.einsum("hrm,hrmd->hrd", _behind(network, weights), weights["W_V"])
    w = weights["w"]
    return jnp.concatenate([w, -w]) if network.tie_values else w


def _behind(network, weights):
    """Σ_j a_j w_j of the neurons behind W_V, (H, r, m)."""
    return jax().numpy.einsum("j,hrjm->hrm", neuron_signs(network), weights["value_neurons"])


def answer(network, weights, task):
    """F of every atom (n,), or logits (C, n) for softmax.

    Token by token, so that a softmax takes its own maximum: sign descent and Adam drive scores beyond what one table of
    exponentials for all atoms (docs/mathematics.md §8) can hold.
    """
    jnp, readout = jax().numpy, ReadOut.of(network, task)
    seen = observe(network, weights, task)
    O, share = read(network, task, seen["w"], seen["A"], attend_finely)
    bias = weights["bias"][..., None]
    if readout.before:
        on = jnp.sum(share * readout.act(bias[..., None] + O, jnp), axis=-1)
    else:
        on = readout.act(bias + jnp.sum(share * O, axis=-1), jnp)
    return readout.answer(on, weights.get("read_out"), weights.get("offset", 0.0))


def read(network, task, w, A, attend=attend):
    """What each asking token reads, O (H, r, n, queries), and its share in the pooled sum (n, queries)."""
    jnp = jax().numpy
    f, s, present = padded_tokens(task)
    asks, sign, share = _asking(network, task, f, s, present)
    S = A[:, f[:, :, None], asks[:, None, :]] * (s[:, :, None] * sign[:, None, :])  # (a, n, key, query)
    P = attend(S, present)
    P = jnp.broadcast_to(P, (len(w), *P.shape[1:]))
    return jnp.einsum("hrnk,hnkq->hrnq", w[..., f] * s, P), share


def _asking(network, task, f, s, present):
    """Feature, coefficient and share of every asking token, (n, queries) each."""
    if network.queries == "one":
        kind = task.query_index[:, None]
        return task.token_feature[kind], task.token_coefficient[kind], np.ones(kind.shape)
    return f, s, present / present.sum(axis=1, keepdims=True) if network.queries == "mean" else present * 1.0
