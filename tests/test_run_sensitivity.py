"""Learning times and their derivatives: reference numbers, central differences, stages, what is refused."""

import math
from dataclasses import replace

import numpy as np
import pytest

import mixflow as mf

WEIGHTS = {-2: 1 / 12, -1: -8 / 12, 1: 8 / 12, 2: -1 / 12}
TARGET = mf.Until("loss", 0.1)


def learning_time(task, network, level, model="gram"):
    field = mf.field(task, network, model)
    method = mf.GradientFlow(until=1e4, rtol=1e-11, save_at=2)
    return field.flow(method, stop=lambda t, y: level - float(field.loss(y))).time


def difference(function, size):
    return sum(weight * function(k * size) for k, weight in WEIGHTS.items()) / size


@pytest.fixture(scope="module")
def mean_field():
    return mf.train(mf.Mixture(), mf.Transformer(omega=0.3), mf.GradientFlow(until=TARGET))


def test_the_flow_ends_where_the_loss_is_reached(mean_field):
    assert float(mean_field.dataset.time[-1]) == pytest.approx(246.23835368, abs=1e-8)
    assert float(mean_field.dataset.loss[-1]) == pytest.approx(0.1, abs=1e-12)
    assert mean_field.method.until == TARGET
    assert mean_field.certificate["relative_difference"] < 1e-9
    assert len(mean_field.dataset.time) == 501  # 500 times, and the switch-off
    assert {event.time for event in mean_field.events} <= set(mean_field.dataset.time.values)


def test_an_end_that_is_an_event_is_saved_as_asked_and_can_go_on(mean_field):
    short = mf.train(mf.Mixture(), mf.Transformer(omega=0.3), mf.GradientFlow(until=TARGET, save_at=7))
    assert len(short.dataset.time) == 7
    assert short.dataset.time[-1] == mean_field.dataset.time[-1]
    longer = short.extend(10)
    assert longer.dataset.loss[-1] < 0.09
    assert mf.GradientFlow.from_spec(short.method.spec()) == short.method


def test_reference_derivatives(mean_field):
    found = mean_field.sensitivity(TARGET, to=("omega", "bias"))
    assert float(found.time) == pytest.approx(246.23835368, abs=1e-8)
    assert float(found.time_by_omega) == pytest.approx(-202.5469, rel=1e-6)
    assert float(found.time_by_bias) == pytest.approx(134.1073990, rel=1e-6)
    assert not found.one_sided_omega


def test_samples_of_one_symmetry_have_one_influence(mean_field):
    found = mean_field.sensitivity(TARGET, to=("probabilities", "priors"))
    change = found.time_by_probabilities
    np.testing.assert_allclose(change.values[change.hard], change.values[change.hard][0], rtol=1e-7)
    np.testing.assert_allclose(
        change.values @ change.probability.values, 0, atol=1e-6
    )  # all more likely: nothing changes
    np.testing.assert_allclose(found.time_by_priors, 0, atol=1e-6)
    assert change.values[change.hard].max() < 0 < change.values[~change.hard].min()
    # The same as more weight for all hard samples at once, which keeps the symmetry.
    task = mf.Mixture().population()

    def tilted(s):
        p = task.probabilities + s * task.hard
        return learning_time(replace(task, probabilities=p / p.sum()), mf.Transformer(omega=0.3), 0.1)

    assert change.values[change.hard].sum() == pytest.approx(difference(tilted, 1e-4), rel=1e-6)


