"""Other update rules on the exact network: the base where they must equal it, hand-written steps, divergence, bad input."""

import numpy as np
import pytest

import mixflow as mf
from mixflow.engines import loss as losses
from mixflow.jaxed import float64, jax
from mixflow.methods import method_from_spec
from mixflow.methods.optimizers import KINDS

TASK, NETWORK = mf.Mixture(2), mf.Transformer(width=16, seed=2)
# Random values, so that the first gradient moves every weight.
MOVING = mf.Transformer(width=16, seed=2, value_scale=0.3)


def final(method, network=NETWORK):
    return mf.train(TASK, network, method).dataset.isel(time=-1)


def start_and_gradients(steps, update):
    """Weights after `steps` of a hand-written rule `update(weights, gradient, memory) -> weights`."""
    task = TASK.population()
    weights, memory = MOVING.start(task), {}

    def loss(weights):
        return jax().numpy.sum(
            task.probabilities * losses.cost("logistic", task.labels, MOVING.answer(weights, task), jax().numpy)
        )

    with float64():
        for _ in range(steps):
            g = jax().grad(loss)(weights)
            weights |= {
                name: update(weights[name], np.asarray(g[name]), memory.setdefault(name, {}))
                for name in weights
                if name not in MOVING.frozen_weights
            }
        seen = MOVING.observe(weights, task)
        return np.asarray(seen["w"])[:, 0], np.asarray(seen["A"])


def test_sgd_is_gradient_descent():
    base = mf.train(TASK, NETWORK, mf.GradientDescent(0.1, 300, save_every=50), model="full").dataset
    sgd = mf.train(TASK, NETWORK, mf.Optimizer(kind="sgd", learning_rate=0.1, steps=300, save_every=50)).dataset
    for name in ("w", "A", "G_K", "G_Q", "z", "loss", "time", "step"):
        np.testing.assert_allclose(sgd[name].values, base[name].values, rtol=0, atol=1e-12)


def test_minibatches_are_those_of_gradient_descent():
    common = {"learning_rate": 0.1, "steps": 200, "batch_size": 2, "batch_seed": 7}
    base = mf.train(TASK, NETWORK, mf.GradientDescent(**common), model="full").dataset
    sgd = mf.train(TASK, NETWORK, mf.Optimizer(kind="sgd", **common)).dataset
    np.testing.assert_allclose(sgd.A, base.A, rtol=0, atol=1e-12)


def test_without_a_batch_seed_every_network_draws_its_own_batches():
    """Two networks with equal weights (ω = 0) and different seeds differ only by their draws."""
    silent = [mf.Transformer(width=4, omega=0.0, seed=s) for s in (0, 1)]
    common = {"kind": "sgd", "steps": 50, "batch_size": 1}
    own = mf.train_many(TASK, silent, mf.Optimizer(**common)).dataset
    same = mf.train_many(TASK, silent, mf.Optimizer(**common, batch_seed=0)).dataset
    assert not np.array_equal(own.w.values[0], own.w.values[1])
    np.testing.assert_array_equal(same.w.values[0], same.w.values[1])


def test_momentum_zero_is_sgd():
    common = {"learning_rate": 0.1, "steps": 200}
    still, plain = (
        final(mf.Optimizer(kind="momentum", momentum=0.0, **common)),
        final(mf.Optimizer(kind="sgd", **common)),
    )
    np.testing.assert_allclose(still.A, plain.A, rtol=0, atol=1e-14)


def test_adam_against_a_hand_written_one():
    def adam(x, g, memory, eta=0.01, b1=0.9, b2=0.999, eps=1e-8):
        memory["t"] = t = memory.get("t", 0) + 1
        memory["m"] = m = b1 * memory.get("m", 0.0) + (1 - b1) * g
        memory["v"] = v = b2 * memory.get("v", 0.0) + (1 - b2) * g**2
        return x - eta * (m / (1 - b1**t)) / (np.sqrt(v / (1 - b2**t)) + eps)

    for steps in (1, 5):
        w, A = start_and_gradients(steps, adam)
        end = final(mf.Optimizer(kind="adam", learning_rate=0.01, steps=steps), MOVING)
        np.testing.assert_allclose(end.w, w, rtol=0, atol=1e-12)
        np.testing.assert_allclose(end.A, A, rtol=0, atol=1e-12)


