"""The symmetries of the uniform mixture: sectors of classes, types of atoms, reflection of heads (docs/mathematics.md §4)."""

import math

import numpy as np

SECTORS = ("common", "contrast")  # the all-ones direction of the K classes, and its complement
KINDS = ("c", "v")


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


def expand(state, K):
    """Sector state(s) -> both heads in feature coordinates: w (…, 2, 2K), A, G_K, G_Q (…, 2, 2K, 2K).

    Head - is the reflection of head +: v → -v. Rows and columns are c1..cK, v1..vK.
    """
    sign = np.repeat([1.0, -1.0], K)  # of c and v under the reflection
    w = np.repeat(state["w"], K, axis=-1)
    out = {"w": np.stack([w, w * sign], axis=-2)}
    for name in ("A", "G_K", "G_Q"):
        X = state[name]
        off = (X[..., 0, :, :] - X[..., 1, :, :]) / K
        contrast = X[..., 1, :, :]
        full = np.kron(off, np.ones((K, K))) + np.kron(contrast, np.eye(K))
        out[name] = np.stack([full, full * sign[:, None] * sign], axis=-3)
    return out


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
