"""Squared loss and softmax over many classes: every engine against the twin, the flow, and the two-headed model inside them."""

import math
from dataclasses import replace

import numpy as np
import pytest
from twin import full_descent, loss_and_gradient, twin_descent

import mixflow as mf
from mixflow.engines import forward
from mixflow.engines.loss import cost, right, slope
from mixflow.jaxed import jax
from mixflow.measure.observables import losses, observe
from mixflow.measure.separability import feature_margin

STATE = ("w", "A", "G_K", "G_Q")
RATE = mf.GradientDescent(0.1, 300, save_every=50)


def labelled(loss):
    """The K = 2 tokens with labels for the loss: real numbers, or three classes."""
    task = mf.Mixture(2).population()
    labels = {"squared": [1.5, -0.5, 0.25, -2, 1.5, 0, 1, -1], "softmax": [0, 1, 2, 2, 1, 0, 0, 2]}[loss]
    rho = 0.2
    gram = (1 - rho) * np.eye(4) + rho
    return replace_task(task, loss=loss, labels=labels, gram=gram, probabilities=np.arange(1, 9) / 36)


def replace_task(task, **changes):
    return mf.FiniteTask.from_spec({**task.spec(), **changes})


BOTH = pytest.mark.parametrize("loss", ["squared", "softmax"])


@BOTH
def test_gram_full_and_the_twin_agree_on_every_step(loss):
    task, transformer = labelled(loss), mf.Transformer(width=8, omega=0.6, seed=3, dimension=6)
    gram, full = (mf.train(task, transformer, RATE, model=model).dataset for model in ("gram", "full"))
    expected = twin_descent(task, transformer, 0.1, 300, 50)
    weights = full_descent(task, transformer, 0.1, 300)
    for name in STATE:
        np.testing.assert_allclose(gram[name], full[name], rtol=0, atol=1e-9)
        np.testing.assert_allclose(gram[name], expected[name], rtol=0, atol=1e-10)
        np.testing.assert_allclose(full[name].values[-1], weights[name], rtol=0, atol=1e-10)
    np.testing.assert_allclose(gram.loss, expected["loss"], rtol=1e-11)
    assert gram.loss[-1] < 0.95 * gram.loss[0]
    assert gram.w.shape[1] == len(task.heads)


@BOTH
def test_the_twin_itself_is_the_gradient_of_the_loss(loss):
    """By differences, so that engine and twin cannot be wrong together."""
    task = labelled(loss)
    rng = np.random.default_rng(0)
    H = len(task.heads)
    w, A = 0.3 * rng.standard_normal((H, 4)), 0.3 * rng.standard_normal((H, 4, 4))
    _, g_w, g = loss_and_gradient(task, w, A, 0.5)
    dw, dA, h = rng.standard_normal(w.shape), rng.standard_normal(A.shape), 1e-6
    value = lambda s: loss_and_gradient(task, w + s * dw, A + s * dA, 0.5)[0]  # noqa: E731
    assert (value(h) - value(-h)) / (2 * h) == pytest.approx((g_w * dw).sum() + (g * dA).sum(), rel=1e-7)


@pytest.mark.parametrize("model", ["gram", "full"])
def test_softmax_over_two_classes_is_the_logistic_model(model):
    task = mf.Mixture(2).population()
    classes = replace_task(task, loss="softmax", labels=np.where(task.labels > 0, 0, 1))
    transformer = mf.Transformer(width=8, omega=0.6, seed=1)
    one, two = (mf.train(each, transformer, RATE, model=model).dataset for each in (task, classes))
    for name in (*STATE, "z", "margin", "loss", "accuracy", "loss_hard"):
        np.testing.assert_allclose(two[name].values, one[name].values, rtol=0, atol=1e-13)
    assert list(two["head"].values) == ["0", "1"]


