"""The symmetries of the uniform mixture: sectors of classes, types of atoms, reflection of heads (docs/mathematics.md §4)."""

import math
from typing import NamedTuple

import numpy as np

SECTORS = ("common", "contrast")  # the all-ones direction of the K classes, and its complement
KINDS = ("c", "v")
OF_ATTENTION = ("A", "G_K", "G_Q", "G_QQ")
MATRICES = (*OF_ATTENTION, "G_V")  # parts of a state with a sector
C, V = 0, 1
ONE, PLUS, MINUS = 0, 1, 2  # how many tokens an orbit has: one, or as many as signs of other classes are + or −


class Orbit(NamedTuple):
    """Tokens of an atom that a permutation of the other classes exchanges: sign · kind, of the atom's own class or of others."""

    kind: int
    sign: int
    own: bool
    many: int


def token_orbits(y):
    """The tokens of an atom with label y: c_k, y v_k, every other +v_j, every other −v_j."""
    return Orbit(C, 1, True, ONE), Orbit(V, y, True, ONE), Orbit(V, 1, False, PLUS), Orbit(V, -1, False, MINUS)


def keys_of(query, orbits):
    """What one token of the orbit `query` sees: (orbit, whether of the query's own class, how many, less the query itself)."""
    for key in orbits:
        if key is query and not query.own:  # itself, and then the rest of its orbit
            yield key, True, ONE, False
            yield key, False, key.many, True
        else:
            yield key, key.own and query.own, key.many, False


def binomial(K):
    """Probability of n positive signs among K-1, n = 0..K-1; exact integers, rounded once."""
    total = 1 << (K - 1)
    return np.array([choices / total for choices in _choices(K)])


def _choices(K):
    """C(K-1, n) for n = 0..K-1, as exact integers."""
    row, value = [], 1
    for n in range(K):
        row.append(value)
        value = value * (K - 1 - n) // (n + 1)
    return row


def expand(state, K, heads=2, attentions=2, mirror=True):
    """Sector state(s) -> all heads in feature coordinates: w (…, H, 2K), A, G_K, … (…, a, 2K, 2K), others (…, H).

    mirror   the heads − are reflections of the heads +, v → −v, and the state has one of them, without an axis of its own; so
             has that of one head. Rows and columns are c1..cK, v1..vK.
    """
    flip, found = np.repeat([1.0, -1.0], K), {}  # of c and v under the reflection
    for name, x in state.items():
        axes, turn = 0, np.ones(())
        if name == "w":
            x, axes, turn = np.repeat(x, K, axis=-1), 1, flip
        elif name in MATRICES:
            off, contrast = (x[..., 0, :, :] - x[..., 1, :, :]) / K, x[..., 1, :, :]
            x, axes, turn = np.kron(off, np.ones((K, K))) + np.kron(contrast, np.eye(K)), 2, flip[:, None] * flip
        many = attentions if name in OF_ATTENTION else heads
        if name != "offset" and (mirror or heads == 1):
            x = np.stack([x, x * turn] * (many // 2) if mirror and many > 1 else [x], axis=-1 - axes)
        found[name] = x
    return found


def atom_types(K):
    """Names, label y, count n and multiplicity of the 2K atom types, y = + first."""
    names = [f"y={'+' if y > 0 else '-'} n={n}" for y in (1, -1) for n in range(K)]
    y = np.repeat([1, -1], K)
    n = np.tile(np.arange(K), 2)
    multiplicity = np.tile([_as_float(K * choices) for choices in _choices(K)], 2)
    return names, y, n, multiplicity


def _as_float(number):
    try:
        return float(number)
    except OverflowError:  # K·C(K-1, n) leaves float64 from K ≈ 1020 on; probabilities do not
        return math.inf
