"""Changed networks: the base when nothing is changed, another when something is, right by an independent forward pass."""

import math
from dataclasses import replace

import numpy as np
import pytest
from odd import ODD

import mixflow as mf
from mixflow.engines.variant_network import VariantNetwork
from mixflow.measure.stages import NAMES, detect
from mixflow.networks.transformer import embedding
from mixflow.summary import summary, table

BASE = mf.Transformer(width=16, seed=3)
METHOD = mf.GradientDescent(0.1, 300, save_every=50)
# One entry for each thing that can be changed; random values have a test of their own.
CHANGES = {
    "trained bias": {"train_bias": True},
    "ReLU per query": {"relu_per_query": True},
    "value dimension": {"value_dimension": 3},
    "standard initialisation": {"initialisation": "standard"},
    "scaled scores": {"scaled_scores": True},
    "one head": {"heads": 1},
    "one head, trained offset": {"heads": 1, "offset": True},
    "four heads": {"heads": 4},
    "three heads": {"heads": 3},
    "offset": {"offset": True},
    "shared attention": {"shared_attention": True},
}


def numpy_loss(task, variant, weights):
    """The loss from the weights, atom by atom, token by token: no token types, no feature coordinates."""
    Phi = embedding(task, variant.dimension)
    place = {name: i for i, name in enumerate(task.features)}
    total = 0.0
    for atom, y, p in zip(task.atoms, task.labels, task.probabilities):
        X = np.stack([coefficient * Phi[:, place[name]] for name, coefficient in atom], axis=1)  # (d, L)
        F = -float(weights.get("offset", 0.0))
        for h in range(variant.heads):
            a = 0 if variant.shared_attention else h
            S = (weights["W_K"][a] @ X).T @ (weights["W_Q"][a] @ X)
            S = S / math.sqrt(variant.width) if variant.scaled_scores else S
            P = np.exp(S) / np.exp(S).sum(axis=0)
            for r in range(variant.value_dimension):
                z = weights["bias"][h, r] + weights["w"][h, r] @ X @ P  # (L,) one for each query
                on = np.maximum(z, 0).mean() if variant.relu_per_query else max(z.mean(), 0)
                F += (-1) ** h * on * (weights["read_out"][h, r] if variant.value_dimension > 1 else 1)
        total += p * math.log1p(math.exp(-y * F))
    return total


def numpy_gradient(task, variant, weights, trained, size=1e-6):
    gradient = {}
    for name in trained:
        g = np.zeros_like(weights[name])
        for index in np.ndindex(g.shape):
            moved = []
            for sign in (1, -1):
                other = weights[name].copy()
                other[index] += sign * size
                moved.append(numpy_loss(task, variant, {**weights, name: other}))
            g[index] = (moved[0] - moved[1]) / (2 * size)
        gradient[name] = g
    return gradient


SMALL = mf.Transformer(width=3, omega=0.8, seed=5)
LONG = mf.GradientDescent(0.1, 80, save_every=1)


@pytest.fixture(scope="module")
def base():
    """The unchanged network from random values, without which its first step would not move the attention."""
    return mf.train(ODD, mf.Variant(SMALL, value_scale=0.4), LONG).dataset


@pytest.mark.parametrize("changes", CHANGES.values(), ids=CHANGES)
def test_every_change_changes_the_run_and_its_first_step_is_right(changes, base):
    """One step against finite differences of an independent forward pass; the whole run against the unchanged network."""
    random = {} if changes.get("initialisation") == "standard" else {"value_scale": 0.4}
    variant = mf.Variant(SMALL, **random, **changes)
    weights, fixed = VariantNetwork(ODD, variant).start(variant)
    g = numpy_gradient(ODD, variant, {**weights, **fixed}, weights)
    assert np.abs(g["W_K"]).max() > 1e-4
    expected = {name: weights[name] - 0.1 * g[name] for name in weights}
    run = mf.train(ODD, variant, LONG)
    data = run.dataset
    np.testing.assert_allclose(data.loss[0], numpy_loss(ODD, variant, {**weights, **fixed}), rtol=1e-13)
    np.testing.assert_allclose(data.loss[1], numpy_loss(ODD, variant, {**expected, **fixed}), rtol=1e-9)
    Phi = embedding(ODD)
    w = expected["w"] @ Phi
    np.testing.assert_allclose(data.w.values[1], w if variant.value_dimension > 1 else w[:, 0], atol=1e-9)
    K, Q = expected["W_K"] @ Phi, expected["W_Q"] @ Phi
    A = np.einsum("ami,amj->aij", K, Q) / (math.sqrt(3) if variant.scaled_scores else 1)
    np.testing.assert_allclose(data.A.values[1], np.broadcast_to(A, data.A.values[1].shape), atol=1e-9)
    for name in ("read_out", "offset", "bias"):
        if name in expected:
            np.testing.assert_allclose(data[name].values[1].ravel(), expected[name].ravel(), atol=1e-9)
            assert not np.array_equal(data[name].values[0], data[name].values[1])
    assert abs(data.loss.values[-1] - base.loss.values[-1]) > 1e-3
    assert [stage.name for stage in run.stages] == list(NAMES)
    if variant.relu_per_query:  # a neuron for each token of each atom: 3, 4, 2 and 4 of them
        assert np.isfinite(data.z.values[0, 0]).sum(axis=1).tolist() == [3, 4, 2, 4]


