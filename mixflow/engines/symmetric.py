"""The mean-field transformer on the uniform mixture, any K, in 22 numbers and O(√K) work a step (docs/mathematics.md §4)."""

import numpy as np

from ..jaxed import jax
from ..tasks.means import averages
from ..tasks.symmetry import KINDS, SECTORS, atom_types, binomial, expand
from .base import Engine, not_plain
from .gram_families import BASE
from .gram_update import Algebra, descend
from .lanes import LANES, exp, logistic, product, transpose
from .series import MATRICES, series

WHOLE = 16  # atom types up to which its loop is one function; beyond, separate kernels are up to four times faster
NEGLIGIBLE = 1e-40  # probability below which an atom type changes no digit of a step (docs/mathematics.md §4)
EXPAND_LIMIT = 6  # classes up to which a run is also written out feature by feature and atom by atom
STATE = ("w", *MATRICES)


class Symmetric(Engine):
    """Gradient descent on head + alone: w (c, v) and, in each sector, 2×2 matrices A, G_K, G_Q over (c, v).

    Classes enter as an argument, so runs of different K share a program as long as they need the same room for atom types.
    """

    name = "symmetric"
    lanes = LANES
    straight = True

    def __init__(self, task, network, method):
        super().__init__(task, network, method)
        weight = binomial(task.classes)
        kept = np.flatnonzero(weight > NEGLIGIBLE)
        self.first, self.weight = kept[0], weight[kept]
        self.room = _room(len(kept))
        self.whole = self.room <= WHOLE

    @classmethod
    def objection(cls, task, network, method):
        """Why not: everything must keep the classes exchangeable and the heads mirror images."""
        if not getattr(task, "uniform", False):
            return "it needs a Mixture with uniform priors and orthonormal features, whose classes are exchangeable"
        if network.no_closure is not None:
            return f"it needs a Transformer: {network.no_closure}"
        if not network.mean_field:
            return f"width = {network.width} breaks the symmetry between classes; only width=inf keeps it"
        if changed := {name: value for name, value in network.options().items() if name != "tie_values"}:
            return f"it has the paper's network only, not {', '.join(f'{k}={v!r}' for k, v in changed.items())}"
        if (why := method.inner.no_closure) is not None:
            return why
        if getattr(method.inner, "batch_size", None) is not None:
            return "minibatches break the symmetry between classes"
        return not_plain(method)

    @classmethod
    def apt(cls, task, network, method):
        """Only what its name asks for."""
        return False

    def work(self):
        """By atom types."""
        return self.room / 8

    @property
    def key(self):
        """What the compiled program depends on."""
        return self.name, self.network.tie_values, self.room

    def start(self, network):
        """The mean-field start: w (2,), A, G_K, G_Q (sector, 2, 2)."""
        G = np.broadcast_to(network.omega**2 * np.eye(2), (2, 2, 2))
        return {"w": np.zeros(2), "A": np.zeros((2, 2, 2)), "G_K": G.copy(), "G_Q": G.copy()}

    def parameters(self, networks, eta_w, eta_A):
        """Arrays the step reads besides the state, for `LANES` runs."""
        weight = np.append(self.weight, np.zeros(self.room - len(self.weight)))
        return {
            "bias": np.array([network.bias for network in networks]),
            "eta_w": np.array(eta_w),
            "eta_A": np.array(eta_A),
            "classes": np.array(float(self.task.classes)),
            "first": np.array(float(self.first)),
            "weight": weight,
        }

    def stack(self, states):
        """`LANES` states of single runs -> one state with lanes last."""
        return {name: np.stack([state[name] for state in states], axis=-1) for name in STATE}

    def unstack(self, saved, lane):
        """The history of one lane, time first."""
        return {name: x[..., lane] for name, x in saved.items()}

    def lane(self, state, lane):
        """One run's state."""
        return {name: np.asarray(x)[..., lane] for name, x in state.items()}

    def observe(self, state, parameters):
        """What is recorded at a save: the whole state."""
        return state

    def step(self, i, state, parameters):
        """One step of gradient descent: each sector obeys the Gram update by itself (docs/mathematics.md §3, §4)."""
        jnp = jax().numpy
        g_w, g = self.gradient(state["w"], state["A"], parameters)
        new = {"w": state["w"] - parameters["eta_w"] * g_w}
        moved = []
        for s in (0, 1):
            h = parameters["eta_A"] * g[s]
            S = {pair: state[name][s] for pair, name in BASE.items()}
            moved.append(descend(S, {(0, 1): (h, False), (1, 0): (h, True)}, Algebra(product, transpose)))
        return new | {name: jnp.stack([each[pair] for each in moved]) for pair, name in BASE.items()}

    def gradient(self, w, A, parameters):
        """∂loss/∂w_+ for one c and one v entry (2, lanes) and g in both sectors (2, 2, 2, lanes)."""
        jnp = jax().numpy
        K = parameters["classes"]
        n = parameters["first"] + jnp.arange(self.room, dtype=float)
        n = jnp.minimum(n, K - 1)[:, None]  # (room, 1); spare rows have weight 0

        def forward(w, A):
            off = (A[0] - A[1]) / K
            e = exp(jnp.stack([A[1] + off, off]))
            return tuple(preactivation(y, m, K, w, *e, parameters["bias"]) for y, m in ((1, n), (-1, K - 1 - n)))

        (z, z_mirror), pull = jax().vjp(forward, w, A)  # z_-(+, n) = z_+(-, K-1-n): the other head, by reflection
        residual = -0.5 * parameters["weight"][:, None] * logistic(jnp.maximum(z, 0.0) - jnp.maximum(z_mirror, 0.0))
        # Half, because a shared parameter moves both heads and we want the derivative of one head alone.
        d_w, d_A = pull((jnp.where(z > 0, residual, 0.0), jnp.where(z_mirror > 0, -residual, 0.0)))
        if self.network.tie_values:  # w_-[c] = -w_+[c] and reflection together force w[c] = 0; w[v] feels both heads
            d_w = jnp.stack([jnp.zeros_like(d_w[0]), 2 * d_w[1]])
        # forward sees the sectors only through K diagonal and K(K-1) off-diagonal entries: by the chain rule
        # ∂/∂common = g_common and ∂/∂contrast = (K-1) g_contrast, where g_s are the sector values of the entry gradients.
        return d_w / K, jnp.stack([d_A[0], d_A[1] / jnp.maximum(K - 1, 1.0)])

    def field(self, network, train_w=True, train_attention=True):
        """The gated field of head +."""
        from .symmetric_field import symmetric_field

        return symmetric_field(self.task, network, train_w=train_w, train_attention=train_attention)

    def measure(self, history, network, listed=None):
        """The 22 numbers, and everything else atom by atom for few classes, or by atom type; `listed` forces one of them."""
        K = self.task.classes
        matrix = ("time", "sector", "key_kind", "query_kind")
        found = {"w_sector": (("time", "kind"), history["w"])}
        found |= {f"{name}_sector": (matrix, history[name]) for name in MATRICES}
        if K <= EXPAND_LIMIT if listed is None else listed:
            full = expand({name: history[name] for name in STATE}, K)
            return found | series(self.task, network, {**full, "w": full["w"][:, :, None]})
        m, p, hard = type_margin(history, K, network.bias)
        means = {name: ("time", x) for name, x in averages(m, p, hard).items()}
        z = type_preactivation(history, K, network.bias)
        return found | means | {"margin": (("time", "atom_type"), m), "z": (("time", "head", "atom_type"), z)}

    def coordinates(self, listed=None):
        """Labels of sectors and of atom types, or of the features and atoms of a task that is written out."""
        K = self.task.classes
        kinds = {name: list(KINDS) for name in ("kind", "key_kind", "query_kind")}
        found = {"head": ["+", "-"], "sector": list(SECTORS), **kinds}
        if K <= EXPAND_LIMIT if listed is None else listed:
            return found | super().coordinates()
        names, y, n, multiplicity = atom_types(K)
        types = {"positive_others": n, "multiplicity": multiplicity, "label": y.astype(float)}
        types |= {"probability": np.tile(binomial(K), 2) / 2, "hard": y * (y + 2 * n - (K - 1)) <= 0}
        return found | {"atom_type": names, **{name: ("atom_type", x) for name, x in types.items()}}

    def history(self, dataset):
        """The 22 numbers over time."""
        return {name: dataset[f"{name}_sector"].values for name in STATE}

    def resume(self, dataset):
        """The 22 numbers of the last save."""
        return {name: dataset[f"{name}_sector"].values[-1] for name in STATE}


