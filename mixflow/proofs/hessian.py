"""∇²ℓ over boxes of weights, and the bound μ ≥ λ_max(−∇²ℓ) that the lemma needs (docs/proofs.md).

With θ = (w, e), a = softmax weights, M = Σ a v what a query reads, d = a (v − M):

    ∂M/∂v = a,   ∂M/∂s = d,   ∂²M/∂s∂s = diag(d) − a dᵀ − d aᵀ,   ∂²M/∂s∂v = diag(a) − a aᵀ
    ∇²ℓ = Σ_n p_n [φ''(m) ∇m ∇mᵀ + φ'(m) ∇²m],   φ'' = σ(m) σ(−m)

and from θ to the weights, P = KᵀQ being bilinear:  ∇²_x = Jᵀ ∇²_y J + (∂ℓ/∂P placed between the entries of K and Q it joins).
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from .intervals import UNIT, Interval, interval, matmul
from .network import Tables, attention, join, slopes


@dataclass(frozen=True, eq=False)
class Curvature:
    """What first and second derivatives over boxes x (..., n) share; made by `curvature`."""

    tables: Tables
    x: Interval
    bias: object
    a: Interval
    v: Interval
    M: Interval
    read: tuple  # Σ_k a S, Σ_k d S and Σ_k a values of each query: (..., G, Q, E), alike, (..., G, Q, W)
    slope: Interval  # ∂z/∂θ (..., G, W+E)

    def slopes(self):
        """∂z/∂x (..., G, n)."""
        by_y = matmul(self.slope, _transfer(self.tables))
        return matmul(by_y, _jacobian(self.tables, self.x))

    def hessian(self, gates):
        """∇²ℓ_γ (..., n, n) for gates of 0 and 1 (..., G)."""
        L, g = self._in_scores(gates)
        T, J = _transfer(self.tables), _jacobian(self.tables, self.x)
        L, g = matmul(matmul(T.swap(), L), T), matmul(g[..., None, :], T)[..., 0, :]  # over y = (u, P)
        H = matmul(matmul(J.swap(), L), J)
        keys, queries, source = _places(self.tables)[1]
        bilinear = H[..., keys, queries] + g[..., source]
        for first, second in ((keys, queries), (queries, keys)):
            H.lo[..., first, second], H.hi[..., first, second] = bilinear.lo, bilinear.hi
        return H

    def _in_scores(self, gates):
        """∂²ℓ/∂θ² (..., W+E, W+E) and ∂ℓ/∂θ (..., W+E)."""
        tables, N = self.tables, self.tables.samples
        z, r = slopes(tables, self.M, self.bias, gates)
        gate, on = gates[..., None], z * gates
        m_slope = self.slope[..., :N, :] * gate[..., :N, :] - self.slope[..., N:, :] * gate[..., N:, :]
        falling = 1.0 / (1.0 + (on[..., :N] - on[..., N:]).exp())
        bend = falling * (1.0 - falling) * tables.probability
        first = matmul((m_slope * bend[..., None]).swap(), m_slope)
        return first + self._second(r), (self.slope * r[..., None]).sum(-2)

    def _second(self, r):
        """Σ_i r_i ∇²z_i over θ."""
        tables = self.tables
        (G, Q, k), W, E = tables.keys.shape, tables.values.shape[1], tables.scores.shape[1]
        weight = r[..., None] * (interval(tables.queries) / float(tables.length))  # (..., G, Q)
        lead = weight.shape[:-2]
        d = self.a * (self.v - self.M[..., None])
        by_d, by_a = ((X * weight[..., None]).reshape(*lead, G * Q * k) for X in (d, self.a))
        diagonal = by_d.linear(tables.scores.T**2)
        pairs = tables.scores[:, :, None] * tables.values[:, None, :]
        cross = by_a.linear(pairs.reshape(len(pairs), -1).T).reshape(*lead, E, W)
        alpha, beta, nu = (X.reshape(*lead, G * Q, X.shape[-1]) for X in self.read)
        weighted = (alpha * weight.reshape(*lead, G * Q, 1)).swap()
        mixed, cross = matmul(weighted, beta), cross - matmul(weighted, nu)
        square, place = -(mixed + mixed.swap()), np.arange(E)
        trace = square[..., place, place] + diagonal
        total = Interval(np.zeros((*lead, W + E, W + E)), np.zeros((*lead, W + E, W + E)))
        for name in ("lo", "hi"):
            getattr(square, name)[..., place, place] = getattr(trace, name)
            end = getattr(total, name)
            end[..., W:, W:], end[..., W:, :W] = getattr(square, name), getattr(cross, name)
            end[..., :W, W:] = getattr(cross, name).swapaxes(-1, -2)
        return total


def curvature(tables, x, bias):
    """The derivatives of the network over boxes x (..., n)."""
    (G, Q, k) = tables.keys.shape
    a, v, M = attention(tables, x)
    S, values = tables.scores.reshape(G, Q, k, -1), tables.values.reshape(G, Q, k, -1)
    d = a * (v - M[..., None])
    read = tuple(matmul(X[..., None, :], Y)[..., 0, :] for X, Y in ((a, S), (d, S), (a, values)))
    share = interval(tables.queries) / float(tables.length)
    slope = (join([read[2], read[1]]) * share[..., None]).sum(-2)
    return Curvature(tables, x, bias, a, v, M, read, slope)


@lru_cache(maxsize=8)
def _transfer(tables):
    """∂θ/∂y for y = (u, P), an interval (W+E, W+P)."""
    W, (E, P) = tables.values.shape[1], tables.mix.shape
    T = Interval(np.zeros((W + E, W + P)), np.zeros((W + E, W + P)))
    mix = interval(tables.mix) / float(tables.denominator)
    for name in ("lo", "hi"):
        end = getattr(T, name)
        end[:W, :W], end[W:, W:] = np.eye(W) * getattr(tables.value_scale, name), getattr(mix, name)
    return T


@lru_cache(maxsize=8)
def _places(tables):
    """Where the entries of x stand in ∂y/∂x (rows, columns, source), each pair K_ai, Q_aj with its P_ij, and the length of y."""
    W = tables.values.shape[1]
    entries, pairs, x_at, y_at = [], [], W, W
    for R, F in tables.blocks:
        for i, j, row in np.ndindex(F, F, R):
            key, query, y = x_at + row * F + i, x_at + R * F + row * F + j, y_at + i * F + j
            entries += [(y, key, query), (y, query, key)]
            pairs.append((key, query, y))
        x_at, y_at = x_at + 2 * R * F, y_at + F * F
    return tuple(np.array(t) for t in zip(*entries)), tuple(np.array(t) for t in zip(*pairs)), y_at


def _jacobian(tables, x):
    """∂y/∂x (..., W+P, n) for y = (u, P)."""
    (rows, columns, source), _, height = _places(tables)
    J = Interval(*(np.zeros((*x.shape[:-1], height, tables.size)) for _ in range(2)))
    own = np.arange(tables.values.shape[1])
    for end, values in ((J.lo, x.lo), (J.hi, x.hi)):
        end[..., own, own] = 1.0
        end[..., rows, columns] = values[..., source]
    return J


def growth(H):
    """An upper bound μ ≥ 0 of λ_max(−H) for every symmetric matrix in the interval H (..., n, n).

    −H = −mid + (at most rad): Weyl's inequality, with Gershgorin's discs in the eigenbasis V of the midpoint and the bound of
    Collatz and Wielandt, |rad|₂ ≤ max_i (rad y)_i / y_i for a positive y. If |VᵀV − 1|_∞ ≤ ε < 1, V is invertible and, with
    x = Vy and |x|² ≥ (1 − ε)|y|², λ_max(−mid) ≤ max(λ_max(Vᵀ(−mid)V), 0) / (1 − ε).
    """
    n = H.shape[-1]
    middle = 0.5 * (H.mid + H.mid.swapaxes(-1, -2))
    rad = np.maximum(_distance(H, middle), _distance(H.swap(), middle))
    V = np.linalg.eigh(-middle)[1]
    transposed, place = V.swapaxes(-1, -2), np.arange(n)
    M = matmul(matmul(transposed, -middle), V)
    centres, sizes = M.hi[..., place, place], M.size
    sizes[..., place, place] = 0.0
    discs = (interval(centres) + interval(sizes).sum(-1)).hi.max(-1)
    skew = interval((matmul(transposed, V) - np.eye(n)).size).sum(-1).hi.max(-1)
    y = rad.sum(-1) + rad.max((-1, -2))[..., None] * 1e-6 + 1e-250
    for _ in range(3):
        y = (rad @ y[..., None])[..., 0] + 1e-9 * y
        y /= y.max(-1)[..., None]
    spread = (matmul(rad, y[..., None])[..., 0] / interval(y)).hi.max(-1)
    bound = interval(np.maximum(discs, 0.0)) / (1.0 - interval(skew)) + spread
    return np.where(skew < 0.1, bound.hi, np.nan) * (1 + UNIT)


def _distance(H, middle):
    """At least how far the ends of H are from `middle`."""
    return np.maximum((interval(H.hi) - middle).size, (interval(middle) - H.lo).size)
