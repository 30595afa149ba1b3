"""The model on images: equal to every weight's where both apply, the gradient of the definition, and a training that learns."""

import functools
from dataclasses import dataclass

import numpy as np
import pytest

import mixflow as mf
from mixflow.engines.span import Span
from mixflow.engines.weights import Weights
from mixflow.jaxed import float64
from mixflow.methods.chunks import descend
from mixflow.networks.initial import embedding
from mixflow.paper.experiments import mnist as experiment
from mixflow.tasks.tokens import Part, Tokens

# the model -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tie", [False, True])
def test_orthonormal_images_are_the_synthetic_task(tie):
    """With basis vectors for images it is every weight's engine, step for step; also with one part frozen."""
    task = mf.Mixture(classes=2).population()
    who = mf.Transformer(width=6, omega=0.6, seed=4, tie_values=tie)
    method = mf.GradientDescent()
    with float64():
        old, new = Weights(task, who, method), Span(Images(Tokens.of(task, embedding(task).T)), who, method)
        start = old.start(who)["weights"]
        begun = new.start(who)
        assert all(np.array_equal(start[name], begun[name]) for name in ("W_K", "W_Q"))
        for rates in ((0.1, 0.1), (0.1, 0.0), (0.0, 0.1)):
            a, b = (
                descend(
                    m,
                    [m.start(who)] * m.lanes,
                    m.parameters([who] * m.lanes, *(np.full(m.lanes, r) for r in rates)),
                    200,
                    100,
                )
                for m in (old, new)
            )
            seen, other = old.unstack(a.saved, 0), b.saved
            for name in ("w", "A", "G_K", "G_Q"):
                assert np.allclose(seen[name], other[name], rtol=0, atol=1e-9), (name, rates)
            end, other = old.lane(a.state, 0)["weights"], new.weights(b.state)
            assert all(np.allclose(end[name], other[name], rtol=0, atol=1e-9) for name in ("W_K", "W_Q"))


@dataclass
class Images:
    """A task of token vectors, as the engine takes it."""

    tokens: Tokens


def descended(engine, who, rates):
    parameters = engine.parameters([who] * engine.lanes, *(np.full(engine.lanes, rate) for rate in rates))
    return descend(engine, [engine.start(who)] * engine.lanes, parameters, 200, 100)


def naive_loss(state, part, probabilities, bias):
    """The definition, sample by sample."""
    total = 0.0
    for X, y, p in zip(part.tokens, part.labels, probabilities):  # X (L, d)
        z = []
        for h in (0, 1):
            S = X @ state["W_K"][h].T @ state["W_Q"][h] @ X.T  # (key, query)
            P = np.exp(S) / np.exp(S).sum(axis=0)
            z.append(bias + np.mean(state["w"][h] @ X.T @ P))
        total += p * np.logaddexp(0, -y * (max(z[0], 0) - max(z[1], 0)))
    return total


def test_a_step_follows_the_gradient_of_the_definition():
    """Finite differences of the definition, on random tokens that overlap, along random directions of every weight."""
    rng = np.random.default_rng(1)
    vectors = (rng.normal(size=(2, 7)), rng.normal(size=(4, 7)), rng.normal(size=(3, 7)))
    n = 9
    part = Part(
        vectors=vectors,
        index=np.column_stack([rng.integers(len(x), size=n) for x in vectors]),
        sign=rng.choice([-1.0, 1.0], size=(n, 3)),
        labels=rng.choice([-1.0, 1.0], size=n),
        hard=np.zeros(n, bool),
    )
    p = rng.dirichlet(np.ones(n))
    who = mf.Transformer(width=3, omega=1.0, seed=2)
    tokens = Tokens(train=part, probabilities=p, features=("c1",), directions=vectors[0][:1])
    model = Span(Images(tokens), who, mf.GradientDescent())
    state = {**model.start(who), "w": 0.3 * rng.normal(size=(2, 7))}
    eta = 1e-3
    with float64():
        run = descend(model, [state], model.parameters([who], np.array([eta]), np.array([eta])), 1, 1)
        moved = model.weights(run.state)
    for name in state:
        for _ in range(3):
            direction = rng.normal(size=state[name].shape)
            at = lambda t, name=name, d=direction: naive_loss({**state, name: state[name] + t * d}, part, p, 0.5)  # noqa: E731
            slope = (at(1e-5) - at(-1e-5)) / 2e-5
            assert np.sum((state[name] - moved[name]) / eta * direction) == pytest.approx(slope, rel=1e-6, abs=1e-9)


