"""One step of descent on weights that enter as products, closed on their inner products: stated once for every engine.

Weights that share their rows stand side by side, B = [B_0 | B_1 | …], for attention [W_K | W_Q], and enter the loss through
S = BᵀB alone, between features. With H = ∂L/∂S + (∂L/∂S)ᵀ and X = H Γ̂ the gradient of every weight is B X, so that descent
B ← B (c I − X), X with its rate in it, is exactly (docs/mathematics.md §3, §13)

    S ← (c I − X)ᵀ S (c I − X) = c² S − c (Y + Yᵀ) + Yᵀ X,       Y = S X

S and X are dictionaries of blocks: S has those with i ≤ j, X those that are not zero. A block of X may be stored transposed.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

from ..jaxed import jax


def at_once(f, *arrays):
    """f(*arrays)."""
    return f(*arrays)


def as_is(X):
    """X."""
    return X


class Algebra(NamedTuple):
    """Matrix product and transpose in the layout of some arrays.

    stage   stage(f, *arrays) computes f once (`lanes.stages`)
    mirror  of a symmetric matrix one triangle need be computed (`lanes.mirrors`)
    """

    product: Callable
    transpose: Callable
    stage: Callable = at_once
    mirror: Callable = as_is

    def turned(self, entry):
        """The matrix of an entry (array, whether it is stored transposed)."""
        return self.transpose(entry[0]) if entry[1] else entry[0]

    def summed(self, pairs, base=None, *arrays):
        """base(*arrays) + Σ L R over pairs of entries, in one stage."""
        flips = [(left[1], right[1]) for left, right in pairs]

        def total(*given):
            found = None if base is None else base(*given[: len(arrays)])
            for k, (left, right) in enumerate(flips):
                at = len(arrays) + 2 * k
                each = self.product(self.turned((given[at], left)), self.turned((given[at + 1], right)))
                found = each if found is None else found + each
            return found

        return self.stage(total, *arrays, *(entry[0] for pair in pairs for entry in pair))


def descend(S, X, algebra, shrink=None, scale=None):
    """The blocks of S after a step; `shrink` is c, 1 if not given; `scale` is a factor of X that X does not have in it yet."""
    parts, Y, T = sorted({i for i, _ in S}), _turned(S, X, algebra), algebra.transpose
    if scale is not None:
        X, Y = _scaled(X, scale), {pair: scale * block for pair, block in Y.items()}

    def moved(S, Y, Y_turned):
        return S - (Y + T(Y_turned)) if shrink is None else shrink**2 * S - shrink * (Y + T(Y_turned))

    def block(i, j):
        pairs = [((Y[k, i], True), X[k, j]) for k in parts if (k, j) in X]
        found = algebra.summed(pairs, moved, S[i, j], Y[i, j], Y[j, i])
        return algebra.mirror(found) if i == j else found

    return {pair: block(*pair) for pair in S}


def slope(S, X, algebra):
    """Y + Yᵀ by blocks: what flows away from S per unit of time."""
    Y = _turned(S, X, algebra)
    return {(i, j): Y[i, j] + algebra.transpose(Y[j, i]) for i, j in S}


def _turned(S, X, algebra):
    """Y = S X by blocks."""
    parts, S = sorted({i for i, _ in S}), {(i, j): algebra.mirror(x) if i == j else x for (i, j), x in S.items()}
    return {
        (i, j): algebra.summed([(_entry(S, i, k), X[k, j]) for k in parts if (k, j) in X]) for i in parts for j in parts
    }


def _scaled(X, scale):
    return {pair: (scale * block, flipped) for pair, (block, flipped) in X.items()}


def remember(S, memory, X, sizes, algebra, momentum, weight_decay, eta, scale=None):
    """S, and the memory (M, V) of the velocities v of B, after a step of the heavy ball v ← β v + B (X + λ I), B ← B − η v.

    M = Bᵀv, V = vᵀv and S are whole matrices, since all their blocks are full; X is given by blocks of these sizes. With
    X̂ = X + λ I and N = β M + S X̂, the new velocity with the old weights: V ← β (β V + Mᵀ X̂) + X̂ᵀ N. λ is None where it is 0.
    """
    T, stage, S, (M, V) = algebra.transpose, algebra.stage, algebra.mirror(S), memory
    pairs, flips = list(X), [flipped for _, flipped in X.values()]
    ends = [sum(sizes[:i]) for i in range(len(sizes) + 1)]

    def by_blocks(L, *blocks):
        """L X."""
        given = {pair: algebra.turned((x, flipped)) for pair, x, flipped in zip(pairs, blocks, flips, strict=True)}
        columns = [
            sum(algebra.product(L[:, ends[k] : ends[k + 1]], x) for (k, i), x in given.items() if i == j)
            for j in range(len(sizes))
        ]
        return jax().numpy.concatenate(columns, axis=1)

    def turned(L, X, factor=None):
        """L X̂."""
        found = stage(by_blocks, L, *(block for block, _ in X.values()))
        found = found if factor is None else factor * found
        return found if weight_decay is None else found + weight_decay * L

    def velocity(V, Z, XN, momentum):
        return momentum * (momentum * V + Z) + T(XN)

    Y, X = turned(S, X, scale), X if scale is None else _scaled(X, scale)
    N = stage(lambda M, Y, momentum: momentum * M + Y, M, Y, momentum)
    V = algebra.mirror(stage(velocity, algebra.mirror(V), turned(T(M), X), turned(T(N), X), momentum))
    M = stage(lambda N, V, eta: N - eta * V, N, V, eta)
    S = algebra.mirror(stage(lambda S, N, M, eta: S - eta * (N + T(M)), S, N, M, eta))
    return S, jax().numpy.stack([M, V])


def squared_length(S, H, X, algebra):
    """|∂L/∂B|² = Σ H ∘ (S X), summed over entries; H by its blocks with i ≤ j, X = H Γ̂."""
    Y = _turned(S, X, algebra)
    return sum((Y[pair] * algebra.turned(_entry(H, *pair))).sum(axis=(0, 1)) for pair in X)


def slopes(H, left, right):
    """X = H Γ̂ from blocks of H with i ≤ j: `right(h, j)` is h Γ_j, `left(i, h)` is Γ_i h."""
    found = {}
    for (i, j), h in H.items():
        found[i, j] = right(h, j), False
        if i != j:
            found[j, i] = left(i, h), True
    return found


def joined(blocks, sizes, algebra):
    """The whole matrix (Σ sizes, Σ sizes, lanes) of blocks; one that is not there is its mirror image, or 0."""
    jnp, parts = jax().numpy, range(len(sizes))
    lanes = next(iter(blocks.values())).shape[2:]

    def block(i, j):
        if (i, j) in blocks or (j, i) in blocks:
            return algebra.turned(_entry(blocks, i, j))
        return jnp.zeros((sizes[i], sizes[j], *lanes))

    return jnp.concatenate([jnp.concatenate([block(i, j) for j in parts], axis=1) for i in parts])


def parted(matrix, sizes):
    """The blocks with i ≤ j of a whole matrix."""
    ends = [sum(sizes[: i + 1]) for i in range(len(sizes))]
    rows = [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]
    return {(i, j): matrix[rows[i], rows[j]] for i in range(len(sizes)) for j in range(i, len(sizes))}


def _entry(S, i, j):
    return (S[i, j], False) if (i, j) in S else (S[j, i], True)


def inverse_length(square):
    """1/√square; 0 where there is nothing to divide."""
    jnp = jax().numpy
    return jnp.where(square > 0, 1 / jnp.sqrt(jnp.where(square > 0, square, 1.0)), 0.0)


def largest(slopes, lanes):
    """(lanes,) the largest entry of the slopes of each run, of those that move: [(moves (…, lanes), arrays (…, lanes))].

    Divided by it, slopes of any size have squares: those of 10⁻¹⁶⁰ would vanish.
    """
    jnp = jax().numpy

    def by_run(x):
        return jnp.max(jnp.abs(x).reshape(-1, lanes), axis=0)

    each = [jnp.where(moves[:lanes] > 0, by_run(x), 0.0) for moves, arrays in slopes for x in arrays]
    size = functools.reduce(jnp.maximum, each)
    return jnp.where(size > 0, size, 1.0)


def enlarged(slope, size):
    """A slope (…, lanes), of several attentions side by side, over the `largest` of its run."""
    return slope / jax().numpy.tile(size, slope.shape[-1] // len(size))
