"""The solver as a tool of its own: closed forms, any complementarity problem against brute force, bad input in one sentence."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mixflow as mf
from mixflow.filippov import Field, certificate, certify, solve
from mixflow.filippov.gates import OFF, ON, SLIDING, decide_any

RELAY = Field(velocity=lambda c, y, gates: 1 - 2 * gates, surface=lambda c, y: y, gates=("relay",))


def spring(c, y, gates):
    """A block (x, u) on a belt of speed 1; c is the friction, the gate is 1 where the belt is faster than the block."""
    return jnp.stack([y[1], -y[0] + c * (2 * gates[0] - 1)])


def faster(c, y):
    return jnp.stack([1 - y[1]])


def numpy_spring(c, y, gates):
    out = np.zeros(2)
    out[0], out[1] = y[1], -y[0] + c * (2 * gates[0] - 1)
    return out


BLOCK = Field(velocity=spring, surface=faster, gates=("belt faster",), constants=0.5)


def motion_of(t):
    """The block from (0, 1): it sticks until x = 1/2, then swings around x = 1/2 with amplitude 1."""
    s = np.maximum(t - 0.5, 0)
    return np.stack([np.where(t < 0.5, t, 0.5 + np.sin(s)), np.where(t < 0.5, 1, np.cos(s))], axis=-1)


def test_a_block_on_a_belt_sticks_and_slips():
    result = solve(BLOCK, [0.0, 1.0], 6.0)
    times = np.linspace(0, 6, 200)
    np.testing.assert_allclose(result(times), motion_of(times), atol=2e-9)
    assert [(e.name, e.before, e.after) for e in result.events] == [("belt faster", "sliding", "on")]
    assert result.gates == ("on",)
    assert certify(result)["relative_difference"] < 1e-9


def test_numpy_functions_give_the_same_flow():
    field = Field(velocity=numpy_spring, surface=lambda c, y: np.array([1 - y[1]]), gates=("belt",), constants=0.5)
    result, times = solve(field, [0.0, 1.0], 6.0), np.linspace(0, 6, 50)
    np.testing.assert_allclose(result(times), motion_of(times), atol=2e-9)


def test_a_result_continues_as_if_it_had_never_stopped():
    whole = solve(BLOCK, [-0.4, 1.0], 6.0)
    half = solve(BLOCK, [-0.4, 1.0], 0.3)
    assert half.gates == ("sliding",)
    rest = solve(BLOCK, half, 6.0)
    assert rest.start == 0.3
    np.testing.assert_allclose(rest.state, whole.state, atol=1e-11)
    assert rest.events[0].time == pytest.approx(whole.events[0].time, abs=1e-11)


def test_saved_times_are_steps_or_exactly_those_asked_for():
    steps = solve(BLOCK, [0.0, 1.0], 6.0)
    assert len(steps.times) == steps.counts["steps"] + 1
    assert np.all(np.diff(steps.times) > 0)
    assert solve(BLOCK, [0.0, 1.0], 6.0, save_at=[1.0, 2.0]).times.tolist() == [1.0, 2.0]
    with_events = solve(BLOCK, [0.0, 1.0], 6.0, save_at=[1.0, 2.0], keep_events=True)
    assert with_events.times.tolist() == [steps.events[0].time, 1.0, 2.0]


def test_a_stop_function_ends_the_flow_at_its_root():
    result = solve(RELAY, [-1.0], 3.0, stop=lambda t, y: y[0] + 0.25)
    assert result.ended == "stop"
    assert result.time == pytest.approx(0.75, abs=1e-13)


# --- the complementarity problem of any field ------------------------------------------------------------------------------


def fits(v, B, state, gate):
    speed, slow = v + B @ gate, 1e-6 * (1 + np.abs(B).sum(axis=1))
    lines = {OFF: speed <= slow, ON: speed >= -slow, SLIDING: np.abs(speed) <= slow}
    return all(lines[s][i] for i, s in enumerate(state)) and gate.min() >= -1e-6 and gate.max() <= 1 + 1e-6


@st.composite
def problems(draw):
    s = draw(st.integers(1, 3))
    number = st.integers(-8, 8).map(lambda i: i / 4)  # coarse, so that ties and singular B occur
    B = np.array(draw(st.lists(number, min_size=s * s, max_size=s * s))).reshape(s, s)
    return np.array(draw(st.lists(number, min_size=s, max_size=s))), B


@settings(max_examples=300, deadline=None, derandomize=True)
@given(problems())
def test_one_solution_is_found_and_none_or_several_are_named(problem):
    v, B = problem
    s = len(v)
    # Every gate value that fits, on a grid fine enough to meet the solutions of each sliding set up to its spacing.
    grid = np.stack(np.meshgrid(*[np.linspace(0, 1, 41)] * s, indexing="ij"), axis=-1).reshape(-1, s)
    speed = v + grid @ B.T
    near = np.abs(B).sum(axis=1) / 80 + 1e-9
    fine = np.where(grid == 0, speed <= near, np.where(grid == 1, speed >= -near, np.abs(speed) <= near)).all(axis=1)
    state, said = None, ""
    try:
        state, gate = decide_any(v, B, np.full(s, OFF), lambda gates: np.concatenate([gates, v + B @ gates]))
    except mf.ChatteringError as error:
        said = str(error)
    if state is not None:
        assert fits(v, B, state, gate)
        assert fine.any()
    elif "no solution" in said:
        corners = grid[np.all((grid == 0) | (grid == 1), axis=1)]
        assert not any(fits(v, B, np.where(row == 1, ON, OFF), row) for row in corners)
    else:
        assert "Filippov's convention does not decide" in said
        assert fine.sum() > 1


def test_two_surfaces_that_act_on_each_other_only():
    v, B = np.array([1.0, -1.0]), np.array([[0.0, -2.0], [2.0, 0.0]])
    state, gate = decide_any(v, B, np.array([ON, ON]), lambda gates: v + B @ gates)
    assert state.tolist() == [SLIDING, SLIDING]  # a centre: neither gate moves its own surface
    np.testing.assert_allclose(gate, 0.5)


def test_twins_with_one_effect_are_one_solution_and_with_two_effects_are_not():
    v, B, guess = np.ones(2), -np.ones((2, 2)), np.array([SLIDING, SLIDING])
    decide_any(v, B, guess, lambda gates: np.array([1 - gates.sum()]))
    with pytest.raises(mf.ChatteringError, match="several solutions"):
        decide_any(v, B, guess, lambda gates: np.array([1 - gates.sum(), gates[0]]))


def test_many_surfaces_at_once():
    s = 12
    rng = np.random.default_rng(1)
    B = -np.eye(s) + 0.05 * rng.standard_normal((s, s))
    v = rng.uniform(-0.5, 1.5, s)
    state, gate = decide_any(v, B, np.full(s, OFF), None)
    assert fits(v, B, state, gate)
    assert len(set(state)) == 3
    with pytest.raises(mf.ChatteringError, match="12 surfaces are reached together and −B is not definite"):
        decide_any(v, -B, np.full(s, OFF), None)


# --- bad input -------------------------------------------------------------------------------------------------------------


def field(velocity=lambda c, y, gates: 1 - 2 * gates, surface=lambda c, y: y):
    return Field(velocity=velocity, surface=surface, gates=("a",))


@pytest.mark.parametrize(
    ("make", "start", "error", "message"),
    [
        (lambda: field(velocity=lambda c, y, g: g * g), [1.0], mf.SpecError, "not affine in its gates"),
        (lambda: field(velocity=lambda c, y, g: jnp.ones(2)), [1.0], mf.SpecError, r"shape \(2,\): expected \(1,\)"),
        (lambda: field(surface=lambda c, y: jnp.ones(3)), [1.0], mf.SpecError, r"surface returned .* \(3,\)"),
        (lambda: field(surface=lambda c, y, gates: y), [1.0], mf.SpecError, r"expected surface\(c, y\)"),
        (lambda: field(velocity=3.0), [1.0], mf.SpecError, "velocity = 3.0: expected velocity"),
        (lambda: field(velocity=lambda c, y, g: y * np.nan), [1.0], mf.SpecError, "returned nan at the start"),
        (lambda: field(velocity=lambda c, y, g: -jnp.sqrt(y)), [1.0], mf.DivergedError, "t = 2 .*stay finite"),
        (lambda: field(velocity=lambda c, y, g: y**2), [1.0], mf.DivergedError, "float64 at t = 1 "),
        (lambda: field(velocity=lambda c, y, g: 2 * g - 1), [0.0], mf.ChatteringError, "several solutions"),
        (field, [[0.0]], mf.SpecError, r"y0 is an array of shape \(1, 1\)"),
        (field, None, mf.SpecError, "y0 is None"),
        (lambda: Field(velocity=abs, surface=abs, gates="a"), [0.0], mf.SpecError, "gates = 'a'"),
        (lambda: "relay", [0.0], mf.SpecError, "field = 'relay'"),
    ],
)
def test_bad_fields(make, start, error, message):
    with pytest.raises(error, match=message) as caught:
        solve(make(), start, 3.0)
    assert str(caught.value).count(". ") == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"until": np.inf}, "until"),
        ({"start": 5.0}, "start = 5.0"),
        ({"rtol": 1e-14}, "rtol"),
        ({"atol": -1.0}, "atol"),
        ({"save_at": [2.0, 1.0]}, "increasing"),
        ({"save_at": [4.0]}, r"save_at\[0\] = 4.0"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(mf.SpecError, match=message):
        solve(RELAY, [1.0], **{"until": 3.0, **arguments})


def test_times_outside_the_flow_and_flows_without_steps_are_refused():
    with pytest.raises(mf.SpecError, match="expected times from 0 to 3"):
        solve(RELAY, [1.0], 3.0)(3.5)
    with pytest.raises(mf.SpecError, match="dense=True"):
        solve(RELAY, [1.0], 3.0, dense=False)(1.0)


def test_events_that_accumulate_are_named():
    # Thrown out against 2, falling back with 1, every swing is half as high: infinitely many within Σ 1.5 √2 2^(−k/2).
    def velocity(c, y, gates):
        return jnp.stack([y[1], -1.5 * (2 * gates[0] - 1) - 0.5 * (2 * gates[1] - 1)])

    swing = Field(velocity=velocity, surface=lambda c, y: y, gates=("x", "u"))
    with pytest.raises(mf.ChatteringError, match=r"without end|several solutions") as caught:
        solve(swing, [1.0, 0.0], 20.0)
    assert caught.value.run.time == pytest.approx(1.5 * np.sqrt(2) / (1 - np.sqrt(0.5)), abs=1e-4)
    assert len(caught.value.run.events) > 30


def test_the_certificate_is_the_error(monkeypatch):
    """Two decays, the second a thousand times smaller: the tighter flow stands for the truth, relative to the whole state."""
    decay = Field(velocity=lambda c, y, gates: -y, surface=lambda c, y: y[:1] - 0.5, gates=("half",))
    result = solve(decay, [1.0, 1e-3], 3.0, rtol=1e-3, atol=1e-9, save_at=np.linspace(0, 3, 7))
    error = np.abs(result.states - np.exp(-result.times)[:, None] * [1.0, 1e-3])
    proof = certify(result)
    assert proof["difference"] == pytest.approx(error.max(), rel=0.1)
    assert proof["difference"] > 1e-9
    assert proof["relative_difference"] == pytest.approx((error.max(axis=1) / result.states[:, 0]).max(), rel=0.1)
    assert proof["same_events"]
    follow = certificate.follow
    monkeypatch.setattr(certificate, "follow", lambda *a, **given: replace(follow(*a, **given), events=()))
    assert not certify(result)["same_events"]
    monkeypatch.setattr(certificate, "_resolved", lambda result: (0 * result.states + [0, 1e-6], result))
    assert certify(result)["relative_difference"] == pytest.approx(1e-6 * np.exp(3), rel=1e-3)  # not to its own entry