def test_recorded_scores_are_means_over_images():
    task = mf.Mnist(samples=30, test_samples=20, images=10)
    run = mf.train(task, mf.Transformer(width=4, seed=1, omega=0.8), mf.GradientDescent(steps=20, save_every=20))
    W_K, W_Q, w = (run.dataset[f"final_{name}"].values for name in ("W_K", "W_Q", "w"))
    t = task.tokens
    c, x1, x2 = t.train.vectors
    score = lambda x, y: np.array([(x @ K.T) @ (y @ Q.T).T for K, Q in zip(W_K, W_Q)])  # noqa: E731  (2, keys, queries)
    assert np.allclose(run.dataset.A[-1].sel(key="v1", query="v2"), score(x1, x2).mean(axis=(1, 2)))
    assert np.allclose(run.dataset.A[-1].sel(key="c2", query="v1"), score(c[1:], x1).mean(axis=(1, 2)))
    assert np.allclose(run.dataset.w[-1].sel(feature="v2"), (w @ x2.T).mean(axis=1))
    state = {"w": w, "W_K": W_K, "W_Q": W_Q}
    assert float(run.dataset.loss[-1]) == pytest.approx(naive_loss(state, t.train, t.probabilities, 0.5), rel=1e-12)
    held = naive_loss(state, t.test, np.full(20, 1 / 20), 0.5)
    assert float(run.dataset.loss_test[-1]) == pytest.approx(held, rel=1e-12)


# training ------------------------------------------------------------------------------------------------------------

SMALL = {"samples": 400, "test_samples": 200, "images": 40}


@functools.cache
def learned():
    # Few images and half the width of the experiment: 5 s of CPU, about the same accuracy.
    method = mf.GradientDescent(steps=4500, save_every=50)
    return mf.train(mf.Mnist(**SMALL), mf.Transformer(width=32, omega=0.8), method)


def test_training_learns_hard_samples_on_images_it_never_saw():
    data = learned().dataset
    assert float(data.accuracy_hard_test[0]) == 0.5
    assert float(data.accuracy_hard[-1]) > 0.98
    assert float(data.accuracy_hard_test[-1]) > 0.97
    assert float(data.accuracy_easy_test[-1]) == 1.0
    stages = learned().stages
    assert [stage.name for stage in stages if stage.found] == ["neurons", "attention", "convergence"]
    A = data.A[-1].sel(head="+")
    for k, j in ((1, 2), (2, 1)):  # the mechanism of the synthetic task: the identifier is a key for its own signal
        assert float(A.sel(key=f"c{k}", query=f"v{k}")) > float(A.sel(key=f"c{k}", query=f"v{j}")) + 1


def test_a_run_is_saved_loaded_summarised_and_drawn(tmp_path):
    from mixflow.plot.run import plot_run
    from mixflow.summary import summary, table

    path = learned().save(tmp_path / "run.nc")
    again = mf.load(path)
    assert again.dataset.identical(learned().dataset.assign_attrs(again.dataset.attrs))
    assert again.task == mf.Mnist(**SMALL)
    assert summary(again)["accuracy_test"] > 0.9
    assert "2-mixture" in table(again)
    assert np.array_equal(again.dataset.test_images, np.concatenate(again.task.split["test"]))
    assert plot_run(again).axes


def test_accuracies_are_shares_of_the_samples_they_name():
    data = learned().dataset
    for suffix in ("", "_test"):
        right, hard = (1 + np.sign(data[f"margin{suffix}"].values)) / 2, data[f"hard{suffix}"].values
        np.testing.assert_allclose(data[f"accuracy_hard{suffix}"], right[:, hard].mean(axis=1), atol=1e-12)
        np.testing.assert_allclose(data[f"accuracy_easy{suffix}"], right[:, ~hard].mean(axis=1), atol=1e-12)
    assert np.abs(data.accuracy_hard - data.accuracy_easy).max() > 0.1


def test_the_same_seed_gives_the_same_bytes():
    task, who, method = mf.Mnist(**SMALL), mf.Transformer(width=16), mf.GradientDescent(steps=60, save_every=20)
    one, two = (mf.train(task, who, method).dataset for _ in range(2))
    for name in one.data_vars:
        assert one[name].values.tobytes() == two[name].values.tobytes(), name


def test_three_stages_freeze_what_they_should():
    method = mf.ThreeStage(mf.GradientDescent(save_every=10), neurons=5, attention=5, converge=5)
    run = mf.train(mf.Mnist(**SMALL), mf.Transformer(width=8), method)
    data = run.dataset
    w, A = data.w.values, data.A.values
    first, second, third = data.time <= 5, (data.time >= 5) & (data.time <= 10), data.time >= 10
    assert np.array_equal(A[first], np.broadcast_to(A[0], A[first].shape))
    assert np.ptp(w[second], axis=0).max() == 0
    assert np.ptp(A[third], axis=0).max() == 0
    assert np.ptp(w[third], axis=0).max() > 0
    assert [stage.end for stage in run.stages][:2] == pytest.approx([5, 10])
    assert "final_W_K" in data


def test_a_run_on_images_goes_on_where_it_stopped():
    short, long = (mf.train(mf.Mnist(**SMALL), mf.Transformer(width=4), mf.GradientDescent(steps=n)) for n in (10, 20))
    np.testing.assert_allclose(mf.extend(short, 10).dataset.z, long.dataset.z, rtol=0, atol=1e-12)


