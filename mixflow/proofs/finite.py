"""The same network without its symmetry, to compare one of finite width with the mean-field one (docs/proofs.md).

The weights of any network stay in the span of their start: `[W_K W_Q](0) = Q S` in each head, QᵀQ = 1, S positive semi-definite
with 4K rows; and ω Q is a mean-field start. So training a network of any width m is the flow of 4K rows from S instead of ω, at a
distance |S − ω| that is small with explicit probability. The mean-field flow lies on the symmetric weights, x = U x_34.
"""

import itertools
import math
from dataclasses import dataclass

import numpy as np

from .intervals import interval
from .network import Tables

CLASSES = 2  # 136 numbers; 300 at K = 3


@dataclass(frozen=True, eq=False)
class Space:
    """Coordinates y = U x in which a tube is proven: their tables, U, the neuron behind each neuron, cells at once."""

    tables: Tables
    embedding: np.ndarray
    neurons: np.ndarray
    chunk: int = 8


def space():
    """The space of both heads without symmetry, for K = 2."""
    return Space(tables(), embedding(), neurons())


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
        # Exchanging the classes, or the heads with v → −v: w·c1, w·v1 and the rows c1, v1 of A in head + stand for all.
        orbits=(np.array([0, 2, *range(8, 12), *range(16, 20)]), np.full(10, 4.0)),
    )


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


def neurons():
    """(16,) the neuron of the symmetric tables that each of these is a copy of."""
    atoms = [(k, signs) for k in range(2) for signs in itertools.product((1, -1), repeat=2)]
    agree = [int(signs[0] == signs[1]) for k, signs in atoms]
    return np.array([*agree, *(2 + n for n in agree)])


def width(distance, omega, probability=0.99):
    """The least m for which a random start is within `distance` of mean-field with this probability.

    The singular values of an m × 4K Gaussian matrix with entries N(0, ω²/m) lie within ω (√(4K/m) + s) of ω except with
    probability 2 exp(−m s²/2) (Davidson and Szarek); the 8K of both heads give |S − ω| ≤ √(8K) ω (√(4K/m) + s).
    """
    s = math.sqrt(2 * math.log(4 / (1 - probability)))  # times 1/√m
    return math.ceil((math.sqrt(8 * CLASSES) * omega * (math.sqrt(4 * CLASSES) + s) / distance) ** 2)
