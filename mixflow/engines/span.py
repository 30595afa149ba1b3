"""Every weight of the transformer on arrays of token vectors: images as tokens, any width (docs/mathematics.md §2).

Descent moves the weights along training tokens only: ∂loss/∂W_K = Σ_i g_i x_iᵀ over the N distinct training vectors x_i.
So with all weight vectors side by side in the columns of W (d, P), W = W(0) + X C exactly, and what the loss reads is

    Y = xᵀW = xᵀW(0) + (xᵀX) C        the keys, queries and values of every vector x, (rows, P)

The state is C (N, P). A step costs one product with the N×N Gram matrix of the vectors instead of two with the vectors
themselves, whatever the number of pixels. Scores are products of all keys at one position with all queries at another,
from which each sample picks its own: more arithmetic than sample by sample, but in matrix products. Measured with 800
samples of 3 tokens, width 64, CPU time of a step with 100 / 200 images per digit: 1.9 / 5.2 ms, sample by sample 11 / 12 ms.
"""

import itertools
import math

import numpy as np

from ..errors import SpecError
from ..jaxed import jax
from ..networks.given import given
from .on_tokens import OnTokens
from .weights import weights_after

HEADS = 2


class Span(OnTokens):
    """Full-batch descent on w (2, d), W_K and W_Q (2, m, d) for a task of token vectors, the paper's network.

    Columns of W: the m keys of head +, of head -, the m queries of each, then w of each: P = 2·(2m + 1).
    """

    name = "full"

    def __init__(self, task, network, method):
        super().__init__(task, network, method)
        self.tokens = task.tokens

    @classmethod
    def own_objection(cls, task, network, method):
        """Why not: it is the paper's network, of finite width, by descent on the full batch."""
        if network.mean_field:
            return "width = inf: infinitely many weights cannot be stored; leave model out"
        if method.flows:
            return "every weight has no gradient flow, only the reduction has; leave model out"
        if getattr(method.inner, "batch_size", None) is not None:
            return "it trains on the full batch; leave out batch_size"
        if network.altered:
            return f"it has the paper's network only, without {', '.join(network.altered)}"
        return None

    @classmethod
    def apt(cls, task, network, method):
        """Token vectors at finite width."""
        return hasattr(task, "tokens") and not network.mean_field and not method.flows

    @property
    def key(self):
        """What the compiled program depends on: shapes only, so that runs with other images and signs share it."""
        t = self.tokens
        return "span", self.network.tie_values, t.train.sizes, t.test and t.test.sizes, len(t.features)

    def start(self, network):
        """Initial weights: W_K, W_Q (2, m, d) with entries N(0, ω²/m), w = 0."""
        d = self.tokens.dimension
        rng = np.random.default_rng(network.seed)
        scale = network.omega / math.sqrt(network.width)
        W_K, W_Q = scale * rng.standard_normal((2, HEADS, network.width, d))
        return {"w": np.zeros((HEADS, d)), "W_K": W_K, "W_Q": W_Q}

    def parameters(self, networks, eta_w, eta_A):
        """Arrays the step reads besides the state; a rate of zero freezes that part of the model."""
        (network,) = networks
        t = self.tokens
        found = {
            "bias": np.array(network.bias),
            "eta": np.append(np.full(2 * HEADS * network.width, eta_A[0]), np.full(HEADS, eta_w[0])),  # (P,)
            "gram": self._rows() @ t.train.rows.T,  # (N + N' + F, N): training vectors, held-out vectors, directions
            "train": {"index": t.train.index.T, "sign": t.train.sign.T},  # (L, n)
            "labels": t.train.labels,
            "probability": t.probabilities,
        }
        return found | ({"test": {"index": t.test.index.T, "sign": t.test.sign.T}} if t.test else {})

    def stack(self, states):
        """Weights of one run, or a state to go on from -> C (N, P), W(0) (d, P) and its products with all vectors."""
        (state,) = states
        if "C" in state:
            return state
        d = self.tokens.dimension
        W = np.concatenate([state["W_K"].reshape(-1, d), state["W_Q"].reshape(-1, d), state["w"]]).T
        return {"C": np.zeros((sum(self.tokens.train.sizes), W.shape[1])), "W": W, "base": self._rows() @ W}

    def weights(self, state):
        """W(0) + X C: w (2, d), W_K and W_Q (2, m, d)."""
        if "C" not in state:
            return state
        W = (np.asarray(state["W"]) + self.tokens.train.rows.T @ np.asarray(state["C"])).T
        W_K, W_Q = W[:-HEADS].reshape(2, HEADS, -1, self.tokens.dimension)
        return {"w": W[-HEADS:], "W_K": W_K, "W_Q": W_Q}

    def final(self, state):
        """The weights."""
        dims = {
            "w": ("head", "coordinate"),
            "W_K": ("head", "neuron", "coordinate"),
            "W_Q": ("head", "neuron", "coordinate"),
        }
        return {f"final_{name}": (dims[name], x) for name, x in self.weights(state).items()}

    def resume(self, dataset):
        """The weights after the last step."""
        if "final_w" not in dataset:
            raise SpecError(
                "the run ended before its last state could be kept, so it cannot be continued: train again."
            )
        return {name: dataset[f"final_{name}"].values for name in ("w", "W_K", "W_Q")}

    def convert(self, network, weights):
        """The weights given by name; what is not given keeps its start."""
        return given(self.start(network), weights)

    def after(self, network, run, same):
        """The weights at its end."""
        return self.resume(run.dataset) if same else weights_after(self, network, run)

    def observe(self, state, parameters):
        """w, A, G_K, G_Q between the watched directions; z (2, n) of the training samples, z_test of the held-out ones.

        Scores are bilinear, so between class-mean images they are the mean of the scores over all pairs of images.
        """
        jnp, F = jax().numpy, len(self.tokens.features)
        Y = state["base"] + parameters["gram"] @ state["C"]
        K, Q, w = (jnp.stack(x) for x in zip(*(_head(Y[-F:], h) for h in range(HEADS))))

        def inner(X, Z):
            return jnp.einsum("him,hjm->hij", X, Z)

        N = len(state["C"])
        z = preactivation(Y[:N], self.tokens.train.sizes, **parameters["train"], bias=parameters["bias"])
        seen = {"w": w[:, None], "A": inner(K, Q), "G_K": inner(K, K), "G_Q": inner(Q, Q), "z": z[:, None]}
        if self.tokens.test:
            held = preactivation(Y[N:-F], self.tokens.test.sizes, **parameters["test"], bias=parameters["bias"])
            seen["z_test"] = held[:, None]
        return seen

    def step(self, i, state, parameters):
        """One step of gradient descent on every weight: W ← W − η X ∂loss/∂Y, that is C ← C − η ∂loss/∂Y."""
        jnp, C = jax().numpy, state["C"]
        N = len(C)
        Y = state["base"][:N] + parameters["gram"][:N] @ C
        g = jax().grad(self.loss)(Y, parameters)
        if self.network.tie_values:
            shared = g[:, -2:-1] - g[:, -1:]
            g = jnp.concatenate([g[:, :-HEADS], shared, -shared], axis=1)
        return {**state, "C": C - parameters["eta"] * g}

    def loss(self, Y, parameters):
        """Mean logistic loss over the training samples, from Y (N, P)."""
        J = jax()
        z = preactivation(Y, self.tokens.train.sizes, **parameters["train"], bias=parameters["bias"])
        F = J.nn.relu(z[0]) - J.nn.relu(z[1])
        return J.numpy.sum(parameters["probability"] * J.nn.softplus(-parameters["labels"] * F))

    def _rows(self):
        t = self.tokens
        return np.concatenate([t.train.rows, *([t.test.rows] if t.test else []), t.directions])


