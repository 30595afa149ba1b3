"""The gated field of any listed task at any width: one gate for each neuron and atom (docs/mathematics.md §3, §7, §8, §13)."""

from functools import lru_cache

import numpy as np

from ..networks.initial import start
from ..networks.readout import ReadOut, asking
from . import loss as losses
from .gated import HIDDEN, GatedField, product
from .gram_families import Attention
from .gram_own import own_functions


def gram_field(task, network, *, train_w=True, train_attention=True):
    """The gated field of `network` on the population of `task`; gates are ordered head first, then value, then atom, and where
    the ReLU comes before the pooling, then the queries of the atom. A linear network has one gate that is always on.

    train_w, train_attention   which part moves; a frozen part keeps its start (three-stage training, §6)
    """
    task = task.population()
    readout = ReadOut.of(network, task)
    heads, (ask, share) = network.heads_for(task), asking(network, task)
    F, n, H, r, T = len(task.features), len(task.atoms), len(heads), network.values, len(task.token_feature)
    own = hasattr(network, "respond")
    state = network.gram_start(task) if own else start(network, task)
    tokens = np.zeros((T, F))  # row τ: the coefficient of token type τ in the column of its feature
    tokens[np.arange(T), task.token_feature] = task.token_coefficient
    identity = np.array_equal(task.gram, np.eye(F))
    # One shared value vector moves by −(g_+ − g_-) in head + and by the opposite in head −.
    mixed = np.array([[1.0, -1.0], [-1.0, 1.0]]) if network.tie_values else np.eye(H)
    atom, query = np.nonzero(ask) if readout.before else (np.arange(n), np.zeros(n, int))
    constants = {
        "count": task.count,
        "tokens": tokens,
        "ask": ask / share[:, None],
        "bias": float(network.bias),
        "label": task.labels,
        "weight": task.probabilities,
        "atom": atom,
        "query": query,
        "metric_w": np.kron(np.kron(mixed, np.eye(r)), task.gram) * train_w,
        "rate_others": 1.0 * train_w,
        "rate": np.full(len(state["A"]), network.score_rate(task) * train_attention),
        "Gamma": None if identity else task.gram,
        "value_neurons": float(network.value_neurons or 0),
    }
    hidden = [name for name in HIDDEN if name in state]
    order = ["w", *(name for name in state if name not in ("w", "A", *hidden)), "A", *hidden]
    shapes = {name: np.shape(state[name]) for name in order}
    if own:
        surface, loss_of = own_functions(network, task)
        count = 1 if network.neurons is None else surface(np, constants, state).size
        gates = tuple((f"neuron {i + 1}", "own") for i in range(count))
    else:
        surface, loss_of = _functions(readout, H, task.loss)
        names = tuple(zip(atom, query)) if readout.before else [(a, None) for a in range(n)]
        gates = tuple((_neuron(head, v, r), _where(task, *each)) for head in heads for v in range(r) for each in names)
        gates = (("linear", "linear"),) if readout.linear else gates
    return GatedField(
        surface=surface,
        loss_of=loss_of,
        constants=constants,
        shapes=shapes,
        y0=np.concatenate([np.ravel(state[name]) for name in shapes]),
        gate_names=gates,
        attention=Attention.of(network, task),
    )


def _neuron(head, value, values):
    return head if values == 1 else f"{head} value {value + 1}"


def _where(task, atom, query):
    if query is None:
        return task.names[atom]
    return f"{task.names[atom]} · {task.token_coefficient[query]:+g}{task.features[task.token_feature[query]]}"


@lru_cache(maxsize=64)
def _functions(readout, H, kind):
    """surface and loss_of one read-out: the same objects for the same read-out, since a compilation is kept by them."""
    r = readout.values

    def read(xp, c, parts):
        """O (..., H, r, n, T): what each query type of an atom reads, 0 where it does not ask."""
        M, P = c["count"], c["tokens"]  # (n, T), (T, F)
        w, A = parts["w"], parts["A"]
        u = xp.sum(w[..., None, :] * P, axis=-1)  # (..., H, r, T) what each token type says
        E = xp.exp(product(xp, product(xp, P, A), P.T))[..., None, :, :]  # (..., a, 1, T, T) key, query
        Z = product(xp, M, E)  # (..., a, 1, n, T)
        N = product(xp, M, u[..., None] * E)
        # A query type that does not ask in an atom may have no key there either; one that asks has Z > 0.
        asks = c["ask"] > 0
        return xp.where(asks, N / xp.where(asks, Z, 1.0), 0.0)

    def pooled(xp, c, parts):
        """z (..., H·r·n) = b + Σ_q ask[q] O[q]."""
        return _biased(c, parts, xp.sum(c["ask"] * read(xp, c, parts), axis=-1))

    def by_query(xp, c, parts):
        """z (..., H·r·pairs) = b + O[q] of every asking token."""
        return _biased(c, parts, read(xp, c, parts)[..., c["atom"], c["query"]])

    def always(xp, c, parts):
        return xp.ones((*parts["A"].shape[:-3], 1))

    def loss_of(xp, c, on, parts):
        n = len(c["label"])
        if readout.linear:
            on = (by_query if readout.before else pooled)(xp, c, parts)
        on = on.reshape(*on.shape[:-1], H, r, -1)
        if readout.before:
            weight = c["ask"][c["atom"], c["query"]]
            on = xp.sum(xp.where(c["atom"] == xp.arange(n)[:, None], (weight * on)[..., None, :], 0.0), axis=-1)
        answer = readout.answer(on, parts.get("read_out"), parts.get("offset", 0.0))
        return xp.sum(losses.cost(kind, c["label"], answer, xp) * c["weight"], axis=-1)

    surface = always if readout.linear else by_query if readout.before else pooled
    return surface, loss_of


def _biased(c, parts, x):
    b = parts["bias"][..., None] if "bias" in parts else c["bias"]
    z = b + x
    return z.reshape(*z.shape[:-3], -1)