@pytest.mark.parametrize(
    ("classes", "width", "omega", "bias", "level", "slides"),
    [(2, 64, 0.3, 0.5, 0.03, True), (2, 16, 0.5, 0.7, 0.05, False)],
)
def test_finite_width_against_central_differences(classes, width, omega, bias, level, slides):
    task, network = mf.Mixture(classes=classes), mf.Transformer(width=width, omega=omega, bias=bias, seed=2)
    T = learning_time(task, network, level)
    run = mf.train(task, network, mf.GradientFlow(until=1.01 * T, rtol=1e-11, save_at=2))
    found = run.sensitivity(mf.Until("loss", level), to=("omega", "bias", "probabilities"))
    assert any(e.after == "sliding" and e.time < T for e in run.events) == slides
    population = task.population()
    p = population.probabilities

    def likelier(a):
        one = np.eye(len(p))[a]
        return lambda s: learning_time(replace(population, probabilities=(p + s * one) / (1 + s)), network, level)

    expected = {
        "omega": difference(lambda s: learning_time(task, replace(network, omega=omega + s), level), 3e-4),
        "bias": difference(lambda s: learning_time(task, replace(network, bias=bias + s), level), 3e-4),
    }
    for name, value in expected.items():
        assert float(found[f"time_by_{name}"]) == pytest.approx(value, rel=1e-6), name
    atom = int(np.argmax(np.abs(found.time_by_probabilities.values)))
    assert float(found.time_by_probabilities[atom]) == pytest.approx(difference(likelier(atom), 1e-4), rel=1e-6)


def test_inner_products_of_features_and_the_loss_at_a_time():
    task, network = mf.Mixture(), mf.Transformer(omega=0.3)
    run = mf.train(task, network, mf.GradientFlow(until=60.0, rtol=1e-11, save_at=2))
    found = run.sensitivity(50.0, to=("gram", "omega"))
    population = task.population()

    def loss(s, i, j, omega=0.3):
        gram = np.eye(4)
        gram[i, j] += s
        gram[j, i] = gram[i, j]
        field = mf.field(replace(population, gram=gram), mf.Transformer(omega=omega))
        return float(field.loss(field.flow(mf.GradientFlow(until=50.0, rtol=1e-11, save_at=2)).state))

    for i, j in ((0, 0), (2, 3)):
        expected = difference(lambda s, i=i, j=j: loss(s, i, j), 1e-3)
        assert float(found.loss_by_gram[i, j]) == pytest.approx(expected, rel=1e-6)
        assert found.loss_by_gram[i, j] == found.loss_by_gram[j, i]
    expected = difference(lambda s: loss(0, 0, 0, 0.3 + s), 1e-3)
    assert float(found.loss_by_omega) == pytest.approx(expected, rel=1e-6)


def test_stages_that_end_at_events_shift_what_comes_after():
    def run(omega=0.3, bias=0.5):
        inside = mf.GradientFlow(rtol=1e-10, save_at=2)
        method = mf.ThreeStage(inside, converge=mf.Until("loss", 0.05))
        return mf.train(mf.Mixture(), mf.Transformer(omega=omega, bias=bias), method)

    found = run().sensitivity(mf.Until("loss", 0.05), to=("omega", "bias"))
    assert float(found.time) == pytest.approx(run().switches[-1]["end"], abs=1e-6)
    by_omega = difference(lambda s: run(omega=0.3 + s).switches[-1]["end"], 3e-4)
    by_bias = difference(lambda s: run(bias=0.5 + s).switches[-1]["end"], 3e-4)
    assert float(found.time_by_omega) == pytest.approx(by_omega, rel=1e-5)
    assert float(found.time_by_bias) == pytest.approx(by_bias, rel=1e-5)


def loss_at(task, network, time):
    field = mf.field(task, network)
    return float(field.loss(field.flow(mf.GradientFlow(until=time, rtol=1e-11, save_at=2)).state))


