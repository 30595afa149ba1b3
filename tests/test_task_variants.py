"""Task variants: exact on every engine, not the base case in disguise, and one sentence for bad input."""

import itertools
import math

import numpy as np
import pytest

import mixflow as mf
from mixflow.plot.run import attention_lines
from mixflow.tasks import task_from_spec
from mixflow.tasks.variants import (
    NoisyMixture,
    coherent,
    composed,
    distractors,
    imbalanced,
    label_noise,
    multiclass,
    regression,
    repeated,
)

STATE = ("w", "A", "G_K", "G_Q")
BASE = mf.Mixture(2)
FINITE = {
    "coherence": coherent(2, coherence=0.3),
    "own coherence": coherent(2, coherence=0.4, pairs="own"),
    "class imbalance": imbalanced(2, priors=(0.8, 0.2)),
    "sign imbalance": imbalanced(2, positive=0.8),
    "label noise": label_noise(BASE, probability=0.1),
    "distractors": distractors(BASE, count=2),
    "repeated signals": repeated(2, signals=3),
    "composed": composed((2, 2), rule="parity"),
    "composed pairs": composed((2, 1)),
    "regression": regression(2, values=(-1, -0.5, 1.0)),
    "multi-class": multiclass(2, values=3),
}
EACH = pytest.mark.parametrize("name", FINITE)


def first_step(task, rate=0.1):
    """w after one step of descent from w = 0 with uniform attention (ω = 0), by head and feature."""
    method = mf.GradientDescent(rate, 1, save_every=1)
    data = mf.train(task, mf.Transformer(omega=0.0), method, model="gram").dataset
    return dict(zip(data.feature.values, data.w.values[-1].T))


@EACH
def test_gram_equals_every_weight(name):
    transformer = mf.Transformer(width=8, omega=0.5, seed=2)
    method = mf.GradientDescent(0.1, 300, save_every=100)
    gram, full = (mf.train(FINITE[name], transformer, method, model=model).dataset for model in ("gram", "full"))
    for variable in (*STATE, "loss", "margin"):
        np.testing.assert_allclose(gram[variable], full[variable], rtol=0, atol=1e-9)
    assert np.abs(gram.w.values[-1]).max() > 0.1  # far enough from the start to mean something


@EACH
def test_is_not_the_base_case(name):
    """Trained from the mean-field start, where nothing but the task differs."""
    method = mf.GradientDescent(0.5, 100, save_every=50)
    losses = [
        mf.train(task, mf.Transformer(omega=0.3), method, model="gram").dataset.loss.values
        for task in (FINITE[name], BASE)
    ]
    assert np.abs(losses[0] - losses[1]).max() > 1e-3


@EACH
def test_comes_back_from_its_spec(name):
    task = FINITE[name]
    again = task_from_spec(task.spec())
    assert again.spec() == task.spec()
    assert again.population().probabilities.sum() == pytest.approx(1)


def test_coherence_carries_the_first_step_over_to_the_identifier():
    """w̃ ← w̃ − η Γ g_w: with c_k and v_k coherent, ⟨w, c_k⟩ moves ρ times as far as ⟨w, v_k⟩."""
    base, own, signals = (
        first_step(task) for task in (BASE, FINITE["own coherence"], coherent(2, coherence=0.25, pairs="signals"))
    )
    np.testing.assert_allclose(base["c1"], 0, atol=1e-17)
    np.testing.assert_allclose(own["c1"], 0.4 * base["v1"], rtol=1e-12)
    np.testing.assert_allclose(signals["v1"], 1.25 * base["v1"], rtol=1e-12)
    np.testing.assert_allclose(signals["c1"], 0, atol=1e-17)


