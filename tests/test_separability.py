"""The maximum margin: closed forms for K = 2, both certificates, and HiGHS as an independent judge."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mixflow import GradientDescent, GradientFlow, ThreeStage, Transformer, Until, train
from mixflow.engines import forward
from mixflow.engines.series import respond
from mixflow.errors import SpecError
from mixflow.measure.separability import deciding, feature_margin, feature_points, max_margin
from mixflow.tasks import FiniteTask, Mixture, Sample, variants

pytestmark = pytest.mark.filterwarnings("error")


def construction(K, C, B):
    """A of the closed-form transformer (docs/mathematics.md §9)."""
    A = np.zeros((2, 2 * K, 2 * K))
    for k in range(K):
        A[:, k, k], A[0, K + k, k], A[1, K + k, k] = C, -B, B
    return A


def separable_by_highs(X):
    from scipy.optimize import linprog

    n, d = X.shape
    result = linprog(
        np.append(np.zeros(d), -1),
        A_ub=np.hstack([-X, np.ones((n, 1))]),
        b_ub=np.zeros(n),
        bounds=[(-1, 1)] * d + [(None, 1)],
    )
    return -result.fun > 1e-9


def test_two_points_by_hand():
    result = max_margin([[3.0, 0.0], [0.0, -4.0]], [1, -1])  # the line through (3, 0) and (0, 4) is 12/5 away
    assert result.margin == pytest.approx(2.4, abs=1e-15)
    np.testing.assert_allclose(result.separator, [0.8, 0.6], atol=1e-15)
    np.testing.assert_allclose(result.weights, [16 / 25, 9 / 25], atol=1e-15)


def test_opposite_points_have_margin_zero_not_negative():
    result = max_margin([[1.0, 0.0], [1.0, 0.0]], [1, -1])
    assert result.margin == 0
    assert not result.separable
    assert result.upper <= 1e-15


@pytest.mark.parametrize("K", [2, 3, 4, 5])
def test_uniform_attention_cannot_separate_all_samples(K):
    assert feature_margin(Mixture(K), np.zeros((2, 2 * K, 2 * K)), samples="all") == 0


def test_uniform_attention_and_the_hard_samples():
    """K = 2: 0. K = 3: y φ = (v_k − v_i − v_j ± c_k)/4 and w along −Σ v, distance 1/(4√3) in each of two heads."""
    assert feature_margin(Mixture(2), np.zeros((2, 4, 4))) == 0
    assert feature_margin(Mixture(3), np.zeros((2, 6, 6))) == pytest.approx(math.sqrt(2 / 3) / 4, abs=1e-15)


@pytest.mark.parametrize("K", [2, 3, 5])
def test_the_deciding_samples_are_not_separable_at_the_start(K):
    task = Mixture(K)
    assert deciding(task) == ("hard" if K == 2 else "all")
    assert feature_margin(task, np.zeros((2, 2 * K, 2 * K)), samples=deciding(task)) == 0
    for other in (Sample(task, n=40, seed=0), variants.label_noise(task, probability=0.1)):
        assert deciding(other) == deciding(task)


def test_uniform_attention_separates_the_easy_samples_of_two_classes():
    """y φ = (v1 + v2 ± c_k)/3: the identifiers cancel in the hull, the rest is √2/3; twice, in both heads."""
    A = np.zeros((2, 4, 4))
    assert feature_margin(Mixture(2), A, samples="easy", heads="+") == pytest.approx(math.sqrt(2) / 3, abs=1e-15)
    assert feature_margin(Mixture(2), A, samples="easy") == pytest.approx(2 / 3, abs=1e-15)


@settings(max_examples=40, deadline=None)
@given(st.floats(0.01, 1), st.floats(0.01, 1), st.floats(-1, 1))
def test_hard_samples_weighted_by_hand(alpha, beta, gamma):
    """φ = α s_k v_k + β s_j v_j + γ c_k: the hull's nearest point is (α − β)(v1 + v2)/2, its length |α − β|/√2."""
    points, labels = [], []
    for k in (0, 1):
        for y in (1, -1):
            phi = np.zeros(4)
            phi[k], phi[2 + k], phi[3 - k] = gamma, alpha * y, -beta * y
            points.append(phi)
            labels.append(y)
    result = max_margin(points, labels)
    assert result.margin == pytest.approx(abs(alpha - beta) / math.sqrt(2), abs=1e-13)


