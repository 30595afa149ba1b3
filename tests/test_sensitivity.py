"""Derivatives through kinks: closed forms, exact piecewise-linear twins, and what is refused."""

import importlib.util
import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import mixflow as mf
from mixflow.filippov import Field, sensitivity, solve
from mixflow.filippov.gates import OFF, ON
from mixflow.filippov.sensitivity import _Paths

spec = importlib.util.spec_from_file_location("linear", Path(__file__).with_name("test_filippov_linear.py"))
linear = sys.modules.setdefault("linear", importlib.util.module_from_spec(spec))
spec.loader.exec_module(linear)


def spring(c, y, gates):
    """A block (x, u) on a belt of speed 1; c is the friction, the gate is 1 where the belt is faster than the block."""
    return jnp.stack([y[1], -y[0] + c * (2 * gates[0] - 1)])


def faster(c, y):
    return jnp.stack([1 - y[1]])


BLOCK = Field(velocity=spring, surface=faster, gates=("belt faster",), constants=0.5)


def test_a_block_that_slips_later_with_more_friction():
    # x = t until t = c, then c + sin(t − c).
    result = solve(BLOCK, [0.0, 1.0], 3.0)
    found = sensitivity(result, constants=np.array([1.0]))
    np.testing.assert_allclose(found.events, [[1.0]], atol=1e-7)
    np.testing.assert_allclose(found.state, [[1 - np.cos(2.5), np.sin(2.5)]], atol=1e-8)
    np.testing.assert_allclose(
        found.value(lambda c, y: c * y[0]), 0.5 * found.state[:, 0] + result.state[0], atol=1e-12
    )
    assert not found.one_sided.any()


def test_a_block_that_begins_to_stick():
    # From (1, 1) it swings around x = c on the arc to x = 2c − 1 = 0, sticks there and moves on as fast as the belt.
    def arc(c):
        return np.pi + 2 * np.arctan(1 / (1 - c))

    result = solve(BLOCK, [1.0, 1.0], 5.5)
    assert [e.after for e in result.events] == ["sliding"]
    found = sensitivity(result, constants=np.array([1.0]))
    delay = (arc(0.5 + 1e-6) - arc(0.5 - 1e-6)) / 2e-6
    np.testing.assert_allclose(found.events, [[delay]], rtol=1e-8)
    np.testing.assert_allclose(found.state, [[2 - delay, 0.0]], atol=1e-8)  # x = 2c − 1 + (t − arc)


def test_the_time_of_a_level():
    result = solve(BLOCK, [0.0, 1.0], 3.0, stop=lambda t, y: y[0] - 1.2)
    found = sensitivity(result, constants=np.array([1.0]))
    # c + sin(T − c) = 1.2
    T = 0.5 + np.arcsin(0.7)
    assert result.time == pytest.approx(T, abs=1e-9)
    np.testing.assert_allclose(found.time(lambda c, y: y[0]), [1 - 1 / np.cos(np.arcsin(0.7))], rtol=1e-7)


@pytest.mark.parametrize("seed", [1, 6, 14, 15])  # they cross, slide and leave
def test_piecewise_linear_systems_against_their_exact_twin(seed):
    c, y0 = linear.system(seed)
    n, end = len(y0), 0.97 * linear.UNTIL
    rng = np.random.default_rng(seed)
    change = {name: rng.standard_normal(np.shape(value)) for name, value in c.items()}
    shift = rng.standard_normal(n)

    def exact(s):
        twin = linear.Twin({name: value + s * change[name] for name, value in c.items()})
        path = twin.run(y0 + s * shift)
        return np.concatenate([twin.state(path, end), [t for t, _, _ in path[1:] if t < end]])

    field = Field(velocity=linear.velocity, surface=linear.surface, gates=("gate",), constants=c)
    result = solve(field, y0, end, rtol=1e-11)
    found = sensitivity(result, constants={name: value[None] for name, value in change.items()}, y0=shift[None])
    e = 1e-4
    expected = (8 * (exact(e) - exact(-e)) - (exact(2 * e) - exact(-2 * e))) / (12 * e)
    got = np.concatenate([found.state[0], found.events[:, 0]])
    np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())
    assert len(result.events) >= 1


def sides(field, y0, direction, until, e=1e-4):
    """(right, left) differences of state and event times, which are straight lines in the change."""

    def at(s):
        found = solve(field, y0 + s * direction, until, rtol=1e-11)
        return np.concatenate([found.state, [event.time for event in sorted(found.events, key=lambda x: x.gate)]])

    return (at(2 * e) - at(e)) / e, (at(-e) - at(-2 * e)) / e


# Numbers that fall together; each that is below 0 changes the speed of the others.
@pytest.mark.parametrize(
    ("push", "y0"),
    [
        ([[0.0, -1.0], [-1.0, 0.0]], [1.0, 1.0]),  # twins
        ([[0.0, -1.0], [-0.3, -0.2]], [2.0, 1.5]),  # together by accident, at t = 1
        ([[0.0, -0.4, -0.1], [-0.2, 0.1, -0.4], [-0.1, -0.4, 0.2]], [1.5, 1.5, 1.3]),
    ],
)
def test_gates_that_come_apart_give_the_mean_of_both_sides_and_say_so(push, y0):
    push = np.array(push)
    field = Field(
        velocity=lambda c, y, gates: -1.0 + push @ gates, surface=lambda c, y: y, gates=("a", "b", "c")[: len(y0)]
    )
    result, n = solve(field, y0, 2.0, rtol=1e-11), len(y0)
    assert {round(event.time, 9) for event in result.events} == {y0[0] / (1 - push[0].sum())}
    rng = np.random.default_rng(3)
    directions = np.array([*np.eye(n), *rng.standard_normal((3, n)), -push.sum(axis=1) + 1])
    found = sensitivity(result, y0=directions)
    order = np.argsort([event.gate for event in result.events])
    for k, direction in enumerate(directions):
        right, left = sides(field, np.array(y0), direction, 2.0)
        got = np.concatenate([found.state[k], found.events[order, k]])
        np.testing.assert_allclose(got, (right + left) / 2, atol=1e-6)
        assert found.one_sided[k] == (np.abs(right - left)[:n].max() > 1e-3)
    assert found.one_sided.tolist() == [True] * (len(directions) - 1) + [False]  # the last: all come sooner alike


