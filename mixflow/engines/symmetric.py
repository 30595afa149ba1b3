"""The mean-field transformer on the uniform mixture, any K, in 22 numbers and O(K) work a step (docs/mathematics.md §4)."""

import numpy as np

from ..jaxed import jax
from ..tasks.symmetry import atom_types, binomial
from .lanes import LANES, exp, logistic, product, transpose


class Symmetric:
    """Gradient descent on head + alone: w (c, v) and, in each sector, 2×2 matrices A, G_K, G_Q over (c, v).

    Classes enter as an argument, so runs of different K share a program as long as they need the same number of
    atom types, rounded up to a power of two.
    """

    name = "symmetric"
    lanes = LANES

    def __init__(self, task, tie_values=False):
        self.task, self.tie_values = task, tie_values
        self.room = 1 << max(1, (task.classes - 1).bit_length())

    @property
    def key(self):
        """What the compiled program depends on."""
        return self.name, self.tie_values, self.room

    def start(self, transformer):
        """The mean-field start: w (2,), A, G_K, G_Q (sector, 2, 2)."""
        G = np.broadcast_to(transformer.omega**2 * np.eye(2), (2, 2, 2))
        return {"w": np.zeros(2), "A": np.zeros((2, 2, 2)), "G_K": G.copy(), "G_Q": G.copy()}

    def parameters(self, transformers, eta_w, eta_A):
        """Arrays the step reads besides the state, for `LANES` runs."""
        weight = np.zeros(self.room)
        weight[: self.task.classes] = binomial(self.task.classes)
        return {
            "bias": np.array([transformer.bias for transformer in transformers]),
            "eta_w": np.array(eta_w),
            "eta_A": np.array(eta_A),
            "classes": np.array(float(self.task.classes)),
            "weight": weight,
        }

    def stack(self, states):
        """`LANES` states of single runs -> one state with lanes last."""
        return {name: np.stack([state[name] for state in states], axis=-1) for name in ("w", "A", "G_K", "G_Q")}

    def unstack(self, saved, lane):
        """The history of one lane, time first."""
        return {name: x[..., lane] for name, x in saved.items()}

    final = staticmethod(lambda state: {})

    def observe(self, state, parameters):
        """What is recorded at a save: the whole state."""
        return state

    def step(self, i, state, parameters):
        """One step of gradient descent: each sector obeys the Gram update by itself (docs/mathematics.md §3, §4)."""
        jnp = jax().numpy
        w, A, G_K, G_Q = state["w"], state["A"], state["G_K"], state["G_Q"]
        g_w, g = self.gradient(w, A, parameters)
        new = {"w": w - parameters["eta_w"] * g_w}
        updated = [self._update(A[s], G_K[s], G_Q[s], parameters["eta_A"] * g[s]) for s in (0, 1)]
        return {**new, **{name: jnp.stack([u[j] for u in updated]) for j, name in enumerate(("A", "G_K", "G_Q"))}}

    @staticmethod
    def _update(A, G_K, G_Q, h):
        hA, GKh, hGQ, Ah = product(h, transpose(A)), product(G_K, h), product(h, G_Q), product(transpose(A), h)
        return (
            A - (GKh + hGQ) + product(hA, h),
            G_K - (hA + transpose(hA)) + product(hGQ, transpose(h)),
            G_Q - (Ah + transpose(Ah)) + product(transpose(h), GKh),
        )

    def gradient(self, w, A, parameters):
        """∂loss/∂w_+ for one c and one v entry (2, lanes) and g in both sectors (2, 2, 2, lanes)."""
        jnp = jax().numpy
        K = parameters["classes"]
        n = jnp.minimum(jnp.arange(self.room, dtype=float), K - 1)[:, None]  # (room, 1); spare rows have weight 0

        def forward(w, A):
            off = (A[0] - A[1]) / K
            e = exp(jnp.stack([A[1] + off, off]))
            return tuple(preactivation(y, m, K, w, *e, parameters["bias"]) for y, m in ((1, n), (-1, K - 1 - n)))

        (z, z_mirror), pull = jax().vjp(forward, w, A)  # z_-(+, n) = z_+(-, K-1-n): the other head, by reflection
        residual = -0.5 * parameters["weight"][:, None] * logistic(jnp.maximum(z, 0.0) - jnp.maximum(z_mirror, 0.0))
        # Half, because a shared parameter moves both heads and we want the derivative of one head alone.
        d_w, d_A = pull((jnp.where(z > 0, residual, 0.0), jnp.where(z_mirror > 0, -residual, 0.0)))
        if self.tie_values:  # w_-[c] = -w_+[c] and reflection together force w[c] = 0; w[v] feels both heads
            d_w = jnp.stack([jnp.zeros_like(d_w[0]), 2 * d_w[1]])
        # forward sees the sectors only through K diagonal and K(K-1) off-diagonal entries: by the chain rule
        # ∂/∂common = g_common and ∂/∂contrast = (K-1) g_contrast, where g_s are the sector values of the entry gradients.
        return d_w / K, jnp.stack([d_A[0], d_A[1] / jnp.maximum(K - 1, 1.0)])


