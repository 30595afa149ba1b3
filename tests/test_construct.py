"""The closed-form transformer: its formula on every atom, its weights, its limits, its errors."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mixflow as mf
from mixflow.cli import main
from mixflow.engines import forward
from mixflow.measure import observables
from mixflow.networks import construct as module
from mixflow.networks.construct import construct, every_atom, every_type


@pytest.mark.parametrize("K", range(2, 13))
def test_every_atom_has_the_formula_s_margin(K):
    net = construct(classes=K, beta=3.0, B=2.5, C=1.5)
    found = net.evaluate()
    assert found.margin.shape == (K * 2**K,)
    e = math.exp
    formula = 3 / (K + 1) * (e(1.5) / (e(1.5) + e(-2.5) + K - 1) - e(1.5) / (e(1.5) + e(2.5) + K - 1))
    assert net.margin == pytest.approx(formula, rel=1e-14)
    assert np.abs(found.margin - formula).max() < 1e-12
    assert found.accuracy == pytest.approx(1, abs=1e-13)
    assert found.loss == pytest.approx(math.log1p(e(-formula)), rel=1e-12)


scale = st.one_of(st.just(0.0), st.floats(1e-6, 30))


@given(K=st.integers(2, 6), beta=scale, B=scale, C=scale, bias=scale)
def test_the_formula_holds_for_any_scales(K, beta, B, C, bias):
    net = construct(classes=K, beta=beta, B=B, C=C, bias=bias)
    found = net.evaluate()
    assert np.abs(found.margin - net.margin).max() <= 1e-12
    assert net.margin >= 0
    assert (net.margin > 0) == (beta > 0 and B > 0)
    z, y, _ = every_type(net.sectors, K, bias)
    assert np.abs(y * (np.maximum(z[0], 0) - np.maximum(z[1], 0)) - net.margin).max() <= 1e-12


@pytest.mark.parametrize("K", [2, 3, 5, 7])
def test_types_agree_with_atoms_for_arbitrary_symmetric_weights(K):
    rng = np.random.default_rng(K)
    sectors = {"w": rng.normal(size=2), **{name: rng.normal(size=(2, 2, 2)) for name in ("A", "G_K", "G_Q")}}
    state = module.expand(sectors, K)
    z, y, hard = every_atom(state["w"], state["A"], 0.3)
    population = mf.Mixture(classes=K).population()
    np.testing.assert_allclose(z, forward.preactivation(population, state["w"], state["A"], 0.3), atol=1e-13)
    np.testing.assert_array_equal(y, population.labels)
    np.testing.assert_array_equal(hard, population.hard)
    z_type, y_type, hard_type = every_type(sectors, K, 0.3)
    signs = np.array([[token[1] for token in atom[1:]] for atom in population.atoms])
    others = ((signs > 0).sum(axis=1) - (y > 0)).astype(int)
    place = np.where(y > 0, others, K + others)
    np.testing.assert_allclose(z_type[:, place], z, atol=1e-13)
    np.testing.assert_array_equal(y_type[place], y)
    np.testing.assert_array_equal(hard_type[place], hard)


def test_ten_thousand_classes():
    net = construct(classes=10_000, target_margin=2.0)
    found = net.evaluate()
    assert np.abs(found.margin - 2.0).max() < 1e-12
    assert found.accuracy == pytest.approx(1, abs=1e-13)
    assert found.probability.sum() == pytest.approx(1, rel=1e-12)
    with pytest.raises(mf.SpecError, match="fit in memory"):
        net.W_K  # noqa: B018


@pytest.mark.parametrize("width", [None, 9])
def test_explicit_weights_give_the_scores_and_the_least_norm(width):
    net = construct(classes=4, target_margin=1.0, width=width)
    inner = lambda X, Y: np.einsum("hmi,hmj->hij", X, Y)  # noqa: E731
    W_K, W_Q = net.W_K, net.W_Q
    assert W_K.shape == (2, width or 4, 8)
    state = net.state
    np.testing.assert_allclose(inner(W_K, W_Q), state["A"], atol=1e-14)
    np.testing.assert_allclose(inner(W_K, W_K), state["G_K"], atol=1e-14)
    np.testing.assert_allclose(inner(W_Q, W_Q), state["G_Q"], atol=1e-14)
    # ‖W_K‖² + ‖W_Q‖² ≥ 2 Σ singular values of A, with equality for balanced factors
    nuclear = np.linalg.svd(state["A"], compute_uv=False).sum()
    assert (W_K**2).sum() + (W_Q**2).sum() == pytest.approx(2 * nuclear, rel=1e-12)


def test_it_evaluates_like_a_trained_network():
    net = construct(classes=3, target_margin=1.5)
    z = forward.preactivation(net.task, net.w, net.A, net.bias)
    np.testing.assert_allclose(forward.margin(net.task, z), 1.5, atol=1e-12)
    P = observables.attention_probabilities(net.task, net.A)  # (head, atom, key, query)
    population = net.task.population()
    a = population.names.index("c2 +v1 -v2 +v3")
    share = net.attention[-1]
    np.testing.assert_allclose(P[:, a, 1, 1], share[:, 0], atol=1e-14)
    np.testing.assert_allclose(P[:, a, 4, 1], share[:, 1], atol=1e-14)
    np.testing.assert_allclose(P[:, a, 3, 1] + P[:, a, 5, 1], share[:, 2], atol=1e-14)
    # At y = − the own token is −v_2, which head + (score B·1) looks at and head − ignores.
    assert share[0, 1] > 0.9 > 0.1 > share[1, 1]


@pytest.mark.parametrize("K", [2, 5, 40])
@pytest.mark.parametrize("share", [1e-6, 0.3, 0.999])
def test_a_target_below_beta_over_L_is_reached(K, share):
    target = share * 4.0 / (K + 1)
    assert construct(classes=K, beta=4.0, target_margin=target).margin == pytest.approx(target, rel=1e-9)
    net = construct(classes=K, beta=4.0, C=9.0, target_margin=0.9 * target)
    assert (net.C, net.margin) == (9.0, pytest.approx(0.9 * target, rel=1e-9))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"classes": 1}, "nothing to tell apart"),
        ({"classes": 2.5}, "whole number"),
        ({"classes": 4, "width": 3}, "rank K = 4"),
        ({"classes": 4, "bias": -0.1}, "not certified"),
        ({"classes": 4, "beta": 1.0, "target_margin": 0.2}, "stays below 0.2 .* take beta above 1"),
        ({"classes": 4, "beta": 1.0, "C": 1.0, "target_margin": 0.15}, "or a larger C"),
        ({"classes": 4, "beta": 0.0, "target_margin": 0.15}, "stays below 0"),
        ({"classes": 4, "beta": 1.0, "B": 1.0, "target_margin": 0.1}, "leave one of them out"),
        ({"classes": 4, "B": 0.0}, "take B > 0"),
        ({"classes": 4, "B": 1e4}, "at most 700"),
        ({"classes": 4, "target_margin": -1.0}, "above 0"),
    ],
)
def test_bad_input_names_the_fix(arguments, message):
    with pytest.raises(mf.SpecError, match=message):
        construct(**arguments)


def test_no_scores_at_all_is_uniform_attention():
    net = construct(classes=3, beta=2.0, B=0.0, C=0.0)
    assert net.margin == 0
    assert np.abs(net.evaluate().margin).max() < 1e-15
    tied = module.Evaluation(
        margin=np.array([0.0, 1.0, -1.0]),
        probability=np.array([0.5, 0.3, 0.2]),
        hard=np.zeros(3, bool),
        z=None,
        attention={},
    )
    assert tied.accuracy == pytest.approx(0.55)  # a tie counts as half
    assert not net.W_K.any()


def test_command_line(capsys):
    assert main(["construct", "--classes", "5", "--target-margin", "2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["margin"] == pytest.approx(2, rel=1e-14)
    assert found["largest_difference_from_formula"] < 1e-12
    assert found["atoms_evaluated"] == 160
    assert main(["construct", "--classes", "200", "--beta", "30"]) == 0
    assert "every sample" in capsys.readouterr().out
    assert main(["construct", "--classes", "4", "--beta", "1", "--target-margin", "3"]) == 2
    assert "take beta above 15" in capsys.readouterr().err
