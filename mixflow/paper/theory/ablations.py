"""What is the second head for? The same descent with parts of the network taken away, exactly, in the Gram variables.

Each variant is a set of heads' sign, attention and value, and the update of §3 with automatic differentiation:

    "two heads"                   the network itself
    "one head"                    F = ReLU(z_+), which cannot be negative
    "one head, trained offset"    F = ReLU(z_+) − θ, θ trained from 0
    "two heads, one attention"    the heads share W_K and W_Q, each has its own w
    "tied values"                 w_- = −w_+, each head its own attention
"""

import numpy as np

from ...engines.variant_network import respond
from ...jaxed import jax
from ...networks.transformer import start

VARIANTS = ("two heads", "one head", "one head, trained offset", "two heads, one attention", "tied values")


def ablate(task, transformer, variant, *, learning_rate=0.1, steps=20_000, break_symmetry=0.0):
    """Train one variant by full-batch descent; returns loss, accuracy and the final w, A.

    break_symmetry  largest entry of a random addition to the initial A, for variants whose symmetric start is a trap
    """
    task = task.population()
    first = start(transformer, task)
    heads = 1 if variant in ("one head", "one head, trained offset") else 2
    attentions = 1 if heads == 1 or variant == "two heads, one attention" else 2
    noise = break_symmetry * np.random.default_rng(0).uniform(-1, 1, first["A"].shape)
    state = {
        "w": first["w"][:heads],
        "A": (first["A"] + noise)[:attentions],
        "G_K": first["G_K"][:attentions],
        "G_Q": first["G_Q"][:attentions],
        "theta": np.zeros(()),
    }
    J = jax()
    jnp = J.numpy
    y, p = task.labels, task.probabilities
    bias, signs = np.full((heads, 1), transformer.bias), (1.0, -1.0)[:heads]

    def margin(w, A, theta):
        return y * respond(task, w[:, None], A, bias, signs, offset=theta if "offset" in variant else 0.0)[1]

    def loss(w, A, theta):
        return jnp.sum(p * J.nn.softplus(-margin(w, A, theta)))

    def step(_, s):
        g_w, g, g_theta = J.grad(loss, argnums=(0, 1, 2))(s["w"], s["A"], s["theta"])
        if variant == "tied values":
            g_w = jnp.stack([g_w[0] - g_w[1], g_w[1] - g_w[0]])
        h, T = learning_rate * g, lambda X: jnp.swapaxes(X, -1, -2)
        A, G_K, G_Q = s["A"], s["G_K"], s["G_Q"]
        return {
            "w": s["w"] - learning_rate * g_w,
            "A": A - (G_K @ h + h @ G_Q) + h @ T(A) @ h,
            "G_K": G_K - (A @ T(h) + h @ T(A)) + h @ G_Q @ T(h),
            "G_Q": G_Q - (T(A) @ h + T(h) @ A) + T(h) @ G_K @ h,
            "theta": s["theta"] - learning_rate * g_theta,
        }

    end = J.jit(lambda s: J.lax.fori_loop(0, steps, step, s))(state)
    A = jnp.broadcast_to(end["A"], (heads, *end["A"].shape[1:]))
    m = np.asarray(margin(end["w"], end["A"], end["theta"]))
    right = np.where(np.abs(m) < 1e-12, 0.5, m > 0)
    return {
        "variant": variant,
        "loss": float(p @ np.logaddexp(0, -m)),
        "accuracy": float(p @ right),
        "smallest_margin": float(m.min()),
        "theta": float(end["theta"]),
        "w": np.asarray(end["w"]),
        "A": np.asarray(A),
    }