def test_images_at_infinite_width_are_the_limit():
    """The mean-field network on the span of the training images, held-out ones included, is what wide networks tend to."""
    task, method = mf.Mnist(**SMALL), mf.GradientDescent(0.2, 40, save_every=40)
    limit = mf.train(task, mf.Transformer(omega=0.6), method).dataset
    far = []
    for width in (16, 1024):
        wide = mf.train(task, mf.Transformer(width=width, omega=0.6), method).dataset
        far.append(max(np.abs(wide[name] - limit[name]).values.max() for name in ("z", "z_test")))
    assert far[1] < 0.3 * far[0] < 0.1


# the experiment ------------------------------------------------------------------------------------------------------


def test_the_verdict_of_a_learned_run():
    run = learned()
    miss = experiment.misses(run)
    assert 1 - miss["wrong"] / miss["of"] == pytest.approx(float(run.dataset.accuracy_hard_test[-1]))
    assert miss["on_two_images"] <= miss["wrong"]


def test_few_seeds_show_their_range_and_no_interval():
    mean, spread = experiment.summary([0.9, 1.0])
    assert (mean, spread["low"], spread["high"]) == (pytest.approx(0.95), 0.9, 1.0)
    assert spread["over"] == "the 2 seeds, least to largest"
    _, spread = experiment.summary([0.98, 1.0] * 8)
    assert 0.98 < spread["low"] < 0.99 < spread["high"] < 1
    assert spread["over"] == "16 seeds"


def every_sample(part, W_K, W_Q, w, bias):
    """z of every sample from its token vectors, written out."""
    found = []
    for X in part.tokens:
        S = (X @ W_K.T) @ (X @ W_Q.T).T  # key, query
        P = np.exp(S) / np.exp(S).sum(axis=0)
        found.append(bias + np.mean((X @ w) @ P))
    return np.array(found)


@pytest.mark.parametrize(
    "task",
    [
        mf.Mnist(samples=12, test_samples=8, images=4),
        mf.Mnist(digits=(3, 5, 8), samples=9, test_samples=5, images=3, centre=True, identifiers="pixels"),
        mf.variants.NoisyMixture(0.5, samples=10, test_samples=7),
    ],
    ids=lambda task: type(task).__name__,
)
def test_every_token_is_a_feature_of_the_finite_task(task):
    tokens, finite = task.tokens, task.finite()
    rng = np.random.default_rng(0)
    d, n = tokens.dimension, len(tokens.train.labels)
    W_K, W_Q, w = rng.standard_normal((5, d)), rng.standard_normal((5, d)), rng.standard_normal(d)
    rows = {}
    for part, atoms in ((tokens.train, finite.atoms[:n]), (tokens.test, finite.atoms[n:])):
        for X, atom in zip(part.tokens, atoms, strict=True):
            for x, (name, sign) in zip(X, atom, strict=True):
                rows.setdefault(name, sign * x)
    rows |= dict(zip(tokens.features, tokens.directions))
    Phi = np.array([rows[name] for name in finite.features])
    assert np.allclose(Phi @ Phi.T, finite.gram, rtol=0, atol=1e-12)
    A = (Phi @ W_K.T) @ (Phi @ W_Q.T).T
    f, c = finite.token_feature, finite.token_coefficient
    z = []
    for index in finite.token_index:
        S = c[index][:, None] * A[np.ix_(f[index], f[index])] * c[index]
        P = np.exp(S) / np.exp(S).sum(axis=0)
        z.append(0.5 + np.mean((c[index] * (Phi @ w)[f[index]]) @ P))
    expected = np.concatenate([every_sample(part, W_K, W_Q, w, 0.5) for part in (tokens.train, tokens.test)])
    assert np.allclose(z, expected, rtol=0, atol=1e-9)
    assert np.array_equal(finite.labels, np.concatenate([tokens.train.labels, tokens.test.labels]))
    assert np.array_equal(finite.hard, np.concatenate([tokens.train.hard, tokens.test.hard]))
    assert np.array_equal(finite.probabilities, np.r_[tokens.probabilities, np.zeros(len(tokens.test.labels))])
    assert finite.held_out[:n].sum() == 0
    assert np.ptp(finite.held_out[n:]) == 0
    assert finite.watched == tokens.features
    assert finite.identifiers == tokens.features[: len(tokens.features) // 2]


def test_coordinates_in_the_span_keep_every_product():
    tokens = mf.variants.NoisyMixture(0.5, samples=2, test_samples=2, dimension=40).tokens
    inside = tokens.in_span()
    assert inside.dimension == 6  # two samples of three tokens
    for name in ("train", "test"):
        before, after = (getattr(each, name).rows @ each.train.rows.T for each in (tokens, inside))
        np.testing.assert_allclose(after, before, atol=1e-12)
    np.testing.assert_allclose(
        inside.directions @ inside.train.rows.T, tokens.directions @ tokens.train.rows.T, atol=1e-12
    )


def test_too_many_tokens_are_refused():
    with pytest.raises(mf.SpecError, match="expected at most 8192; take fewer"):
        mf.variants.NoisyMixture(0.5, samples=3000).finite()
