"""The gated field of the mean-field transformer for any K, with every option: carried heads in two sectors (§4, §7)."""

from functools import lru_cache, partial

import numpy as np

from ..errors import SpecError
from ..tasks.symmetry import binomial
from . import loss as losses
from .gated import HIDDEN, GatedField
from .gram_families import Attention
from .orbits import HALVES, QUERIES, Orbits, halves, one_class


def symmetric_field(task, transformer, *, train_w=True, train_attention=True):
    """The gated field of the carried heads on a uniform `Mixture`; by the mirror, z_-(y, n) = z_+(−y, K−1−n).

    Gates: (y = +, n) and (y = −, K−1−n), which the mirror exchanges, for n = 0..K−1, where n counts the + signs among the K−1
    other signals; of each, one for every carried head and, where the ReLU comes before the pooling, for every orbit of queries
    that is not empty. A linear network has one gate that is always on.
    """
    if not getattr(task, "uniform", False):
        raise SpecError(
            "the symmetric model needs a Mixture with uniform priors and orthonormal features; use model='gram'."
        )
    if not transformer.mean_field:
        raise SpecError(f"width = {transformer.width}: the symmetric model needs width=math.inf; use model='gram'.")
    K, orbits, state = task.classes, Orbits.of(transformer), Orbits.of(transformer).start(transformer)
    known, copies = _types(K, K, orbits), orbits.copies
    there = _there(orbits, known["positive"], K)
    mixed = np.array([[1.0, -1.0], [-1.0, 1.0]]) if orbits.tied and not orbits.mirror else np.eye(orbits.carried)
    constants = known | {
        "classes": float(K),
        **(_which(there) if orbits.readout.before else {}),
        "bias": float(transformer.bias),
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
        # Which gates there are depends on K where each query has its own: these have a program for every K.
        spare=None if orbits.readout.before else partial(_spare, K, orbits),
    )


def _types(K, room, orbits):
    """Constants of 2K types and what fills them up to 2·room: label, count of other + signs, weight of a pair, which are real."""
    n, real = np.minimum(np.arange(room, dtype=float), K - 1), np.arange(room) < K
    both = list(halves(n, K))
    return {
        "label": np.tile([float(y) for y, _ in both], room),
        "positive": np.stack([p for _, p in both], axis=-1).ravel(),
        "weight": np.append(binomial(K), np.zeros(room - K)) / len(orbits.labels),
        "real": np.repeat(real, 2 * orbits.carried).astype(float),
    }


def _spare(K, orbits, constants):
    """The constants with types that fill a room up, and the gates of all."""
    more = _types(K, _room(K), orbits)
    return constants | more, 1 if orbits.readout.linear else len(more["real"])


def _room(K):
    """Rows for K pairs of types: flows of as much room share a program, and spare rows cost less than compiling another.

    >>> [_room(K) for K in (1, 2, 5, 20, 100)]
    [4, 4, 32, 32, 128]
    """
    return max(4, 32 * (K > 4), 1 << (K - 1).bit_length())


def _there(orbits, positive, K):
    """(2K, heads, query) which neurons there are."""
    if not orbits.readout.before:
        return np.ones((2 * K, orbits.carried, 1), bool)
    each = [np.broadcast_to(many, 2 * K) > 0 for many in orbits.asks(positive, K)]
    return np.broadcast_to(np.stack(each, axis=-1)[:, None], (2 * K, orbits.carried, 4))


def _which(there):
    """Which neurons are gates, and the gate of each; what does not ask has weight 0."""
    return {"kept": np.flatnonzero(there), "place": np.where(there, np.cumsum(there).reshape(there.shape) - 1, 0)}


def _gates(orbits, there, heads):
    """The gates' names."""
    if orbits.readout.linear:
        return (("linear", "linear"),)
    K, names = len(there) // 2, []
    for i, h, q in np.argwhere(there):
        atom = f"y=- n={K - 1 - i // 2}" if i % 2 else f"y=+ n={i // 2}"
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
        z = xp.stack([x for head in neurons(xp, c, parts) for x in head], axis=-1)
        z = z.reshape(*z.shape[:-2], -1)
        return z[..., c["kept"]] if orbits.readout.before else z * c["real"]

    def always(xp, c, parts):
        return xp.ones((*parts["A"].shape[: -3 - (orbits.carried > 1)], 1))

    def loss_of(xp, c, on, parts):
        if orbits.readout.linear:
            on = neurons(xp, c, parts)
        else:
            on = on[..., c["place"]] if orbits.readout.before else on.reshape(*on.shape[:-1], -1, orbits.carried, 1)
            on = [[on[..., h, q] for q in range(on.shape[-1])] for h in range(orbits.carried)]
        pairs = [x.reshape(*x.shape[:-1], -1, 2) for x in orbits.pooled(on, c["positive"], c["classes"])]
        both = [[x[..., half] for x in pairs] for half in range(2)]
        F = orbits.answer(both, parts["offset"][..., None] if "offset" in parts else 0.0)
        cost = [losses.cost(loss, y, f, xp) * c["weight"] for y, f in zip(HALVES, F)]
        return xp.sum(sum(cost), axis=-1)

    return (always if orbits.readout.linear else surface), loss_of
