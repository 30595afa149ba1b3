"""The standard transformer: its forward pass against NumPy, its gradient, order of tokens, probes, what is recorded."""

import math
from dataclasses import replace

import numpy as np
import pytest
from odd import ODD as COHERENT

import mixflow as mf
from mixflow.engines.loss import cost
from mixflow.jaxed import jax
from mixflow.measure.stages import NAMES
from mixflow.networks.probes import PAIRS, answer_probe, identifier_attention, linear_probe, signal_probes
from mixflow.networks.vanilla_network import VanillaNetwork
from mixflow.paper.theory.run_claims import check
from mixflow.plot.run import plot_run
from mixflow.summary import summary, table

SMALL = mf.Vanilla(layers=2, heads=2, width=8, mlp_width=6, seed=1)
ODD = replace(COHERENT, gram=None)  # tokens of the NumPy twin are unit vectors


def numpy_forward(vanilla, weights, atom, place, F):
    """F and the attention scores of one atom from the weights: tokens without padding, one head at a time."""

    def norm(x, layer):
        if layer is None:
            return x
        centred = x - x.mean(axis=1, keepdims=True)
        return layer["weight"] * centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-5) + layer["bias"]

    x = np.array([coefficient * np.eye(F)[place[name]] for name, coefficient in atom]) @ weights["embed"]["weight"].T
    scores = []
    for layer in weights["layers"]:
        y, out = norm(x, layer.get("norm_attention")), np.zeros_like(x)
        for h in range(vanilla.heads):
            rows = slice(h * vanilla.head_width, (h + 1) * vanilla.head_width)
            q, k, v = (y @ layer[name]["weight"][rows].T for name in ("query", "key", "value"))
            S = k @ q.T / math.sqrt(vanilla.head_width)  # (key, query)
            P = np.exp(S) / np.exp(S).sum(axis=0)
            out += (P.T @ v) @ layer["output"]["weight"][:, rows].T
            scores.append(S)
        x = x + out
        z = norm(x, layer.get("norm_mlp")) @ layer["rise"]["weight"].T + layer["rise"]["bias"]
        x = x + np.maximum(z, 0) @ layer["fall"]["weight"].T + layer["fall"]["bias"]
    y = norm(x, weights.get("norm")) @ weights["read"]["weight"].T + weights["read"]["bias"]
    return y.mean(), scores


def plain(weights, vanilla):
    """The Equinox layers as dictionaries of arrays, the layers one by one."""

    def arrays(module):
        return {n: np.asarray(getattr(module, n)) for n in ("weight", "bias") if getattr(module, n) is not None}

    top = {name: arrays(module) for name, module in weights.items() if name not in ("layers", "attention")}
    stacked = {name: arrays(module) for name, module in (weights["layers"] | weights["attention"]).items()}
    layers = [
        {name: {n: x[i] for n, x in module.items()} for name, module in stacked.items()} for i in range(vanilla.layers)
    ]
    return {**top, "layers": layers}


def randomised(weights, seed=0):
    """Every weight random, layer norms included, so that none of them is an identity."""
    rng = np.random.default_rng(seed)
    return jax().tree.map(lambda x: x + 0.3 * rng.standard_normal(x.shape), weights)


@pytest.mark.parametrize("vanilla", [SMALL, replace(SMALL, layer_norm=False, layers=1, heads=4)])
def test_forward_pass_against_numpy(vanilla):
    network = VanillaNetwork(ODD, vanilla)
    weights = randomised(network.start(vanilla))
    seen, answer = jax().jit(network.observe)(weights), jax().jit(network.forward)(weights)[0]
    place = {name: i for i, name in enumerate(ODD.features)}
    for a, atom in enumerate(ODD.atoms):
        F, scores = numpy_forward(vanilla, plain(weights, vanilla), atom, place, 4)
        assert answer[a] == pytest.approx(F, abs=1e-12)
        n = len(atom)
        found = np.asarray(seen["A"])[:, a, :, :n, :n].reshape(-1, n, n)
        centred = np.array(scores) - np.mean(scores, axis=1, keepdims=True)
        np.testing.assert_allclose(found, centred, atol=1e-12)
        assert not np.asarray(seen["A"])[:, a, :, n:].any()


