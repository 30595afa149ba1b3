"""Update rules that close on inner products, normalised, with momentum and weight decay: against every weight, and by hand."""

import math
from dataclasses import replace

import numpy as np
import pytest
from test_options import BASE, COHERENT, METHOD, OPTIONS, network_of

import mixflow as mf
from mixflow.measure.invariants import conserved

TIED, TOGETHER = {"tie_values": True}, OPTIONS["together"]
# What enters the length of a gradient: a shared vector once, scales of scores, every trained number.
RULES = [
    (TIED, {"normalised": True}),
    ({"scaled_scores": True, "attention": "direct"}, {"weight_decay": 0.05, "normalised": True}),
    ({"scaled_scores": True}, {"weight_decay": 0.05, "momentum": 0.9}),
    (TOGETHER, {"normalised": True, "momentum": 0.8, "weight_decay": 0.05}),
]


@pytest.mark.parametrize(("options", "rule"), RULES)
def test_update_rules_that_close_equal_every_weight(options, rule):
    """Also with frozen neurons, where the length is that of the attention alone and velocities wait."""
    network = network_of(options, mf.Transformer(width=5, omega=0.5, seed=3, dimension=6))
    staged = mf.ThreeStage(mf.GradientDescent(0.02, 60, save_every=30, **rule), 0.4, 0.4, 0.4)
    gram, full = (mf.train(COHERENT, network, staged, model=model).dataset for model in ("gram", "full"))
    for name in ("w", "A", "z", "margin", "loss"):
        np.testing.assert_allclose(gram[name], full[name], rtol=0, atol=1e-11)


@pytest.mark.parametrize("options", [TIED, TOGETHER])
def test_normalised_steps_have_their_length(options):
    network = network_of(options, mf.Transformer(width=5, omega=0.5, seed=3))
    method = mf.GradientDescent(0.02, 2, save_every=1, normalised=True)
    run = mf.train(COHERENT, network, method, model="full")
    before, after = run.weights(0.02), run.weights()
    squares = {name: np.sum((after[name] - before[name]) ** 2) for name in before}
    squares["w"] /= 2 if network.tie_values else 1  # shown for both heads
    np.testing.assert_allclose(np.sqrt(sum(squares.values())), 0.02, rtol=1e-12)


def test_weight_decay_and_momentum_have_their_limits():
    """Where the loss is flat S shrinks by (1 − ηλ)² a step; momentum β at the rate η (1 − β) follows the same flow."""
    frozen = {"save_every": 400, "neurons_rate": 0.0}  # w = 0, so no score matters
    decay = mf.train(mf.Mixture(2), method=mf.GradientDescent(0.1, 400, weight_decay=0.03, **frozen)).dataset
    np.testing.assert_allclose(decay.G_K[-1], decay.G_K[0] * 0.997**800, rtol=1e-12)
    plain, heavy = (
        mf.train(mf.Mixture(2), method=mf.GradientDescent(rate, 400, 400, momentum=beta), model="gram").dataset.w[-1]
        for rate, beta in ((0.01, 0.0), (0.005, 0.5))
    )
    np.testing.assert_allclose(heavy, plain, atol=0.02 * float(plain.max()))


def test_a_run_with_momentum_goes_on_bit_for_bit(tmp_path):
    network = replace(BASE, offset=True, train_bias=True)
    method = mf.GradientDescent(0.05, 60, save_every=20, momentum=0.9, weight_decay=0.01)
    run = mf.train(mf.Mixture(2), network, method)
    longer = mf.train(mf.Mixture(2), network, replace(method, steps=100)).dataset
    extended = mf.extend(mf.load(run.save(tmp_path / "run.nc")), 40).dataset
    for name in ("w", "A", "loss", "bias", "offset", "final_attention_memory"):
        np.testing.assert_array_equal(extended[name], longer[name])
    rest = mf.train(mf.Mixture(2), network, method, start=mf.train(mf.Mixture(2), network, METHOD)).dataset
    assert np.isfinite(rest.loss).all()


