"""The forward pass against hand results, the token-by-token twin and the figures of docs/mathematics.md §3 and §6."""

import math
from functools import cache

import numpy as np
import pytest
import twin
from hypothesis import given, settings
from hypothesis import strategies as st

from mixflow.engines import forward
from mixflow.errors import SpecError
from mixflow.networks.transformer import Transformer
from mixflow.tasks import FiniteTask, Mixture

pytestmark = pytest.mark.filterwarnings("error")


@cache
def paper_run():
    return twin.twin_descent(Mixture(2), Transformer(), 0.1, 20_000, 100)


def random_state(task, seed, lead=(), scale=1.0):
    F = len(task.population().features)
    rng = np.random.default_rng(seed)
    return scale * rng.standard_normal((*lead, 2, F)), scale * rng.standard_normal((*lead, 2, F, F))


uneven = FiniteTask(
    features=("c1", "c2", "v1"),
    atoms=[[("c1", 1), ("v1", 1), ("v1", 1)], [("c2", 1), ("v1", -0.5)], [("c2", 1)]],
    labels=[1, -1, 1],
    probabilities=[0.5, 0.25, 0.25],
    gram=[[1, 0.3, 0], [0.3, 1, 0.2], [0, 0.2, 2]],
)


def test_uniform_attention_averages_the_tokens():
    w = np.array([[0.3, -0.1, 0.7, 0.2]] * 2)
    z = forward.preactivation(Mixture(2), w, np.zeros((2, 4, 4)), 0.5)
    names = Mixture(2).population().names
    assert z[0, names.index("c1 +v1 -v2")] == pytest.approx(0.5 + (0.3 + 0.7 - 0.2) / 3, abs=1e-15)
    assert z[1, names.index("c2 -v1 -v2")] == pytest.approx(0.5 + (-0.1 - 0.7 - 0.2) / 3, abs=1e-15)


def test_one_score_by_hand():
    A = np.zeros((2, 4, 4))
    A[0, 0, 2] = math.log(5)  # key c1, query v1: the sign of v1 decides between 5 and 1/5
    phi = forward.features(Mixture(2), A)[0]
    names = Mixture(2).population().names
    for sign, name in ((1, "c1 +v1 +v2"), (-1, "c1 -v1 +v2")):
        odds = 5.0**sign
        expected = (np.array([1, 0, sign, 1]) * 2 / 3 + np.array([odds, 0, sign, 1]) / (odds + 2)) / 3
        np.testing.assert_allclose(phi[names.index(name)], expected, rtol=0, atol=1e-15)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([1, 2, 3]), st.sampled_from([0.1, 3.0, 1000.0]))
def test_agrees_with_the_twin_token_by_token(seed, K, scale):
    for task in (Mixture(K), uneven):
        w, A = random_state(task, seed, scale=scale)
        X, present = twin.tokens(task)
        z, _, phi = twin.forward(X, present, w, A, 0.5)
        np.testing.assert_allclose(forward.preactivation(task, w, A, 0.5), z, rtol=1e-12, atol=1e-12 * scale)
        np.testing.assert_allclose(forward.features(task, A), phi, rtol=0, atol=1e-12)


@pytest.mark.parametrize("task", [Mixture(3), uneven])
def test_attention_sums_to_one_over_keys_and_gives_the_features(task):
    finite = task.population()
    _, A = random_state(task, 0, lead=(4,))
    P = forward.attention(task, A)
    present = finite.count > 0
    np.testing.assert_allclose(P.sum(axis=-2), np.broadcast_to(present[None, None], P.sum(axis=-2).shape), atol=1e-14)
    share = finite.count / finite.length[:, None]
    mass = np.einsum("...akq,aq->...ak", P, share)
    np.testing.assert_allclose(mass, forward.key_mass(task, A), rtol=0, atol=1e-14)


def test_preactivation_is_bias_plus_features_times_w():
    w, A = random_state(Mixture(3), 1, lead=(5,))
    z = 0.25 + np.einsum("thaf,thf->tha", forward.features(Mixture(3), A), w)
    np.testing.assert_allclose(forward.preactivation(Mixture(3), w, A, 0.25), z, rtol=0, atol=1e-14)


def test_a_batch_equals_its_members_bit_for_bit_whatever_the_chunks(monkeypatch):
    w, A = random_state(Mixture(4), 2, lead=(3, 7))
    A[1, 3] *= 1e4  # one slice needs the careful softmax
    whole = forward.preactivation(Mixture(4), w, A, 0.5)
    monkeypatch.setattr(forward, "CHUNK", 1)
    assert np.array_equal(whole, forward.preactivation(Mixture(4), w, A, 0.5))
    assert np.array_equal(whole[1, 3], forward.preactivation(Mixture(4), w[1, 3], A[1, 3], 0.5))
    assert np.array_equal(whole[2, 0], forward.preactivation(Mixture(4), w[2, 0], A[2, 0], 0.5))


