"""The gated field of the mean-field transformer for any K, with every option: carried heads in two sectors (§4, §7)."""

from functools import lru_cache

import numpy as np

from ..errors import SpecError
from ..tasks.symmetry import binomial
from . import loss as losses
from .gated import HIDDEN, GatedField
from .gram_families import Attention
from .orbits import HALVES, QUERIES, Orbits, halves, one_class


def symmetric_field(task, transformer, *, train_w=True, train_attention=True):
    """The gated field of the carried heads on a uniform `Mixture`; by the mirror, z_-(y, n) = z_+(−y, K−1−n).

    Gates of a head: first (y = +, n) for n = 0..K−1, then (y = −, K−1−n) in the same order, where n counts the + signs among the
    K−1 other signals; where the ReLU comes before the pooling, one for each orbit of queries that is not empty. A linear network
    has one gate that is always on.
    """
    if not getattr(task, "uniform", False):
        raise SpecError(
            "the symmetric model needs a Mixture with uniform priors and orthonormal features; use model='gram'."
        )
    if not transformer.mean_field:
        raise SpecError(f"width = {transformer.width}: the symmetric model needs width=math.inf; use model='gram'.")
    K, orbits, state = task.classes, Orbits.of(transformer), Orbits.of(transformer).start(transformer)
    label, positive = types(K)
    there = _there(orbits, positive, K)
    copies = orbits.copies
    mixed = np.array([[1.0, -1.0], [-1.0, 1.0]]) if orbits.tied and not orbits.mirror else np.eye(orbits.carried)
    constants = {
        "label": label,
        "positive": positive,
        "classes": float(K),
        "kept": np.flatnonzero(there),  # which neurons are gates, and the gate of each; what does not ask has weight 0
        "place": np.where(there, np.cumsum(there).reshape(there.shape) - 1, 0),
        "bias": float(transformer.bias),
        "weight": binomial(K) / len(orbits.labels),
        # A number that stands for many entries moves by the mean of their derivatives (`Symmetric.gradient`).
        "metric_w": np.kron(mixed, np.eye(2)) / (K * copies["w"]) * train_w,
        "rate": transformer.score_rate(None) * train_attention / copies["A"] * np.array([1.0, 1.0 / max(K - 1, 1)]),
        "rate_others": train_w / copies["head"],
        "Gamma": None,
        "value_neurons": float(transformer.value_neurons or 0),
        "common": np.array(
            [[K**0.5], [0.0]]
        ),  # where values are products: w lies in the common sector, with length √K w
    }
    hidden = [name for name in HIDDEN if name in state]
    order = ["w", *(name for name in state if name not in ("w", "A", *hidden)), "A", *hidden]
    surface, loss_of = _functions(orbits, task.loss)
    return GatedField(
        surface=surface,
        loss_of=loss_of,
        constants=constants,
        shapes={name: np.shape(state[name]) for name in order},
        y0=np.concatenate([np.ravel(state[name]) for name in order]),
        gate_names=_gates(orbits, there, transformer.head_names),
        attention=Attention.of(transformer, one_class()),
    )


def types(K):
    """Label and count of other + signs of the 2K types, in the order of gates."""
    both = list(halves(np.arange(K, dtype=float), K))
    return np.repeat([float(y) for y, _ in both], K), np.concatenate([p for _, p in both])


def _there(orbits, positive, K):
    """(heads, query, 2K) which neurons there are."""
    if not orbits.readout.before:
        return np.ones((orbits.carried, 1, 2 * K), bool)
    each = [np.broadcast_to(many, 2 * K) > 0 for many in orbits.asks(positive, K)]
    return np.broadcast_to(each, (orbits.carried, 4, 2 * K))


def _gates(orbits, there, heads):
    """The gates' names."""
    if orbits.readout.linear:
        return (("linear", "linear"),)
    K, names = there.shape[-1] // 2, []
    for h, q, i in np.argwhere(there):
        atom = f"y=+ n={i}" if i < K else f"y=- n={2 * K - 1 - i}"
        names.append((heads[h], f"{atom} · {QUERIES[q]}" if orbits.readout.before else atom))
    return tuple(names)


@lru_cache(maxsize=64)
def _functions(orbits, loss):
    """surface and loss_of: the same objects for the same network and loss, since a compilation is kept by them."""

    def each(xp, x, axes):
        """x (..., [head], own axes) of every head, own axes first and one for types last."""
        x = xp.moveaxis(x[..., None], range(-1 - axes, -1), range(axes))
        return [x] if orbits.carried == 1 else [x[..., h, :] for h in range(x.shape[-2])]

    def neurons(xp, c, parts):
        w, A = each(xp, parts["w"], 1), each(xp, parts["A"], 3)
        bias = each(xp, parts["bias"], 0) if "bias" in parts else [c["bias"]] * orbits.carried
        return orbits.neurons(xp, c["label"], c["positive"], c["classes"], w, A, bias, xp.exp)

    def surface(xp, c, parts):
        z = xp.concatenate([x for head in neurons(xp, c, parts) for x in head], axis=-1)
        return z[..., c["kept"]] if orbits.readout.before else z

    def always(xp, c, parts):
        return xp.ones((*parts["A"].shape[: -3 - (orbits.carried > 1)], 1))

    def loss_of(xp, c, on, parts):
        if orbits.readout.linear:
            on = neurons(xp, c, parts)
        else:
            on = on[..., c["place"]] if orbits.readout.before else on.reshape(*on.shape[:-1], orbits.carried, 1, -1)
            on = [[on[..., h, q, :] for q in range(on.shape[-2])] for h in range(orbits.carried)]
        seen, K = orbits.pooled(on, c["positive"], c["classes"]), c["positive"].shape[0] // 2
        both = [[each[..., :K] for each in seen], [each[..., K:] for each in seen]]
        F = orbits.answer(both, parts["offset"][..., None] if "offset" in parts else 0.0)
        cost = [losses.cost(loss, y, f, xp) * c["weight"] for y, f in zip(HALVES, F)]
        return xp.sum(sum(cost), axis=-1)

    return (always if orbits.readout.linear else surface), loss_of
