"""Tasks by their definition, atom by atom: priors, labels, hardness, samples, least losses, and what variants change."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

import mixflow as mf
from mixflow.engines.minibatch import AHEAD, Minibatches
from mixflow.jaxed import jax
from mixflow.methods.until import steps_within
from mixflow.native import threefry
from mixflow.tasks.floor import Samples


def test_priors_lie_over_the_atoms_of_their_class():
    priors = {"c1": 0.5, "c2": 0.3, "c3": 0.2}
    task = mf.Mixture(3, priors=tuple(priors.values())).population()
    for (identifier, _), p in zip((atom[0] for atom in task.atoms), task.probabilities):
        assert p == pytest.approx(priors[identifier] / 8)


@pytest.mark.parametrize("K", [2, 3, 4])
def test_labels_and_hardness(K):
    task = mf.Mixture(K).population()
    assert len(set(task.atoms)) == K * 2**K
    for atom, label, hard in zip(task.atoms, task.labels, task.hard):
        signs = dict(atom[1:])
        assert label == signs[atom[0][0].replace("c", "v")]
        assert hard == (label * sum(signs.values()) <= 0)  # a tie of the vote does not decide


def test_only_equal_classes_are_uniform():
    assert mf.Mixture(2, priors=(0.5, 0.5), gram=np.eye(4)).uniform
    assert not mf.Mixture(2, priors=(0.6, 0.4)).uniform
    assert not mf.variants.coherent(2, coherence=0.1).uniform


def test_repeated_tokens_count_as_often_as_they_stand():
    task = mf.FiniteTask(features=("a", "b"), atoms=[[("a", 1)] * 3 + [("b", 1)], [("b", 1)]], labels=[1, -1])
    assert task.count.tolist() == [[3, 1], [0, 1]]
    assert task.length.tolist() == [4, 1]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"gram": [[1, 2], [2, 1]]}, "negative eigenvalue -1"),
        ({"probabilities": [0.5, 0.6]}, "sum to 1.1"),
    ],
)
def test_what_is_no_population(changes, says):
    with pytest.raises(mf.SpecError, match=says):
        mf.FiniteTask(features=("a", "b"), atoms=[[("a", 1)], [("b", 1)]], labels=[1, -1], **changes)


def test_a_sample_follows_the_priors_and_its_split_the_seed():
    task = mf.Mixture(2, priors=(0.9, 0.1))
    sample = task.sample(1000, seed=0, test_fraction=0.2)
    assert np.mean(sample.drawn[0] == 0) == pytest.approx(0.9, abs=0.03)
    assert not set(sample.train_index) & set(sample.test_index)
    assert len(sample.train_index) == 800
    assert not np.array_equal(sample.test_index, task.sample(1000, seed=1, test_fraction=0.2).test_index)
    names = [(int(k), *s) for k, s in zip(*sample.drawn)]
    atoms = [(int(atom[0][0][1]) - 1, *(sign for _, sign in atom[1:])) for atom in sample.population().atoms]
    for weights, index in (
        (sample.population().probabilities, sample.train_index),
        (sample.held_out, sample.test_index),
    ):
        drawn = [names[i] for i in index]
        assert weights == pytest.approx([drawn.count(atom) / len(drawn) for atom in atoms])


def test_the_least_loss_of_samples_with_several_labels():
    """Sample a with the label 1 three times of four, once listed in two parts; b always 2; c never occurs."""
    atoms, labels = [[("a", 1)]] * 3 + [[("b", 1)]] + [[("c", 1)]], [1, 1, -1, 2, 5]
    p = [0.1, 0.2, 0.1, 0.6, 0.0]
    task = mf.FiniteTask(features=list("abc"), atoms=atoms, labels=labels, probabilities=p, loss="squared")
    found = Samples(task)
    assert found.least_loss == pytest.approx([0.375, 0.375, 0.375, 0, 0])  # half of the variance 0.75
    assert found.label == pytest.approx([0.75, 0.75, 0.25, 1, 0])
    assert found.likeliest.tolist() == [True, True, False, True, False]
    assert found.evenly == pytest.approx([0.125, 0.25, 0.125, 0.5, 0])
    costs = Samples(replace(task, labels=[1, 1, -1, 1, 1], loss="exponential")).least_loss
    assert costs == pytest.approx([np.sqrt(0.75), np.sqrt(0.75), np.sqrt(0.75), 0, 0])  # 2 √(¾ · ¼), at F = ½ log 3


def test_variants_by_their_definition():
    pairs = mf.variants.composed((2, 2))
    for (i, j, s), label in zip(
        itertools.product(range(2), range(2), itertools.product((1, -1), repeat=4)), pairs.labels, strict=True
    ):
        assert label == s[2 * i + j]
    classes = mf.variants.multiclass(3, values=3)
    for atom, label, hard in zip(classes.atoms, classes.labels, classes.hard):
        votes = [int(name.split(":")[1]) for name, _ in atom[1:]]
        assert label == votes[int(atom[0][0][1]) - 1]
        assert hard == any(votes.count(other) >= votes.count(label) for other in set(votes) - {label})
    numbers = mf.variants.regression(3, values=(-1, 0.5, 2))
    for atom, label, hard in zip(numbers.atoms, numbers.labels, numbers.hard):
        values = [value for _, value in atom[1:]]
        assert label == values[int(atom[0][0][1]) - 1]
        assert hard == (abs(np.mean(values) - label) > 1e-9)
    base = mf.variants.coherent(2, coherence=0.3).population()
    longer = mf.variants.distractors(base, count=1)
    assert np.array_equal(longer.gram[:4, :4], base.gram)
    assert longer.gram[4].tolist() == [0, 0, 0, 0, 1]
    noisy = mf.variants.label_noise(mf.variants.multiclass(1, values=3), probability=0.6)
    assert noisy.probabilities == pytest.approx(np.tile([0.4, 0.3, 0.3], 3) / 3)


def test_minibatches_are_frequencies_of_a_new_draw_at_every_step():
    p = np.array([0.6, 0.3, 0.1])
    batches = Minibatches(p, mf.GradientDescent(batch_size=1000, batch_seed=3))
    parameters = batches.parameters([mf.Transformer(), mf.Transformer(seed=1)])
    weights = jax().jit(lambda i: batches.weights(i, parameters))
    first, second = (np.asarray(weights(i)) for i in (0, 1))
    assert first.sum(axis=0) == pytest.approx([1, 1])
    assert first[:, 0] == pytest.approx(p, abs=0.06)
    assert np.array_equal(first[:, 0], first[:, 1])  # one seed for all
    assert not np.array_equal(first, second)


def test_minibatches_are_those_that_jax_draws_ahead_or_not():
    p, seed, J, first = np.array([0.55, 0.3, 0.0, 0.15]), 2**40 + 3, jax(), 2 * AHEAD
    batches = Minibatches(p, mf.Optimizer(kind="sgd", batch_size=5))
    parameters = batches.parameters([mf.Transformer(seed=seed), mf.Transformer(seed=7), mf.Transformer(seed=seed)])

    def of_jax(key, i):
        atoms = J.random.categorical(J.random.fold_in(key, i), J.numpy.log(p), shape=(5,))
        return J.numpy.bincount(atoms, length=len(p)) * (1 / 5)

    each = J.jit(J.vmap(J.vmap(of_jax, (0, None), -1), (None, 0)))
    expected = each(J.numpy.stack([J.random.key(each) for each in (seed, 7, seed)]), np.arange(first, first + AHEAD))
    ahead = batches.ahead(2, parameters)["weight"]
    assert np.array_equal(ahead, expected)
    assert np.array_equal(batches.weights(first + 9, parameters), ahead[9])
    assert np.array_equal(batches.weights(0, parameters | {"weight": ahead[9]}), ahead[9])
    alike = batches.ahead(2, batches.parameters([mf.Transformer(seed=7)] * 2))["weight"]
    assert np.array_equal(alike, ahead[..., [1, 1]])


@pytest.mark.parametrize("model", ["gram", "full"])
def test_a_batch_of_any_size_is_drawn_in_bounded_memory_or_refused(model):
    def train(size):
        method = mf.GradientDescent(steps=2, batch_size=size)
        return mf.train(mf.Mixture(), mf.Transformer(width=2), method, model=model).dataset

    with pytest.raises(mf.SpecError, match="expected at most 262144; leave it out"):
        train(10**9)
    whole = mf.train(mf.Mixture(), mf.Transformer(width=2), mf.GradientDescent(steps=2), model=model).dataset
    assert float(train(200_000).loss[-1]) == pytest.approx(float(whole.loss[-1]), abs=1e-4)


def test_the_generator_is_threefry():
    """JAX's, and for zeros the answer that its authors give; a length that fills no block."""
    key0, key1 = np.array([0, 0x13198A2E], np.uint32), np.array([0, 0x03707344], np.uint32)
    y = np.arange(19, dtype=np.uint32)[:, None]
    x, y = threefry.encrypted(key0, key1, y)
    J = jax()
    for lane in range(2):
        key = J.random.wrap_key_data(J.numpy.stack([key0[lane], key1[lane]]))
        bits = J.random.key_data(J.vmap(J.random.fold_in, (None, 0))(key, np.arange(19)))
        assert np.array_equal(np.stack([x[:, lane], y[:, lane]], axis=1), bits)
    assert [int(x[0, 0]), int(y[0, 0])] == [0x6B200159, 0x99BA4EFE]


def test_ends_of_stages():
    assert steps_within(1.0, 0.3) == 3
    assert steps_within(1.0, 0.21) == 5  # 4.76 steps
    assert mf.Until("loss", 0.25).reached(0.25)
    assert not mf.Until("loss", 0.25).reached(0.26)
    assert mf.Until("easy_margin", 0.25).reached(0.26)