def test_scores_far_beyond_the_range_of_exp_stay_exact():
    A = np.zeros((2, 4, 4))
    A[:, 2, 0], A[:, 3, 0] = 5000.0, -7000.0
    phi = forward.features(Mixture(2), A)
    assert np.isfinite(phi).all()
    k = Mixture(2).population().names.index("c1 -v1 +v2")  # query c1 sees scores 0, −5000, −7000: all weight on c1
    np.testing.assert_allclose(phi[0, k], (np.array([1, 0, 0, 0]) + 2 * np.array([1, 0, -1, 1]) / 3) / 3, atol=1e-15)


def test_margin_is_the_label_times_the_difference_of_the_heads():
    z = np.array([[1.0, -2.0, 3.0], [0.5, 1.0, -1.0]])
    assert forward.margin(uneven, z).tolist() == [0.5, 1.0, 3.0]


@pytest.mark.parametrize(
    "call",
    [
        lambda: forward.features(Mixture(2), np.zeros((2, 3, 3))),
        lambda: forward.preactivation(Mixture(2), np.zeros((2, 3)), np.zeros((2, 4, 4)), 0.5),
        lambda: forward.margin(Mixture(2), np.zeros((2, 5))),
    ],
)
def test_wrong_shapes_are_named(call):
    with pytest.raises(SpecError, match=r"has shape .* expected"):
        call()


def test_the_checked_figures_of_simultaneous_descent():
    run = paper_run()
    every = run["every_loss"]
    assert [int(np.argmax(every < level)) for level in (0.5, 0.3, 0.1, 0.01)] == [135, 1774, 2464, 7124]
    assert every[-1] == pytest.approx(0.0032966415, abs=5e-11)
    np.testing.assert_allclose(run["w"][-1, 0], [5.6661, 5.6661, 4.2723, 4.2723], atol=5e-5)
    np.testing.assert_allclose(run["A"][-1, 0][[0, 0, 2], [2, 3, 0]], [4.8889, -5.0293, -3.5211], atol=5e-5)


def test_the_engine_loss_is_the_twin_loss_along_the_run():
    run, task = paper_run(), Mixture(2).population()
    margin = forward.margin(task, forward.preactivation(task, run["w"], run["A"], 0.5))
    np.testing.assert_allclose(np.logaddexp(0, -margin) @ task.probabilities, run["loss"], rtol=0, atol=1e-15)


def test_the_checked_figures_of_three_stages():
    run = twin.three_stage(Mixture(2), Transformer(), 0.1, (1000, 5000, 5000), 1000)
    at = [int(np.argmin(abs(run["time"] - t))) for t in (100, 600, 1100)]
    np.testing.assert_allclose(run["loss"][at], [0.40709, 0.20165, 0.01448], rtol=0, atol=5e-6)


@pytest.mark.parametrize("task", [Mixture(2), Mixture(3), uneven])
def test_the_twin_gradient_is_the_finite_difference(task):
    w, A = random_state(task, 3)
    _, g_w, g = twin.loss_and_gradient(task, w, A, 0.5)
    h = 1e-6
    for array, gradient in ((w, g_w), (A, g)):
        numeric = np.empty_like(array)
        for index in np.ndindex(array.shape):
            ends = []
            for sign in (1, -1):
                array[index] += sign * h
                ends.append(twin.loss_and_gradient(task, w, A, 0.5)[0])
                array[index] -= sign * h
            numeric[index] = (ends[0] - ends[1]) / (2 * h)
        np.testing.assert_allclose(gradient, numeric, rtol=0, atol=1e-9)


@pytest.mark.parametrize("tie", [False, True])
@pytest.mark.parametrize("task", [Mixture(2), uneven])
def test_descent_on_every_weight_closes_on_the_gram_state(task, tie):
    transformer = Transformer(width=5, omega=0.8, seed=4, tie_values=tie)
    full = twin.full_descent(task, transformer, 0.1, 300)
    gram = twin.twin_descent(task, transformer, 0.1, 300, 300)
    for name, value in full.items():
        np.testing.assert_allclose(gram[name][-1], value, rtol=0, atol=1e-12)


def test_the_twin_starts_where_the_transformer_says():
    transformer = Transformer(width=5, seed=4)
    run = twin.twin_descent(Mixture(2), transformer, 0.1, 3, 2)
    assert run["time"] == pytest.approx([0, 0.2, 0.3])
    begun = twin.begin(transformer, Mixture(2).population())
    assert all(np.array_equal(run[name][0], value) for name, value in begun.items())
