"""The mean-field transformer as a gradient flow in Euclidean space, x' ∈ −∂ℓ(x), in 34 numbers (docs/proofs.md).

One statement of the forward pass serves floats, intervals and series of intervals. Coordinates:

    x = (u, K_1, Q_1, K_2, Q_2)   u = √(2K) (w_c, w_v);  in the common and the contrast sector 4×2 matrices K, Q
    P_s = K_sᵀ Q_s                (key, query) over (c, v): 2 times the sector's scores in the first, 2(K−1) times in the second
    e = mix · P / denominator     the distinct scores A[key, query]: of one class with itself, and with another
    z_i = b + Σ_q c_iq Σ_k a_iqk v_iqk / L,  a = softmax over keys of ±e,  v = ± w
    ℓ = Σ_n p_n log(1 + exp(−m_n)),  m_n = ReLU z_n − ReLU z_(N+n)

The first N neurons push themselves on (∂ℓ/∂ReLU < 0), the last N silence themselves.
"""

import math
from dataclasses import dataclass

import numpy as np

from ..intervals import Interval, from_fraction, interval
from .series import Series, matrix_product

C, V = 0, 1


@dataclass(frozen=True, eq=False)
class Tables:
    """The network on its task as constants: G neurons, Q queries, k keys, E distinct scores, W values.

    index (G, Q, k)      which of exp(e), exp(−e) each key weighs with
    scores (GQk, E)      the same as a matrix of −1, 0, 1
    values (GQk, W)      v of each key, over w
    keys (G, Q, k)       how many such keys there are
    queries (G, Q)       how many such queries there are; divided by `length`
    probability (N,)     of each sample
    mix (E, P), denominator     e = mix · P / denominator
    blocks               (rows, columns) of each pair K, Q
    value_scale          w = value_scale · u, an interval
    twins (G,)           the orbit of each neuron under the symmetries of the curve
    orbits               one θ_k of every orbit, and the symmetries: θ_k goes to sign_k θ_image(k), as pairs (image, sign)
    moving (n,)          1 for the coordinates that a stage of training moves, 0 for the others; None if all move
    """

    index: np.ndarray
    scores: np.ndarray
    values: np.ndarray
    keys: np.ndarray
    queries: np.ndarray
    length: int
    probability: np.ndarray
    mix: np.ndarray
    denominator: int
    blocks: tuple
    value_scale: Interval
    twins: np.ndarray
    orbits: tuple
    moving: np.ndarray | None = None

    @property
    def size(self):
        """How many numbers x holds."""
        return self.values.shape[1] + sum(2 * rows * columns for rows, columns in self.blocks)

    @property
    def samples(self):
        return len(self.probability)

    @property
    def hard(self):
        """(N,) the samples on which the plain vote is wrong, with n = 0..K−1 other signs equal to the label's."""
        return 2 * np.arange(self.samples) + 2 <= self.samples

    @property
    def convex(self):
        """Whether only w moves: z is affine in it, so every ℓ_γ is convex."""
        return self.moving is not None and not self.moving[self.values.shape[1] :].any()

    def parts(self, x):
        """u (..., W) and the pairs K, Q (..., rows, columns)."""
        at, pairs = self.values.shape[1], []
        for rows, columns in self.blocks:
            step, shape = rows * columns, (*x.shape[:-1], rows, columns)
            pairs.append((x[..., at : at + step].reshape(*shape), x[..., at + step : at + 2 * step].reshape(*shape)))
            at += 2 * step
        return x[..., : self.values.shape[1]], pairs


