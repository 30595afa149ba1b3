"""∇²ℓ around boxes of weights, and the bound μ ≥ λ_max(−∇²ℓ) that the lemma needs (docs/proofs.md).

With θ = (w, e), a = softmax weights, M = Σ a v what a query reads, d = a (v − M):

    ∂M/∂v = a,   ∂M/∂s = d,   ∂²M/∂s∂s = diag(d) − a dᵀ − d aᵀ,   ∂²M/∂s∂v = diag(a) − a aᵀ
    L = ∂²ℓ/∂θ² = Σ_n p_n [φ''(m) ∇m ∇mᵀ + φ'(m) ∇²m],   φ'' = σ(m) σ(−m)

and from θ to the weights, P = KᵀQ being bilinear, with J = ∂θ/∂x:

    ∇²ℓ = Jᵀ L J + B(∂ℓ/∂P),   B places ∂ℓ/∂P between the entries of K and Q that it joins

On a ball of radius ρ, Δθ = Jd + q with |q| ≤ τρ²/2, and |ΔJ| ≤ τρ. With any weights s > 0, X = Σ_k s_k² ∂_kL J Jᵀ ∂_kL and L_e
the rows of L that belong to scores, Cauchy and Schwarz give (docs/mathematics.md §14)

    |∇²ℓ(x + d) − ∇²ℓ(x)| ≤ |Δθ/s| |JᵀXJ|^½ + 2 |L_e J| τρ + |L_e| (τρ)² + τ |L_e Δθ|
    |∇ℓ(x + v) − ∇ℓ(x) − ∇²ℓ(x) v| ≤ |L_e J| |q| + ½ |Δθ/s| (ΔθᵀXΔθ)^½ + τ |v| |L_e Δθ|

with ∂_kL, L over the box of all θ on the ball. What is enclosed coarsely is multiplied by ρ.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ..intervals import UNIT, Interval, around, interval, matmul, norm, stack
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

    def slopes(self, gates=None, frame=None):
        """A bound of |∂z/∂x| (..., G) on the balls; with gates (..., G), of |∂m/∂x| (..., N) for the margins m instead.

        With a `frame` Y (..., n, n), floats, a bound of |∂m/∂x Y|.
        """
        tables, W, N = self.tables, self.tables.values.shape[1], self.tables.samples
        a, v, M = attend(tables, *self._wide)
        d = a * (v - M[..., None])
        share = interval(tables.queries) / float(tables.length)
        slope = (join([_read(tables.values, a), _read(tables.scores, d)]) * share[..., None]).sum(-2)
        if gates is not None:
            slope = slope[..., :N, :] * gates[..., :N, None] - slope[..., N:, :] * gates[..., N:, None]
        J, turned = self.J, self.turned
        if frame is not None:
            J, turned = matmul(J, frame), (interval(turned) * spectral(frame)).hi
        inner = norm(matmul(slope, J))
        return (inner + interval(norm(slope[..., W:])) * turned[..., None]).hi

    def __getitem__(self, cells):
        parts = (each[cells] for each in (self.e, self.w, self.J, self.moved, self.turned, self.radius))
        return Curvature(self.tables, self.bias, *parts)

    def hessian(self, gates):
        """∇²ℓ_γ (..., n, n) at the points x, for gates of 0 and 1 (..., G)."""
        L, g = in_scores(self.tables, self.e, self.w, self.bias, gates)
        return _joined(self.tables, matmul(matmul(self.J.swap(), L), self.J), g)

    def change(self, gates):
        """|∇²ℓ_γ(x + d) − ∇²ℓ_γ(x)| (...) on the balls, for all gates between those of an interval (..., G)."""
        if not self.radius.any():
            return np.zeros_like(self.radius)
        return self._bends(gates).change()

    def remainder(self, gates, frame, loose):
        """|∇ℓ_γ(x + v) − ∇ℓ_γ(x) − ∇²ℓ_γ(x) v| (...) for all v = Yξ + u in the ball, |ξ| ≤ 1, |u| ≤ loose; Y (..., n, n)."""
        return self._bends(gates).remainder(frame, loose)

    def _bends(self, gates):
        tables, W = self.tables, self.tables.values.shape[1]
        e, w = self._wide
        mean = self._mean(e, w)
        L = in_scores(tables, e, w, self.bias, gates, mean)[0]
        third = _third(tables, e, w, self.bias, gates, mean)  # (orbits, ..., W+E, W+E)
        places, group = tables.orbits
        lengths = norm(self.J.mid)[..., places] + 1e-9
        weights = interval(np.moveaxis(lengths, -1, 0)[..., None, None]).square()
        X = (matmul(matmul(third, matmul(self.J, self.J.swap())), third) * weights).sum(0)
        scale, total = np.zeros(self.J.shape[:-1]), interval(np.zeros(X.shape))
        for image, sign in group:
            scale[..., image[places]] = lengths
            inverse = np.argsort(image)
            total = total + X[..., inverse[:, None], inverse] * np.outer(sign[inverse], sign[inverse])
        return Bends(self.J, L[..., W:, :], total, scale, interval(_turn(tables)), interval(self.radius))


@dataclass(frozen=True, eq=False)
class Bends:
    """Third derivatives on balls: J at their centres, L_e, X and the weights s (see above), τ and ρ."""

    J: Interval
    L: Interval
    X: Interval
    scale: np.ndarray
    turn: Interval
    radius: Interval

    def _lengths(self, J):
        """|J/s|, |JᵀXJ|^½ and |L_e J|, for J or for J times something."""
        spread = J / self.scale[..., None]
        parts = (matmul(spread, spread.swap()), matmul(matmul(J.swap(), self.X), J))
        return [interval(root(part)) for part in parts] + [interval(spectral(matmul(self.L, J)))]

    def change(self):
        turned = self.turn * self.radius
        q = turned * self.radius * 0.5
        spread, steep, pull = self._lengths(self.J)
        least, flat = self.scale.min(-1), interval(spectral(self.L))
        away, moved = spread * self.radius + q / least, pull * self.radius + flat * q
        return (away * steep + (pull * 2.0 + flat * turned) * turned + self.turn * moved).hi

    def remainder(self, frame, loose):
        y = interval(spectral(frame)) + loose
        q = self.turn * y * y * 0.5
        whole, along = self._lengths(self.J), self._lengths(matmul(self.J, frame))
        spread, steep, pull = (part + each * loose for part, each in zip(along, whole))
        least, flat = self.scale.min(-1), interval(spectral(self.L))
        steep = steep + interval(root(self.X)) * q
        return (whole[2] * q + (spread + q / least) * steep * 0.5 + self.turn * y * (pull + flat * q)).hi


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


def turning(tables, curves, bias, gates):
    """∇²ℓ along curves over their cells: its middle H (C, n, n), symmetric floats, and a bound (C,) of |∇²ℓ − H|."""
    W = tables.values.shape[1]

    def parts(x):
        J = Series(matmul(_transfer(tables), stack([_jacobian(tables, each) for each in (x.c[0], x.c[1])])))
        J.c.lo[1, ..., :W, :], J.c.hi[1, ..., :W, :] = 0.0, 0.0  # ∂w/∂x does not change
        L, g = in_scores(tables, scores(tables, x), x[..., :W] * tables.value_scale, bias, gates)
        H = matrix_product(matrix_product(swap(J), L), J)
        return [_joined(tables, H.c[k], g.c[k]) for k in range(2)]

    middle, slope = parts(Series(curves.middle.c[:2]))[0], parts(Series(curves.whole.c[:2]))[1]
    H = 0.5 * (middle.mid + middle.mid.swapaxes(-1, -2))
    return H, (interval(size(middle - H)) + np.maximum(growth(slope).hi, growth(-slope).hi)).hi


def size(X):
    """An upper bound of the spectral norm: |X|² ≤ max_i (|X|ᵀ|X| y)_i / y_i for any y > 0 (Collatz, Wielandt)."""
    sizes = interval(X).size
    transposed, y = sizes.swapaxes(-1, -2), np.ones((*sizes.shape[:-2], sizes.shape[-1], 1))
    for _ in range(4):
        y = transposed @ (sizes @ y) + 1e-250
        y = y / y.max((-1, -2))[..., None, None] + 1e-9
    return (matmul(transposed, matmul(sizes, y)) / interval(y)).sqrt().hi.max((-1, -2))


def root(M):
    """An upper bound of |M|^½ (...) for positive semi-definite matrices in the interval M."""
    return growth(-M).sqrt().hi


def spectral(X):
    """An upper bound of the spectral norm (...) of every matrix in the interval X, by the smaller of XXᵀ and XᵀX."""
    X = interval(X)
    return root(matmul(X, X.swap()) if X.shape[-2] <= X.shape[-1] else matmul(X.swap(), X))


@lru_cache(maxsize=8)
def _turn(tables):
    """τ with |ΔJ|₂ ≤ τ |d|: each sector's KᵀQ is bilinear with norm 1, so τ is the norm of the map from P to the scores."""
    mix = (interval(tables.mix) / float(tables.denominator)).size
    gram = matmul(mix.T, mix)
    return float(interval(gram.size.sum(-1).max() * (1 + 100 * UNIT)).sqrt().hi)


def _joined(tables, H, g):
    """JᵀLJ with ∂ℓ/∂P, from g = ∂ℓ/∂θ, added between the entries of K and Q that it joins."""
    keys, queries, source = _places(tables)[1]
    bilinear = H[..., keys, queries] + matmul(g[..., None, :], _transfer(tables))[..., 0, :][..., source]
    for first, second in ((keys, queries), (queries, keys)):
        H.lo[..., first, second], H.hi[..., first, second] = bilinear.lo, bilinear.hi
    return H


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
