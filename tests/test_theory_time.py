"""Learning time: the law's fit, points against known times, both models, phases; the mechanism of the closed form."""

import numpy as np
import pytest

import mixflow as mf
from mixflow.networks.construct import construct
from mixflow.paper.experiments.learning_time import agreement, law, local_exponents, phase, point
from mixflow.paper.figures.theory import plot_critical, plot_learning_time
from mixflow.paper.theory.mechanism import compare, distance, entries, routes, signs, who_attends


def test_the_law_of_an_exact_power():
    points = [{"classes": K, "time": 3.0 * K**3.5} for K in (2, 4, 8, 16, 32)] + [{"classes": 64, "time": None}]
    fit = law(points)
    assert fit["exponent"] == pytest.approx(3.5, rel=1e-12)
    assert fit["prefactor"] == pytest.approx(3.0, rel=1e-10)
    assert np.abs(fit["residual"]).max() < 1e-12
    assert law(points, least=8)["classes"] == [8, 16, 32]
    assert [round(p, 9) for _, p in local_exponents(points)] == [3.5] * 4


def test_a_point_is_certified_and_both_models_agree():
    found = point(2)
    assert found["time"] == pytest.approx(246.23835, abs=1e-4)
    assert found["certificate"]["relative_difference"] < 1e-9
    assert found["certificate"]["same_events"]
    assert abs(agreement(2, found["time"])) < 1e-9


def test_phases_and_figures():
    three, none = phase(0.3, 0.5, until=600.0), phase(0.3, 0.0, until=100.0)
    assert three["story"] == "three stages"
    assert none["story"] in ("not learned", "two stages")
    points = [{"classes": K, "time": 3.0 * K**3.5} for K in (2, 4, 8)]
    figure = plot_learning_time({"points": points, "laws": [law(points)], "phases": [three, none]})
    assert len(figure.axes) == 3
    separation = {"actual": 2.0, "predicted": 2.1, "lower": 1.9, "upper": 2.2}
    assert len(plot_critical([separation, {**separation, "predicted": None}]).axes) == 2


def test_the_closed_form_has_its_own_mechanism():
    net = construct(classes=3, target_margin=2.0)
    assert all(sign * value > 0 for sign, value in signs(net.w, net.A).values())
    far = distance(net.w, net.A)
    assert far["w"] < 1e-14
    assert far["A"] < 1e-14
    assert (far["beta"], far["B"], far["C"]) == pytest.approx((net.beta, net.B, net.C))
    found = routes(net.task, net.w, net.A, net.bias)
    assert found["nothing"]["smallest_margin"] == pytest.approx(2.0)
    assert found["identifier as key"]["smallest_margin"] == pytest.approx(2.0)
    assert abs(found["identifier as query"]["smallest_margin"]) < 1e-12
    assert abs(found["value of the identifiers"]["smallest_margin"]) < 1e-12
    shares = who_attends(net.task, net.A)["+", -1]["c"]
    assert list(shares.values()) == pytest.approx(net.attention[-1][0].tolist())
    found = entries(net.w, net.A)
    assert found["A[v_k,c_k]"] == pytest.approx(-net.B)
    assert found["A[v_j,c_k]"] == pytest.approx(net.A[0, 4, 0])  # K = 3: the signal of class 2, asked by class 1


def test_trained_and_tied_networks_beside_it():
    method = mf.GradientDescent(0.1, 20_000, 20_000)
    free = compare(mf.train(mf.Mixture(classes=2), mf.Transformer(omega=0.3), method))
    assert free["same_signs"]
    # Both routes carry: leaving either out costs margin, neither costs a sample.
    full, query, key = (
        free["routes"][name]["smallest_margin"] for name in ("nothing", "identifier as query", "identifier as key")
    )
    assert full > query > key > 0
    tied = compare(mf.train(mf.Mixture(classes=2), mf.Transformer(omega=0.3, tie_values=True), method))
    assert not tied["same_signs"]
    assert tied["attention"]["+", 1]["c"]["own"] > 0.99  # the identifier looks at its own signal when that is +
    assert tied["attention"]["-", 1]["c"]["own"] < 0.01