def test_momentum_sign_and_adamw_against_hand_written_ones():
    def heavy_ball(x, g, memory):
        memory["v"] = 0.8 * memory.get("v", 0.0) + g
        return x - 0.05 * memory["v"]

    def adamw(x, g, memory):  # the first step of Adam is a sign, up to ε
        return x - 0.01 * (g / (np.abs(g) + 1e-8) + 0.5 * x)

    rules = [
        (heavy_ball, 4, mf.Optimizer(kind="momentum", momentum=0.8, learning_rate=0.05, steps=4)),
        (lambda x, g, _: x - 0.01 * np.sign(g), 3, mf.Optimizer(kind="sign", learning_rate=0.01, steps=3)),
        (adamw, 1, mf.Optimizer(kind="adamw", weight_decay=0.5, learning_rate=0.01, steps=1)),
    ]
    for rule, steps, method in rules:
        w, A = start_and_gradients(steps, rule)
        end = final(method, MOVING)
        np.testing.assert_allclose(end.w, w, rtol=0, atol=1e-12)
        np.testing.assert_allclose(end.A, A, rtol=0, atol=1e-12)


def test_momentum_on_every_weight_is_that_of_inner_products():
    method = mf.Optimizer(kind="momentum", momentum=0.8, learning_rate=0.05, steps=20)
    ends = [mf.train(mf.Mixture(), mf.Transformer(width=4), method, model=model).dataset for model in ("full", "gram")]
    np.testing.assert_allclose(ends[0].w, ends[1].w, rtol=0, atol=1e-12)
    np.testing.assert_allclose(ends[0].A, ends[1].A, rtol=0, atol=1e-12)


def test_every_rule_differs_from_every_other():
    loss = {kind: float(final(mf.Optimizer(kind=kind, learning_rate=0.02, steps=150, weight_decay=0.1)).loss)
            for kind in KINDS}  # fmt: skip
    values = sorted(loss.values())
    assert np.diff(values).min() > 1e-4, loss


def test_divergence_names_the_step_and_keeps_what_was_computed():
    method = mf.Optimizer(kind="sgd", learning_rate=1e80, steps=100, save_every=1)
    with pytest.raises(mf.DivergedError, match=r"diverged at step \d+.*lower the learning rate") as caught:
        mf.train(TASK, NETWORK, method)
    kept = caught.value.run.dataset
    assert 1 <= caught.value.step <= 100
    assert kept.step.values[-1] == caught.value.step - 1
    assert np.isfinite(kept.A.values).all()
    many = mf.train_many(TASK, [NETWORK, mf.Transformer(width=16, seed=3)], method).dataset
    assert many.diverged_step.values[0] == caught.value.step


def test_a_method_survives_its_spec(tmp_path):
    method = mf.Optimizer(kind="adamw", learning_rate=0.003, steps=20, weight_decay=0.02, batch_size=4)
    assert method_from_spec(method.spec()) == method
    run = mf.train(TASK, NETWORK, method)
    assert mf.load(run.save(tmp_path / "run.nc")).method == method
    assert run.transformer == NETWORK


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: mf.Optimizer(kind="adm"), "kind = 'adm': expected one of.*did you mean 'adam'"),
        (lambda: mf.Optimizer(kind="sgd", learning_rate=0), "learning_rate = 0.0: expected a finite number above 0"),
        (lambda: mf.Optimizer(kind="sgd", steps=0), "steps = 0"),
        (lambda: mf.Optimizer(kind="momentum", momentum=1.0), "momentum = 1.0.*the velocity never fades"),
        (lambda: mf.Optimizer(kind="adamw", weight_decay=-1), "weight_decay = -1"),
        (lambda: mf.Optimizer(kind="sgd", batch_size=0), "batch_size = 0"),
        (lambda: mf.Optimizer(kind="sgd", batch_seed=-1), "batch_seed = -1"),
        (lambda: mf.train(TASK, mf.Transformer(), mf.Optimizer(kind="adam")), "width = inf.*set the width"),
        (lambda: mf.train(TASK, NETWORK, mf.Optimizer(kind="adam"), model="gram"), "Adam looks at every weight"),
        (lambda: mf.train(mf.Mnist(), NETWORK, mf.Optimizer(kind="adam")), "on Mnist"),
    ],
)
def test_bad_input(call, says):
    with pytest.raises(mf.SpecError, match=says):
        call()


def test_scores_of_any_size_are_no_divergence():
    """Scores far beyond 700, which sign descent reaches too: an exponential overflows there, a softmax does not."""
    wild = mf.Transformer(width=16, omega=80.0)
    method = {"learning_rate": 1e-4, "steps": 20}
    full = mf.train(TASK, wild, mf.GradientDescent(**method), model="full").dataset
    sgd = mf.train(TASK, wild, mf.Optimizer(kind="sgd", **method), model="full").dataset
    assert np.ptp(sgd.A.values[-1]) > 2000
    np.testing.assert_allclose(sgd.loss, full.loss, rtol=1e-10)