def preactivation(Y, sizes, index, sign, bias):
    """z_h of every sample, (2, n), from Y (Σ sizes, P), index and sign (L, n): softmax over keys, average over queries.

    The scores of all pairs of positions lie in one row for each head, from which every sample picks its own at once.
    """
    J = jax()
    jnp, L, starts = J.numpy, len(sizes), np.cumsum([0, *sizes])
    place = [slice(*ends) for ends in itertools.pairwise(starts)]
    pairs = list(itertools.product(range(L), repeat=2))  # key, query
    lengths = [sizes[k] if k == q else sizes[k] * sizes[q] for k, q in pairs]

    def scores(h):
        K, Q, _ = _head(Y, h)
        of_one = jnp.sum(K * Q, axis=1)
        blocks = [of_one[place[k]] if k == q else (K[place[k]] @ Q[place[q]].T).ravel() for k, q in pairs]
        return jnp.concatenate(blocks)

    def pick(x, which):  # (2, …) of rows (2, all)
        return x.at[:, which].get(mode="promise_in_bounds")

    within = [index[k] if k == q else index[k] * sizes[q] + index[q] for k, q in pairs]
    which = jnp.stack(within).reshape(L, L, -1) + np.cumsum([0, *lengths[:-1]]).reshape(L, L, 1)
    S = sign[:, None] * sign * pick(jnp.stack([scores(h) for h in range(HEADS)]), which)  # (head, key, query, n)
    mass = J.nn.softmax(S, axis=1).sum(axis=2) / L  # (head, key, n) attention each key receives
    values = pick(Y[:, -HEADS:].T, index + starts[:-1, None])
    return bias + jnp.sum(mass * sign * values, axis=1)


def _head(Y, h):
    """Keys (rows, m), queries (rows, m) and values (rows,) of head h."""
    m = Y.shape[1] // (2 * HEADS)
    keys, queries = Y[:, h * m : (h + 1) * m], Y[:, (HEADS + h) * m : (HEADS + h + 1) * m]
    return keys, queries, Y[:, h - HEADS]