@pytest.mark.parametrize("kind", ["logistic", "exponential", "linear", "squared", "softmax"])
def test_slope_is_the_derivative_of_the_cost(kind):
    rng = np.random.default_rng(1)
    H, labels = {"softmax": (3, np.array([0.0, 2, 1, 1]))}.get(kind, (2, np.array([1.0, -1, 1, -1])))
    answer = rng.uniform(-3, 3, (H, 4) if kind == "softmax" else 4)
    J = jax()
    exact = J.jacobian(lambda answer: cost(kind, labels, answer, J.numpy).sum())(answer)
    np.testing.assert_allclose(slope(kind, labels, answer), exact, rtol=1e-13, atol=1e-14)
    each = cost(kind, labels, answer)
    # a positive margin is exactly a right answer, found here by trying every answer
    best = answer.argmax(axis=0) if kind == "softmax" else np.sign(answer)
    assert ((right(kind, labels, answer) > 0) == (best == labels)).all()
    assert each.shape == (4,)


def test_costs_and_margins_by_hand():
    logits, labels = np.log([[0.5, 0.2], [0.3, 0.2], [0.2, 0.6]]), np.array([0, 1])
    np.testing.assert_allclose(cost("softmax", labels, logits), -np.log([0.5, 0.2]))
    np.testing.assert_allclose(cost("softmax", labels, logits + 1000), -np.log([0.5, 0.2]))  # a shift says nothing
    np.testing.assert_allclose(right("softmax", labels, logits), np.log([0.5 / 0.3, 0.2 / 0.6]))
    y, F = np.array([1.0, -1.0]), np.array([3.0, 3.0])
    np.testing.assert_allclose(cost("squared", y, F), [2, 8])
    np.testing.assert_allclose(cost("linear", y, F), [-3, 3])
    np.testing.assert_allclose(cost("exponential", y, F), np.exp([-3, 3]))
    np.testing.assert_allclose(cost("logistic", y, F), np.log1p(np.exp([-3, 3])))
    np.testing.assert_allclose(right("logistic", y, F), [3, -3])


@pytest.mark.parametrize(
    ("logit", "loss", "wrong"),
    [(60.0, 2 * math.exp(-60), 2 * math.exp(-60)), (-800.0, 800 + math.log(2), 1.0), (0.0, math.log(3), 2 / 3)],
)
def test_a_small_or_large_loss_of_softmax_has_its_digits(logit, loss, wrong):
    answer = np.array([[logit], [0.0], [0.0]])
    np.testing.assert_allclose(cost("softmax", np.array([0]), answer), [loss], rtol=1e-14)
    assert np.asarray(slope("softmax", np.array([0]), answer))[0] == pytest.approx(-wrong, rel=1e-14)


def test_margin_of_a_regression_says_whether_the_nearest_label_is_right():
    task = replace_task(mf.Mixture(1).population(), loss="squared", labels=[1.0, 2.0])
    np.testing.assert_allclose(right("squared", task.labels, np.array([1.4, 1.4])), [0.1, -0.1], atol=1e-15)
    sign = right("squared", np.array([1.0, -1.0]), np.array([0.3, 0.3]))
    np.testing.assert_allclose(sign, [0.3, -0.3])


@BOTH
def test_flow_is_the_limit_of_descent(loss):
    """An eighth of η, an eighth of the distance, with neurons switching off on the way (each within a step, so not exactly)."""
    task, transformer = labelled(loss), mf.Transformer(width=8, omega=0.6, seed=3)
    run = mf.train(task, transformer, mf.GradientFlow(until=40.0, rtol=1e-9, save_at=(0.0, 20.0, 40.0)))
    assert run.certificate["relative_difference"] < 1e-8
    assert run.certificate["relative_drift_tr_C2"] < 1e-9
    assert run.events
    distance = []
    for rate in (0.04, 0.005):
        data = mf.train(task, transformer, mf.GradientDescent(rate, round(40 / rate), save_every=round(20 / rate)))
        distance.append(max(np.abs(data.dataset[x].values - run.dataset[x].values).max() for x in STATE))
    assert math.log(distance[0] / distance[1], 8) == pytest.approx(1, abs=0.15)
    assert distance[1] < 1e-3