def test_the_flow_conserves_what_the_options_leave():
    """u² − wᵀΓ⁻¹w − b² of every neuron whose three parts are trained, through its kinks, and tr Cⁿ of its attention, n ≤ 3."""
    network = network_of({"values": 2, "train_bias": True}, mf.Transformer(width=5, omega=0.5, seed=3))
    data = mf.train(COHERENT, network, mf.GradientFlow(until=30.0, save_at=7)).dataset
    inverse = np.linalg.inv(COHERENT.population().gram)
    w, u, b = (data[name].values for name in ("w", "read_out", "bias"))
    balance = u**2 - np.einsum("...i,ij,...j->...", w, inverse, w) - b**2
    assert np.ptp(u, axis=0).min() > 1e-3
    np.testing.assert_allclose(balance - balance[0], 0, atol=1e-7)
    gram = COHERENT.population().gram
    powers = conserved(data.A.values, data.G_K.values, data.G_Q.values, gram, order=3)
    assert np.abs(data.A[-1] - data.A[0]).max() > 0.1
    np.testing.assert_allclose(powers - powers[0], 0, atol=1e-7)


@pytest.mark.parametrize(("attention", "loss"), [("tied", 7.168e-10), ("product", 3.549e-5)])
def test_rounding_that_has_grown_is_said(attention, loss):
    """One neuron has weights in one direction; what rounding puts into the others grows with normalised steps."""
    network = mf.Transformer(1, omega=0.3, attention=attention)
    method = mf.GradientDescent(0.1, 1500, save_every=500, normalised=True)
    with pytest.warns(UserWarning, match=r"eigenvalue of -.*train with model='full'"):
        mf.train(mf.Mixture(2), network, method)
    for other, model in ((network, "full"), (replace(network, width=40), "gram")):
        run = mf.train(mf.Mixture(2), other, method, model=model)  # a warning would be an error here
        assert other.width > 1 or float(run.dataset.loss[-1]) == pytest.approx(loss, rel=1e-3)


@pytest.mark.parametrize("model", ["gram", "full"])
def test_normalised_steps_have_their_length_where_softmax_rounds_to_one(model):
    """One query, two keys, a fixed head: each step moves A[a,q] by η/√2 and A[b,q] by as much the other way, however small the
    gradient; coefficients are not ±1, so that a product of two of them rounds."""
    atoms, ask = [[("a", 0.7), ("b", 0.7)], [("a", 0.7)]], [("q", 1 / 0.7)] * 2
    task = mf.FiniteTask(features=("a", "b", "q"), atoms=atoms, labels=[1, -1], query=ask)
    fixed = {"heads": 1, "activation": "linear", "bias": 0.0, "queries": "one", "value_scale": 1.0}
    method = mf.GradientDescent(0.5, 200, save_every=100, normalised=True, neurons_rate=0)
    run = mf.train(task, mf.Transformer(4, attention="direct", seed=2, **fixed), method, model=model)
    A = run.dataset.A.values[:, 0, :, 2]
    np.testing.assert_allclose(np.abs(A[1:] - A[0]) / [[50], [100]], [[0.5**0.5, 0.5**0.5, 0]] * 2, atol=1e-9)


ATOMS = [[("c", 1), ("v", 1)], [("c", 1), ("v", -1)], [("v", 1)], [("v", -1)]]


@pytest.mark.parametrize("model", ["gram", "full"])
def test_two_classes_by_softmax_are_the_logistic_network_to_the_last_digit(model):
    """Margins of 63, a loss of 3e-28: probabilities of the label have rounded to 1 long ago."""
    both = ([0, 1, 0, 1], "softmax"), ([1, -1, 1, -1], "logistic")
    tasks = [mf.FiniteTask(features=("c", "v"), atoms=ATOMS, labels=labels, loss=loss) for labels, loss in both]
    method = mf.GradientDescent(0.3, 300, save_every=300, normalised=True)
    one, other = (mf.train(task, mf.Transformer(4, seed=1), method, model=model).dataset for task in tasks)
    assert other.margin[-1].min() > 60
    np.testing.assert_allclose(one.margin[-1], other.margin[-1], rtol=1e-9)
    np.testing.assert_allclose(one.loss, other.loss, rtol=1e-9)


@pytest.mark.parametrize(("model", "width"), [("gram", 4), ("full", 4), ("symmetric", math.inf)])
def test_normalised_steps_go_on_where_the_square_of_the_gradient_is_zero(model, width):
    """Losses of e⁻⁴⁰⁰: a gradient of 10⁻¹⁷⁴ still has a direction."""
    listed = mf.FiniteTask(features=("c", "v"), atoms=ATOMS, labels=[1, -1, 1, -1])
    method = mf.GradientDescent(1.0, 600, save_every=200, normalised=True)
    task = mf.Mixture(1) if model == "symmetric" else listed
    margin = mf.train(task, mf.Transformer(width, seed=1), method, model=model).dataset.margin.values
    assert margin[-1].min() > 400
    np.testing.assert_allclose(margin[3] - margin[2], margin[2] - margin[1], rtol=0.1)
