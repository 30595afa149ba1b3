"""The critical sub-system: an exact linear system, enclosed by its comparison systems, and a prediction that can be wrong."""

import math

import numpy as np
import pytest

import mixflow as mf
from mixflow.dynamics.flow import flow
from mixflow.experiments.claims_critical import main
from mixflow.models.gated import pack
from mixflow.models.gram_field import gram_field
from mixflow.models.symmetric_field import symmetric_field
from mixflow.theory import critical as module
from mixflow.theory.critical import CV, VC, critical, enclosed, first_time, plateau_growth, sandwich, separation


@pytest.fixture(scope="module")
def system():
    field = symmetric_field(mf.Mixture(classes=2), mf.Transformer(omega=0.3, bias=0.5))
    times = np.linspace(0, 320.0, 641)  # beyond the first sliding neuron, at 281.5
    run = flow(field, field.y0, mf.GradientFlow(until=320.0, save_at=tuple(times)))
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
    weaker = module.replace(system, H=0.9 * system.H)
    assert not enclosed(weaker, 60)[0]


def test_comparison_systems_of_a_constant_growth_are_exact():
    h, times = 0.02, np.linspace(0, 100, 51)
    H = np.zeros((51, 4, 4))
    H[:, 0, 3] = H[:, 3, 0] = h
    B = np.broadcast_to(0.09 * np.eye(4), (51, 4, 4))
    system = module.Critical(time=times, B=B, H=H, forcing=H, speed=H)
    lower, upper = sandwich(system, 5)
    exact = 0.09 * np.sinh(2 * h * times)
    np.testing.assert_allclose(lower[:, *CV], exact, rtol=2e-7)
    np.testing.assert_allclose(upper[:, *CV], exact, rtol=2e-7)
    np.testing.assert_allclose(system.driven, exact, rtol=1e-12)


def test_grid_corners_hold_and_are_predicted(tmp_path, capsys):
    points = main(["--quick", "--out", str(tmp_path)])
    assert capsys.readouterr().out.count("True") == 4
    assert {path.suffix for path in tmp_path.iterdir()} == {".json", ".svg", ".pdf", ".png"}
    for p in points:
        assert p["holds"]
        assert p["lower"] < p["actual"] < p["upper"]
        assert p["predicted"] == pytest.approx(p["actual"], rel=0.13)
        assert p["upper"] - p["lower"] < 0.1 * p["actual"]
    # Θ = ∫h dt must reach asinh(1/ω²)/2: smaller ω waits longer, by the logarithm only.
    small, large = points[0]["actual"], points[2]["actual"]
    assert 1 < small / large < math.asinh(100) / math.asinh(1 / 0.64)


def test_three_classes_too():
    p = separation(3, 0.3, 0.5, saves=300)
    assert p["holds"]
    assert p["predicted"] == pytest.approx(p["actual"], rel=0.15)


def test_it_needs_sectors():
    field = gram_field(mf.Mixture(classes=2), mf.Transformer())
    with pytest.raises(mf.SpecError, match="use width"):
        critical(field, [0.0], field.y0[None])


def test_first_time():
    time = np.array([0.0, 1.0, 2.0])
    assert first_time(time, np.array([0.01, 0.1, 1.0]), 0.1) == pytest.approx(1.0)
    assert first_time(time, np.array([0.01, 0.1, 1.0]), math.sqrt(0.1)) == pytest.approx(1.5)
    assert first_time(time, np.array([0.1, 0.2, 0.3]), 1.0) is None
    assert first_time(time, np.array([2.0, 3.0, 4.0]), 1.0) == 0.0


@pytest.mark.parametrize("K", [2, 3, 5, 9])
def test_growth_on_the_plateau_in_closed_form(K):
    field = symmetric_field(mf.Mixture(classes=K), mf.Transformer(omega=0.3, bias=0.5))
    w_c = 0.1
    w_v = ((K + 1) * 0.5 + w_c) / (K - 1)  # silences the unanimous samples of the other label and nobody else
    G = np.full((2, 2, 2), 0.09) * np.eye(2)
    y = pack(np.array([w_c, w_v]), np.zeros((2, 2, 2)), G, G)
    assert (field.z(y) < 0).sum() == 1
    h = critical(field, [0.0], y[None]).H[0]
    assert h[CV] == pytest.approx(w_c * plateau_growth(K), rel=1e-12)