def _room(types):
    """Rows for so many atom types: a power of two for few, then four steps to an octave, so that cost is smooth in K.

    >>> [_room(types) for types in (2, 3, 100, 129, 1000)]
    [2, 4, 112, 160, 1024]
    """
    octave = 1 << max(1, (types - 1).bit_length())
    step = octave // 8 if octave > 4 * WHOLE else octave
    return -(-types // step) * step


def preactivation(y, n, K, w, D, O, b, xp=None):
    """z_+ of the atoms with label y and n positive signs among the other K-1 (docs/mathematics.md §4).

    D, O: 2×2 blocks over (c, v) of exponentials, exp A[x_k, x_k] and exp A[x_k, x_j], j ≠ k; a negative sign in a score is
    a reciprocal. Arrays broadcast as (atom type, lanes).
    """
    xp = jax().numpy if xp is None else xp
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
    query_plus = attend(e_cv, with_y, xp.maximum(n - 1, 0.0) * e_vv, m / e_vv, itself=1.0)
    query_minus = attend(1 / e_cv, against_y, n / e_vv, xp.maximum(m - 1, 0.0) * e_vv, itself=-1.0)
    return b + (query_c + query_own + n * query_plus + m * query_minus) / (K + 1)


def type_preactivation(history, K, bias):
    """z of both heads and all 2K atom types along a history: (time, 2, 2K), types ordered as in `atom_types`."""
    lanes_last = {name: np.moveaxis(history[name], 0, -1) for name in ("w", "A")}
    n = np.arange(K, dtype=float)[:, None]
    off = (lanes_last["A"][0] - lanes_last["A"][1]) / K
    D, O = np.exp(lanes_last["A"][1] + off), np.exp(off)
    z = [preactivation(y, n, float(K), lanes_last["w"], D, O, bias, np) for y in (1, -1)]
    plus = np.concatenate(z)  # (2K, time)
    minus = np.concatenate([z[1][::-1], z[0][::-1]])  # z_-(y, n) = z_+(-y, K-1-n)
    return np.stack([plus.T, minus.T], axis=1)


def type_margin(history, K, bias):
    """y·F (time, 2K), probability (2K,) and hardness (2K,) of the atom types."""
    on = np.maximum(type_preactivation(history, K, bias), 0)
    _, y, n, _ = atom_types(K)
    return y * (on[:, 0] - on[:, 1]), np.tile(binomial(K), 2) / 2, y * (y + 2 * n - (K - 1)) <= 0
