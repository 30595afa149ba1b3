"""Every weight of the transformer, gradient by automatic differentiation (docs/mathematics.md §2): any width, any dimension."""

import numpy as np

from ..errors import SpecError
from ..jaxed import jax
from ..networks.transformer import draw_weights, embedding
from . import loss as losses
from .minibatch import batch_weights


class Full:
    """Descent on w (H, d), W_K and W_Q (H, m, d), H = 2 heads or one for each class.

    Full batch, or minibatches of `batch_size` drawn from `batch_seed`.
    """

    name = "full"
    lanes = 1

    def __init__(self, task, tie_values=False, batch_size=None, batch_seed=0):
        self.task, self.tie_values = task, tie_values
        self.batch_size, self.batch_seed = batch_size, batch_seed

    @property
    def key(self):
        """What the compiled program depends on."""
        task = self.task
        arrays = (task.token_feature, task.token_coefficient, task.count, task.labels, task.gram)
        return (
            self.name,
            self.tie_values,
            self.batch_size,
            task.loss,
            *(array.tobytes() for array in arrays),
            task.count.shape,
        )

    def start(self, transformer):
        """Initial weights: W_K, W_Q (H, m, d) with entries N(0, ω²/m), w = 0."""
        if transformer.mean_field:
            raise SpecError("model='full' with width=inf: infinitely many weights cannot be stored; use model='gram'.")
        W_K, W_Q = draw_weights(transformer, self.task)
        return {"w": np.zeros((len(W_K), W_K.shape[-1])), "W_K": W_K, "W_Q": W_Q}

    def parameters(self, transformers, eta_w, eta_A):
        """Arrays the step reads besides the state."""
        (transformer,) = transformers
        key = jax().random.key_data(jax().random.key(self.batch_seed))
        return {
            "bias": np.array(transformer.bias),
            "eta_w": np.array(eta_w[0]),
            "eta_A": np.array(eta_A[0]),
            "probability": self.task.probabilities,
            "embedding": embedding(self.task, transformer.dimension),
            "key": np.asarray(key),
        }

    def stack(self, states):
        """One run, one lane: the state itself."""
        return states[0]

    def unstack(self, saved, lane):
        """The history of the only lane."""
        return saved

    def final(self, state):
        """The final weights, which the recorded Gram matrices do not determine."""
        return {name: np.asarray(x) for name, x in state.items()}

    def observe(self, state, parameters):
        """The Gram state of the weights in feature coordinates, as `Gram` would record it."""
        jnp, Φ = jax().numpy, parameters["embedding"]
        K, Q = state["W_K"] @ Φ, state["W_Q"] @ Φ  # (H, m, F)
        inner = lambda X, Y: jnp.einsum("hmi,hmj->hij", X, Y)  # noqa: E731
        return {"w": state["w"] @ Φ, "A": inner(K, Q), "G_K": inner(K, K), "G_Q": inner(Q, Q)}

    def step(self, i, state, parameters):
        """One step of (stochastic) gradient descent on every weight."""
        jnp = jax().numpy
        g = jax().grad(self.loss)(state, parameters, self.weights_of_batch(i, parameters))
        g_w = g["w"]
        if self.tie_values:
            g_w = jnp.stack([g_w[0] - g_w[1], g_w[1] - g_w[0]])
        return {
            "w": state["w"] - parameters["eta_w"] * g_w,
            "W_K": state["W_K"] - parameters["eta_A"] * g["W_K"],
            "W_Q": state["W_Q"] - parameters["eta_A"] * g["W_Q"],
        }

    def weights_of_batch(self, i, parameters):
        """(n,) weight of each atom at step i: its probability, or its frequency in a seeded minibatch."""
        return batch_weights(i, parameters["probability"], parameters["key"], self.batch_size)

    def loss(self, state, parameters, weight):
        """Mean loss over the atoms; softmax over keys, average over queries (docs/mathematics.md §2)."""
        J, task = jax(), self.task
        jnp = J.numpy
        M, L = task.count, task.length
        tokens = task.token_coefficient[:, None] * parameters["embedding"].T[task.token_feature]  # (T, d) token vectors
        K, Q = tokens @ jnp.swapaxes(state["W_K"], 1, 2), tokens @ jnp.swapaxes(state["W_Q"], 1, 2)  # (H, T, m)
        S = jnp.einsum("hkm,hqm->hkq", K, Q)
        # A key that stands M times in an atom counts M times; one that is absent gets score -inf.
        log_count = np.log(M, where=M > 0, out=np.full(M.shape, -np.inf))
        P = J.nn.softmax(S[:, None] + log_count[None, :, :, None], axis=2)  # (H, n, key, query)
        value = jnp.einsum("hd,td->ht", state["w"], tokens)
        z = parameters["bias"] + jnp.einsum("hk,hakq,aq->ha", value, P, M / L[:, None])
        if task.loss != "logistic":
            return jnp.sum(weight * losses.cost(task.loss, task.labels, J.nn.relu(z), jnp))
        F = J.nn.relu(z[0]) - J.nn.relu(z[1])
        return jnp.sum(weight * J.nn.softplus(-task.labels * F))
