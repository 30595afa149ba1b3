"""Symmetry types are a decomposition, the linearised flow is the derivative of the real one, and seeds grow as it says."""

import itertools
import math

import numpy as np
import pytest

import mixflow as mf
from mixflow.engines.gram import Gram
from mixflow.jaxed import jax
from mixflow.networks.initial import start
from mixflow.paper.experiments.claims_stability import main
from mixflow.paper.theory import stability as S
from mixflow.paper.theory.perturbed import seed_growth, two_flows
from mixflow.paper.theory.symmetry import PARTS, TYPES, basis, project
from mixflow.tasks.symmetry import expand

NETWORK = mf.Transformer(omega=0.3)


def random_parts(K, seed):
    rng = np.random.default_rng(seed)
    w, A, X, Y = (rng.normal(size=(2, 2 * K, *more)) for more in ((), (2 * K,), (2 * K,), (2 * K,)))
    return {"w": w, "A": A, "G_K": X + X.swapaxes(1, 2), "G_Q": Y + Y.swapaxes(1, 2)}


@pytest.mark.parametrize("K", [2, 3, 4, 5])
def test_types_decompose_every_state(K):
    parts = random_parts(K, K)
    found = {kind: project(parts, K, kind) for kind in TYPES}
    for name, x in parts.items():
        np.testing.assert_allclose(sum(part[name] for part in found.values()), x, atol=1e-12)
        for kind, other in itertools.product(TYPES, TYPES):
            again = project(found[kind], K, other)[name]
            np.testing.assert_allclose(again, found[kind][name] if kind == other else 0 * x, atol=1e-12)
            assert abs((found[kind][name] * found[other][name]).sum()) < 1e-9 or kind == other


