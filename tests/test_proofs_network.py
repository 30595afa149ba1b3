"""What proofs are made of: the arithmetic, the network in 34 and in 136 numbers, its derivatives and their bounds."""

import dataclasses
from fractions import Fraction

import flint
import numpy as np
import pytest

import mixflow as mf
from mixflow.intervals import Interval, around, interval, matmul
from mixflow.proofs import finite, hessian, network
from mixflow.proofs.series import Series, expansion

TASK, TRANSFORMER = mf.Mixture(classes=2), mf.Transformer(omega=0.3)


def random_state(K, seed=0, size=0.5):
    return network.start(K, Fraction(3, 10)).mid + size * np.random.default_rng(seed).normal(size=34)


# --- the arithmetic


def test_interval_expressions_contain_what_arb_finds():
    rng = np.random.default_rng(1)
    flint.ctx.prec = 200
    x, y = rng.normal(size=(2, 300)) * 10.0 ** rng.integers(-3, 2, 300)
    X, Y = interval(x), interval(y)
    found = {
        "sum": ((X + Y) * 3.0 - Y / 7.0, lambda a, b: (a + b) * 3 - b / 7),
        "softmax": (X.exp() / (X.exp() + Y.exp()), lambda a, b: a.exp() / (a.exp() + b.exp())),
        "root": ((X.square() + Y.square()).sqrt(), lambda a, b: (a * a + b * b).sqrt()),
        "log": ((1.0 + (X - Y).exp()).log(), lambda a, b: (1 + (a - b).exp()).log()),
        "inverse": (1.0 / (X * Y), lambda a, b: 1 / (a * b)),
    }
    for name, (enclosure, exact) in found.items():
        for a, b, low, high in zip(x, y, enclosure.lo, enclosure.hi):
            value = exact(flint.arb(a), flint.arb(b))
            assert flint.arb(low) < value < flint.arb(high), (name, a, b)
            assert high - low <= 1e-12 * (1 + abs(high)), (name, a, b)


def test_matrix_products_contain_every_product_of_their_members():
    rng = np.random.default_rng(2)
    X, Y = rng.normal(size=(2, 5, 7, 7))
    enclosure = matmul(around(X, np.full(X.shape, 0.1)), around(Y, np.full(Y.shape, 0.01)))
    for _ in range(20):
        inside = (X + 0.1 * rng.choice([-1, 1], X.shape)) @ (Y + 0.01 * rng.choice([-1, 1], Y.shape))
        assert (enclosure.lo <= inside).all()
        assert (inside <= enclosure.hi).all()
    thin = matmul(X[0], Y[0])
    for i, j in np.ndindex(7, 7):
        exact = sum(Fraction(a) * Fraction(b) for a, b in zip(X[0, i], Y[0, :, j]))
        assert Fraction(thin.lo[i, j]) <= exact <= Fraction(thin.hi[i, j])


def test_series_are_taylor_series():
    """exp(s)/(1 + s²) about s = 0.3: coefficients against Arb's series."""
    flint.ctx.prec, flint.ctx.cap = 200, 9
    s = expansion(interval(np.array([[0.0], [1.0]])), 0.3, 9)
    found = s.exp() / (1.0 + s * s)
    t = flint.arb_series([flint.arb(0.3), 1])
    exact = (t.exp() / (1 + t * t)).coeffs()
    for low, each, high in zip(found.c.lo[:, 0], exact, found.c.hi[:, 0]):
        assert flint.arb(low) <= each <= flint.arb(high)
        assert high - low < 1e-12
    assert isinstance(found, Series)


# --- the network in 34 numbers


