"""Where a run begins and what it leaves: another run's end, a construction, given weights; weights of any save."""

from dataclasses import replace

import numpy as np
import pytest

import mixflow as mf
from mixflow.jaxed import jax

TASK, NETWORK = mf.Mixture(2), mf.Transformer(width=6, omega=0.5, seed=2)
METHOD = mf.GradientDescent(0.1, 60, save_every=20)


@pytest.mark.parametrize("network", [NETWORK, mf.Transformer(), replace(NETWORK, heads=3, offset=True)])
def test_a_run_begins_where_another_ended(network):
    first = mf.train(TASK, network, METHOD)
    second = mf.train(TASK, network, METHOD, start=first).dataset
    both = mf.train(TASK, network, replace(METHOD, steps=120)).dataset
    np.testing.assert_array_equal(second.w[-1], both.w[-1])
    flow = mf.train(TASK, network, mf.GradientFlow(until=1.0, save_at=2), start=first).dataset
    np.testing.assert_array_equal(flow.w[0], first.dataset.w[-1])


@pytest.mark.parametrize(
    "options", [{}, {"tie_values": True}, {"values": 2, "value_scale": 0.2}, {"attention": "direct"}]
)
def test_weights_of_a_save_give_its_inner_products_and_are_a_start(options):
    network = replace(NETWORK, dimension=5, **options)
    run = mf.train(TASK, network, METHOD)
    assert run.dataset.attrs["model"] == "gram"
    for time in (0.0, 4.0, None):
        weights = run.weights(time)
        at = run.dataset.sel(time=6.0 if time is None else time, method="nearest")
        A = weights["W_KQ"] if "W_KQ" in weights else np.einsum("hmi,hmj->hij", weights["W_K"], weights["W_Q"])
        np.testing.assert_allclose(A[:, :4, :4], at.A, rtol=0, atol=1e-12)  # the features are the first basis vectors
        np.testing.assert_allclose(weights["w"][..., :4], at.w, rtol=0, atol=1e-12)
    for model in ("gram", "full"):
        again = mf.train(TASK, network, METHOD, model=model, start=run.weights(4.0)).dataset
        np.testing.assert_allclose(again.A[1], run.dataset.A[-1], rtol=0, atol=1e-12)


def test_weights_of_a_staged_run():
    method = mf.ThreeStage(mf.GradientDescent(0.1, save_every=10), 3.0, 2.0, 2.0)
    run = mf.train(TASK, NETWORK, method)
    for time in (2.0, 4.0, 7.0):
        weights = run.weights(time)
        A = np.einsum("hmi,hmj->hij", weights["W_K"], weights["W_Q"])
        np.testing.assert_allclose(A, run.dataset.A.sel(time=time, method="nearest"), rtol=0, atol=1e-12)


def largest(one, other):
    return max(np.abs(one[name] - other[name]).max() for name in one)


ADAM = mf.Optimizer(kind="adam", learning_rate=0.01, steps=60, save_every=20)


@pytest.mark.parametrize(
    ("method", "model"), [(METHOD, "auto"), (METHOD, "full"), (replace(METHOD, momentum=0.5), "gram"), (ADAM, "full")]
)
def test_weights_of_a_run_that_began_where_another_ended(method, model, tmp_path):
    first = mf.train(TASK, NETWORK, method, model=model)
    second = mf.train(TASK, NETWORK, method, model=model, start=first)
    both = mf.train(TASK, NETWORK, replace(method, steps=120), model=model)
    end = float(first.dataset.time[-1])
    assert largest(second.weights(0.0), first.weights()) == 0
    for time in second.dataset.time.values:
        assert largest(second.weights(time), both.weights(end + time)) < 1e-14
    longer = mf.load(second.save(tmp_path / "run.nc")).extend(20)
    assert largest(longer.weights(end / 3), both.weights(4 * end / 3)) < 1e-14
    told = longer.spec["start"]
    assert (told["kind"], told["steps"], told["transformer"]) == ("run", 60, NETWORK.spec())


def test_weights_of_a_run_that_began_at_weights(tmp_path):
    """Also of the run after it, which was told of them by its predecessor's spec."""
    given = {name: x + 0.1 for name, x in mf.train(TASK, NETWORK, METHOD).weights().items()}
    first = mf.load(mf.train(TASK, NETWORK, METHOD, start=given).save(tmp_path / "run.nc"))
    assert largest(first.weights(0.0), given) == 0
    second = mf.train(TASK, NETWORK, replace(METHOD, learning_rate=0.05), start=first.extend(20))
    weights = second.weights()
    np.testing.assert_allclose(weights["w"], second.dataset.w[-1], rtol=0, atol=1e-13)
    assert largest(mf.export.tensors(second), weights | {"bias": np.full(2, 0.5), "embedding": np.eye(4)}) == 0


def test_momentum_goes_on_in_the_weights_at_another_rate():
    first = mf.train(TASK, NETWORK, replace(METHOD, momentum=0.5))
    second = mf.train(TASK, NETWORK, replace(METHOD, momentum=0.3, learning_rate=0.2), start=first)
    np.testing.assert_allclose(second.weights()["w"], second.dataset.w[-1], rtol=0, atol=1e-12)