def symmetric(K):
    """The tables of head + on the uniform mixture of K classes; head − is its mirror image."""
    gates = [(1, n) for n in range(K)] + [(-1, K - 1 - n) for n in range(K)]
    rows = [_row(K, y, n) for y, n in gates]
    scores, values, keys, queries = (np.array(table, float) for table in zip(*rows))
    # Diagonal (x_k with x_k) and off-diagonal scores: (K−1)(P_1 + P_2) and (K−1)P_1 − P_2, over 2K(K−1).
    mix = np.kron([[K - 1.0, K - 1.0], [K - 1.0, -1.0]], np.eye(4))
    return Tables(
        index=np.argmax(np.abs(scores), -1) + 8 * (scores.sum(-1) < 0),
        scores=scores.reshape(-1, 8),
        values=values.reshape(-1, 2),
        keys=keys,
        queries=queries,
        length=K + 1,
        probability=np.array([math.comb(K - 1, n) / 2.0 ** (K - 1) for n in range(K)]),
        mix=mix,
        denominator=2 * K * (K - 1),
        blocks=((4, 2), (4, 2)),
        value_scale=1.0 / interval(np.array(2.0 * K)).sqrt(),
        twins=np.arange(2 * K),
        orbits=(np.arange(10), ((np.arange(10), np.ones(10)),)),
    )


def _row(K, y, n):
    """Scores (4, 5, 8), values (4, 5, 2), counts of keys (4, 5) and queries (4,) of a sample with label y and n other + signs.

    Queries: c_k, y v_k, the other +v_j, the other −v_j. Keys: c_k, y v_k, the query itself, the other + and − signals.
    """
    others = {1: n, -1: K - 1 - n}
    scores, values, keys = np.zeros((4, 5, 2, 2, 2)), np.zeros((4, 5, 2)), np.zeros((4, 5))
    queries = [(C, 1, 1), (V, y, 1), (V, 1, others[1]), (V, -1, others[-1])]
    for q, (kind, sign, _) in enumerate(queries):
        own = 0 if q < 2 else 1  # scores of class k with itself, or with another
        scores[q, 0, own, C, kind], keys[q, 0] = sign, 1
        scores[q, 1, own, V, kind], keys[q, 1] = y * sign, 1
        scores[q, 2, 0, V, V], keys[q, 2] = 1, q >= 2
        for key, s in ((3, 1), (4, -1)):
            scores[q, key, 1, V, kind] = s * sign
            keys[q, key] = max(others[s] - (q >= 2 and s == sign), 0)
        values[q, 0, C] = 1
        values[q, 1:, V] = y, sign, 1, -1
    return scores.reshape(4, 5, 8), values, keys, [number for _, _, number in queries]


def start(K, omega):
    """x(0) (34,) as an interval: w = 0, W_K = ω [I; 0], W_Q = ω [0; I] in both sectors, for an exact rational ω."""
    x = np.zeros(34)
    scaled = [from_fraction(omega) * interval(np.array(2.0 * n)).sqrt() for n in (1, K - 1)]
    lo, hi = x.copy(), x.copy()
    for s, scale in enumerate(scaled):
        at = 2 + 16 * s
        for place in (at, at + 3, at + 12, at + 15):  # K[0,0], K[1,1], Q[2,0], Q[3,1]
            lo[place], hi[place] = scale.lo, scale.hi
    return Interval(lo, hi)


def _exp(x):
    return np.exp(x) if isinstance(x, np.ndarray) else x.exp()


def linear(x, M):
    return x @ M.T if isinstance(x, np.ndarray) else x.linear(M)


def _constant(value, like):
    """An interval constant for intervals and series; its midpoint for floats."""
    return value.mid if isinstance(like, np.ndarray) else value


def scores(tables, x):
    """e (..., E)."""
    products = [matrix_product(swap(K), Q) for K, Q in tables.parts(x)[1]]
    flat = [P.reshape(*P.shape[:-2], -1) for P in products]
    return linear(join(flat), tables.mix) / float(tables.denominator)


def attention(tables, x):
    """Weights a (..., G, Q, k), values v alike, and the mean M (..., G, Q) that each query reads."""
    return attend(tables, scores(tables, x), tables.parts(x)[0] * _constant(tables.value_scale, x))