def test_a_step_of_descent_is_the_gradient_of_the_numpy_loss():
    network = VanillaNetwork(ODD, SMALL)
    weights = randomised(network.start(SMALL))
    place = {name: i for i, name in enumerate(ODD.features)}

    def loss(weights):
        F = np.array([numpy_forward(SMALL, plain(weights, SMALL), atom, place, 4)[0] for atom in ODD.atoms])
        return ODD.probabilities @ np.logaddexp(0, -ODD.labels * F)

    def network_loss(weights):
        answer = network.forward(weights)[0]
        return jax().numpy.sum(ODD.probabilities * cost("logistic", ODD.labels, answer, jax().numpy))

    g = jax().jit(jax().grad(network_loss))(weights)
    for seed in range(3):  # along random directions of all weights at once
        rng = np.random.default_rng(seed)
        way = jax().tree.map(lambda x: rng.standard_normal(x.shape), weights)  # noqa: B023
        slope = sum(float((a * b).sum()) for a, b in zip(jax().tree.leaves(g), jax().tree.leaves(way)))
        moved = [loss(jax().tree.map(lambda x, u: x + s * 1e-6 * u, weights, way)) for s in (1, -1)]  # noqa: B023
        assert slope == pytest.approx((moved[0] - moved[1]) / 2e-6, rel=1e-5)


def test_order_of_tokens_does_not_matter():
    turned = replace(ODD, atoms=[atom[::-1] for atom in ODD.atoms], names=None)
    weights = randomised(VanillaNetwork(ODD, SMALL).start(SMALL))
    here, there = (np.asarray(jax().jit(VanillaNetwork(task, SMALL).forward)(weights)[0]) for task in (ODD, turned))
    np.testing.assert_allclose(here, there, atol=1e-13)


@pytest.fixture(scope="module")
def run():
    return mf.train(
        mf.Mixture(2), mf.Vanilla(seed=2), mf.Optimizer(kind="adamw", learning_rate=1e-3, steps=600, save_every=10)
    )


class TestRun:
    def test_it_learns_and_its_stages_are_detected(self, run):
        assert run.dataset.accuracy.values[-1] == 1
        assert run.dataset.loss.values[-1] < 0.01 < run.dataset.loss.values[0]
        assert [stage.name for stage in run.stages] == list(NAMES)
        assert run.stages[0].found

    def test_probes_see_the_answer_arrive(self, run):
        probe = run.dataset.probe_answer
        np.testing.assert_allclose(probe.isel(depth=0), 0, atol=1e-9)  # an average of tokens cannot hold it
        assert probe.isel(depth=1, time=-1) > 0.9 > probe.isel(depth=1, time=0)
        assert (run.dataset.probe_signal.isel(depth=0, time=0) > 0.9).all()

    def test_attention_is_the_mean_probability(self, run):
        data = run.dataset.isel(time=-1)
        A = data.A.sel(atom="c2 +v1 -v2").values[0, 1]  # (key, query) of head 1: c2, v1, v2
        P = np.exp(A) / np.exp(A).sum(axis=0)
        one = replace(ODD, atoms=[[("c2", 1), ("v1", 1), ("v2", -1)]], labels=[1], hard=[True], names=None,
                      probabilities=None)  # fmt: skip
        found = identifier_attention(one, A[None, None])[0]
        np.testing.assert_allclose(found, [P[2, 0], P[1, 0], P[0, 2], P[0, 1]], rtol=1e-12)
        assert data.attention.sizes["pair"] == len(PAIRS)

    def test_saved_shown_and_described(self, run, tmp_path):
        again = mf.load(run.save(tmp_path / "run.nc"))
        assert again.transformer == mf.Vanilla(seed=2)
        assert "1 layers of 2 heads" in table(again)
        assert set(summary(again)["w"]) == {"c1", "c2", "v1", "v2"}
        labels = [axes.get_ylabel() for axes in plot_run(again).axes]
        assert labels == ["population loss", "read-out of a feature", "mean attention"]
        longer = mf.train(run.task, run.transformer, replace(run.method, steps=610))
        np.testing.assert_array_equal(mf.extend(again, 10).dataset.loss, longer.dataset.loss)
        with pytest.raises(mf.SpecError, match="another network"):
            check(again)

    def test_members_equal_single_runs(self, run):
        batch = mf.train_many(mf.Mixture(2), [mf.Vanilla(seed=s) for s in (0, 2)], run.method).dataset
        for name in ("loss", "A", "w", "probe_answer"):
            assert np.array_equal(batch[name].values[1], run.dataset[name].values)
        assert not np.array_equal(batch.loss.values[0], batch.loss.values[1])
        assert np.abs(batch.loss.values[0, 0] - batch.loss.values[1, 0]) > 1e-6

    def test_plain_descent_trains_it_too(self, run):
        plain = mf.train(mf.Mixture(2), mf.Vanilla(seed=2), mf.GradientDescent(0.1, 100))
        assert plain.dataset.loss.values[-1] < 0.6
        assert plain.dataset.loss.values[0] == run.dataset.loss.values[0]


