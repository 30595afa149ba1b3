"""Attention over orbits: what a network with every option computes on the atom types of the uniform mixture (§4).

Functions of arrays that broadcast against n, how many of the other K − 1 signs are +: (types, 1) against (lanes,) in descent,
(types,) against (..., 1) in a flow. Types come in two halves, y = + with n and y = − with K − 1 − n, which the mirror exchanges.
"""

from dataclasses import dataclass

import numpy as np

from ..networks.initial import start
from ..networks.readout import ReadOut
from ..tasks.mixture import Mixture
from ..tasks.symmetry import MATRICES, MINUS, ONE, PLUS, expand, keys_of, token_orbits


def one_class():
    """The mixture of one class: what a network is on it does not depend on K."""
    return Mixture(1).population()


HALVES = (1, -1)  # labels
QUERIES = ("c", "own", "+ others", "- others")  # names of `token_orbits`
WITHOUT_VALUES = (*MATRICES[:-1], "offset")  # parts of a Gram state without an axis of values


@dataclass(frozen=True)
class Orbits:
    """How a network looks in sectors.

    heads    H of the network
    carried  of them that a state has: one where the mirror gives all others, else all
    mirror   whether head − is head + with v → −v
    shared   one attention for all heads
    tied     one value vector for both heads
    readout  what follows the attention
    queries  "mean", "sum" or "one", which is the identifier
    """

    heads: int
    carried: int
    mirror: bool
    shared: bool
    tied: bool
    readout: ReadOut
    queries: str

    @classmethod
    def of(cls, network):
        """Those of a Transformer."""
        H = network.heads
        mirror = H % 2 == 0 and not (network.offset or network.shared_keys)
        readout = ReadOut.of(network, one_class())
        return cls(
            H, 1 if mirror else H, mirror, network.shared_attention, network.tie_values, readout, network.queries
        )

    @property
    def attentions(self):
        """Attentions that a state has."""
        return 1 if self.shared else self.carried

    @property
    def copies(self):
        """How many of the network's heads, attentions and value vectors one that is carried stands for."""
        heads = self.heads if self.mirror else 1
        return {"head": heads, "A": 1 if self.shared else heads, "w": 1 if self.tied else heads}

    def start(self, network):
        """The mean-field start in sectors: w (2,), A, G_K, … (sector, 2, 2), after an axis of heads where several are carried.

        It is that of one class, in both sectors: Γ and the start are the identity between classes.
        """
        state = {}
        for name, x in start(network, one_class()).items():
            if not x.size:  # products between the queries of heads, where there is one
                continue
            x = x if name in WITHOUT_VALUES else x[:, 0]
            x = np.repeat(x[:, None], 2, axis=1) if name in MATRICES else x
            state[name] = x if name == "offset" or self.carried > 1 else x[0]
        return state

    def written(self, history, K):
        """The Gram history (`series`) of a history in sectors."""
        full = expand(history, K, self.heads, 1 if self.shared else self.heads, self.mirror)
        return {name: x if name in WITHOUT_VALUES else x[:, :, None] for name, x in full.items()}

    @property
    def labels(self):
        """Of the halves that an answer is given for: by the mirror, one is enough."""
        return HALVES[:1] if self.mirror else HALVES

    def neurons(self, xp, y, p, K, w, A, bias, exp):
        """z[head][query] of the carried heads in atoms with label y and p other signs +; one query where they are pooled first.

        w, A, bias   of every carried head or attention: (2, …), (sector, 2, 2, …) and (…)
        """
        tables = [self._exponentials(xp, K, each, exp) for each in A]
        found = []
        for h, (each, b) in enumerate(zip(w, bias, strict=True)):
            if self.mirror and self.tied:  # w_- = −w_+ and the mirror together leave w_v
                each = (0.0 * each[0], each[1])
            read = readings(xp, y, p, K, each, *tables[0 if self.shared else h])
            found.append([b + O for O in read] if self.readout.before else [b + self.pool(read, p, K)])
        return found

    def _exponentials(self, xp, K, A, exp):
        """e^A of one class with itself and with another, (2, 2, …) each."""
        if self.mirror and self.shared:  # it is its own mirror image: no scores between c and v
            A = A * np.eye(2).reshape(2, 2, *[1] * (A.ndim - 3))
        off = (A[0] - A[1]) / K
        return exp(xp.stack([A[1] + off, off]))

    def asks(self, p, K):
        """The weight of each orbit of queries, where p of the other signs are +."""
        if self.queries == "one":
            return [1.0]
        each = [1.0, 1.0, p, K - 1 - p]
        return each if self.queries == "sum" else [many / (K + 1) for many in each]

    def pool(self, each, p, K):
        """The weighted sum over the queries of one half."""
        return sum(many * x for many, x in zip(self.asks(p, K), each))

    def pooled(self, on, p, K):
        """[head] what the answer sees, from activations [head][query]."""
        return [self.pool(each, p, K) if self.readout.before else each[0] for each in on]

    def act(self, z, xp):
        """Activations [head][query]."""
        return [[self.readout.act(each, xp) for each in head] for head in z]

    def answer(self, halves, offset=0.0):
        """F for every one of `labels`, from what it sees of both halves."""
        if self.mirror:  # head − on this half is head + on the other
            (plus,), (minus,) = halves
            return [(self.heads // 2) * (plus - minus)]
        return [sum(s * each for s, each in zip(self.readout.signs, half, strict=True)) - offset for half in halves]


def halves(n, K):
    """Label and count of other + signs of the two halves of the types."""
    return zip(HALVES, (n, K - 1 - n), strict=True)


def readings(xp, y, p, K, w, same, other):
    """What the four orbits of queries read in atoms with label y and p other signs +: Σ_k P[k,q] s_k w[f_k].

    y             a label, or one for each type
    same, other   (2, 2, …) e^A between features of one class and of two; a negative sign in a score is a reciprocal
    """
    counts, orbits, found = {PLUS: p, MINUS: K - 1 - p}, token_orbits(y), []

    def power(e, sign):
        if np.ndim(sign):
            return xp.where(sign > 0, e, 1 / e)
        return e if sign > 0 else 1 / e

    for query in orbits:
        total, heard = 0.0, [0.0, 0.0]
        for key, in_class, many, less in keys_of(query, orbits):
            e = power((same if in_class else other)[key.kind, query.kind], key.sign * query.sign)
            if many != ONE:
                e = (xp.maximum(counts[many] - 1, 0.0) if less else counts[many]) * e
            total = total + e
            heard[key.kind] = heard[key.kind] + key.sign * e
        found.append((w[0] * heard[0] + w[1] * heard[1]) / total)
    return found