def preactivation(y, n, K, w, D, O, b):
    """z_+ of the atoms with label y and n positive signs among the other K-1 (docs/mathematics.md §4).

    D, O: 2×2 blocks over (c, v) of exponentials, exp A[x_k, x_k] and exp A[x_k, x_j], j ≠ k; a negative sign in a score is
    a reciprocal. Arrays broadcast as (atom type, lanes).
    """
    jnp = jax().numpy
    m = K - 1 - n
    w_c, w_v = w[0], w[1]
    e_cv, e_vc, e_vv, same = O[0, 1], O[1, 0], O[1, 1], D[1, 1]
    own_c, own_v = (D[0, 1], D[1, 0]) if y > 0 else (1 / D[0, 1], 1 / D[1, 0])
    with_y, against_y = (e_vv, 1 / e_vv) if y > 0 else (1 / e_vv, e_vv)

    def attend(c, own, plus, minus, itself=0.0):
        """Output of one query: the weights of the keys c_k, y v_k, all +v_j, all -v_j, and ±v_j itself."""
        total = c + own + plus + minus + abs(itself) * same
        return (w_c * c + w_v * (y * own + plus - minus + itself * same)) / total

    query_c = attend(D[0, 0], own_v, n * e_vc, m / e_vc)
    query_own = attend(own_c, same, n * with_y, m * against_y)
    query_plus = attend(e_cv, with_y, jnp.maximum(n - 1, 0.0) * e_vv, m / e_vv, itself=1.0)
    query_minus = attend(1 / e_cv, against_y, n / e_vv, jnp.maximum(m - 1, 0.0) * e_vv, itself=-1.0)
    return b + (query_c + query_own + n * query_plus + m * query_minus) / (K + 1)


def type_preactivation(history, K, bias):
    """z of both heads and all 2K atom types along a history: (time, 2, 2K), types ordered as in `atom_types`."""
    lanes_last = {name: np.moveaxis(history[name], 0, -1) for name in ("w", "A")}
    n = np.arange(K, dtype=float)[:, None]
    off = (lanes_last["A"][0] - lanes_last["A"][1]) / K
    D, O = np.exp(lanes_last["A"][1] + off), np.exp(off)
    z = [np.asarray(preactivation(y, n, float(K), lanes_last["w"], D, O, bias)) for y in (1, -1)]
    plus = np.concatenate(z)  # (2K, time)
    minus = np.concatenate([z[1][::-1], z[0][::-1]])  # z_-(y, n) = z_+(-y, K-1-n)
    return np.stack([plus.T, minus.T], axis=1)


def type_margin(history, K, bias):
    """y·F (time, 2K), probability (2K,) and hardness (2K,) of the atom types."""
    on = np.maximum(type_preactivation(history, K, bias), 0)
    _, y, n, _ = atom_types(K)
    return y * (on[:, 0] - on[:, 1]), np.tile(binomial(K), 2) / 2, y * (y + 2 * n - (K - 1)) <= 0
