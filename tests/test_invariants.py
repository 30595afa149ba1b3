"""Conserved quantities against explicit weights, and their drift under descent (docs/mathematics.md §3, §8)."""

import numpy as np
import pytest
import twin
from hypothesis import given, settings
from hypothesis import strategies as st

from mixflow.errors import SpecError
from mixflow.measure import invariants
from mixflow.networks.initial import embedding
from mixflow.networks.transformer import Transformer
from mixflow.tasks import Mixture

pytestmark = pytest.mark.filterwarnings("error")

COHERENT = np.eye(4) + 0.3 * (np.ones((4, 4)) - np.eye(4))
FLAT = np.array([[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1.0]])  # c1 = c2: Γ has no inverse


def gram_of(W_K, W_Q, Phi):
    K, Q = W_K @ Phi, W_Q @ Phi
    return K.T @ Q, K.T @ K, Q.T @ Q


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([np.eye(4), COHERENT, FLAT]))
def test_they_are_the_traces_of_powers_of_C(seed, gram):
    rng = np.random.default_rng(seed)
    W_K, W_Q = rng.standard_normal((2, 5, 6))
    Phi = embedding(Mixture(2, gram=gram).population(), 6)
    P = Phi @ np.linalg.pinv(Phi)
    C = W_K @ P @ W_K.T - W_Q @ P @ W_Q.T
    A, G_K, G_Q = gram_of(W_K, W_Q, Phi)
    expected = [np.trace(np.linalg.matrix_power(C, n)) for n in (1, 2, 3)]
    np.testing.assert_allclose(invariants.conserved(A, G_K, G_Q, gram, order=3), expected, rtol=1e-9, atol=1e-9)
    assert invariants.trace_difference(G_K, G_Q, gram) == pytest.approx(expected[0], rel=1e-9, abs=1e-9)
    assert invariants.square_difference(A, G_K, G_Q, gram) == pytest.approx(expected[1], rel=1e-9, abs=1e-9)


def test_mean_field_start_by_hand():
    G = np.broadcast_to(0.09 * np.eye(4), (1, 2, 4, 4))
    values = invariants.conserved(np.zeros_like(G), G, G)
    np.testing.assert_allclose(values, np.broadcast_to([0, 2 * 4 * 0.09**2], (1, 2, 2)), rtol=0, atol=1e-17)


@pytest.mark.parametrize("gram", [np.eye(4), COHERENT, FLAT])
def test_descent_keeps_them_at_first_order_in_the_learning_rate(gram):
    """The drift per unit time must vanish like η: halving η halves it, and the wrong Γ would leave it standing."""
    task, transformer = Mixture(2, gram=gram), Transformer(width=6, omega=0.9, seed=1)
    drift = []
    for eta in (0.1, 0.05, 0.025):
        run = twin.twin_descent(task, transformer, eta, round(40 / eta), round(10 / eta))
        drift.append(invariants.drift(run["A"], run["G_K"], run["G_Q"], gram, order=3))
        assert invariants.smallest_eigenvalue(run["A"], run["G_K"], run["G_Q"]).min() > -1e-12
    slope = np.polyfit(np.log([0.1, 0.05, 0.025]), np.log(drift), 1)[0]
    np.testing.assert_allclose(slope, 1.0, atol=0.1)
    assert np.max(drift) < 1e-3


def test_without_the_inverse_gram_nothing_is_conserved():
    task, transformer = Mixture(2, gram=COHERENT), Transformer(width=6, omega=0.9, seed=1)
    run = twin.twin_descent(task, transformer, 0.01, 4000, 400)
    right = invariants.drift(run["A"], run["G_K"], run["G_Q"], COHERENT)
    wrong = invariants.drift(run["A"], run["G_K"], run["G_Q"])
    assert (wrong > 30 * right).all()


def test_drift_is_the_largest_on_the_way():
    """tr C and tr C² of G_K = g I, G_Q = I: they are back where they were, but not in between."""
    G = np.array([1.0, 1.5, 1.0])[:, None, None, None] * np.eye(2)
    still = np.broadcast_to(np.eye(2), G.shape)
    np.testing.assert_allclose(invariants.drift(0 * G, G, still), [1 / 5, 2.5 / 6.5])


def test_smallest_eigenvalue_sees_an_impossible_state():
    G = np.eye(3)[None]
    assert invariants.smallest_eigenvalue(1.5 * G, G, G) == pytest.approx([-0.5])
    assert invariants.smallest_eigenvalue(0.5 * G, G, G) == pytest.approx([0.5])


def test_shapes_must_agree():
    with pytest.raises(SpecError, match="three equal shapes"):
        invariants.joint_gram(np.eye(3), np.eye(3), np.eye(4))