@pytest.mark.parametrize("K", [2, 3, 4, 5, 6])
def test_a_basis_has_one_vector_for_each_copy(K):
    field = mf.field(mf.Mixture(classes=2), NETWORK, model="gram") if K == 2 else None
    copies = {"equal": 1, "unequal": K - 1, "pairs": K * (K - 3) // 2, "cycles": (K - 1) * (K - 2) // 2}
    total = 0
    for kind in TYPES:
        rows = basis(K, kind)
        np.testing.assert_allclose(rows @ rows.T, np.eye(len(rows)), atol=1e-12)
        total += len(rows) * max(copies[kind[0]], 0)
        if field:
            for row in rows:
                np.testing.assert_allclose(field.pack(**project(field.unpack(row), K, kind)), row, atol=1e-12)
    assert total == 2 * (2 * K + 4 * K * K + 2 * K * (2 * K + 1))  # w, A and two symmetric matrices, two heads
    assert [len(basis(K, (kind, "mirror"))) for kind in copies] == [22, 18 if K == 2 else 28, 10 * (K > 3), 6 * (K > 2)]


def test_pairs_look_alike_in_both_directions_and_cycles_opposite():
    K, parts = 4, random_parts(4, 9)
    for classes, sign in (("pairs", 1), ("cycles", -1)):
        A = sum(project(parts, K, (classes, heads))["A"] for heads in ("mirror", "apart")).reshape(2, 2, K, 2, K)
        assert np.abs(A).max() > 0.1
        np.testing.assert_allclose(A.transpose(0, 1, 4, 3, 2), sign * A, atol=1e-12)  # [kind, class, kind, class]
        for row in basis(K, (classes, "mirror")):
            X = row[4 * K : 4 * K + 8 * K * K].reshape(2, 2, K, 2, K)
            np.testing.assert_allclose(X.transpose(0, 1, 4, 3, 2), sign * X, atol=1e-12)


def test_equal_and_mirror_is_the_symmetric_model():
    rng = np.random.default_rng(0)
    sectors = {"w": rng.normal(size=2), **{name: rng.normal(size=(2, 2, 2)) for name in ("A", "G_K", "G_Q")}}
    state = expand(sectors, 3)
    kept = project(state, 3, ("equal", "mirror"))
    for name in state:
        np.testing.assert_allclose(kept[name], state[name], atol=1e-13)


@pytest.fixture(scope="module")
def three():
    """K = 3 on the plateau, after the first switch."""
    return S.Trajectory(mf.Mixture(classes=3), NETWORK, 60.0, 12)


def test_the_jacobian_is_the_derivative_of_the_real_step(three):
    """One step of descent on the Gram state with a small rate, at both sides of the state, is 1 + ηJ."""
    leg = three.legs[1]
    y, gates = leg.states[-1], leg.gates[-1]
    engine, rate, size = Gram(mf.Mixture(classes=3), NETWORK, mf.GradientDescent()), 1e-3, 1e-4
    eta = np.full(engine.lanes, rate)
    parameters = engine.parameters([NETWORK] * engine.lanes, eta, eta)
    step = jax().jit(lambda state: engine.step(0, state, parameters))
    for kind in TYPES:
        rows = basis(3, kind)
        if not len(rows):
            continue
        J = three.jacobian(y, gates, leg.sliding, rows)(slice(0, len(rows)), {})
        x = np.random.default_rng(1).normal(size=len(rows))
        sides = [three.full.gated.unpack(y + sign * size * (x @ rows)) for sign in (1, -1)]
        after = step(engine.stack(sides + [sides[0]] * (engine.lanes - 2)))
        after = {name: np.asarray(value)[None] for name, value in after.items()}
        ends = [three.full.pack(**{name: v[0] for name, v in engine.unstack(after, lane).items()}) for lane in (0, 1)]
        moved = rows @ (ends[0] - ends[1]) / (2 * size)
        np.testing.assert_allclose((moved - x) / rate, J @ x, atol=2e-4 * np.abs(J @ x).max())


def test_projection_commutes_with_the_linearised_field(three):
    leg = three.legs[1]
    y, gates = leg.states[-1], leg.gates[-1]
    parts = random_parts(3, 7)
    apply = lambda row: three.full.derivatives.field(y, gates, row[None])[0]  # noqa: E731
    moved = three.full.unpack(apply(three.full.pack(**parts)))
    for kind in TYPES:
        one = project({name: moved[name] for name in PARTS}, 3, kind)
        other = three.full.unpack(apply(three.full.pack(**project(parts, 3, kind))))
        for name in PARTS:
            np.testing.assert_allclose(other[name], one[name], atol=1e-12)


def start_of(one, seed=0):
    return np.random.default_rng(seed).standard_normal(len(one.spread)) * one.spread


def test_two_classes_beside_two_flows_through_crossings_and_sliding():
    task, until = mf.Mixture(classes=2), 290.0  # the neurons switch at 12.2, 258.3 and slide from 281.5
    found = S.linearised(task, NETWORK, until, points=100)
    assert set(found) == {(classes, heads) for classes in ("equal", "unequal") for heads in ("mirror", "apart")}
    for kind, one in found.items():
        x, at = start_of(one), [40, 80, -1]
        there, outside = two_flows(task, NETWORK, kind, x, one.time[at])
        expected = one.map[at] @ x
        assert (np.linalg.norm(there - expected, axis=1) < 3e-3 * np.linalg.norm(expected, axis=1)).all(), kind
        assert (outside < 6e-3 * np.linalg.norm(expected, axis=1)).all()
        assert one.most[-1] > one.growth[-1] > 5


def test_four_classes_beside_two_flows_while_twelve_neurons_slide():
    task, kind = mf.Mixture(classes=4), ("pairs", "mirror")
    one = S.linearised(task, NETWORK, 170.0, [kind], points=24)[kind]  # they begin to slide at 152
    x = start_of(one)
    there, _ = two_flows(task, NETWORK, kind, x, one.time[[-1]], size=1e-6)
    expected = one.map[-1] @ x
    np.testing.assert_allclose(there[0], expected, atol=1e-4 * np.linalg.norm(expected))
    assert one.slack < 1e-9


def test_wide_networks_grow_as_the_linear_theory_says():
    task, until = mf.Mixture(classes=2), 150.0
    found = S.linearised(task, NETWORK, until, points=60)
    networks = [mf.Transformer(omega=0.3, width=2**16, seed=seed) for seed in range(8)]
    A = mf.train_many(task, networks, mf.GradientDescent(0.1, 1500, 1500)).dataset.A.values
    measured = seed_growth(task, A)
    assert set(measured) == set(found) - {("equal", "mirror")}
    for kind, ratio in measured.items():
        mean = np.sqrt((ratio[:, -1] ** 2).mean())
        assert 0.6 < mean / found[kind].growth[-1] < 1.6, kind


@pytest.mark.parametrize("network", [mf.Transformer(bias=0.0), mf.Transformer(tie_values=True)])
def test_it_needs_neurons_that_are_on_and_values_of_their_own(network):
    with pytest.raises(mf.SpecError, match="use bias > 0"):
        S.linearised(mf.Mixture(classes=2), network, 10.0)


def test_from_the_command_line(tmp_path, capsys):
    (result,) = main(["2", "--widths", "64", "--seeds", "2", "--points", "40", "--agreement", "--out", str(tmp_path)])
    out = capsys.readouterr().out
    assert "unequal, mirror" in out
    assert "two flows" in out
    assert {path.suffix for path in tmp_path.iterdir()} == {".json", ".svg", ".pdf", ".png"}
    assert max(result["agreement"]["equal, apart"]["difference"]) < 0.02
    assert len(result["seeds"]["64"]["unequal, mirror"]) == 2


def test_a_wide_start_spreads_as_the_growth_assumes():
    """Coordinates of 400 random starts in each type: standard deviations of 0 for w, 1 for A and √2 for G, in units of ω²/√m."""
    task, width = mf.Mixture(classes=2).population(), 200
    limit, *wide = (
        start(mf.Transformer(omega=0.3, width=m, seed=s), task)
        for m, s in [(math.inf, 0), *((width, s) for s in range(400))]
    )
    apart = np.array([np.concatenate([(each[name] - limit[name]).ravel() for name in PARTS]) for each in wide])
    for kind in TYPES:
        vectors = basis(2, kind)
        if len(vectors):
            seen = (apart @ vectors.T).std(axis=0) / (0.3**2 / width**0.5)
            still = np.eye(len(vectors))[None]
            linear = S.Linear(kind=kind, time=np.zeros(1), map=still, classes=2, coupling=0.0, slack=0.0)
            np.testing.assert_allclose(seen, linear.spread, rtol=0.15, atol=1e-12)
