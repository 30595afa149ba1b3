"""The same network without its symmetry, to compare one of finite width with the mean-field one (docs/proofs.md).

The weights of any network stay in the span of their start: `[W_K W_Q](0) = Q S` in each head, QᵀQ = 1, S positive semi-definite
with 4K rows; and ω Q is a mean-field start. So training a network of any width m is the flow of 4K rows from S instead of ω, at a
distance |S − ω| that is small with explicit probability. The mean-field flow lies on the symmetric weights, x = U x_34.
"""

import itertools
import math
from dataclasses import dataclass

import numpy as np

from ..intervals import interval
from .network import Tables

CLASSES = 2  # 136 numbers; 300 at K = 3


@dataclass(frozen=True, eq=False)
class Space:
    """Coordinates y = U x in which a tube is proven: their tables, U, the neuron behind each neuron.

    starts (n, n)  the projection onto the directions in which starts differ: w = 0, and S is symmetric
    """

    tables: Tables
    embedding: np.ndarray
    neurons: np.ndarray
    starts: np.ndarray


def space():
    """The space of both heads without symmetry, for K = 2."""
    return Space(tables(), embedding(), neurons(), _starts())


def tables():
    """Both heads on every sample of K = 2: 16 neurons, first those of the sample's own label, then the others."""
    atoms = [(k, signs) for k in range(2) for signs in itertools.product((1, -1), repeat=2)]
    own = [(0 if signs[k] > 0 else 1, k, signs) for k, signs in atoms]
    gates = own + [(1 - head, k, signs) for head, k, signs in own]
    scores, values = np.zeros((16, 3, 3, 32)), np.zeros((16, 3, 3, 8))
    for i, (head, k, signs) in enumerate(gates):
        tokens = [(k, 1), *((2 + j, s) for j, s in enumerate(signs))]  # features c1, c2, v1, v2
        for q, (query, sign) in enumerate(tokens):
            for n, (key, coefficient) in enumerate(tokens):
                scores[i, q, n, 16 * head + 4 * key + query] = coefficient * sign
                values[i, q, n, 4 * head + key] = coefficient
    return Tables(
        index=np.argmax(np.abs(scores), -1) + 32 * (scores.sum(-1) < 0),
        scores=scores.reshape(-1, 32),
        values=values.reshape(-1, 8),
        keys=np.ones((16, 3, 3)),
        queries=np.ones((16, 3)),
        length=3,
        probability=np.full(8, 1 / 8),
        mix=np.eye(32),
        denominator=1,
        blocks=((8, 4), (8, 4)),
        value_scale=interval(np.array(1.0)),
        twins=neurons(),
        # w·c1, w·v1 and the rows c1, v1 of A in head + stand for all.
        orbits=(np.array([0, 2, *range(8, 12), *range(16, 20)]), tuple(_symmetries())),
    )


def _symmetries():
    """Exchanging the classes, the heads with v → −v, or both: image and sign of every θ = (w, A) of both heads."""
    for classes, heads in itertools.product((0, 1), repeat=2):
        image, sign = np.zeros(40, int), np.ones(40)
        for head, i in itertools.product((0, 1), range(4)):
            to, minus = head ^ heads, -1.0 if heads and i >= 2 else 1.0
            image[4 * head + i], sign[4 * head + i] = 4 * to + (i ^ classes), minus
            for j in range(4):
                place = 8 + 16 * head + 4 * i + j
                image[place] = 8 + 16 * to + 4 * (i ^ classes) + (j ^ classes)
                sign[place] = minus * (-1.0 if heads and j >= 2 else 1.0)
        yield image, sign


def embedding():
    """U (136, 34) with UᵀU = 1 and entries 0, ±1/2: the symmetric weights; rows of a head are (row of the sector, sector)."""
    U = np.zeros((136, 34))
    for head, kind, k in itertools.product((0, 1), (0, 1), (0, 1)):  # + or −, c or v, class
        sign = -0.5 if head and kind else 0.5
        U[4 * head + 2 * kind + k, kind] = sign
        for sector, part, row in itertools.product((0, 1), (0, 1), range(4)):  # part: W_K or W_Q
            place = 8 + 64 * head + 32 * part + 4 * (2 * row + sector) + 2 * kind + k
            U[place, 2 + 16 * sector + 8 * part + 2 * row + kind] = sign * (-1 if sector and k else 1)
    return U


def _starts():
    """x̂(0) is ωO with an orthogonal O in each head, a start O S: the projection onto M = O(S − ω) is M → (M + O Mᵀ O)/2."""
    P = np.eye(136) / 2.0
    unit = np.zeros(34)
    unit[[2, 5, 14, 17, 18, 21, 30, 33]] = 2.0  # where x̂(0) is not 0; so O has entries 0, ±1, times √2
    for head in (0, 1):
        places = 8 + 64 * head + np.hstack([np.arange(32).reshape(8, 4), 32 + np.arange(32).reshape(8, 4)])
        O = (embedding() @ unit)[places]
        for a, j, b, i in itertools.product(range(8), repeat=4):  # (O Mᵀ O)_aj = Σ O_ai M_bi O_bj
            P[places[a, j], places[b, i]] += O[a, i] * O[b, j] / 4.0
    P[:8], P[:, :8] = 0.0, 0.0
    return P


def neurons():
    """(16,) the neuron of the symmetric tables that each of these is a copy of."""
    atoms = [(k, signs) for k in range(2) for signs in itertools.product((1, -1), repeat=2)]
    agree = [int(signs[0] == signs[1]) for k, signs in atoms]
    return np.array([*agree, *(2 + n for n in agree)])


def start_distance(width, omega, probability=0.99):
    """At most how far, |S − ω| over both heads, a random start of this width is from mean-field with this probability.

    |S − ω| is the distance of [W_K W_Q] from the matrices ωQ, QᵀQ = 1, so it moves no faster than the Gaussian entries and is
    below its mean plus ω √(2 log(1/(1 − p)) / m) with probability p; docs/mathematics.md §14 bounds the mean.
    """
    n, m = 4 * CLASSES, width
    fourth = n * (n + 2) * (n + 4) * (n + 6) - 4 * n * (n + 2) * (n + 4) + 6 * n * (n + 2) - 4 * n + 1 + (n - 1)
    spread = (n * n + n) / (4 * m) + 5 / 8 * (m * fourth + m * (m - 1) * (2 * n * (n + 1) ** 2 + n * n + 3 * n)) / m**4
    return omega * (math.sqrt(2 * spread) + math.sqrt(2 * math.log(1 / (1 - probability)) / m))


def width(distance, omega, probability=0.99):
    """The least m for which a random start is within `distance` of mean-field with this probability."""
    low, high = 1, 4 * CLASSES
    while start_distance(high, omega, probability) > distance:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if start_distance(middle, omega, probability) > distance else (low, middle)
    return high
