"""Observables by hand on small states, and labelled on a dataset with the public schema."""

import math

import numpy as np
import pytest
import twin
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

import mixflow as mf
from mixflow.engines import forward
from mixflow.measure import observables
from mixflow.networks.transformer import Transformer
from mixflow.tasks import FiniteTask, Mixture

pytestmark = pytest.mark.filterwarnings("error")

TASK = Mixture(2, priors=(0.75, 0.25)).population()


def test_losses_are_weighted_by_probability():
    margin = np.where(TASK.hard, np.where(np.arange(8) < 4, 0.0, 1.0), 2.0)
    got = observables.losses(TASK, margin)
    hard = 0.75 * math.log(2) + 0.25 * math.log1p(math.exp(-1))
    easy = math.log1p(math.exp(-2))
    assert got["hard"] == pytest.approx(hard, abs=1e-15)
    assert got["easy"] == pytest.approx(easy, abs=1e-15)
    assert got["all"] == pytest.approx((easy + hard) / 2, abs=1e-15)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(-1000, 1000), min_size=8, max_size=8))
def test_the_loss_is_the_mixture_of_easy_and_hard_at_any_margin(margin):
    got = observables.losses(TASK, np.array(margin))
    share = TASK.probabilities[TASK.hard].sum()
    assert got["all"] == pytest.approx(share * got["hard"] + (1 - share) * got["easy"], rel=1e-12)
    assert 0 <= observables.accuracy(TASK, np.array(margin)) <= 1


def test_no_hard_samples_give_nan_without_a_warning():
    task = FiniteTask(features=("v1",), atoms=[[("v1", 1)], [("v1", -1)]], labels=[1, -1])
    got = observables.losses(task, np.ones((3, 2)))
    assert np.isnan(got["hard"]).all()
    assert got["hard"].shape == (3,)
    np.testing.assert_allclose(got["easy"], got["all"])


def test_ties_count_as_half_and_rounding_is_a_tie():
    margin = np.where(TASK.hard, 1e-16 * (-1) ** np.arange(8), 1.0)
    assert observables.accuracy(TASK, np.zeros(8)) == pytest.approx(0.5)
    assert observables.accuracy(TASK, margin) == pytest.approx(0.75)
    assert observables.accuracy(TASK, np.abs(margin)) == pytest.approx(0.75)
    assert observables.accuracy(TASK, np.where(np.arange(8) < 4, 1.0, -1.0)) == pytest.approx(
        0.75
    )  # the prior of class 1


def test_alignment_uses_the_norm_of_the_features():
    gram = np.array([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 4, 1.2], [0, 0, 1.2, 1]])
    task = Mixture(2, gram=gram)
    Phi = np.linalg.cholesky(gram).T  # columns are feature vectors
    w = np.array([[0.3, -0.2, 0.5, 0.1], [0, 0, 0, 0]])
    got = observables.alignment(task, w @ Phi)
    expected = w[0] @ Phi / (np.linalg.norm(w[0]) * np.linalg.norm(Phi, axis=0))
    np.testing.assert_allclose(got["cosine"][0], expected, atol=1e-14)
    assert (got["cosine"][1] == 0).all()


def test_the_identifier_as_key_and_as_query():
    A = np.arange(32.0).reshape(2, 4, 4)
    got = observables.attention_scores(Mixture(2), A)
    assert got["identifier_as_key"].shape == (2, 2, 4)
    assert got["identifier_as_query"].shape == (2, 4, 2)
    assert got["identifier_as_key"][0, 1, 3] == A[0, 1, 3]  # c2 as key of the query v2
    assert got["identifier_as_query"][1, 3, 0] == A[1, 3, 0]  # c1 as query of the key v2


def test_attention_probabilities_per_feature():
    A = np.zeros((2, 4, 4))
    A[0, 0, 3] = math.log(4)  # key c1, query v2
    P = observables.attention_probabilities(Mixture(2), A)
    a = Mixture(2).population().names.index("c1 +v1 -v2")
    np.testing.assert_allclose(P[0, a, :, 3], np.array([0.25, 0, 1, 1]) / 2.25, atol=1e-15)
    np.testing.assert_allclose(P[0, a, :, 2], np.array([1, 0, 1, 1]) / 3, atol=1e-15)
    assert np.isnan(P[0, a, :, 1]).all()  # c2 is not in the atom: no such query


