"""The critical sub-system: an exact linear system, enclosed by its comparison systems, and a prediction that can be wrong."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import mixflow as mf
from mixflow.intervals import Interval
from mixflow.paper.experiments.claims_critical import main
from mixflow.paper.reaching import reaches
from mixflow.paper.theory import comparison
from mixflow.paper.theory.comparison import _advance, _widened, enclosed, grown, sandwich, separation
from mixflow.paper.theory.critical import CV, VC, Critical, critical, critical_of_run, plateau_growth
from mixflow.paper.theory.enclosure import _field, enclose, product, shares


@pytest.fixture(scope="module")
def field():
    return mf.field(mf.Mixture(classes=2), mf.Transformer(omega=0.3, bias=0.5), model="symmetric")


@pytest.fixture(scope="module")
def run(field):
    times = np.linspace(0, 320.0, 641)  # beyond the first sliding neuron, at 281.5
    return field.flow(mf.GradientFlow(until=320.0, save_at=tuple(times)))


@pytest.fixture(scope="module")
def system(field, run):
    return critical(field, run.times, run.states)


def test_the_contrast_sector_is_a_linear_system(system):
    assert system.defect.max() < 1e-14
    assert np.abs(system.B - system.B.swapaxes(1, 2)).max() < 1e-13
    numeric = np.gradient(system.B[:, *CV], system.time)
    inside = (system.time > 20) & (system.time < 250)  # between the events
    np.testing.assert_allclose(system.speed[inside][:, *CV], numeric[inside], rtol=1e-3)


def test_nothing_drives_it_before_the_first_switch(system):
    early = system.time < 12.19
    assert np.abs(system.H[early][:, *CV]).max() < 1e-15
    late = system.time > 12.3
    assert (system.H[late][:, *CV] > 0).all()
    assert (system.H[late & (system.time < 250)][:, *VC] < 0).all()


def test_the_forcing_is_the_growth_of_an_ignorant_attention(system):
    feedback = np.abs(system.H - system.forcing).max(axis=(1, 2))
    score = np.abs(system.B[:, *CV])
    assert feedback[score < 1e-3].max() < 1e-3 * np.abs(system.forcing).max()
    assert (
        feedback[-1] > 0.5 * np.abs(system.forcing[-1]).max()
    )  # saturation: what was learned switches its own growth off


def test_one_entry_of_h_explains_the_scores(system):
    until_one = system.B[:, *CV] < 1
    ratio = system.driven[until_one][100:] / system.B[until_one][100:, *CV]
    assert (ratio > 0.95).all()
    assert (ratio <= 1.0 + 1e-12).all()


@pytest.mark.parametrize("windows", [20, 60, 640])
def test_the_comparison_systems_enclose_every_entry_at_every_time(system, windows):
    holds, lower, upper = enclosed(system, windows)
    assert holds
    assert (upper - lower)[-1].max() > 0


def test_finer_windows_give_closer_bounds(system):
    early = system.time < 160
    width = [np.subtract(*sandwich(system, n)[::-1])[early].max() for n in (20, 60, 640)]
    assert width[0] > width[1] > width[2]


def test_bounds_of_another_growth_do_not_hold(system):
    weaker = replace(system, H=0.9 * system.H, speed=0.9 * system.speed)  # the same residual
    assert not enclosed(weaker, 60)[0]


def test_comparison_systems_of_a_constant_growth_hold_it_closely():
    h, times = 0.02, np.linspace(0, 100, 51)
    H = np.zeros((51, 4, 4))
    H[:, 0, 3] = H[:, 3, 0] = h
    B = np.broadcast_to(0.09 * np.eye(4), (51, 4, 4))
    system = Critical(time=times, B=B, H=H, forcing=H, speed=H @ B + B @ H)
    lower, upper = sandwich(system, 5)
    exact = 0.09 * np.sinh(2 * h * times)
    assert (lower[:, *CV] <= exact).all()
    assert (upper[:, *CV] >= exact).all()
    np.testing.assert_allclose(lower[1:, *CV], exact[1:], rtol=5e-3)
    np.testing.assert_allclose(upper[1:, *CV], exact[1:], rtol=5e-3)
    np.testing.assert_allclose(system.driven, exact, rtol=1e-12)
    np.testing.assert_allclose(system.rate, 2 * h, rtol=1e-12)
    unequal = np.broadcast_to(np.diag([0.05, 0.2, 0.2, 0.13]), (51, 4, 4))
    np.testing.assert_allclose(
        replace(system, B=unequal).driven, exact, rtol=1e-12
    )  # it starts from the mean of the two


def test_a_growth_that_rises_evenly_is_followed_exactly():
    times = np.linspace(0, 10, 6)
    H = np.zeros((6, 4, 4))
    H[:, 0, 3] = H[:, 3, 0] = 0.03 * times
    path = grown(times, H, 0.09 * np.eye(4), 0.2)
    assert len(path) == 5  # it is above 0.2 there
    np.testing.assert_allclose(path, 0.09 * np.sinh(0.03 * times[:5] ** 2), rtol=1e-12)


def test_a_step_that_cannot_be_enclosed_is_refused(monkeypatch):
    monkeypatch.setattr(comparison, "STEP", 10.0)  # one step over a growth by e⁴
    H = np.zeros((4, 4))
    H[CV] = H[CV[::-1]] = 1.0
    with pytest.raises(ArithmeticError, match="no step of the comparison system holds"):
        _advance(np.stack([np.eye(4)] * 2), Interval(H, H), Interval(0 * H, 0 * H), 2.0)


def test_between_saves_a_value_may_go_beyond_them_by_the_largest_step():
    found = _widened(np.array([[0.0, 2.0], [1.0, 2.0], [3.0, 1.5]]))
    assert (found.lo.tolist(), found.hi.tolist()) == ([-2.0, 1.0], [5.0, 2.5])


def test_the_residual_of_an_average_moves_the_bounds():
    times, R = np.linspace(0, 10, 21), np.full((4, 4), 0.03)
    B = 0.09 * np.eye(4) + R * times[:, None, None]
    still = np.zeros_like(B)
    system = Critical(time=times, B=B, H=still, forcing=still, speed=still + R)
    holds, lower, upper = enclosed(system, 5)
    assert holds
    np.testing.assert_allclose(upper, lower, atol=1e-9)


def test_grid_corners_hold_and_are_predicted(tmp_path, capsys):
    points = main(["--quick", "--out", str(tmp_path)])
    assert capsys.readouterr().out.count("True") == 8
    assert {path.suffix for path in tmp_path.iterdir()} == {".json", ".svg", ".pdf", ".png"}
    for p in points:
        assert p["holds"]
        assert p["proven"]
        assert p["lower"] < p["actual"] < p["upper"]
        assert p["predicted"] == pytest.approx(p["actual"], rel=0.13)
        assert p["upper"] - p["lower"] < 0.1 * p["actual"]
    # Θ = ∫h dt must reach asinh(1/ω²)/2: smaller ω waits longer, by the logarithm only.
    small, large = points[0]["actual"], points[2]["actual"]
    assert 1 < small / large < math.asinh(100) / math.asinh(1 / 0.64)


def test_three_classes_too():
    p = separation(3, 0.3, 0.5, saves=1000)
    assert p["holds"]
    assert p["proven"]
    assert p["upper"] - p["lower"] < 0.1 * p["actual"]
    assert p["predicted"] == pytest.approx(p["actual"], rel=0.15)
    assert p["predicted"] != pytest.approx(p["actual"], rel=1e-3)  # made without the critical system
    assert 0 < p["error"] < 1e-7  # the saved states are not taken for the truth


# between the saves ---------------------------------------------------------------------------------------------------


def test_intervals_hold_every_value():
    rng = np.random.default_rng(0)
    X, Y = (Interval(lo, lo + width) for lo, width in ((rng.normal(size=(8, 8)), rng.random((8, 8))) for _ in "XY"))
    for _ in range(50):
        x, y = (each.lo + rng.random((8, 8)) * (each.hi - each.lo) for each in (X, Y))
        pairs = [
            (X + Y, x + y), (X - Y, x - y), (X * Y, x * y), (X.exp(), np.exp(x)), (X.relu(), np.maximum(x, 0)),
            (X.sum(0), x.sum(0)), (product(X, Y), x @ y), (X.swap(), x.T), (X.linear(y.T), x @ y),
            (shares(X.exp()), np.exp(x) / np.exp(x).sum(-1, keepdims=True)), (-X, -x),
        ]  # fmt: skip
        for box, value in pairs:
            assert Interval(value, value).inside(box).all()


def test_intervals_round_outwards():
    """Against exact fractions: what float64 rounds away must lie inside."""
    rng = np.random.default_rng(1)
    X, Y = (Interval(x, x) for x in rng.normal(size=(2, 5, 5)))
    exact = np.vectorize(Fraction)
    x, y = exact(X.lo), exact(Y.lo)
    for box, value in ((X + Y, x + y), (X * Y, x * y), (X.sum(0), x.sum(0)), (X.linear(Y.lo.T), x.dot(y))):
        assert ((exact(box.lo) < value) & (value < exact(box.hi))).all()


def even(states):
    """States (T, 26) with the symmetric part of G_K and G_Q."""
    w, A, G = np.split(states, [2, 10], axis=1)
    G = G.reshape(-1, 4, 2, 2)
    return np.concatenate([w, A, ((G + G.swapaxes(2, 3)) / 2).reshape(-1, 16)], axis=1)


@pytest.mark.parametrize("K", [2, 3, 6])
def test_the_interval_field_is_the_field(K):
    field = mf.field(mf.Mixture(classes=K), mf.Transformer(omega=0.3, bias=0.5), model="symmetric")
    rng = np.random.default_rng(K)
    states = even(field.y0 + 0.1 * rng.normal(size=(20, len(field.y0))))
    speed, h = _field(field, Interval(states, states))
    for y, low, high, bounds in zip(states, speed.lo, speed.hi, h.lo, strict=True):
        exact = field.velocities(y[None], (field.z(y[None]) > 0).astype(float))[0]
        assert (np.abs(exact - low) < 1e-12).all()
        assert ((low <= exact + 1e-15) & (exact - 1e-15 <= high)).all()
        assert np.abs(bounds - critical(field, [0.0], y[None]).H[0, :2, 2:]).max() < 1e-12
    wide = Interval(states - 0.01, states + 0.01)
    speed, _ = _field(field, wide)
    inside = even(states + 0.01 * rng.uniform(-1, 1, size=states.shape))
    exact = np.array([field.velocities(y[None], (field.z(y[None]) > 0).astype(float))[0] for y in inside])
    assert Interval(exact, exact).inside(speed).all()


def test_the_enclosure_holds_the_flow_between_the_saves(field, run):
    found = enclose(field, run.times, run.states, 1e-9)
    assert found.proven.all()
    start, length = Interval(run.states[:-1] - 1e-9, run.states[:-1] + 1e-9), np.diff(run.times)[:, None]
    reached = start + Interval(np.zeros_like(length), length) * _field(field, found.box)[0]
    assert (reached.lo > found.box.lo - 1e-12).all()  # whatever moves inside a box stays in it: the proof itself
    assert (reached.hi < found.box.hi + 1e-12).all()
    middle = field.flow(mf.GradientFlow(until=320.0, save_at=tuple(run.times[:-1] + 0.17)))
    assert Interval(middle.states, middle.states).inside(found.box).all()
    h = critical(field, middle.times, middle.states).H[:, :2, 2:]
    assert Interval(h, h).inside(found.h).all()
    before = run.times[1:] < 250
    assert np.median((found.h.hi - found.h.lo)[before, 0, 1]) < 1e-3  # of 0.018, with two saves a unit of time


def test_states_that_no_flow_connects_are_not_proven(field, run):
    """The boxes are checked against the field, not taken from the states: a wrong start leaves the next state outside."""
    found = enclose(field, run.times[:3], run.states[[0, 300, 1]], 1e-9)
    other = run.states[300]
    assert not Interval(other, other).inside(found.box[0]).all()


def test_proven_bounds_are_those_of_the_enclosure(field, run):
    proven = critical(field, run.times[:320], run.states[:320], error=1e-9)
    assert enclosed(proven, 40)[0]
    assert proven.between.proven.all()
    narrow = replace(proven.between, h=Interval(*(0.9 * end for end in (proven.between.h.lo, proven.between.h.hi))))
    assert not enclosed(replace(proven, between=narrow), 40)[0]


# class averages ------------------------------------------------------------------------------------------------------


def test_the_class_average_of_a_symmetric_run_is_its_sector(system, run):
    network, task = mf.Transformer(omega=0.3, bias=0.5), mf.Mixture(classes=2)
    full = mf.field(task, network, model="gram")
    small = mf.field(task, network, model="symmetric")
    states = np.array([small.expand(y) for y in run.states[:500:50]])
    average = critical(full, run.times[:500:50], states)
    for name in ("B", "H", "forcing", "speed"):
        np.testing.assert_allclose(getattr(average, name), getattr(system, name)[:500:50], atol=1e-13)


def test_the_residual_of_the_class_average_shrinks_with_the_width():
    task, left = mf.Mixture(classes=3), []
    for width in (64, 64 * 16**2):
        network = mf.Transformer(omega=0.3, width=width)
        data = mf.train(task, network, mf.GradientDescent(0.1, 3000, 100)).dataset
        average = critical_of_run(data, task, network)
        left.append((average.defect / np.abs(average.speed).max()).max())
        assert average.defect.max() > 1e-9
        holds, _, _ = enclosed(average, 30)
        assert holds
    assert left[1] < left[0] / 16  # a covariance: like 1/width, here by 256 up to its fluctuation


def test_what_has_no_classes_has_no_critical_system():
    other = mf.FiniteTask(features=("a", "b"), atoms=[[("a", 1), ("b", 1)], [("a", 1), ("b", -1)]], labels=[1, -1])
    field = mf.field(other, mf.Transformer(), model="gram")
    with pytest.raises(mf.SpecError, match="classes of a Mixture"):
        critical(field, [0.0], field.y0[None])
    field = mf.field(mf.Mixture(classes=2), mf.Transformer(), model="gram")
    with pytest.raises(mf.SpecError, match="leave out error"):
        critical(field, [0.0, 1.0], np.stack([field.y0] * 2), error=1e-9)
    skewed = mf.Mixture(classes=2, priors=(0.4, 0.6))
    run = mf.train(skewed, mf.Transformer(width=8), mf.GradientDescent(steps=5))
    with pytest.raises(mf.SpecError, match="uniform priors"):
        critical_of_run(run.dataset, skewed, run.transformer)


def test_a_level_is_located_between_saves():
    time = np.array([0.0, 1.0, 2.0])
    assert reaches(time, np.array([0.01, 0.1, 1.0]), 0.1) == pytest.approx(1.0)
    assert reaches(time, np.array([0.01, 0.1, 1.0]), math.sqrt(0.1)) == pytest.approx(1.5)
    assert reaches(time, np.array([0.1, 0.2, 0.3]), 1.0) is None
    assert reaches(time, np.array([2.0, 3.0, 4.0]), 1.0) is None
    assert reaches(time, np.array([1.0, 0.1, 0.01]), 0.1) == pytest.approx(1.0)
    assert reaches(time, np.array([-1.0, 1.0, 3.0]), 0.0) == pytest.approx(0.5)
    assert reaches(time, np.array([1.0, 3.0, 4.0]), 1.0) == 0.0


@pytest.mark.parametrize("K", [2, 3, 5, 9])
def test_growth_on_the_plateau_in_closed_form(K):
    field = mf.field(mf.Mixture(classes=K), mf.Transformer(omega=0.3, bias=0.5), model="symmetric")
    w_c = 0.1
    w_v = ((K + 1) * 0.5 + w_c) / (K - 1)  # silences the unanimous samples of the other label and nobody else
    G = np.full((2, 2, 2), 0.09) * np.eye(2)
    y = np.concatenate([[w_c, w_v], np.zeros(8), G.ravel(), G.ravel()])
    assert (field.z(y) < 0).sum() == 1
    h = critical(field, [0.0], y[None]).H[0]
    assert h[CV] == pytest.approx(w_c * plateau_growth(K), rel=1e-12)