@pytest.mark.parametrize("pairs", ["all", "identifiers", "signals", "own", "cross"])
@pytest.mark.parametrize("K", [2, 3])
def test_coherence_bounds_are_those_of_a_definite_gram(pairs, K):
    lowest = lambda task: np.linalg.eigvalsh(np.array(task.gram))[0]  # noqa: E731
    with pytest.raises(mf.SpecError, match=r"indefinite: .* expected a number from") as error:
        coherent(K, coherence=5.0, pairs=pairs)
    least, most = (float(x) for x in str(error.value).rstrip(".").split("from ")[1].split(" to "))
    for end in (least, most):
        assert 0 < lowest(coherent(K, coherence=0.999 * end, pairs=pairs)) < 2e-3  # the eigenvalue that vanishes there
        with pytest.raises(mf.SpecError, match="indefinite"):
            coherent(K, coherence=1.01 * end, pairs=pairs)


def test_the_largest_coherence_trains_with_features_in_fewer_dimensions():
    task = coherent(2, coherence=1.0, pairs="own")  # c_k = v_k: rank 2
    run = mf.train(task, mf.Transformer(width=8, dimension=2), mf.GradientDescent(0.1, 50), model="gram")
    assert np.isfinite(run.dataset.loss).all()
    with pytest.raises(mf.SpecError, match="dimension = 3: expected at least 4"):
        mf.train(coherent(2, coherence=0.3), mf.Transformer(width=8, dimension=3), mf.GradientDescent(0.1, 5))


def test_imbalance_is_that_of_the_marginals():
    task = imbalanced(2, priors=(0.7, 0.3), positive=(0.9, 0.4))
    p, signs = task.probabilities, np.array([[x for _, x in atom[1:]] for atom in task.atoms])
    assert p @ [atom[0][0] == "c1" for atom in task.atoms] == pytest.approx(0.7)
    np.testing.assert_allclose(p @ (signs > 0), [0.9, 0.4])
    assert p @ ((signs > 0).all(axis=1)) == pytest.approx(0.36)  # independent
    even = imbalanced(2)
    np.testing.assert_allclose(even.probabilities, BASE.population().probabilities)
    # one step: head + moves by η/2 · E[y x̄], so v1 by η/(2L) · (π_1 + π_2 (2q_1 − 1)(2q_2 − 1))
    np.testing.assert_allclose(first_step(task)["v1"][0], 0.1 / 6 * (0.7 + 0.3 * 0.8 * -0.2), rtol=1e-12)


def test_label_noise_shrinks_the_first_step_and_has_the_entropy_as_its_floor():
    p = 0.1
    task = label_noise(BASE, probability=p)
    np.testing.assert_allclose(first_step(task)["v1"], (1 - 2 * p) * first_step(BASE)["v1"], rtol=1e-12)
    run = mf.train(task, mf.Transformer(omega=0.3), mf.GradientDescent(0.5, 6000, save_every=1000)).dataset
    entropy = -p * math.log(p) - (1 - p) * math.log(1 - p)
    assert float(run.loss[-1]) == pytest.approx(entropy, abs=1e-6)
    assert run.loss.values.min() > entropy - 1e-12
    assert float(run.accuracy[-1]) == pytest.approx(1 - p)
    three = label_noise(multiclass(1, values=3), probability=0.3)
    np.testing.assert_allclose(three.probabilities[:3], np.array([0.7, 0.15, 0.15]) / 3)
    assert three.names[1].endswith("→ 1")
    assert label_noise(BASE, probability=0).probabilities[1::2].sum() == 0


def test_distractors_lengthen_and_say_nothing():
    task = distractors(BASE, count=3, kinds=1)
    assert set(task.length) == {6}
    each = task.probabilities.reshape(8, 4)
    np.testing.assert_allclose(each * 8, np.tile([1, 3, 3, 1], (8, 1)) / 8)  # multisets of three signs
    one = first_step(task)
    np.testing.assert_allclose(one["d1"], 0, atol=1e-17)
    np.testing.assert_allclose(one["v1"], first_step(BASE)["v1"] * 3 / 6, rtol=1e-12)  # 1/L
    two = distractors(coherent(2, coherence=0.3), count=1, kinds=2)
    assert two.gram[0, 1] == 0.3
    assert two.gram[0, 4] == 0
    none = distractors(BASE, count=0)
    assert none.atoms == BASE.population().atoms