class TestProbes:
    def test_a_planted_signal_is_recovered(self):
        rng = np.random.default_rng(0)
        y = rng.choice([-1.0, 1.0], 400)
        noise = rng.standard_normal((3, 400, 20))
        planted = noise[0] + 12 * y[:, None] * np.eye(20)[4]
        assert linear_probe(planted, y) > 0.95
        assert linear_probe(noise[1], y) < 0.15  # chance: 20 directions of 400
        both = linear_probe(np.stack([planted, noise[1]]), y)
        np.testing.assert_allclose(both, [linear_probe(planted, y), linear_probe(noise[1], y)], rtol=1e-12)
        assert linear_probe(7 * planted + 3, y) == pytest.approx(linear_probe(planted, y))

    def test_it_equals_ridge_regression_written_out(self):
        rng = np.random.default_rng(1)
        X, y = rng.standard_normal((30, 4)), rng.standard_normal(30)
        C = X - X.mean(axis=0)
        penalty = 0.1 * (C**2).sum() / 30
        beta = np.linalg.solve(C.T @ C + penalty * np.eye(4), C.T @ (y - y.mean()))
        left = y - y.mean() - C @ beta
        assert linear_probe(X, y) == pytest.approx(1 - left @ left / ((y - y.mean()) ** 2).sum())

    def test_nothing_to_see(self):
        assert linear_probe(np.ones((6, 3)), np.array([1, -1, 1, -1, 1, 1.0])) == 0
        assert np.isnan(linear_probe(np.eye(4), np.ones(4)))
        easy = mf.FiniteTask(
            features=("c1", "v1"), atoms=[[("c1", 1), ("v1", 1)], [("c1", 1), ("v1", -1)]], labels=[1, -1]
        )
        assert np.isnan(answer_probe(easy, np.zeros((5, 2, 3)))).all()

    def test_signals_by_name(self):
        found, names = signal_probes(mf.Mixture(2), np.eye(8))
        assert names == ["v1", "v2"]
        assert found.shape == (2,)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: mf.Vanilla(layers=0), "layers = 0: expected a whole number from 1 to 16"),
        (lambda: mf.Vanilla(width=10, heads=4), "width = 10 with heads = 4: expected a multiple"),
        (lambda: mf.Vanilla(layer_norm="yes"), "layer_norm = 'yes'"),
        (lambda: mf.Vanilla(seed=-1), "seed = -1"),
        (lambda: mf.train(mf.Mixture(2), mf.Vanilla(), mf.GradientFlow(until=1)), "a Vanilla by GradientFlow"),
        (lambda: mf.train(mf.Mixture(2), mf.Vanilla(), model="gram"), "a Vanilla needs every weight"),
        (lambda: mf.train(mf.Mnist(), mf.Vanilla()), "on Mnist"),
    ],
)
def test_bad_input(call, says):
    with pytest.raises(mf.SpecError, match=says):
        call()
