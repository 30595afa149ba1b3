"""The Gram reduction on arrays of token vectors: (w, A, G_K, G_Q) in the d coordinates themselves (docs/mathematics.md §8).

Tokens with noise have no finite list of features, but they lie in R^d, and the d basis vectors serve as features with
Γ = I: the reduction closes on matrices of d×d, at any width. Worth it for small d; for images, d = 784, `tokens` serves.
"""

import numpy as np

from ..errors import SpecError
from ..jaxed import jax
from .tokens import TokenModel


class Coordinates:
    """Full-batch descent on w (2, d), A, G_K, G_Q (2, d, d) for a task in the form of `Tokens`; equal to every weight's."""

    name = "coordinates"
    lanes = 1

    def __init__(self, tokens, tie_values=False):
        self.tokens, self.tie_values = tokens, tie_values

    @property
    def key(self):
        """What the compiled program depends on: nothing but shapes, which JAX looks at itself."""
        return self.name, self.tie_values, self.tokens.test is None

    def start(self, transformer):
        """The initial state: of the weights `TokenModel` draws, or of the mean-field limit."""
        d = self.tokens.dimension
        if transformer.dimension not in (None, d):
            raise SpecError(f"dimension = {transformer.dimension}: the tokens have {d} coordinates; leave it out.")
        if transformer.mean_field:
            G = np.broadcast_to(transformer.omega**2 * np.eye(d), (2, d, d))
            return {"w": np.zeros((2, d)), "A": np.zeros((2, d, d)), "G_K": G, "G_Q": G}
        full = TokenModel(self.tokens).start(transformer)
        K, Q = full["W_K"], full["W_Q"]
        inner = lambda X, Y: np.einsum("hmi,hmj->hij", X, Y)  # noqa: E731
        return {"w": full["w"], "A": inner(K, Q), "G_K": inner(K, K), "G_Q": inner(Q, Q)}

    def parameters(self, transformers, eta_w, eta_A):
        """Arrays the step reads besides the state."""
        (transformer,) = transformers
        t = self.tokens
        found = {
            "bias": np.array(transformer.bias),
            "eta_w": np.array(eta_w[0]),
            "eta_A": np.array(eta_A[0]),
            "probability": t.probabilities,
            "labels": t.labels,
            "train": t.train.tokens,  # (n, L, d)
            "directions": t.directions,
        }
        return found | ({"test": t.test.tokens} if t.test else {})

    def stack(self, states):
        """The state of the only lane."""
        return states[0]

    def unstack(self, saved, lane):
        """The history of the only lane."""
        return saved

    final = staticmethod(lambda state: {})

    def observe(self, state, parameters):
        """w, A, G_K, G_Q between the watched directions; z (2, n) of the training samples, z_test of the held-out ones."""
        jnp, D = jax().numpy, parameters["directions"]
        seen = {name: jnp.einsum("fi,hij,gj->hfg", D, state[name], D) for name in ("A", "G_K", "G_Q")}
        seen["w"] = state["w"] @ D.T
        for part, name in (("train", "z"), ("test", "z_test")):
            if part in parameters:
                seen[name] = preactivation(state["w"], state["A"], parameters[part], parameters["bias"])
        return seen

    def step(self, i, state, parameters):
        """One step of gradient descent, the lines of docs/mathematics.md §3 with their second-order terms."""
        jnp = jax().numpy
        w, A, G_K, G_Q = (state[name] for name in ("w", "A", "G_K", "G_Q"))
        g_w, g = jax().grad(self.loss, argnums=(0, 1))(w, A, parameters)
        if self.tie_values:
            g_w = jnp.stack([g_w[0] - g_w[1], g_w[1] - g_w[0]])
        h, T = parameters["eta_A"] * g, lambda X: jnp.swapaxes(X, -1, -2)
        hA, Ah, Gh, hG = h @ T(A), T(A) @ h, G_K @ h, h @ G_Q
        return {
            "w": w - parameters["eta_w"] * g_w,
            "A": A - (Gh + hG) + hA @ h,
            "G_K": G_K - (hA + T(hA)) + hG @ T(h),
            "G_Q": G_Q - (Ah + T(Ah)) + T(h) @ Gh,
        }

    def loss(self, w, A, parameters):
        """Mean logistic loss over the training samples."""
        J = jax()
        z = preactivation(w, A, parameters["train"], parameters["bias"])
        F = J.nn.relu(z[0]) - J.nn.relu(z[1])
        return J.numpy.sum(parameters["probability"] * J.nn.softplus(-parameters["labels"] * F))


def preactivation(w, A, X, bias):
    """z_h of every sample, (2, n), from X (n, L, d): softmax over keys, average over queries."""
    J = jax()
    S = J.numpy.einsum("nki,hij,nqj->hnkq", X, A, X)
    mass = J.nn.softmax(S, axis=2).mean(axis=3)  # (2, n, key)
    return bias + J.numpy.einsum("hnk,nki,hi->hn", mass, X, w)