def test_repeated_signals_count_as_often_as_they_stand():
    task = repeated(2, signals=3, identifiers=2)
    assert set(task.length) == {8}
    np.testing.assert_allclose(first_step(task)["v1"], first_step(BASE)["v1"] * 3 * 3 / 8, rtol=1e-12)
    assert repeated(2, signals=1).names == BASE.population().names


def test_composed_identifiers_need_both_parts():
    task = composed((2, 2), rule="parity")
    assert len(task.atoms) == 16
    for part in (0, 1):  # given one part and the signs, either label is as likely where the signs disagree
        for token, signs in itertools.product({atom[part] for atom in task.atoms}, {atom[2:] for atom in task.atoms}):
            labels = [y for atom, y in zip(task.atoms, task.labels) if atom[part] == token and atom[2:] == signs]
            assert (sum(labels) == 0) == (signs[0][1] != signs[1][1])
    pair = composed((2, 2))
    assert pair.features[4:] == ("v1", "v2", "v3", "v4")
    own = [dict(atom)[f"v{2 * (atom[0][0] == 'ca2') + (atom[1][0] == 'cb2') + 1}"] for atom in pair.atoms]
    assert own == pair.labels.tolist()


def test_regression_learns_values_not_signs():
    values = (-1.0, -0.5, 1.0)
    task = FINITE["regression"]
    # one step from F = 0: head + moves by η E[y x̄], so v1 by η/L · (E[x²] + E[x]²)/2
    square, mean = np.mean(np.square(values)), np.mean(values)
    np.testing.assert_allclose(first_step(task)["v1"][0], 0.1 / 3 * (square + mean**2) / 2, rtol=1e-12)
    assert task.hard.tolist() == [x != y for _ in range(2) for x, y in itertools.product(values, values)]
    run = mf.train(task, mf.Transformer(width=32, omega=0.3, seed=0), mf.GradientDescent(0.2, 10_000, save_every=5000))
    assert float(run.dataset.loss[-1]) < 0.02
    assert float(run.dataset.accuracy[-1]) == 1


def test_regression_flows():
    task, transformer = regression(2, values=(-1, -0.5, 0.5, 1)), mf.Transformer(omega=0.3)
    flow = mf.train(task, transformer, mf.GradientFlow(until=30.0, save_at=(0.0, 15.0, 30.0)))
    assert flow.certificate["relative_difference"] < 1e-8
    descent = mf.train(task, transformer, mf.GradientDescent(0.005, 6000, save_every=3000), model="gram")
    np.testing.assert_allclose(flow.dataset.A, descent.dataset.A, atol=1e-3)
    assert flow.dataset.loss[-1] < 0.9 * flow.dataset.loss[0]


def test_multiclass_has_a_head_for_every_answer_and_learns():
    task = FINITE["multi-class"]
    assert task.heads == ("0", "1", "2")
    assert len(task.atoms) == 18
    assert task.hard.tolist() == [x != y for _ in range(2) for x in range(3) for y in range(3)]
    addressed = [next(n for n, _ in atom[1:] if n.startswith(f"v{atom[0][0][1]}:")) for atom in task.atoms]
    assert [int(name[-1]) for name in addressed] == task.labels.tolist()
    run = mf.train(task, mf.Transformer(width=32, omega=0.3, seed=0), mf.GradientDescent(0.5, 8000, save_every=4000))
    assert float(run.dataset.loss[0]) == pytest.approx(math.log(3))
    assert float(run.dataset.accuracy[-1]) == 1