def test_flow_of_two_softmax_classes_is_the_logistic_flow():
    task = mf.Mixture(2).population()
    classes = replace_task(task, loss="softmax", labels=np.where(task.labels > 0, 0, 1))
    method = mf.GradientFlow(until=60.0, save_at=5)
    one, two = (mf.train(each, mf.Transformer(omega=0.3), method) for each in (task, classes))
    np.testing.assert_allclose(two.dataset.A, one.dataset.A, atol=1e-9)
    assert [e.time for e in two.events] == pytest.approx([e.time for e in one.events], abs=1e-7)


@BOTH
def test_stored_and_loaded_and_observed(loss, tmp_path):
    run = mf.train(labelled(loss), mf.Transformer(width=8), mf.GradientDescent(0.1, 40, save_every=20))
    again = mf.load(run.save(tmp_path / "run.nc"))
    task = again.task
    assert task.loss == loss
    assert task.labels.tolist() == labelled(loss).labels.tolist()
    np.testing.assert_allclose(observe(again.dataset, task).loss, run.dataset.loss, rtol=1e-14)
    each = forward.loss_of_each(task, run.dataset.z.values)
    np.testing.assert_allclose(each @ task.probabilities, run.dataset.loss, rtol=1e-14)
    assert len(run.stages) == 3
    from mixflow.plot.run import plot_run
    from mixflow.summary import table

    assert "loss" in table(run)
    plot_run(run)


@BOTH
def test_members_of_a_batch_equal_their_single_runs_bit_for_bit(loss):
    models = [mf.Transformer(width=8, seed=seed) for seed in range(3)]
    many = mf.train_many(labelled(loss), models, RATE).dataset
    for i, transformer in enumerate(models):
        one = mf.train(labelled(loss), transformer, RATE).dataset
        assert all(np.array_equal(many[name].values[i], one[name].values) for name in STATE)


def test_a_sweep_and_three_stages_know_the_loss():
    task, transformer = labelled("squared"), mf.Transformer(width=8)
    stages = mf.ThreeStage(mf.GradientDescent(0.1), neurons=10.0, attention=10.0, converge=mf.Until("loss", 0.9))
    run = mf.train(task, transformer, stages)
    assert run.switches[2]["value"] == pytest.approx(float(run.dataset.loss[-1]), rel=1e-12)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"loss": "hinge"}, "did you mean|expected one of"),
        ({"labels": [1, 0]}, "labels must be \\+1 or -1"),
        ({"loss": "squared", "labels": [1, math.nan]}, "finite number"),
        ({"loss": "squared", "labels": [1, 2, 3]}, "one for each of the 2 atoms"),
        ({"loss": "softmax", "labels": [0, 2]}, "without a gap"),
        ({"loss": "softmax", "labels": [0, 0]}, "at least two"),
        ({"loss": "softmax", "labels": [0, 0.5]}, "numbered 0, 1"),
        ({"labels": ["a", "b"]}, "expected a finite number"),
    ],
)
def test_bad_labels_are_one_sentence(changes, says):
    with pytest.raises(mf.SpecError, match=says):
        replace_task(mf.Mixture(1).population(), **changes)


def test_what_has_no_meaning_says_so():
    with pytest.raises(mf.SpecError, match="one head for each class"):
        mf.train(labelled("softmax"), mf.Transformer(tie_values=True), RATE)
    with pytest.raises(mf.SpecError, match=r"labels \+1 and -1"):
        feature_margin(labelled("squared"), np.zeros((2, 4, 4)))
    with pytest.raises(mf.SpecError, match="pass each"):
        losses(labelled("squared"), np.zeros(8))
    event = mf.ThreeStage(mf.GradientDescent(0.1), attention=mf.Until("feature_margin", 0.1))
    with pytest.raises(mf.SpecError, match="feature_margin is about labels"):
        mf.train(labelled("squared"), mf.Transformer(width=8), event)


def test_equal_specs_mean_equal_tasks():
    task = labelled("softmax")
    assert mf.FiniteTask.from_spec(task.spec()).spec() == task.spec()
    old = {key: value for key, value in mf.Mixture(2).population().spec().items() if key != "loss"}
    assert mf.FiniteTask.from_spec(old).loss == "logistic"  # files written before losses had names
    assert replace(mf.Mixture(2)).population().heads == ("+", "-")
