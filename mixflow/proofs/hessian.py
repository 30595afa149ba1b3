"""∇²ℓ around boxes of weights, and the bound μ ≥ λ_max(−∇²ℓ) that the lemma needs (docs/proofs.md).

With θ = (w, e), a = softmax weights, M = Σ a v what a query reads, d = a (v − M):

    ∂M/∂v = a,   ∂M/∂s = d,   ∂²M/∂s∂s = diag(d) − a dᵀ − d aᵀ,   ∂²M/∂s∂v = diag(a) − a aᵀ
    L = ∂²ℓ/∂θ² = Σ_n p_n [φ''(m) ∇m ∇mᵀ + φ'(m) ∇²m],   φ'' = σ(m) σ(−m)

and from θ to the weights, P = KᵀQ being bilinear, with J = ∂θ/∂x:

    ∇²ℓ = Jᵀ L J + B(∂ℓ/∂P),   B places ∂ℓ/∂P between the entries of K and Q that it joins

On a ball of radius ρ, |Δθ_k| ≤ |∂θ_k| ρ + |∂²θ_k| ρ²/2 (Cauchy and Schwarz), |ΔJ| ≤ τρ, and by the mean value theorem

    |∇²ℓ(x + d) − ∇²ℓ(x)| ≤ Σ_k |Δθ_k| |Jᵀ ∂_kL J| + 2 |L J| τρ + |L| (τρ)² + |Δ(∂ℓ/∂P)|,   |Δ(∂ℓ/∂P)| ≤ |Tᵀ L| |Δθ|

with ∂_kL, L over the box of all θ on the ball. What is enclosed coarsely is multiplied by ρ.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from .intervals import UNIT, Interval, around, interval, matmul, norm
from .network import Tables, attend, join, linear, scores, slopes, swap
from .series import Series, matrix_product

SMALL = (
    1e-5  # below this radius the ball is put into the box x itself: third derivatives would cost more than they save
)


def in_scores(tables, e, w, bias, gates, mean=None):
    """L (..., W+E, W+E) and ∂ℓ/∂θ (..., W+E) from scores and values, intervals or series; gates of 0 and 1 (..., G).

    `mean`, if given, is another enclosure of what each query reads.
    """
    N = tables.samples
    a, v, M = attend(tables, e, w)
    if mean is not None:
        M = _both(M, mean)
    d = a * (v - M[..., None])
    read = [_read(table, X) for X, table in ((a, tables.scores), (d, tables.scores), (a, tables.values))]
    share = interval(tables.queries) / float(tables.length)
    slope = (join([read[2], read[1]]) * share[..., None]).sum(-2)  # ∂z/∂θ (..., G, W+E)
    z, r = slopes(tables, M, bias, gates)
    gate, on = gates[..., None], z * gates
    m_slope = slope[..., :N, :] * gate[..., :N, :] - slope[..., N:, :] * gate[..., N:, :]
    falling = 1.0 / (1.0 + (on[..., :N] - on[..., N:]).exp())
    bend = falling * (1.0 - falling) * tables.probability
    first = matrix_product(swap(m_slope * bend[..., None]), m_slope)
    return first + _second(tables, a, d, read, r[..., None] * share), (slope * r[..., None]).sum(-2)


def _both(M, mean):
    """The common part of two enclosures, the second one of the first coefficient if M is a series."""
    if not isinstance(M, Series):
        return Interval(np.maximum(M.lo, mean.lo), np.minimum(M.hi, mean.hi))
    lo, hi = M.c.lo.copy(), M.c.hi.copy()
    lo[0], hi[0] = np.maximum(lo[0], mean.lo), np.minimum(hi[0], mean.hi)
    return Series(Interval(lo, hi))


def _read(table, X):
    """Σ_k X_k table_k for each query: (..., G, Q, columns)."""
    G, Q, k = X.shape[-3:]
    return (X[..., None] * table.reshape(G, Q, k, -1)).sum(-2)


def _second(tables, a, d, read, weight):
    """Σ_i r_i ∇²z_i over θ, with weight = r · c / L (..., G, Q)."""
    (G, Q, k), W, E = tables.keys.shape, tables.values.shape[1], tables.scores.shape[1]
    lead = weight.shape[:-2]
    by_d, by_a = ((X * weight[..., None]).reshape(*lead, G * Q * k) for X in (d, a))
    diagonal = linear(by_d, tables.scores.T**2)
    pairs = tables.scores[:, :, None] * tables.values[:, None, :]
    cross = linear(by_a, pairs.reshape(len(pairs), -1).T).reshape(*lead, E, W)
    alpha, beta, nu = (X.reshape(*lead, G * Q, X.shape[-1]) for X in read)
    weighted = swap(alpha * weight.reshape(*lead, G * Q, 1))
    mixed, cross = matrix_product(weighted, beta), cross - matrix_product(weighted, nu)
    square = -(mixed + swap(mixed)) + diagonal[..., None] * np.eye(E)
    return _blocks(square, cross, W)


def _blocks(square, cross, W):
    """[[0, crossᵀ], [cross, square]] as an interval or a series."""
    parts = [each.c if isinstance(each, Series) else each for each in (square, cross)]
    n = parts[0].shape[-1] + W
    total = Interval(*np.zeros((2, *parts[0].shape[:-2], n, n)))
    for name in ("lo", "hi"):
        end, (inner, outer) = getattr(total, name), (getattr(part, name) for part in parts)
        end[..., W:, W:], end[..., W:, :W], end[..., :W, W:] = inner, outer, outer.swapaxes(-1, -2)
    return Series(total) if isinstance(square, Series) else total


@dataclass(frozen=True, eq=False)
class Curvature:
    """Derivatives on the balls of radius ρ around points x (..., n); made by `curvature`. Arrays of the shape (...)."""

    tables: Tables
    bias: object
    e: Interval  # at x
    w: Interval
    J: Interval  # ∂θ/∂x at x
    moved: np.ndarray  # (..., W+E): |Δθ| on the ball
    turned: np.ndarray  # |ΔJ| on the ball
    radius: np.ndarray

    @property
    def _wide(self):
        W = self.tables.values.shape[1]
        room = Interval(-self.moved, self.moved)
        return self.e + room[..., W:], self.w + room[..., :W]

    def _mean(self, e, w):
        """What each query reads on the balls, by the mean value theorem: far tighter than Σ a v over the box."""
        tables, W = self.tables, self.tables.values.shape[1]
        a, v, M = attend(tables, e, w)
        d = (a * (v - M[..., None])).size
        by_score = interval(d) * self.moved[..., W + np.argmax(np.abs(tables.scores), -1).reshape(tables.keys.shape)]
        by_value = interval(a.size) * self.moved[..., np.argmax(np.abs(tables.values), -1).reshape(tables.keys.shape)]
        room = (by_score + by_value).sum(-1).hi
        return attend(tables, self.e, self.w)[2] + Interval(-room, room)

    def slopes(self):
        """A bound of |∂z/∂x| (..., G) on the balls."""
        W = self.tables.values.shape[1]
        a, v, M = attend(self.tables, *self._wide)
        d = a * (v - M[..., None])
        share = interval(self.tables.queries) / float(self.tables.length)
        slope = (join([_read(self.tables.values, a), _read(self.tables.scores, d)]) * share[..., None]).sum(-2)
        inner = norm(matmul(slope, self.J))
        return (inner + interval(norm(slope[..., W:])) * self.turned[..., None]).hi

    def hessian(self, gates):
        """∇²ℓ_γ (..., n, n) at the points x, for gates of 0 and 1 (..., G)."""
        L, g = in_scores(self.tables, self.e, self.w, self.bias, gates)
        H = matmul(matmul(self.J.swap(), L), self.J)
        keys, queries, source = _places(self.tables)[1]
        bilinear = H[..., keys, queries] + matmul(g[..., None, :], _transfer(self.tables))[..., 0, :][..., source]
        for first, second in ((keys, queries), (queries, keys)):
            H.lo[..., first, second], H.hi[..., first, second] = bilinear.lo, bilinear.hi
        return H

    def growth(self, gates):
        """μ ≥ λ_max(−∇²ℓ_γ) (...) on the balls, for gates of 0 and 1 (..., G)."""
        W, T, at_x = self.tables.values.shape[1], _transfer(self.tables), growth(self.hessian(gates))
        if not self.radius.any():
            return at_x.hi
        e, w = self._wide
        mean = self._mean(e, w)
        wide, _ = in_scores(self.tables, e, w, self.bias, gates, mean)
        third = _third(self.tables, e, w, self.bias, gates, mean)
        J, (places, count) = self.J, self.tables.orbits
        each = interval(np.moveaxis(size(matmul(matmul(J.swap(), third), J)), 0, -1))  # (..., orbits)
        steep = (each * self.moved[..., places] * count).sum(-1)
        turn = interval(size(matmul(wide[..., W:, :], J))) * 2.0 + interval(size(wide[..., W:, W:])) * self.turned
        pull = interval(size(matmul(T.swap()[..., W:, :], wide))) * norm(self.moved)
        return (at_x + steep + turn * self.turned + pull).hi


def _third(tables, e, w, bias, gates, mean):
    """∂L/∂θ_k over a box of θ for one k of each orbit, k first: (orbits, ..., W+E, W+E), by series in that direction."""
    W, E = tables.values.shape[1], tables.scores.shape[1]
    chosen = np.eye(W + E)[tables.orbits[0]]

    def series(x, first, count):
        direction = chosen[:, first : first + count].reshape(len(chosen), *[1] * (len(x.shape) - 1), count)
        shape = (len(chosen), *x.shape)
        ends = [np.stack([np.broadcast_to(end, shape), np.broadcast_to(direction, shape)]) for end in (x.lo, x.hi)]
        return Series(Interval(*ends))

    return in_scores(tables, series(e, W, E), series(w, 0, W), bias, gates, mean)[0].c[1]


def curvature(tables, x, bias, radius=0.0):
    """The derivatives on the balls of a radius (...) around points x (..., n), intervals."""
    W = tables.values.shape[1]
    radius = np.broadcast_to(np.asarray(radius, float), x.shape[:-1])
    if radius.max(initial=0.0) < SMALL:
        x, radius = x + around(0.0, radius)[..., None], np.zeros_like(radius)
    J = matmul(_transfer(tables), _jacobian(tables, x))
    turned = interval(_turn(tables)) * radius
    bend = np.where(np.arange(J.shape[-2]) < W, 0.0, 1.0) * (turned * radius * 0.5).hi[..., None]
    moved = (interval(norm(J)) * radius[..., None] + bend).hi
    return Curvature(tables, bias, scores(tables, x), x[..., :W] * tables.value_scale, J, moved, turned.hi, radius)


def size(X):
    """An upper bound of the spectral norm: the Frobenius norm, or √(largest row sum · largest column sum)."""
    sizes = interval(X.size)
    rows, columns = (interval(sizes.sum(axis).hi.max(-1)) for axis in (-1, -2))
    return np.minimum(norm(sizes.hi.reshape(*sizes.shape[:-2], -1)), (rows * columns).sqrt().hi)


@lru_cache(maxsize=8)
def _turn(tables):
    """τ with |ΔJ|₂ ≤ τ |d|: each sector's KᵀQ is bilinear with norm 1, so τ is the norm of the map from P to the scores."""
    mix = (interval(tables.mix) / float(tables.denominator)).size
    gram = matmul(mix.T, mix)
    return float(interval(gram.size.sum(-1).max() * (1 + 100 * UNIT)).sqrt().hi)


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
    return interval(np.where(skew < 0.1, bound.hi, np.nan))


def _distance(H, middle):
    """At least how far the ends of H are from `middle`."""
    return np.maximum((interval(H.hi) - middle).size, (interval(middle) - H.lo).size)