def test_random_values_change_the_run(base):
    zero = mf.train(ODD, mf.Variant(SMALL), LONG).dataset
    assert np.abs(zero.w.values[0]).max() == 0 < np.abs(base.w.values[0]).max()
    np.testing.assert_array_equal(zero.A.values[0], base.A.values[0])
    assert abs(zero.loss.values[-1] - base.loss.values[-1]) > 1e-3


@pytest.mark.parametrize("transformer", [BASE, replace(BASE, tie_values=True), replace(BASE, dimension=7)])
def test_nothing_changed_is_the_full_model(transformer):
    full = mf.train(mf.Mixture(2), transformer, METHOD, model="full").dataset
    plain = mf.train(mf.Mixture(2), mf.Variant(transformer), METHOD).dataset
    for name in ("w", "A", "G_K", "G_Q", "z", "margin", "loss", "loss_hard", "accuracy"):
        assert plain[name].dims == full[name].dims
        np.testing.assert_allclose(plain[name].values, full[name].values, rtol=0, atol=1e-12)


def test_nothing_changed_is_the_full_model_on_minibatches():
    method = mf.GradientDescent(0.1, 200, save_every=50, batch_size=3, batch_seed=4)
    full = mf.train(mf.Mixture(2), BASE, method, model="full").dataset
    plain = mf.train(mf.Mixture(2), mf.Variant(BASE), method).dataset
    np.testing.assert_allclose(plain.A, full.A, rtol=0, atol=1e-12)


def test_members_equal_single_runs_bit_for_bit():
    variants = [mf.Variant(replace(BASE, seed=s), value_scale=0.1) for s in range(6)]  # more than one group of lanes
    method = mf.GradientDescent(0.1, 60, save_every=30)
    batch = mf.train_many(mf.Mixture(2), variants, method)
    for i in (0, 3, 5):
        single = mf.train(mf.Mixture(2), variants[i], method).dataset
        for name in ("w", "A", "z", "loss"):
            assert np.array_equal(batch[name].values[i], single[name].values)
    assert batch.seed.values.tolist() == list(range(6))


def test_named_dimensions():
    query = mf.train(mf.Mixture(2), mf.Variant(BASE, relu_per_query=True, shared_attention=True), METHOD).dataset
    assert query.z.dims == ("time", "head", "atom", "token")
    assert np.isfinite(query.z).all()
    np.testing.assert_array_equal(query.A.sel(head="+"), query.A.sel(head="-"))


def test_a_saved_run_gives_back_its_variant(tmp_path):
    variant = mf.Variant(BASE, heads=3, value_scale=0.2, value_dimension=2, train_bias=True, offset=True)
    run = mf.train(mf.Mixture(2), variant, METHOD)
    again = mf.load(run.save(tmp_path / "run.nc"))
    assert again.transformer == variant
    assert again.dataset["head"].values.tolist() == ["+1", "-1", "+2"]
    assert again.dataset.w.dims == ("time", "head", "value", "feature")
    assert again.dataset.z.dims == ("time", "head", "value", "atom")
    assert "variant" in repr(again)
    assert len(summary(again)["stages"]) == 3
    assert "mean over classes" in table(again)
    with pytest.raises(mf.SpecError, match="cannot be extended"):
        mf.extend(again, 10)


def test_stage_detection_runs_unchanged():
    """The base case as a variant shows the three stages in order."""
    run = mf.train(mf.Mixture(2), mf.Variant(mf.Transformer(width=64)), mf.GradientDescent(0.1, 12_000, save_every=20))
    stages = detect(run.dataset)
    assert all(stage.found for stage in stages)
    assert stages[0].end < stages[1].end <= stages[2].start


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: mf.Variant(3), "transformer = 3: expected a Transformer"),
        (lambda: mf.Variant(mf.Transformer()), "width = inf.*set the width"),
        (lambda: mf.Variant(heads=0), "heads = 0: expected a whole number from 1 to 64"),
        (lambda: mf.Variant(value_dimension=4), "value_dimension = 4 with value_scale = 0.*set value_scale"),
        (lambda: mf.Variant(value_scale=-1), "value_scale = -1"),
        (lambda: mf.Variant(initialisation="xavier"), "initialisation = 'xavier': expected one of 'paper', 'standard'"),
        (lambda: mf.Variant(initialisation="standard", value_scale=0.1), "leave out value_scale"),
        (lambda: mf.Variant(train_bias=1), "train_bias = 1: expected True or False"),
        (lambda: mf.Variant(replace(BASE, tie_values=True), heads=4), "heads = 4 with tie_values"),
        (lambda: mf.train(mf.Mixture(2), mf.Variant(), mf.GradientFlow(until=1)), "a Variant by GradientFlow.*Optimizer"),
        (lambda: mf.train(mf.Mixture(2), mf.Variant(), mf.ThreeStage()), "a Variant by ThreeStage"),
        (lambda: mf.train(mf.Mixture(2), mf.Variant(), model="gram"), "model='gram' cannot train a Variant"),
        (lambda: mf.train(mf.Mnist(), mf.Variant()), "on Mnist: expected a finite task"),
        (lambda: mf.train(mf.Mixture(30), mf.Variant()), "atoms, above the limit"),
    ],
)  # fmt: skip
def test_bad_input(call, says):
    with pytest.raises(mf.SpecError, match=says):
        call()