@pytest.mark.parametrize("B", [0.3, 1.0, 4.0])
def test_one_head_that_looks_from_the_identifier_at_its_signal(B):
    """A[v_k, c_k] = −B alone: by class symmetry the hull of y φ is a segment in the plane of (v1 + v2, c1 + c2)."""
    A = construction(2, 0.0, B)

    def point(y):
        e = math.exp(-B * y)
        n = e + 2
        own, other, c = y * (2 / 3 + e / n) / 3, -y * (2 / 3 + 1 / n) / 3, (2 / 3 + 1 / n) / 3
        return y * np.array([own + other, c]) / 2  # coefficients of v1 + v2 and of c1 + c2

    p, q = point(1), point(-1)
    share = np.clip(p @ (p - q) / ((p - q) @ (p - q)), 0, 1)
    expected = math.sqrt(2) * np.linalg.norm(p + share * (q - p))
    assert feature_margin(Mixture(2), A, heads="+") == pytest.approx(expected, abs=1e-14)


@pytest.mark.parametrize("K", [2, 3, 5])
def test_the_construction_reaches_at_least_its_own_margin(K):
    """w_h = 1 on every c, of joint length √(2K), gives every sample the margin of §9; the best w does no worse."""
    C, B = 3.0, 4.0
    own = (math.exp(C) / (math.exp(C) + math.exp(-B) + K - 1) - math.exp(C) / (math.exp(C) + math.exp(B) + K - 1)) / (
        K + 1
    )
    best = feature_margin(Mixture(K), construction(K, C, B), samples="all")
    assert best >= own / math.sqrt(2 * K) - 1e-14
    assert feature_margin(Mixture(K), construction(K, C, B)) >= best - 1e-14


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 40), st.integers(1, 8), st.floats(-1, 1))
def test_certificates_meet_and_highs_agrees(seed, n, d, shift):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) + 2 * shift
    result = max_margin(X, np.ones(n))
    assert result.separable == separable_by_highs(X)
    assert result.weights.min() >= 0
    assert result.weights.sum() == pytest.approx(1)
    assert result.upper == pytest.approx(np.linalg.norm(result.weights @ X), abs=1e-12)
    if result.separable:
        assert np.linalg.norm(result.separator) == pytest.approx(1)
        assert (X @ result.separator).min() == pytest.approx(result.margin, abs=1e-12)
        assert 0 <= result.upper - result.margin + 1e-14 <= 1e-12


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([1e-3, 1e-6, 1e-9]))
def test_tiny_margins_are_exact(seed, size):
    rng = np.random.default_rng(seed)
    Q, _ = np.linalg.qr(rng.standard_normal((5, 5)))
    X = np.array([[1, 0, size, 0, 0], [-1, 0, size, 0, 0], [0, 1, size, 0, 0], [0, -1, 2 * size, 0, 0]]) @ Q
    assert max_margin(X, np.ones(4)).margin == pytest.approx(size, abs=1e-14)


def test_norms_are_those_of_the_feature_vectors():
    """Features twice as long double the margin; the coordinates of φ stay the same."""
    A = np.zeros((2, 4, 4))
    long = Mixture(2, gram=4 * np.eye(4))
    assert feature_margin(long, A, samples="easy") == pytest.approx(2 * 2 / 3, abs=1e-14)


