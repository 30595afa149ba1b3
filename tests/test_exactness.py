"""The three engines are one model: full = gram at any width, gram = symmetric at any K, and both equal the slow twin."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from twin import full_descent, twin_descent

import mixflow as mf
from mixflow.engines import symmetric
from mixflow.engines.symmetric import Symmetric

STATE = ("w", "A", "G_K", "G_Q")


def relative(a, b):
    """Largest difference in units of the largest entry of each variable."""
    return max(
        np.abs(np.asarray(a[name]) - np.asarray(b[name])).max() / np.abs(np.asarray(b[name])).max() for name in STATE
    )


def final(run):
    return {name: run.dataset[name].values[-1] for name in STATE}


def coherent(K, rho):
    """Γ with coherence ρ between every pair of features."""
    return (1 - rho) * np.eye(2 * K) + rho


@pytest.mark.parametrize("width", [3, 16, 64, 256])
@pytest.mark.parametrize(
    "task",
    [mf.Mixture(2), mf.Mixture(3), mf.Mixture(2, gram=coherent(2, 0.2)), mf.Mixture(2, gram=coherent(2, -0.1))],
    ids=["K2", "K3", "coherent", "another coherence, the same program"],
)
def test_gram_of_trained_weights_equals_the_gram_run(task, width):
    transformer = mf.Transformer(width=width, omega=0.5, seed=width, dimension=2 * task.classes + 5)
    method = mf.GradientDescent(learning_rate=0.1, steps=2000, save_every=500)
    full, gram = (mf.train(task, transformer, method, model=model) for model in ("full", "gram"))
    assert relative(final(full), final(gram)) < 1e-9
    assert full.dataset.loss.values == pytest.approx(gram.dataset.loss.values, rel=1e-9)


def test_full_equals_the_handwritten_twin_on_every_weight():
    task, transformer = mf.Mixture(2), mf.Transformer(width=12, omega=0.6, seed=5, dimension=7)
    run = mf.train(task, transformer, mf.GradientDescent(0.1, 300), model="full")
    assert relative(final(run), full_descent(task, transformer, 0.1, 300)) < 1e-11


@pytest.mark.parametrize("K", [2, 3, 4, 5, 6])
@pytest.mark.parametrize("tie_values", [False, True])
def test_symmetric_equals_mean_field_gram(K, tie_values):
    transformer = mf.Transformer(omega=0.5, tie_values=tie_values)
    method = mf.GradientDescent(learning_rate=1.0, steps=400 if K < 5 else 60, save_every=20)
    symmetric, gram = (mf.train(mf.Mixture(K), transformer, method, model=model) for model in ("symmetric", "gram"))
    assert relative(symmetric.dataset, gram.dataset) < 1e-9
    assert np.abs(symmetric.dataset.margin - gram.dataset.margin).max() < 1e-9
    assert np.abs(gram.dataset.w.values[-1]).max() > 0.3  # far enough from the start to mean something


def test_gram_keeps_the_heads_and_classes_symmetric_to_rounding():
    data = mf.train(mf.Mixture(2), mf.Transformer(omega=0.3), mf.GradientDescent(0.1, 5000), model="gram").dataset
    w = data.w.values[-1]
    assert np.abs(w[0] - w[1] * [1, 1, -1, -1]).max() < 1e-12
    assert abs(w[0, 2] - w[0, 3]) < 1e-12


@st.composite
def tasks(draw):
    """A random finite task: general coefficients, repeated tokens, different lengths, coherent features."""
    F = draw(st.integers(2, 4))
    names = [f"f{i}" for i in range(F)]
    token = st.tuples(st.sampled_from(names), st.sampled_from([1.0, -1.0, 0.5, -2.0]))
    n = draw(st.integers(2, 5))
    weights = np.array(draw(st.lists(st.integers(1, 5), min_size=n, max_size=n)), float)
    rho = draw(st.sampled_from([0.0, 0.3]))
    return mf.FiniteTask(
        features=names,
        atoms=[draw(st.lists(token, min_size=1, max_size=4)) for _ in range(n)],
        labels=draw(st.lists(st.sampled_from([1, -1]), min_size=n, max_size=n)),
        probabilities=weights / weights.sum(),
        gram=(1 - rho) * np.eye(F) + rho,
    )


@settings(max_examples=12)  # each example compiles a program of its own
@pytest.mark.filterwarnings("ignore:with w = 0 and b = .* no neuron is on")
@given(tasks(), st.floats(0.05, 1.5), st.floats(-0.2, 1.0), st.booleans(), st.integers(0, 9))
def test_any_finite_task_trains_like_the_twin(task, omega, bias, tie_values, seed):
    transformer = mf.Transformer(width=5, omega=omega, bias=bias, tie_values=tie_values, seed=seed)
    run = mf.train(task, transformer, mf.GradientDescent(0.1, 40, save_every=20))
    expected = twin_descent(task, transformer, 0.1, 40, 20)
    for name in STATE:
        np.testing.assert_allclose(run.dataset[name].values, expected[name], rtol=0, atol=1e-11)
    np.testing.assert_allclose(run.dataset.loss.values, expected["loss"], rtol=1e-11)


@pytest.mark.parametrize("K", [1, 2, 7, 8])
def test_symmetric_atom_types_reproduce_the_listed_atoms(K):
    """Beyond K = 6 a symmetric run lists atom types; their losses are those of all K·2^K atoms."""
    method = mf.GradientDescent(learning_rate=2.0, steps=30, save_every=15)
    symmetric = mf.train(mf.Mixture(K), mf.Transformer(omega=0.6), method).dataset
    gram = mf.train(mf.Mixture(K), mf.Transformer(omega=0.6), method, model="gram").dataset
    for name in ("loss", "accuracy", "loss_easy", "loss_hard"):
        np.testing.assert_allclose(symmetric[name], gram[name], rtol=1e-10, atol=1e-12)
    assert symmetric.attrs["model"] == "symmetric"


def test_a_thousand_classes():
    """One step from w = 0: every neuron is on, so w·v grows by η σ(0) E[s_k Σ_j s_j] / (K L) = η / (2 K L), w·c not at all."""
    K, rate = 1000, 5.0
    data = mf.train(mf.Mixture(K), mf.Transformer(omega=0.3), mf.GradientDescent(rate, 20, save_every=1)).dataset
    np.testing.assert_allclose(data.w_sector.values[1], [0, rate / (2 * K * (K + 1))], rtol=1e-12, atol=1e-18)
    assert np.all(np.diff(data.loss) < 0)


def test_expand_writes_out_what_gram_records():
    method = mf.GradientDescent(learning_rate=2.0, steps=30, save_every=15)
    run = mf.train(mf.Mixture(7), mf.Transformer(omega=0.6), method)
    assert "w" not in run.dataset
    gram = mf.train(mf.Mixture(7), mf.Transformer(omega=0.6), method, model="gram").dataset
    wide = run.expand().dataset
    for name in ("w", "A", "G_K", "G_Q", "margin", "z"):
        assert wide[name].dims == gram[name].dims
        np.testing.assert_allclose(wide[name], gram[name], rtol=0, atol=1e-12)
    with pytest.raises(mf.SpecError, match="limit of 4096"):
        mf.train(mf.Mixture(9), method=method).expand()


@pytest.fixture(scope="module")
def paper():
    return mf.train(mf.Mixture(2), mf.Transformer(omega=0.3), mf.GradientDescent(0.1, 20_000, save_every=1)).dataset


class TestReferenceFigures:
    """The figures of docs/mathematics.md §3 and §4, to every digit shown there."""

    def test_loss_before_the_last_step(self, paper):
        assert f"{float(paper.loss[-2]):.10f}" == "0.0032966415"

    def test_weights(self, paper):
        w, A = paper.w[-1].sel(head="+"), paper.A[-1].sel(head="+")
        assert [f"{float(w.sel(feature=f)):.4f}" for f in ("c1", "v1")] == ["5.6661", "4.2723"]
        entries = [("c1", "v1"), ("c1", "v2"), ("v1", "c1")]
        assert [f"{float(A.sel(key=k, query=q)):.4f}" for k, q in entries] == ["4.8889", "-5.0293", "-3.5211"]

    def test_first_steps_below_each_level(self, paper):
        first = [int(paper.step[np.argmax(paper.loss.values < level)]) for level in (0.5, 0.3, 0.1, 0.01)]
        assert first == [135, 1774, 2464, 7124]

    @pytest.mark.parametrize(("K", "loss"), [(3, "0.0035345922"), (4, "0.0076419268")])
    def test_more_mixtures(self, K, loss):
        run = mf.train(mf.Mixture(K), mf.Transformer(omega=0.3), mf.GradientDescent(0.1, 39_999, save_every=39_999))
        assert f"{float(run.dataset.loss[-1]):.10f}" == loss

    @pytest.mark.parametrize(("K", "time", "digits"), [(2, 246, 1), (5, 3.1e3, 50), (10, 2.05e4, 100)])
    def test_learning_time(self, K, time, digits):
        # Larger rates than the paper's for K > 2; descent is first order, so the crossing moves by less than the digits.
        rate = {2: 0.1, 5: 0.5, 10: 2.0}[K]
        method = mf.GradientDescent(rate, int(1.05 * time / rate), save_every=5)
        data = mf.train(mf.Mixture(K), mf.Transformer(omega=0.3), method).dataset
        assert float(data.time[np.argmax(data.loss.values < 0.1)]) == pytest.approx(time, abs=digits)


def test_drift_of_conserved_quantities_is_proportional_to_the_learning_rate():
    drift = []
    for rate in (0.2, 0.1, 0.05):
        data = mf.train(
            mf.Mixture(2), mf.Transformer(width=32, omega=0.5), mf.GradientDescent(rate, round(300 / rate), 10)
        ).dataset
        A, G_K, G_Q = (data[name].values for name in ("A", "G_K", "G_Q"))
        square = (G_K**2).sum((2, 3)) - 2 * (A**2).sum((2, 3)) + (G_Q**2).sum((2, 3))
        drift.append(np.abs(square - square[0]).max())
    slopes = np.diff(np.log(drift)) / math.log(0.5)
    assert np.all(np.abs(slopes - 1) < 0.1), slopes


def test_width_tends_to_mean_field_at_rate_one_half():
    limit = mf.train(mf.Mixture(2), mf.Transformer(omega=0.3), mf.GradientDescent(0.1, 100, 100), model="gram").dataset
    widths = [64, 256, 1024, 4096]
    distance = []
    for width in widths:
        models = [mf.Transformer(width=width, omega=0.3, seed=seed) for seed in range(16)]
        data = mf.train_many(mf.Mixture(2), models, mf.GradientDescent(0.1, 100, 100)).dataset
        distance.append(np.sqrt(np.mean((data.A.values[:, -1] - limit.A.values[-1]) ** 2)))
    slope = np.polyfit(np.log(widths), np.log(distance), 1)[0]
    assert slope == pytest.approx(-0.5, abs=0.1)


def test_atom_types_that_weigh_nothing_change_nothing(monkeypatch):
    """A run of many classes with every one of its K types against one that leaves out those of probability below 10⁻⁴⁰."""
    method = mf.GradientDescent(200.0, 400, save_every=100)
    kept = mf.train(mf.Mixture(400), mf.Transformer(), method).dataset
    assert Symmetric(mf.Mixture(400), mf.Transformer(), method).room < 300
    monkeypatch.setattr(symmetric, "NEGLIGIBLE", 0.0)
    whole = mf.train(mf.Mixture(400), mf.Transformer(), method).dataset
    assert Symmetric(mf.Mixture(400), mf.Transformer(), method).room > 400
    assert abs(float(whole.w_sector[-1, 1])) > 0.1  # it has moved
    for name in ("w_sector", "A_sector", "G_K_sector", "loss"):
        np.testing.assert_allclose(kept[name], whole[name], rtol=1e-12, atol=1e-15)