def attend(tables, e, w):
    """`attention` from the scores e (..., E) and values w (..., W)."""
    weight = _exp(join([e, -e]))[..., tables.index] * tables.keys
    a = weight / weight.sum(-1)[..., None]
    v = linear(w, tables.values)
    v = v.reshape(*v.shape[:-1], *tables.keys.shape)
    return a, v, (a * v).sum(-1)


def preactivations(tables, x, bias):
    """z (..., G)."""
    return (attention(tables, x)[2] * tables.queries).sum(-1) / float(tables.length) + bias


def slopes(tables, M, bias, gates):
    """z, and r = gate · ∂ℓ/∂ReLU(z) (..., G); `gates` (..., G) of 0, 1, or [0, 1] where the sign of z is open."""
    N = tables.samples
    z = (M * tables.queries).sum(-1) / float(tables.length) + bias
    on = z.relu() if isinstance(gates, Interval) and isinstance(z, Interval) else z * gates
    share = 1.0 / (1.0 + _exp(on[..., :N] - on[..., N:])) * tables.probability
    return z, join([-share, share]) * gates


def gradient(tables, x, bias, gates):
    """∇ℓ (..., n), 0 where nothing moves, with the gates as given; an interval of gates encloses Clarke's subdifferential."""
    a, v, M = attention(tables, x)
    _, r = slopes(tables, M, bias, gates)
    share = a * (r[..., None] * tables.queries / float(tables.length))[..., None]
    flat = (*share.shape[:-3], -1)
    g_w = linear(share.reshape(*flat), tables.values.T) * _constant(tables.value_scale, x)
    g_e = linear((share * (v - M[..., None])).reshape(*flat), tables.scores.T)
    g_P = linear(g_e, tables.mix.T) / float(tables.denominator)
    parts, at = [g_w], 0
    for (rows, columns), (K, Q) in zip(tables.blocks, tables.parts(x)[1]):
        g = g_P[..., at : at + columns**2].reshape(*g_P.shape[:-1], columns, columns)
        at += columns**2
        parts += [Y.reshape(*Y.shape[:-2], rows * columns) for Y in (matrix_product(Q, swap(g)), matrix_product(K, g))]
    return join(parts) if tables.moving is None else join(parts) * tables.moving


def swap(X):
    if isinstance(X, Series):
        return Series(X.c.swap())
    return X.swapaxes(-1, -2) if isinstance(X, np.ndarray) else X.swap()


def join(parts):
    """Along the last axis."""
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts, -1)
    if isinstance(parts[0], Series):
        return Series(join([part.c for part in parts]))
    return Interval(np.concatenate([p.lo for p in parts], -1), np.concatenate([p.hi for p in parts], -1))


def loss(tables, x, bias):
    """ℓ (...) at intervals or floats x."""
    return mean_loss(tables, margins(tables, x, bias))


def mean_loss(tables, m, chosen=None):
    """The loss (...) of margins m (..., N), or its mean over the chosen samples (N,)."""
    each, p = 1.0 + _exp(-m), tables.probability
    each = np.log(each) if isinstance(each, np.ndarray) else each.log()
    return (each * p).sum(-1) if chosen is None else (each * (p * chosen)).sum(-1) / float((p * chosen).sum())


def points(tables, x):
    """The features (..., N, W) of each sample, times its label: ∂m/∂u with every neuron on."""
    read = (attention(tables, x)[0][..., None] * tables.values.reshape(*tables.keys.shape, -1)).sum(-2)
    slope = (read * tables.queries[..., None]).sum(-2) / float(tables.length) * _constant(tables.value_scale, x)
    return slope[..., : tables.samples, :] - slope[..., tables.samples :, :]


def margins(tables, x, bias):
    """m (..., N)."""
    z = preactivations(tables, x, bias)
    on, N = (np.maximum(z, 0) if isinstance(z, np.ndarray) else z.relu()), tables.samples
    return on[..., :N] - on[..., N:]
