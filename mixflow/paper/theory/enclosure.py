"""Between two saves: an enclosure of the flow of the 22 numbers by interval arithmetic, whatever its neurons do (§4, §7, §12).

Let y(t_i) be a saved state, known to ±ε. On [t_i, t_{i+1}] guess a box Y around both saves and evaluate the field on it in
interval arithmetic, with the gate of every neuron whose z may vanish in the box anywhere in [0, 1] (that is all that Clarke's
subdifferential allows). If

    y(t_i) ± ε + [0, t_{i+1} − t_i] · f(Y)  ⊂  Y

then every solution that starts within ε of the save stays in Y until the next one (a solution cannot leave Y without first having
moved further than f(Y) lets it). The growth h of the critical sub-system on Y bounds it at every time between the saves.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

import mixflow as mf

Interval = mf.intervals.Interval
CONTRAST = 1
ROUNDS = 12


@dataclass(frozen=True, eq=False, kw_only=True)
class Enclosure:
    """Between every two of T saves: h (T−1, 2, 2) of the contrast sector, the boxes (T−1, size), and where they are proven."""

    h: Interval
    box: Interval
    proven: np.ndarray


def enclose(field, time, states, error):
    """The enclosure of a symmetric field's flow between saved `states` (T, size), each known to ±`error`."""
    states = np.asarray(states, float)
    begin, end = states[:-1], states[1:]
    length = np.diff(time)[:, None]
    start = Interval(begin - error, begin + error)
    moved = np.abs(end - begin)
    box = Interval(np.minimum(begin, end) - moved / 4 - 4 * error, np.maximum(begin, end) + moved / 4 + 4 * error)
    proven = np.zeros(len(box.lo), bool)
    for _ in range(ROUNDS):
        todo = np.flatnonzero(~proven)
        if not len(todo):
            break
        speed = _field(field, box[todo])[0]
        reached = start[todo] + Interval(np.zeros((len(todo), 1)), length[todo]) * speed
        held = reached.inside(box[todo]).all(axis=1)
        proven[todo[held]] = True
        wide = reached.hull(start[todo])
        room = (wide.hi - wide.lo) / 8 + error
        # A proven box shrinks to what can be reached; another one grows until it holds.
        new = Interval(
            np.where(held[:, None], wide.lo, wide.lo - room), np.where(held[:, None], wide.hi, wide.hi + room)
        )
        box.lo[todo], box.hi[todo] = new.lo, new.hi
    h = _field(field, box)[1]
    return Enclosure(h=h, box=box, proven=proven)


def _field(field, Y):
    """The velocity on boxes (N, size), and h = −∂loss/∂A of the contrast sector (N, 2, 2), both as intervals."""
    K, N = field.task.classes, len(Y.lo)
    c = _tables(K, float(field.constants["bias"]))
    w, rest = Y[:, :2], Y[:, 2:]
    A, G_K, G_Q = (rest[:, 8 * i : 8 * i + 8].reshape(N, 2, 2, 2) for i in range(3))
    keys, queries = c["keys"], c["queries"]  # (2K, 4, 5), (2K, 4)
    # Scores straight from the sectors: (2K·4·5, sector·kind·kind)
    sectors = np.einsum("rdm,ds->rsm", c["scores"].reshape(-1, 2, 4), c["mix"]).reshape(-1, 8)
    E = A.reshape(N, 8).linear(sectors).exp().reshape(N, *keys.shape) * keys
    p = shares(E)
    u = w.linear(c["values"]).reshape(N, *keys.shape)
    heard = (p * u).sum(-1)
    z = (heard * queries).sum(-1) + c["bias"]
    gate = Interval(np.where(z.lo > 0, 1.0, 0.0), np.where(z.hi < 0, 0.0, 1.0))
    on = z.relu()
    pull = 1.0 / (1.0 + (on[:, :K] - on[:, K:]).exp()) * c["weight"]
    r = mf.intervals.concatenate([-pull, pull]) * gate
    share = p * queries[..., None]
    turn = share * (u - heard[..., None]) * r[..., None, None]
    g = turn.reshape(N, -1).linear(sectors.T).reshape(N, 2, 2, 2)
    g_w = (share * r[..., None, None]).reshape(N, -1).linear(c["values"].T)
    h = -(g * c["rate"][:, None, None])
    dA = product(G_K, h) + product(h, G_Q)
    K_half, Q_half = product(A, h.swap()), product(A.swap(), h)
    parts = (g_w.linear(-c["metric_w"]), dA, K_half + K_half.swap(), Q_half + Q_half.swap())
    return mf.intervals.concatenate([part.reshape(N, -1) for part in parts]), h[:, CONTRAST]