@pytest.mark.parametrize("K", [2, 3, 5])
def test_34_numbers_move_as_the_symmetric_model_does(K):
    from mixflow.engines.symmetric_field import symmetric_field

    tables, x = network.symmetric(K), random_state(K)
    field = symmetric_field(mf.Mixture(classes=K), TRANSFORMER)
    u, pairs = tables.parts(x)
    scale = (2, 2 * (K - 1))

    def grams(first, second):
        return np.array([a.T @ b / n for (a, b), n in zip(zip(first, second), scale)])

    keys, queries = zip(*pairs)
    y = field.pack(
        {"w": u / np.sqrt(2 * K), "A": grams(keys, queries), "G_K": grams(keys, keys), "G_Q": grams(queries, queries)}
    )
    z = network.preactivations(tables, x, 0.5)
    pairs = np.arange(2 * K).reshape(2, K).T.ravel()  # the field has its gates in pairs, the tables in halves
    assert np.abs(z[pairs] - field.z(y)).max() < 1e-14
    assert abs(network.loss(tables, x, 0.5) - field.loss(y)) < 1e-14
    gates = (z > 0).astype(float)
    velocity = field.unpack(field.velocity(y, gates[pairs]))
    g_u, g_pairs = tables.parts(-network.gradient(tables, x, 0.5, gates))
    g_keys, g_queries = zip(*g_pairs)
    assert np.abs(velocity["w"] - g_u / np.sqrt(2 * K)).max() < 1e-14
    assert np.abs(velocity["A"] - grams(g_keys, queries) - grams(keys, g_queries)).max() < 1e-14
    assert np.abs(velocity["G_K"] - grams(g_keys, keys) - grams(keys, g_keys)).max() < 1e-14


@pytest.mark.parametrize("K", [2, 3])
def test_hessian_is_the_derivative_of_the_gradient(K):
    tables, x = network.symmetric(K), random_state(K)
    gates = (network.preactivations(tables, x, 0.5) > 0).astype(float)
    exact = hessian.curvature(tables, interval(x), 0.5).hessian(gates)
    assert (exact.hi - exact.lo).max() < 1e-12
    step = 1e-6 * np.eye(34)
    slope = [network.gradient(tables, x + e, 0.5, gates) - network.gradient(tables, x - e, 0.5, gates) for e in step]
    assert np.abs(np.array(slope) / 2e-6 - exact.mid).max() < 1e-9
    assert hessian.growth(exact).hi == pytest.approx(np.linalg.eigvalsh(-exact.mid)[-1], rel=1e-9)


@pytest.mark.parametrize(("radius", "slack"), [(1e-6, 1e-4), (0.01, 0.01)])
def test_growth_on_a_ball_bounds_every_member(radius, slack):
    """Radii on both sides of `SMALL`: boxes, and third derivatives."""
    x = mf.prove(TASK, TRANSFORMER, until=1).tube.pieces[-1].at(1.0)
    tables = network.symmetric(2)
    gates = (network.preactivations(tables, x, 0.5) > 0).astype(float)
    around_x = hessian.curvature(tables, interval(x), 0.5, radius)
    mu = hessian.growth(around_x.hessian(gates)).hi + around_x.change(interval(gates))
    slopes, margins = around_x.slopes(), around_x.slopes(gates)
    H = hessian.curvature(tables, interval(x), 0.5).hessian(gates).mid
    g = network.gradient(tables, x, 0.5, gates)
    rng = np.random.default_rng(3)
    for _ in range(10):
        d = rng.normal(size=34)
        member = x + radius * d / np.linalg.norm(d)
        value = np.linalg.eigvalsh(-hessian.curvature(tables, interval(member), 0.5).hessian(gates).mid)[-1]
        assert value <= mu <= value + slack
        change = network.preactivations(tables, member, 0.5) - network.preactivations(tables, x, 0.5)
        assert (np.abs(change) <= radius * slopes + 1e-15).all()
        change = network.margins(tables, member, 0.5) - network.margins(tables, x, 0.5)
        assert (np.abs(change) <= radius * margins + 1e-15).all()
        if radius > hessian.SMALL:
            frame = np.outer(member - x, d) / np.linalg.norm(d)
            bent = np.linalg.norm(network.gradient(tables, member, 0.5, gates) - g - H @ (member - x))
            bound = around_x.remainder(interval(gates), frame, np.array(0.0))
            assert bent <= bound <= around_x.remainder(interval(gates), radius * np.eye(34), np.array(0.0)) < radius**2


