"""`run.predict` on atoms of one's own: what the run records where it has them, what the twin computes where it has not."""

import numpy as np
import pytest
from matrix import Vote

import mixflow as mf

METHOD = mf.GradientDescent(learning_rate=0.5, steps=40, save_every=10)


@pytest.mark.parametrize(
    ("task", "network"),
    [
        (mf.Mixture(2), mf.Transformer()),
        (mf.Mixture(2, priors=(0.7, 0.3)), mf.Transformer(width=8)),
        (mf.Mixture(2), mf.Transformer(width=8, values=2, value_scale=0.3, train_bias=True, offset=True)),
        (mf.Mixture(2), mf.Transformer(width=4, activate="before", shared_attention=True)),
        (mf.Mixture(2), mf.Transformer(width=4, queries="one")),
        (mf.Mixture(2), mf.Vanilla(width=4, mlp_width=4)),
    ],
    ids=["symmetric", "priors", "options", "before", "one", "vanilla"],
)
def test_the_run_s_own_atoms_have_its_margins(task, network):
    run = mf.train(task, network, METHOD)
    population = task.population()
    answer = run.predict(population.atoms)
    np.testing.assert_allclose(population.labels * answer, run.dataset.margin[-1], rtol=0, atol=1e-12)
    assert list(answer.atom.values) == list(population.names)
    by_name = run.predict(list(population.names))
    assert np.array_equal(by_name, answer)
    if network.no_closure is None:
        before = run.predict(population.atoms, time=5.0)
        np.testing.assert_allclose(population.labels * before, run.dataset.margin.sel(time=5.0), rtol=0, atol=1e-12)


def test_the_token_that_asks():
    """The atoms of the task know theirs; others are told, by name or as a token."""
    run = mf.train(mf.Mixture(2), mf.Transformer(width=4, queries="one"), METHOD)
    own, longer = "c1 +v1 -v2", "c1 +v1 -v2 -v2"

    def said(atom, **more):
        return float(run.predict([atom], **more)[0])

    assert said(own) == said("-v2 c1 +v1") == said(own, query=["c1"])
    assert said(longer, query=["c1"]) == said(longer, query=[("c1", 1)])
    assert said(longer, query=["c1"]) != said(longer, query=["-v2"])
    with pytest.raises(mf.SpecError, match="is no atom of the run's task: say which token of each atom asks"):
        run.predict([own, longer])
    with pytest.raises(mf.SpecError, match="query has 'c1 v1': expected one token"):
        run.predict([own], query=["c1 v1"])


def test_classes_of_softmax_are_heads():
    task = mf.variants.multiclass(2, values=3)
    run = mf.train(task, mf.Transformer(width=6), METHOD)
    logits = run.predict(task.population().atoms[:4])
    assert logits.dims == ("head", "atom")
    assert logits.shape == (3, 4)
    right = task.population().labels[:4].astype(int)
    others = np.array([np.delete(logits.values[:, i], y).max() for i, y in enumerate(right)])
    np.testing.assert_allclose(logits.values[right, range(4)] - others, run.dataset.margin[-1, :4], atol=1e-12)


def test_a_read_out_of_one_s_own_answers():
    def scaled(O, parameters):
        plus, minus = O.mean(axis=-1)
        return parameters["scale"] * (plus - minus)

    network = mf.Network(scaled, mf.Transformer(width=8, omega=0.5, value_scale=0.2), parameters={"scale": 1.5})
    run = mf.train(mf.Mixture(2), network, METHOD)
    population = mf.Mixture(2).population()
    answer = run.predict(population.atoms, time=10.0)
    np.testing.assert_allclose(population.labels * answer, run.dataset.margin.sel(time=10.0), rtol=0, atol=1e-12)
    assert float(run.dataset.scale[-1]) != 1.5  # it is trained, so a wrong save would show


def test_atoms_the_task_never_had():
    """A longer atom and fractions of a token: the ten lines of NumPy that the weights make up."""
    run = mf.train(mf.Mixture(2), mf.Transformer(width=8, seed=2), METHOD)
    t = mf.export.tensors(run)
    place = {name: i for i, name in enumerate(run.task.features)}
    atom = [("c2", 1.0), ("v1", -0.5), ("v2", 2.0), ("v2", 2.0), ("c1", 1.0)]
    X = np.array([s * t["embedding"][place[name]] for name, s in atom])
    F = 0.0
    for h, sign in enumerate((1, -1)):
        scores = (X @ t["W_K"][h].T) @ (X @ t["W_Q"][h].T).T
        P = np.exp(scores) / np.exp(scores).sum(axis=0)
        F += sign * max(0.0, t["bias"][h] + np.mean((X @ t["w"][h]) @ P))
    said = run.predict([atom, "c2 -0.5v1 +2v2 +2v2 c1", "c2 -.5v1 2.v2 .2e1v2 c1"])
    np.testing.assert_allclose(said, [F, F, F], rtol=0, atol=1e-12)


def test_a_network_of_one_s_own_is_kept_in_memory_and_given_to_a_file(tmp_path):
    run = mf.train(mf.Mixture(2), Vote(), METHOD)
    path = run.save(tmp_path / "run.nc")
    with pytest.raises(mf.SpecError, match=r"no file brings: give it.* mf.load\(path, network=Vote"):
        mf.load(path).predict(["c1 +v1 -v2"])
    for each in (run, mf.load(path, network=Vote())):
        margin = each.dataset.margin[-1] * each.dataset.label
        np.testing.assert_allclose(each.predict(run.task.population().atoms), margin, rtol=0, atol=1e-12)
        assert each.transformer == Vote()
        assert int(each.extend(10).dataset.step[-1]) == int(run.dataset.step[-1]) + 10
        np.testing.assert_array_equal(each.weights()["w"], run.weights()["w"])


def test_many_classes():
    run = mf.train(mf.Mixture(40), mf.Transformer(), mf.GradientDescent(50.0, 400, save_every=100))
    signs = np.where(np.arange(40) < 25, 1, -1)
    atom = [("c3", 1.0), *((f"v{j + 1}", float(s)) for j, s in enumerate(signs))]
    type_margin = run.dataset.margin.sel(atom_type="y=+ n=24")[-1]
    assert float(run.predict([atom])[0]) == pytest.approx(float(type_margin), rel=1e-12)


@pytest.mark.parametrize(
    ("atoms", "more", "says"),
    [
        (["c1 +v9"], {}, "expected some of"),
        ([[("v9", 1)]], {}, "v9"),
        ([], {}, "at least one atom"),
        (3, {}, "a list of atoms"),
        (["c1 +v1"], {"time": 20.0000001}, r"time = 20.0000001 was not saved: .* the nearest is 20.0\.$"),
    ],
)
def test_bad_atoms_are_one_sentence(atoms, more, says):
    run = mf.train(mf.Mixture(2), mf.Transformer(), METHOD)
    with pytest.raises(mf.SpecError, match=says):
        run.predict(atoms, **more)