@lru_cache(maxsize=8)
def _tables(K, bias):
    """Head + on the types (y = +, n), then (y = −, K−1−n), whose weights are halved: the other head has the other half (§4).

    scores   (2K·4·5, 8) over the diagonal and off-diagonal 2×2 entries of A;  values (2K·4·5, 2) over (w_c, w_v)
    keys     (2K, 4, 5) multiplicity of each key as seen by a query;  queries (2K, 4)
    """
    gates = [(1, n) for n in range(K)] + [(-1, K - 1 - n) for n in range(K)]
    scores, values, keys, queries = zip(*(_tokens(K, y, n) for y, n in gates), strict=True)
    return {
        "scores": np.array(scores).reshape(-1, 8),
        "values": np.array(values).reshape(-1, 2),
        "keys": np.array(keys),
        "queries": np.array(queries) / (K + 1),
        "mix": np.array([[1.0, K - 1.0], [1.0, -1.0]]) / K,  # from sectors to the diagonal and off-diagonal entry
        "bias": bias,
        "weight": np.array([math.comb(K - 1, n) / 2**K for n in range(K)]),
        "metric_w": np.eye(2) / K,
        "rate": np.array([1.0, 1.0 / max(K - 1, 1)]),
    }


def _tokens(K, y, n):
    """Scores (4, 5, 8), values (4, 5, 2), key counts (4, 5), query counts (4,) of the sample (y, n).

    Queries: c_k, own signal, the others with sign +, the others with sign −. Keys: c_k, own signal, the query itself if
    it is another signal, the other + signals, the other − signals.
    """
    scores, values, keys = np.zeros((4, 5, 2, 2, 2)), np.zeros((4, 5, 2)), np.zeros((4, 5))
    others, C, V = {1: n, -1: K - 1 - n}, 0, 1
    queries = [(C, 1, 1), (V, y, 1), (V, 1, others[1]), (V, -1, others[-1])]  # kind, coefficient, how many
    for q, (kind, sign, _) in enumerate(queries):
        same = 0 if q < 2 else 1  # is the query of class k, like c_k and the own signal?
        scores[q, 0, same, C, kind], keys[q, 0] = sign, 1
        scores[q, 1, same, V, kind], keys[q, 1] = y * sign, 1
        scores[q, 2, 0, V, V], keys[q, 2] = 1, q >= 2
        for key, s in ((3, 1), (4, -1)):
            scores[q, key, 1, V, kind] = s * sign
            keys[q, key] = max(others[s] - (q >= 2 and s == sign), 0)
        values[q, :, C] = [1, 0, 0, 0, 0]
        values[q, :, V] = [0, y, sign, 1, -1]
    return scores, values, keys, np.array([number for _, _, number in queries], float)


def product(X, Y):
    """The matrix product of two intervals (…, i, k) and (…, k, j), entry by entry: tighter for wide ones than `matmul`."""
    return (X[..., :, :, None] * Y[..., None, :, :]).sum(-2)


def shares(E):
    """E_k / Σ E for independent E_k ≥ 0 along the last axis: each is largest when it is and the others are least."""
    rest = E.linear(1.0 - np.eye(E.shape[-1]))
    low = mf.intervals.interval(E.lo) / (mf.intervals.interval(E.lo) + rest.hi)
    high = mf.intervals.interval(E.hi) / (mf.intervals.interval(E.hi) + np.maximum(rest.lo, 0.0))
    return Interval(np.maximum(low.lo, 0.0), np.minimum(high.hi, 1.0))