def test_without_noise_the_noisy_mixture_is_the_mixture_and_with_it_is_not():
    method = mf.GradientDescent(0.5, 60, save_every=20)
    clean, quiet, noisy = (
        mf.train(task, mf.Transformer(omega=0.3), method, model="gram").dataset
        for task in (BASE, NoisyMixture(sigma=0.0, samples=64), NoisyMixture(sigma=0.5, samples=64))
    )
    for name in (*STATE, "loss", "loss_hard"):
        np.testing.assert_allclose(quiet[name], clean[name], rtol=0, atol=1e-12)
    np.testing.assert_allclose(quiet.loss_test, clean.loss, atol=1e-12)
    assert np.abs(noisy.loss - clean.loss).max() > 1e-3


@pytest.mark.parametrize("tied", [False, True])
def test_the_reduction_in_coordinates_equals_every_weight(tied):
    task = NoisyMixture(sigma=0.7, samples=20, test_samples=8)
    transformer = mf.Transformer(width=8, omega=0.6, seed=4, tie_values=tied)
    method = mf.GradientDescent(0.1, 300, save_every=100)
    gram, full = (mf.train(task, transformer, method, model=model).dataset for model in ("gram", "full"))
    assert (gram.attrs["model"], full.attrs["model"]) == ("gram", "full")
    for name in (*STATE, "z", "z_test", "loss", "loss_test"):
        np.testing.assert_allclose(gram[name], full[name], rtol=0, atol=1e-9)


def test_noise_has_the_stated_size_and_its_own_seed(tmp_path):
    task = NoisyMixture(sigma=0.6, samples=4000)
    clean = NoisyMixture(sigma=0.0, samples=4000)
    square = ((task.tokens.train.tokens - clean.tokens.train.tokens) ** 2).sum(axis=2).mean()
    assert square == pytest.approx(0.36, rel=0.02)
    assert not np.array_equal(task.tokens.train.tokens[:256], task.tokens.test.tokens)  # held-out noise is its own
    assert not np.array_equal(task.tokens.train.tokens[:256], NoisyMixture(sigma=0.6, seed=1).tokens.train.tokens)
    run = mf.train(NoisyMixture(sigma=0.6, samples=16), mf.Transformer(width=4), mf.GradientDescent(0.1, 20))
    assert mf.load(run.save(tmp_path / "run.nc")).task == NoisyMixture(sigma=0.6, samples=16)
    longer = mf.train(run.task, run.transformer, mf.GradientDescent(0.1, 30)).dataset
    np.testing.assert_allclose(mf.extend(run, 10).dataset.loss, longer.loss, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: coherent(2, coherence=0.9, pairs="cross"), r"coherence = 0.9 makes Γ indefinite: .* to 0.5"),
        (lambda: coherent(2, coherence=-0.5), "from -0.333333 to 1"),
        (lambda: coherent(2, coherence=0.1, pairs="al"), "did you mean 'all'"),
        (lambda: coherent(2, coherence="big"), "expected a finite number"),
        (lambda: imbalanced(2, priors=(1.0,)), "priors has 1 entries: expected 2"),
        (lambda: imbalanced(2, priors=(0.5, 0.6)), "sum to 1.1"),
        (lambda: imbalanced(2, positive=1.5), "at most 1"),
        (lambda: imbalanced(2, positive=(0.5, 0.5, 0.5)), "positive has 3 entries"),
        (lambda: label_noise(BASE, probability=0.5), "below 0.5; beyond it"),
        (lambda: label_noise(BASE, probability=-0.1), "at least 0"),
        (lambda: label_noise(regression(2), probability=0.1), "no other one"),
        (lambda: distractors(BASE, count=-1), "count = -1: expected a whole number from 0 to 4096"),
        (lambda: distractors(BASE, kinds=0), "kinds = 0"),
        (lambda: distractors(BASE, count=40, kinds=3), "more than 4096 atoms"),
        (lambda: distractors(distractors(BASE)), "has a feature d1 already"),
        (lambda: repeated(2, signals=0), "signals = 0"),
        (lambda: composed((2,)), "expected two numbers"),
        (lambda: composed((2, 2), rule="sum"), "expected one of 'pair', 'parity'"),
        (lambda: composed((1, 2), rule="parity"), "parity needs two"),
        (lambda: composed((4, 4)), "above the limit of 4096"),
        (lambda: regression(2, values=(1.0,)), "at least two different"),
        (lambda: regression(2, values=(0, 1)), "none of them 0"),
        (lambda: regression(2, values=3), "expected a list"),
        (lambda: regression(9), "above 4096"),
        (lambda: multiclass(2, values=1), "values = 1"),
        (lambda: multiclass(6, values=5), "above the limit of 4096"),
        (
            lambda: label_noise(NoisyMixture(sigma=1), probability=0.1),
            "label_noise needs a Mixture, a Sample or a FiniteTask",
        ),
        (lambda: distractors(3), r"distractors needs a Mixture.*not 3\."),
        (lambda: NoisyMixture(sigma=-1), "sigma = -1"),
        (lambda: NoisyMixture(sigma=1, dimension=3), "no room for 2 identifiers and as many signals"),
        (lambda: NoisyMixture(sigma=1, classes=9), "4096"),
        (lambda: mf.train(NoisyMixture(sigma=1), mf.Transformer(width=8), mf.GradientFlow(until=1)), "GradientDescent"),
        (lambda: mf.train(NoisyMixture(sigma=1), model="symmetric"), "whose classes are exchangeable"),
        (lambda: mf.train(NoisyMixture(sigma=1), mf.Transformer(dimension=9)), "have 8 coordinates"),
    ],
)
def test_bad_input_is_one_sentence(call, says):
    with pytest.raises(mf.SpecError, match=says) as error:
        call()
    assert "\n" not in str(error.value)