def test_attention_probabilities_of_repeated_tokens_sum_to_one():
    task = FiniteTask(
        features=("c1", "v1"), atoms=[[("c1", 1), ("v1", 1), ("v1", -1), ("v1", -1)], [("v1", 1)]], labels=[1, -1]
    )
    A = np.random.default_rng(0).standard_normal((3, 2, 2, 2))
    P = observables.attention_probabilities(task, A)
    np.testing.assert_allclose(P.sum(axis=-2)[..., 0, :], 1, atol=1e-14)
    np.testing.assert_allclose(P[..., 1, :, 1], np.broadcast_to([0, 1], (3, 2, 2)), atol=1e-15)


def dataset(task, run, bias=0.5):
    z = forward.preactivation(task, run["w"], run["A"], bias)
    names = list(task.features)
    return xr.Dataset(
        {
            "w": (("time", "head", "feature"), run["w"]),
            "A": (("time", "head", "key", "query"), run["A"]),
            "z": (("time", "head", "atom"), z),
            "margin": (("time", "atom"), forward.margin(task, z)),
        },
        coords={
            "time": run["time"],
            "head": ["+", "-"],
            "feature": names,
            "key": names,
            "query": names,
            "atom": list(task.names),
        },
    )


@pytest.mark.parametrize("options", [{"heads": 4}, {"queries": "sum"}])
def test_observe_gives_the_losses_of_any_network(options):
    run = mf.train(
        Mixture(2, loss="squared"), Transformer(width=4, **options), mf.GradientDescent(0.1, 4, save_every=2)
    )
    got = observables.observe(run.dataset, run.task)
    for name in ("loss", "loss_easy", "loss_hard", "accuracy"):
        np.testing.assert_allclose(got[name], run.dataset[name], rtol=1e-14)


def test_observe_names_every_axis_and_agrees_with_the_run():
    task = Mixture(2).population()
    run = twin.twin_descent(task, Transformer(), 0.1, 400, 50)
    data = dataset(task, run)
    got = observables.observe(data, task)
    np.testing.assert_allclose(got.loss, run["loss"], rtol=0, atol=1e-15)
    assert got.accuracy.values[0] == 0.5
    assert got.accuracy.values[-1] == 1.0
    assert float(got.score_identifier_as_key.sel(identifier="c1", query="v1", head="+")[-1]) == run["A"][-1, 0, 0, 2]
    assert float(got.score_identifier_as_query.sel(identifier="c2", key="v1", head="-")[-1]) == run["A"][-1, 1, 2, 1]
    z = 0.5 + (got.phi * data.w).sum("feature")
    np.testing.assert_allclose(z.transpose("time", "head", "atom"), data.z, rtol=0, atol=1e-14)
    shuffled = observables.observe(data.transpose("atom", "query", "key", "feature", "head", "time"), task)
    xr.testing.assert_equal(got, shuffled)


FEW = mf.GradientDescent(0.1, 4, save_every=2)


@pytest.mark.parametrize("options", [{"queries": "one"}, {"queries": "sum"}, {"values": 2, "value_scale": 0.3}])
def test_what_the_queries_of_the_run_s_own_network_read(options):
    run = mf.train(Mixture(2), Transformer(width=4, **options), FEW)
    got = observables.observe(run.dataset, run.task)
    z = 0.5 + (got.phi * got.w).sum("feature")
    np.testing.assert_allclose(z.transpose(*run.dataset.z.dims), run.dataset.z, rtol=0, atol=1e-13)


def test_each_run_of_a_batch_asks_in_its_own_way():
    queries = ("mean", "one", "sum")
    runs = mf.train_many(Mixture(2), [Transformer(width=4, queries=each) for each in queries], FEW)
    for data in (runs.dataset, runs.dataset.isel(run=[2, 0]), runs.dataset.isel(run=1)):
        got = observables.observe(data, Mixture(2))
        z = 0.5 + (got.phi * got.w).sum("feature")
        np.testing.assert_allclose(z.transpose(*data.z.dims), data.z, rtol=0, atol=1e-13)


def test_what_cannot_be_observed_is_one_sentence():
    run = mf.train(Mixture(2), Transformer(width=4), FEW)
    for task, says in (
        (Mixture(3), "the features of the dataset are .* and those of the task .*: give run.task"),
        (Mixture(12), "this task has no such list; give run.task"),
        (mf.variants.repeated(2), "give run.task"),
        (mf.variants.NoisyMixture(sigma=0.1), "this task has no such list; give run.task"),
    ):
        with pytest.raises(mf.SpecError, match=says):
            observables.observe(run.dataset, task)
    vanilla, many = mf.Vanilla(width=4, mlp_width=4), mf.train(Mixture(12), Transformer(), FEW)
    for other in (mf.train(Mixture(2), vanilla, FEW), many):
        with pytest.raises(mf.SpecError, match="the dataset has no w along head, feature: observe reads"):
            observables.observe(other.dataset, other.task)