@pytest.mark.parametrize(
    "options", [{"offset": True, "heads": 1, "train_bias": True}, {"value_neurons": 2}], ids=["offset", "value_neurons"]
)
def test_parts_of_a_state_that_are_one_number(options):
    """What is asked for if nothing is said; a trained bias has a start."""
    task, network = mf.Mixture(), mf.Transformer(omega=0.5, **options)
    found = mf.train(task, network, mf.GradientFlow(4.0, rtol=1e-11, save_at=2)).sensitivity(3.0)
    assert [name for name in found if "_by_" in name] == ["loss_by_omega", "loss_by_bias", "loss_by_probabilities"]
    for name in ("omega", "bias"):
        expected = difference(lambda s: loss_at(task, replace(network, **{name: 0.5 + s}), 3.0), 1e-3)  # noqa: B023
        assert float(found[f"loss_by_{name}"]) == pytest.approx(expected, rel=1e-6, abs=1e-10)


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_sample_that_never_comes_has_an_influence():
    """Through the switch of its own neuron, which moves nothing as long as it never comes."""
    p = np.array([1.0] * 7 + [0.0]) / 7
    task, network = replace(mf.Mixture().population(), probabilities=p), mf.Transformer(width=5, omega=0.6)
    run = mf.train(task, network, mf.GradientFlow(20.0, rtol=1e-11, save_at=2))
    assert task.names[7] in {event.atom for event in run.events if event.time < 18}
    found = run.sensitivity(18.0, to="probabilities").loss_by_probabilities
    one, size = np.eye(8)[7], 1e-4
    ahead = {0: -25 / 12, 1: 4.0, 2: -3.0, 3: 4 / 3, 4: -1 / 4}
    tilted = {
        k: loss_at(replace(task, probabilities=(p + k * size * one) / (1 + k * size)), network, 18.0) for k in ahead
    }
    assert float(found[7]) == pytest.approx(sum(ahead[k] * tilted[k] for k in ahead) / size, rel=1e-6)
    assert abs(float(found @ found.probability)) < 1e-9
    half = replace(task, probabilities=np.array([1.0] * 4 + [0.0] * 4) / 4)
    run = mf.train(half, network, mf.GradientFlow(1.0, save_at=2))
    with pytest.raises(mf.SpecError, match="class c2 has probability 0"):
        run.sensitivity(0.5, to="priors")


def test_many_classes_have_what_needs_no_list():
    run = mf.train(mf.Mixture(12), mf.Transformer(omega=0.5), mf.GradientFlow(2.0, save_at=2))
    assert {name for name in run.sensitivity(1.0) if "_by_" in name} == {"loss_by_omega", "loss_by_bias"}
    with pytest.raises(mf.SpecError, match=r"no list of samples.*; expected some of 'omega', 'bias', or leave out to"):
        run.sensitivity(1.0, to="probabilities")


def test_a_read_out_of_one_s_own_has_derivatives():
    """The paper's network as a read-out against itself."""

    def inputs(O, parameters):
        return parameters["start"][:, None] + O.mean(axis=-1)

    def answer(on, parameters):
        return on[0] - on[1]

    plain = mf.Transformer(omega=0.5, width=4, train_bias=True)
    own = mf.Network(answer, replace(plain, train_bias=False), parameters={"start": [0.5, 0.5]}, neurons=inputs)
    found, expected = (
        mf.train(mf.Mixture(), network, mf.GradientFlow(4.0, rtol=1e-11, save_at=2)).sensitivity(3.0)
        for network in (own, plain)
    )
    for name in ("loss_by_omega", "loss_by_probabilities"):
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-9, atol=1e-12)
    assert "loss_by_bias" not in found
    assert "loss_by_bias" in expected
    sides = mf.compare(mf.Mixture(), own, until=1.0, points=2, learning_rates=(0.1,))
    assert {"flow", "three-stage", "mean-field flow"} <= set(sides.trajectory.values)


def test_the_figure_shows_every_sample(mean_field):
    figure = mf.plot.plot_influence(mean_field.sensitivity(TARGET, to="probabilities"))
    assert len(figure.axes[0].patches) == 8
    with pytest.raises(mf.SpecError, match="no dataset with time_by_probabilities"):
        mf.plot.plot_influence(mean_field.sensitivity(TARGET, to="omega"))


def test_what_is_refused(mean_field):
    descent = mf.train(mf.Mixture(), mf.Transformer(), mf.GradientDescent(steps=10))
    elsewhere = mf.train(mf.Mixture(), mf.Transformer(omega=0.3), mf.GradientFlow(until=10.0), start=descent)
    for run, of, to, message in (
        (descent, TARGET, "omega", "trained by descent: expected a flow"),
        (mean_field, "loss", "omega", "of = 'loss'"),
        (mean_field, -1.0, "omega", "of = -1"),
        (mean_field, TARGET, "width", "to = 'width'"),
        (mean_field, mf.Until("loss", 0.01), "omega", "before loss = 0.01"),
        (elsewhere, 5.0, "omega", "began elsewhere"),
    ):
        with pytest.raises(mf.SpecError, match=message):
            run.sensitivity(of, to=to)
    assert math.isfinite(float(mean_field.dataset.loss[0]))
