"""Symmetry types: how a perturbation of the class-symmetric solution splits into parts that do not mix (docs/mathematics.md §11).

The mean-field solution is invariant under the permutations S_K of the classes and under the reflection of the heads
(v → −v, + ↔ −). A state has one class index (w) or two (A, G_K, G_Q), so only four representations of S_K occur:

    "equal"    the same for every class                                 trivial
    "unequal"  class against class                                      standard, (K−1, 1)
    "pairs"    pairs of classes, alike in both directions; K ≥ 4        (K−2, 2)
    "cycles"   pairs of classes, opposite in the two directions; K ≥ 3  (K−2, 1, 1)

and each comes "mirror" (the heads stay reflections of each other) or "apart".

`project`  the part of a state that has a type
`basis`    by Schur's lemma a linear map that commutes with the group acts alike on all copies of a representation, so one vector
           of each copy tells everything: 22 numbers for "equal", 28 (K = 2: 18) for "unequal", 10 for "pairs", 6 for "cycles".
"""

import itertools
from functools import lru_cache

import numpy as np

CLASSES, HEADS = ("equal", "unequal", "pairs", "cycles"), ("mirror", "apart")
TYPES = tuple(itertools.product(CLASSES, HEADS))
PARTS = ("w", "A", "G_K", "G_Q")


def project(parts, K, kind):
    """The part of (w, A, G_K, G_Q) that has the given type (classes, heads); w (…, 2, 2K), matrices (…, 2, 2K, 2K)."""
    classes, heads = kind
    return {name: _heads(_classes(x, K, classes, name == "w"), K, heads, name == "w") for name, x in parts.items()}


def _heads(x, K, heads, vector):
    sign = np.repeat([1.0, -1.0], K)
    axis = -2 if vector else -3
    mirrored = np.flip(x, axis) * (sign if vector else np.outer(sign, sign))
    return (x + mirrored) / 2 if heads == "mirror" else (x - mirrored) / 2


def _classes(x, K, classes, vector):
    if vector:  # (…, 2, kind of feature, class)
        blocks = x.reshape(*x.shape[:-1], 2, K)
        equal = np.broadcast_to(blocks.mean(axis=-1, keepdims=True), blocks.shape)
        parts = {"equal": equal, "unequal": blocks - equal}
        return parts.get(classes, np.zeros_like(blocks)).reshape(x.shape)
    blocks = x.reshape(*x.shape[:-2], 2, K, 2, K).swapaxes(-3, -2)  # (…, kind, kind, class, class)
    flat = blocks.reshape(*blocks.shape[:-2], K * K)
    equal = flat @ _onto(_equal_patterns(K))
    if classes == "equal":
        part = equal
    else:
        unequal = flat @ _unequal(K)
        rest = (flat - equal - unequal).reshape(blocks.shape)
        both = rest.swapaxes(-1, -2) * (1 if classes == "pairs" else -1)
        part = unequal if classes == "unequal" else ((rest + both) / 2).reshape(flat.shape)
    return part.reshape(blocks.shape).swapaxes(-3, -2).reshape(x.shape)


def _onto(patterns):
    rows = np.array(patterns).reshape(len(patterns), -1)
    return rows.T @ rows


@lru_cache(maxsize=16)
def _unequal(K):
    """The projection (K², K²) of a K×K block on a_k δ_kj + b_k + c_j with Σa = Σb = Σc = 0."""
    centred = np.eye(K) - 1 / K
    spans = [np.diag(a) for a in centred]
    spans += [np.outer(a, np.ones(K)) for a in centred] + [np.outer(np.ones(K), a) for a in centred]
    _, size, rows = np.linalg.svd(np.array(spans).reshape(len(spans), -1), full_matrices=False)
    rows = rows[size > 1e-9]
    return rows.T @ rows


def _equal_patterns(K):
    one, all_ones = np.eye(K), np.ones((K, K))
    return [one / K**0.5, (all_ones - one) / (K * (K - 1)) ** 0.5]


def patterns(K, classes):
    """One vector of every copy: (K,) patterns, symmetric (K, K) patterns, antisymmetric (K, K) patterns, orthonormal."""
    e = np.eye(K)
    if classes == "equal":
        return [np.ones(K) / K**0.5], _equal_patterns(K), []
    if classes == "unequal":  # what is left alone by all permutations of the other classes
        u = (e[0] - 1 / K) / (1 - 1 / K) ** 0.5
        both = np.outer(u, np.ones(K))
        rows = both + both.T
        return [u], _normal([np.diag(u), rows - np.diag(np.diag(rows))]), _normal([both - both.T])
    if classes == "pairs":
        one_way = [] if K < 4 else [np.outer(e[0] - e[1], e[2] - e[3])]
        return [], _normal([x + x.T for x in one_way]), []
    one_way = [] if K < 3 else [sum(np.outer(e[i], e[j]) for i, j in ((0, 1), (1, 2), (2, 0)))]
    return [], [], _normal([x - x.T for x in one_way])


def _normal(found):
    return [x / np.linalg.norm(x) for x in found if np.linalg.norm(x) > 1e-9]


@lru_cache(maxsize=64)
def basis(K, kind):
    """(dimension, size of a state) orthonormal vectors of the type, one for each copy of its representation; may be empty."""
    classes, heads = kind
    vectors, symmetric, skew = patterns(K, classes)
    found = []
    for i, u in itertools.product((0, 1), vectors):
        w = np.zeros((2, K))
        w[i] = u
        found.append({"w": w.ravel()})
    for i, j in itertools.product((0, 1), repeat=2):
        found += [{"A": _block(K, i, j, X)} for X in symmetric + skew]
    for name in ("G_K", "G_Q"):
        found += [{name: _block(K, i, i, X)} for i in (0, 1) for X in symmetric]
        found += [{name: (_block(K, 0, 1, X) + _block(K, 1, 0, X.T)) / 2**0.5} for X in symmetric + skew]
    return np.array([_both_heads(K, parts, heads) for parts in found]).reshape(len(found), 4 * K + 24 * K * K)


def _block(K, i, j, X):
    M = np.zeros((2, K, 2, K))
    M[i, :, j] = X
    return M.reshape(2 * K, 2 * K)


def _both_heads(K, parts, heads):
    plus = {name: parts.get(name, np.zeros((2 * K,) if name == "w" else (2 * K, 2 * K))) for name in PARTS}
    alone = {name: np.stack([x, np.zeros_like(x)]) for name, x in plus.items()}
    half = {name: _heads(x, K, heads, name == "w") for name, x in alone.items()}
    return np.concatenate([np.ravel(half[name]) for name in PARTS]) * 2**0.5