def test_gates_that_begin_to_slide_together_have_one_derivative():
    # Two numbers fall on a floor each, and push each other while they lie there.
    field = Field(
        velocity=lambda c, y, gates: (
            jnp.array([1.0, 1.0, 0.5]) - jnp.array([[2.5, 0.3], [0.3, 2.5], [0.2, 0.4]]) @ gates
        ),
        surface=lambda c, y: y[:2],
        gates=("a", "b"),
    )
    y0, direction = np.array([1.8, 1.8, 0.0]), np.array([1.0, 0.0, 0.0])
    result = solve(field, y0, 3.0, rtol=1e-11)
    assert [event.after for event in result.events] == ["sliding", "sliding"]
    found = sensitivity(result, y0=direction[None])
    right, left = sides(field, y0, direction, 3.0)
    np.testing.assert_allclose(right[:3], left[:3], atol=1e-6)
    np.testing.assert_allclose(found.state[0], right[:3], atol=1e-6)
    assert not found.one_sided.any()


def test_a_gate_that_turns_away_from_its_surface_leaves_no_derivative():
    # Once a is off, b rises: one that comes later than a never comes.
    def moment(mode):
        speed = np.array([-1.0, -1.0 if mode[0] == ON else 1.0])
        return {"f": speed, "z speed": speed}

    paths = _Paths(moment, np.array([ON, ON]), np.array([OFF, OFF]), [0, 1])
    S, delays = paths.follow(np.array([1.0, 0.5]), np.array([1.0, 0.5]))
    assert delays.tolist() == [1.0, 0.5]
    assert S.tolist() == [
        1.0 - 1.0 + 1.0,
        0.5 - 1.0 - 1.0,
    ]  # b falls past 0 to −1/2 until a is off, and rises from then on
    S, delays = paths.follow(np.array([0.5, 1.0]), np.array([0.5, 1.0]))
    assert np.isnan([*S, *delays]).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, r"directions of \[\] rows"),
        ({"y0": [1.0, 0.0]}, r"y0 has shape \(2,\): expected \(p, 2\)"),
        ({"y0": [[1.0, 0.0, 0.0]]}, r"y0 has shape \(1, 3\)"),
        ({"constants": np.ones((2, 3))}, r"shape \(2, 3\): expected \(2,\)"),
        ({"constants": np.ones(2), "y0": np.ones((1, 2))}, r"directions of \[1, 2\] rows"),
        ({"y0": [[0.0, 1.0]]}, "lies on the surface 'belt faster'"),
    ],
)
def test_bad_directions(arguments, message):
    with pytest.raises(mf.SpecError, match=message):
        sensitivity(solve(BLOCK, [0.0, 1.0], 1.0), **arguments)


def test_numpy_functions_and_other_structures_are_refused():
    def velocity(c, y, gates):
        out = np.zeros(1)
        out[0] = -c["rate"] * y[0]
        return out

    plain = Field(velocity=velocity, surface=lambda c, y: np.array(y), gates=("a",), constants={"rate": 1.0})
    with pytest.raises(mf.SpecError, match="plain NumPy"):
        sensitivity(solve(plain, [1.0], 1.0), y0=[[1.0]])
    traced = Field(
        velocity=lambda c, y, gates: -c["rate"] * y, surface=lambda c, y: y, gates=("a",), constants={"rate": 1.0}
    )
    with pytest.raises(mf.SpecError, match="another structure"):
        sensitivity(solve(traced, [1.0], 1.0), constants={"speed": [1.0]})
    with pytest.raises(mf.SpecError, match=r"expected what mf\.filippov\.solve returns"):
        sensitivity("result")


def test_the_reference_of_the_mean_field_transformer():
    # docs/mathematics.md §15: K = 2, ω = 0.3, b = 1/2, the time at which the loss is 0.1.
    model = mf.field(mf.Mixture(classes=2), mf.Transformer(omega=0.3), "symmetric")
    field = model.gated.field

    def loss(c, y):
        on = jnp.maximum(field.surface(c, y), 0).reshape(-1, 2)
        return 2 * jnp.sum(c["weight"] * jnp.logaddexp(0, on[:, 1] - on[:, 0]))  # head + owns half of the loss

    result = solve(field, model.y0, 300.0, stop=lambda t, y: 0.1 - float(model.loss(y)))
    assert result.time == pytest.approx(246.23835368, abs=1e-8)
    assert [e.after for e in result.events] == ["off"]
    start = np.array([(model.y0 * 2 / 0.3), np.zeros_like(model.y0)])  # ω enters by ω² only
    change = dict.fromkeys(field.constants) | {"bias": np.array([0.0, 1.0])}
    found = sensitivity(result, constants=change, y0=start)
    by_omega, by_bias = found.time(loss)
    assert by_omega == pytest.approx(-202.5469, rel=1e-6)
    assert by_bias == pytest.approx(134.107399, rel=1e-6)
    assert found.events[0, 1] == pytest.approx(33.216083, rel=1e-6)  # of the switch-off by the bias