def test_the_joint_points_are_the_network_with_every_neuron_on():
    """A short separator is a network that is right on every sample, by its margin times its length."""
    task, A = Mixture(3).population(), construction(3, 3.0, 4.0)
    points, labels = feature_points(task, A, samples="all")
    best = max_margin(points, labels)
    w = 0.1 * best.separator.reshape(2, 6)
    margin = forward.margin(task, forward.preactivation(task, w, A, 0.5))
    np.testing.assert_allclose(margin, 0.1 * labels * (points @ best.separator), rtol=0, atol=1e-15)
    assert margin.min() == pytest.approx(0.1 * best.margin, abs=1e-15)


def test_leading_axes_and_heads():
    rng = np.random.default_rng(0)
    A = 2 * rng.standard_normal((3, 2, 2, 4, 4))
    margins = feature_margin(Mixture(2), A)
    assert margins.shape == (3, 2)
    assert margins[1, 1] == feature_margin(Mixture(2), A[1, 1])
    single = np.maximum(feature_margin(Mixture(2), A, heads="+"), feature_margin(Mixture(2), A, heads="-"))
    assert (margins >= single - 1e-13).all()  # two heads can ignore one
    points, labels = feature_points(Mixture(2), A, samples=np.arange(8) < 3)
    assert points.shape == (3, 2, 3, 8)
    assert labels.shape == (3,)


def test_no_such_samples_and_bad_choices():
    easy_only = FiniteTask(features=("v1",), atoms=[[("v1", 1)], [("v1", -1)]], labels=[1, -1])
    assert math.isnan(feature_margin(easy_only, np.zeros((2, 1, 1))))
    assert feature_margin(easy_only, np.zeros((2, 1, 1)), samples="all") == pytest.approx(math.sqrt(2))
    for bad in ({"samples": "hrad"}, {"heads": "x"}, {"samples": [True]}):
        with pytest.raises(SpecError, match="expected"):
            feature_margin(Mixture(2), np.zeros((2, 4, 4)), **bad)


@pytest.mark.parametrize("options", [{"queries": "one"}, {"queries": "sum"}, {"heads": 4}, {"activate": "before"}])
def test_points_are_those_of_the_network(options):
    """While every neuron is on, the answer is linear in the points: F = ψ·w."""
    task, rng = Mixture(2).population(), np.random.default_rng(4)
    network = Transformer(bias=50.0, **options)
    w, A = rng.normal(size=(network.heads, 1, 4)), rng.normal(size=(network.heads, 4, 4))
    points, _ = feature_points(task, A, samples="all", network=network)
    _, F = respond(task, network, {"w": w[None], "A": A[None]})
    np.testing.assert_allclose(points @ w.ravel(), F[0], rtol=1e-12, atol=1e-12)


def test_a_stage_ends_by_the_features_of_its_own_network():
    """Added queries have L times the features of their mean, and reach a margin where those reach a third of it."""
    flow = ThreeStage(GradientFlow(), neurons=30.0, attention=Until("feature_margin", 0.1, limit=100.0), converge=1.0)
    run = train(Mixture(2), Transformer(queries="sum", omega=0.6, bias=1.5), flow)
    at = run.dataset.sel(time=run.switches[1]["end"], method="nearest").A.values
    assert feature_margin(run.task, at, network=run.transformer) == pytest.approx(0.1, abs=1e-6)
    assert feature_margin(run.task, at) == pytest.approx(0.1 / 3, abs=1e-6)


def test_what_has_no_margin():
    for method in (Until("feature_margin", 0.1), ThreeStage().attention):
        with pytest.raises(SpecError, match=r"as many heads \+ as -, but the network has 1; end the attention stage"):
            train(Mixture(2), Transformer(heads=1), ThreeStage(GradientDescent(), attention=method))
    with pytest.raises(SpecError, match=r"but the network has 1; use a network with an even number of heads\.$"):
        feature_margin(Mixture(2), np.zeros((1, 4, 4)))
    with pytest.raises(SpecError, match=r"has loss = 'squared'; use a task with loss='logistic'\.$"):
        feature_margin(Mixture(2, loss="squared"), np.zeros((2, 4, 4)))