def test_without_symmetry_the_network_is_the_same_on_symmetric_weights():
    small, full, U, n = network.symmetric(2), finite.tables(), finite.embedding(), finite.neurons()
    x = random_state(2)
    assert np.array_equal(U.T @ U, np.eye(34))
    z = network.preactivations(small, x, 0.5)
    gates = (z > 0).astype(float)
    assert np.abs(network.preactivations(full, U @ x, 0.5) - z[n]).max() < 1e-14
    g = network.gradient(full, U @ x, 0.5, gates[n])
    assert np.abs(g - U @ network.gradient(small, x, 0.5, gates)).max() < 1e-15
    W = U @ network.start(2, Fraction(3, 10)).mid
    S = np.hstack([W[8:40].reshape(8, 4), W[40:72].reshape(8, 4)])
    assert np.abs(S.T @ S - 0.09 * np.eye(8)).max() < 1e-15
    # One direction of each orbit stands for all of them.
    every = dataclasses.replace(full, orbits=(np.arange(40), ((np.arange(40), np.ones(40)),)))
    few, all_ = (hessian.curvature(t, interval(U @ x), 0.5, 1e-3).change(interval(gates[n])) for t in (full, every))
    assert few == pytest.approx(all_, rel=1e-9)
    # A start O S, S symmetric, is off x̂(0) in directions that `starts` keeps; those of O times a skew matrix it drops.
    P, M = finite.space().starts, np.random.default_rng(6).normal(size=(8, 8))
    for sign in (1, -1):
        change = S / 0.3 @ (M + sign * M.T)
        x = np.concatenate([np.zeros(8), change[:, :4].ravel(), change[:, 4:].ravel(), np.zeros(64)])
        assert np.abs(P @ x - (x if sign > 0 else 0)).max() < 1e-14


def test_a_network_of_finite_width_stays_in_the_tube_of_its_distance():
    proof = mf.prove(TASK, TRANSFORMER, until=1, distance=0.02)
    wide = mf.Transformer(width=1_000_000, omega=0.3, seed=1)
    flow = mf.train(TASK, wide, mf.GradientFlow(until=1, rtol=1e-10))
    start = flow.dataset.isel(time=0)
    far = 0.0
    for head in ("+", "-"):
        G_K, A, G_Q = (start[name].sel(head=head).values for name in ("G_K", "A", "G_Q"))
        values, vectors = np.linalg.eigh(np.block([[G_K, A], [A.T, G_Q]]))
        far += np.sum(((vectors * np.sqrt(values)) @ vectors.T - 0.3 * np.eye(8)) ** 2)
    assert np.sqrt(far) < 0.02
    low, high = proof.loss(1.0)
    assert low < float(flow.dataset.loss[-1]) < high
    assert proof.width == finite.width(0.02, 0.3)
    with pytest.raises(mf.SpecError, match="balls only"):
        proof.save("never.json")
    with pytest.raises(mf.SpecError, match="expected 2 classes"):
        mf.prove(mf.Mixture(classes=3), TRANSFORMER, until=1, distance=0.02)


def test_random_starts_are_as_near_as_the_bound_says():
    """The 99th of a hundred draws at width 1000 is within 0.068 of mean-field; the bound says 0.087."""
    rng = np.random.default_rng(0)
    draws = 0.3 / np.sqrt(1000) * rng.normal(size=(100, 2, 1000, 8))
    distance = np.sqrt(((np.linalg.svd(draws, compute_uv=False) - 0.3) ** 2).sum((1, 2)))
    assert 0.95 * finite.start_distance(1000, 0.3, 0.0) < distance.mean() < finite.start_distance(1000, 0.3, 0.0)
    assert distance.max() < finite.start_distance(1000, 0.3) < 1.4 * np.quantile(distance, 0.99)
    width = finite.width(0.05, 0.3)
    assert finite.start_distance(width, 0.3) <= 0.05 < finite.start_distance(width - 1, 0.3)


def test_growth_bounds_every_matrix_of_an_interval():
    rng = np.random.default_rng(4)
    middle = rng.normal(size=(9, 9))
    middle = middle + middle.T
    bound = hessian.growth(Interval(middle - 0.1, middle + 0.1)).hi
    for _ in range(50):
        noise = rng.choice([-0.1, 0.1], (9, 9))
        member = middle + np.triu(noise) + np.triu(noise, 1).T
        assert np.linalg.eigvalsh(-member)[-1] <= bound
    assert bound <= np.linalg.eigvalsh(-middle)[-1] + 0.9 + 1e-9