def test_another_rule_begins_at_the_weights_at_rest():
    first = mf.train(TASK, NETWORK, ADAM)
    heavy = mf.Optimizer(kind="momentum", steps=20, save_every=20)
    second, given = (mf.train(TASK, NETWORK, heavy, model="full", start=x) for x in (first, first.weights()))
    np.testing.assert_array_equal(second.dataset.A, given.dataset.A)


def test_a_vanilla_transformer_goes_on_by_another_rule():
    network = mf.Vanilla(width=4)
    first = mf.train(TASK, network, ADAM)
    second = mf.train(TASK, network, METHOD, start=first)
    np.testing.assert_allclose(second.dataset.loss[0], first.dataset.loss[-1], rtol=1e-14)
    with pytest.raises(mf.SpecError, match="many arrays in this network: give the run"):
        mf.train(TASK, network, METHOD, start=first.weights())
    third = mf.train(TASK, network, METHOD, start=second)
    jax().tree.map(np.testing.assert_array_equal, third.weights(0.0), second.weights())


def test_a_bias_that_is_not_trained_is_the_networks_own():
    other = replace(NETWORK, bias=0.3)
    gram, full = (
        mf.train(TASK, other, METHOD, model=model, start=mf.train(TASK, NETWORK, METHOD, model=model)).dataset
        for model in ("gram", "full")
    )
    np.testing.assert_allclose(full.margin, gram.margin, rtol=0, atol=1e-12)


def test_weights_of_a_run_that_began_at_a_construction():
    for task in (TASK, mf.Mixture(gram=np.eye(4) + 0.1 * (np.ones((4, 4)) - np.eye(4)))):
        run = mf.train(task, replace(NETWORK, dimension=5), METHOD, start=mf.construct(classes=2))
        weights = mf.export.tensors(run)
        K, Q = (weights[name] @ weights["embedding"].T for name in ("W_K", "W_Q"))
        np.testing.assert_allclose(np.einsum("hmi,hmj->hij", K, Q), run.dataset.A[-1], rtol=0, atol=1e-12)


@pytest.mark.parametrize("width", [8, np.inf])
def test_a_construction_is_a_start(width):
    net = mf.construct(classes=2, width=8)
    data = mf.train(TASK, mf.Transformer(width=width), METHOD, start=net).dataset
    np.testing.assert_allclose(data.margin[0], net.margin, rtol=1e-12)
    assert data.loss[-1] < data.loss[0]


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: mf.train(TASK, NETWORK, METHOD, start=3), "start = 3: expected a Run"),
        (lambda: mf.train(TASK, NETWORK, METHOD, start={"W": np.zeros(3)}), "start has W of shape"),
        (lambda: mf.train(TASK, method=METHOD, start={"w": np.zeros((2, 4))}), "has none here"),
        (
            lambda: mf.train(mf.Mixture(3), NETWORK, METHOD, start=mf.train(TASK, NETWORK, METHOD)),
            "another network or task",
        ),
        (
            lambda: mf.train(TASK, replace(NETWORK, width=16), METHOD, start=mf.train(TASK, NETWORK, METHOD)),
            "a run with width = 6, but the network has width = 16",
        ),
        *(
            (
                lambda o=o: mf.train(TASK, replace(NETWORK, **o), METHOD, start=mf.train(TASK, NETWORK, METHOD)),
                f"{next(iter(o))} = ",
            )
            for o in (
                {"heads": 1, "offset": True},
                {"attention": "tied"},
                {"train_bias": True},
                {"shared_attention": True},
            )
        ),
        (
            lambda: mf.train(TASK, mf.Vanilla(width=6), METHOD, start=mf.train(TASK, NETWORK, METHOD)),
            "start is a run with kind = transformer",
        ),
        (
            lambda: mf.train(
                TASK, NETWORK, METHOD, start=mf.train(TASK, NETWORK, mf.GradientFlow(until=1.0))
            ).weights(),
            "began where another had ended: only descent",
        ),
        (
            lambda: mf.train(
                TASK, replace(NETWORK, scaled_scores=True), METHOD, start=mf.train(TASK, NETWORK, METHOD)
            ).weights(),
            "inner products that the weights of its start do not have",
        ),
        (lambda: mf.train(TASK, method=METHOD).weights(), "infinitely many weights"),
        (lambda: mf.train(TASK, NETWORK, METHOD).weights(0.123), "was not saved"),
        (lambda: mf.train(TASK, NETWORK, mf.GradientFlow(until=1.0)).weights(), "only descent has weights"),
    ],
)
def test_bad_input(call, says):
    with pytest.raises(mf.SpecError, match=says):
        call()


def test_a_start_that_is_not_finite_is_refused():
    w = np.full((2, 4), np.nan)
    for model in ("gram", "full"):
        with pytest.raises(mf.SpecError, match="start has w with 8 entries that are not finite"):
            mf.train(mf.Mixture(2), mf.Transformer(width=4), METHOD, model=model, start={"w": w})
