"""The complementarity problem at an event, against brute force."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mixflow.filippov.gates import OFF, ON, SLIDING, ChatteringError, decide, decide_any

TOL = 1e-6


def consistent(v, N, r, state, gate):
    """Whether every gate satisfies its own line of the problem."""
    speed = v - N @ (r * gate)
    slow = TOL * (1 + np.abs(N) @ np.abs(r))
    lines = {
        OFF: (gate == 0) & (speed <= slow),
        ON: (np.abs(gate - 1) < TOL) & (speed >= -slow),
        SLIDING: (gate >= -TOL) & (gate <= 1 + TOL) & (np.abs(speed) <= slow),
    }
    return all(lines[s][i] for i, s in enumerate(state))


def enumerate_all(v, N, r):
    """Every consistent (state, speed), trying all 3^s states; a self-exciting gate (r < 0) may not slide."""
    for state in itertools.product((OFF, ON, SLIDING), repeat=len(v)):
        state = np.array(state)
        free = state == SLIDING
        if np.any(free & (r <= 0)):
            continue
        gate = (state == ON).astype(float)
        if free.any():
            rest = v[free] - N[np.ix_(free, ~free)] @ (r * gate)[~free]
            gate[free] = np.linalg.lstsq(N[np.ix_(free, free)], rest, rcond=1e-10)[0] / r[free]
        if consistent(v, N, r, state, gate):
            yield state, v - N @ (r * gate)


@st.composite
def problems(draw, signs):
    s, p = draw(st.integers(1, 4)), draw(st.integers(1, 5))
    number = st.integers(-8, 8).map(lambda i: i / 4)  # coarse, so that ties and singular N occur
    X = np.array(draw(st.lists(number, min_size=s * p, max_size=s * p))).reshape(s, p)
    xi = np.array(draw(st.lists(number, min_size=p, max_size=p)))
    r = np.array(draw(st.lists(st.sampled_from(signs), min_size=s, max_size=s)))
    guess = np.array(draw(st.lists(st.sampled_from((OFF, ON, SLIDING)), min_size=s, max_size=s)))
    return X @ xi, X @ X.T, r, guess


@settings(max_examples=300, deadline=None, derandomize=True)
@given(problems(signs=(0.25, 1.0, 3.0)))
def test_self_inhibiting_gates_always_have_the_one_velocity_of_brute_force(problem):
    v, N, r, guess = problem
    state, gate = decide(v, N, r, guess)
    assert consistent(v, N, r, state, gate)
    for _, speed in enumerate_all(v, N, r):
        np.testing.assert_allclose(v - N @ (r * gate), speed, atol=1e-5)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(problems(signs=(-1.0, -0.5, 0.0, 0.5, 2.0)))
def test_with_self_exciting_gates_a_solution_is_found_whenever_one_exists(problem):
    v, N, r, guess = problem
    try:
        state, gate = decide(v, N, r, guess)
    except ChatteringError:
        assert not list(enumerate_all(v, N, r))
    else:
        assert consistent(v, N, r, state, gate)
        assert not np.any((state == SLIDING) & (r <= 0))


def test_one_neuron_enters_while_another_leaves():
    # Deciding one at a time keeps the second sliding with a negative gate; together it goes off.
    N = np.array([[1.0, 0.9], [0.9, 1.0]])
    state, gate = decide(np.array([1.0, 0.5]), N, np.array([2.0, 2.0]), np.array([OFF, SLIDING]))
    assert state.tolist() == [SLIDING, OFF]
    np.testing.assert_allclose(gate, [0.5, 0.0])


def test_twins_share_a_singular_problem_evenly():
    state, gate = decide(np.ones(3), np.ones((3, 3)), np.ones(3), np.array([SLIDING] * 3))
    assert state.tolist() == [SLIDING] * 3
    np.testing.assert_allclose(gate, 1 / 3)


def test_a_gate_that_left_keeps_its_side():
    # dz/dt = 0 up to rounding: the guess decides, so that an event cannot undo itself.
    for guess in (OFF, SLIDING):
        state, _ = decide(np.array([1e-14]), np.array([[1.0]]), np.array([1.0]), np.array([guess]))
        assert state.tolist() == [guess]


def test_an_impossible_problem_is_a_named_error():
    # Two self-exciting neurons, each silencing the other only while it is silent itself: no choice is consistent.
    v, N, r = np.array([-0.5, 0.5]), np.array([[0.0, 1.0], [-1.0, 0.0]]), np.array([-1.0, -1.0])
    with pytest.raises(ChatteringError, match="no consistent choice"):
        decide(v, N, r, np.array([OFF, OFF]))


def test_a_direction_that_dependent_surfaces_leave_open_is_seen():
    """B d = 0, at both ends of the segment two gates leave at once, and the two that stay are dependent: the worst there is."""
    rng = np.random.default_rng(0)
    for _ in range(10):
        d, middle = np.array([*rng.uniform(-0.2, 0.2, 2), -0.5, -0.5]), np.array([*rng.uniform(0.3, 0.7, 2), 0.5, 0.5])
        B = 2 * rng.normal(size=(4, 4))
        B[1, :2] = rng.normal() * B[0, :2]
        B[:, 3] = 2 * B[:, :2] @ d[:2] - B[:, 2]
        with pytest.raises(ChatteringError, match="several solutions"):
            decide_any(-B @ middle, B, np.full(4, SLIDING), np.copy)