def test_own_signals_are_shown_where_every_identifier_has_one():
    """Distractors do not hide them; identifiers made of two tokens have none."""
    lines = lambda task: attention_lines(mf.train(task, method=mf.GradientDescent(0.1, 200)).dataset)  # noqa: E731
    short = lambda found: [label.split("  ")[0].replace("$", "") for label in found]  # noqa: E731
    plain, longer = lines(mf.Mixture(2)), lines(distractors(mf.Mixture(2), count=2))
    assert short(longer) == short(plain) == ["A[c_k, v_k]", "A[c_k, v_j]", "A[v_k, c_k]", "A[v_j, c_k]"]
    made_of_two = short(lines(composed((2, 2))))
    assert len(made_of_two) == 4
    assert not any("_k" in label for label in made_of_two)


def test_stages_under_label_noise_are_read_above_the_entropy_of_the_labels():
    p = 0.2
    run = mf.train(label_noise(mf.Mixture(2), probability=p), method=mf.GradientDescent(0.1, 9000))
    data, entropy = run.dataset, -p * math.log(p) - (1 - p) * math.log(1 - p)
    np.testing.assert_allclose(data.least_loss, entropy, rtol=1e-12)
    assert all(stage.found for stage in run.stages)
    above, time = data.loss_hard.values - entropy, data.time.values
    T1, T2 = run.stages[0].end, run.stages[1].end
    assert run.stages[1].evidence["loss"] == pytest.approx(np.interp(T2, time, data.loss), rel=1e-9)
    assert "loss above the least possible fell by" in run.stages[2].because
    half = above[time >= T1].max() / 2
    assert np.interp(T2, time, above) == pytest.approx(half, rel=1e-3)
    assert data.loss_hard.values.min() > 0.7 * data.loss_hard.values.max()  # by itself it never halves
    for clear in (mf.Mixture(2), repeated(2), label_noise(mf.Mixture(2), probability=0.0)):
        assert "least_loss" not in mf.train(clear, method=mf.GradientDescent(0.1, 10)).dataset.coords
