"""Descent as a service: batches, continuation, interruption, divergence, minibatches, samples."""

import math
from dataclasses import replace

import numpy as np
import pytest

import mixflow as mf
from mixflow.engines.lanes import LANES
from mixflow.methods import chunks as descent


def same(a, b):
    """Bit for bit, NaN included."""
    return all(
        np.array_equal(a[name].values, b[name].values, equal_nan=a[name].dtype.kind == "f") for name in b.data_vars
    )


METHOD = mf.GradientDescent(0.1, 150, save_every=40)
BASE = mf.Transformer(width=8, omega=0.5, seed=2)


class TestMany:
    def test_members_equal_single_runs_bit_for_bit(self):
        models = [mf.Transformer(width=w, omega=o, bias=b, seed=s)
                  for w, o, b, s in [(8, 0.3, 0.5, 0), (8, 0.9, 0.1, 1), (64, 0.3, 0.5, 2), (math.inf, 0.2, 0.5, 0)]]  # fmt: skip
        models += [mf.Transformer(width=16, seed=s) for s in range(LANES + 1)]  # more than one group
        models += [mf.Transformer(width=8, tie_values=True)]  # another program
        runs = mf.train_many(mf.Mixture(2), models, METHOD)
        batch = runs.dataset
        for i, model in enumerate(models):
            single = mf.train(mf.Mixture(2), model, METHOD).dataset
            assert set(runs[i].dataset.variables) == set(single.variables)
            assert same(single, runs[i].dataset), model
        assert batch.model.values[3] == "symmetric"
        assert batch.width.values[3] == math.inf

    def test_place_in_the_lanes_does_not_matter(self):
        models = [mf.Transformer(width=8, seed=s) for s in range(LANES)]
        forward = mf.train_many(mf.Mixture(3), models, METHOD).dataset
        backward = mf.train_many(mf.Mixture(3), models[::-1], METHOD).dataset
        assert same(forward, backward.isel(run=slice(None, None, -1)))

    def test_a_diverging_member_leaves_the_others_alone(self):
        models = [mf.Transformer(width=8), mf.Transformer(width=8, omega=60.0)]
        batch = mf.train_many(mf.Mixture(2), models, METHOD).dataset
        assert batch.diverged_step.values[0] == -1
        assert batch.diverged_step.values[1] > 0
        assert np.isnan(batch.loss.values[1, -1])
        assert same(mf.train(mf.Mixture(2), models[0], METHOD).dataset, batch.isel(run=0))

    def test_full_members_equal_single_runs(self):
        models = [mf.Transformer(width=4, seed=s) for s in range(2)]
        batch = mf.train_many(mf.Mixture(2), models, METHOD, model="full").dataset
        single = mf.train(mf.Mixture(2), models[1], METHOD, model="full").dataset
        assert np.array_equal(single.A.values, batch.A.values[1])

    @pytest.mark.parametrize(
        ("models", "method", "more"),
        [
            ([BASE, replace(BASE, seed=4)], replace(METHOD, steps=60, momentum=0.5), 30),
            ([BASE, mf.Transformer()], mf.GradientFlow(until=20.0), 5.0),
            ([BASE, replace(BASE, seed=4)], mf.ThreeStage(mf.GradientDescent(0.1), 2.0, 2.0, 2.0), 10),
            ([BASE, replace(BASE, width=5)], mf.Optimizer(kind="adam", steps=20, learning_rate=0.01), 10),
            ([BASE, replace(BASE, attention="tied"), replace(BASE, train_bias=True), mf.Transformer()], METHOD, 10),
        ],
    )
    def test_members_are_their_single_runs_and_go_on(self, models, method, more, tmp_path):
        task = mf.Mixture(2)
        runs = mf.load(mf.train_many(task, models, method).save(tmp_path / "runs.nc"))
        for i, model in enumerate(models):
            single = mf.train(task, model, runs[i].method)
            for one, other in ((runs[i], single), (runs[i].extend(more), single.extend(more))):
                assert set(one.dataset.variables) == set(other.dataset.variables)
                assert same(one.dataset, other.dataset)
                told = {*one.dataset.attrs} ^ {*other.dataset.attrs}
                assert told == ({"certificate"} if method.flows else set())
            mf.load(runs[i].save(tmp_path / "one.nc"))

    def test_slices(self):
        runs = mf.train_many(mf.Mixture(2), [replace(BASE, seed=s) for s in range(3)], METHOD)
        assert (
            [run.transformer.seed for run in runs[1:]]
            == [1, 2]
            == [net["seed"] for net in runs[1:].spec["transformers"]]
        )
        assert [run.transformer.seed for run in runs[::-1][:2]] == [2, 1]
        assert same(runs[1:][0].dataset, runs[1].dataset)
        assert len(runs) == len(runs.spec["transformers"]) == 3
        with pytest.raises(mf.SpecError, match="none of the 3 runs"):
            runs[3:]

    def test_networks_with_other_labels_are_refused(self):
        one = mf.Transformer(width=5, heads=1, offset=True)
        for pair in ([BASE, one], [one, BASE]):
            with pytest.raises(mf.SpecError, match=r"networks\[0\] and networks\[1\] record different things, head is"):
                mf.train_many(mf.Mixture(2), pair, METHOD)
        with pytest.raises(mf.SpecError, match="w has dimensions"):
            mf.train_many(mf.Mixture(2), [BASE, replace(BASE, values=2, value_scale=0.1)], METHOD)

    def test_empty(self):
        with pytest.raises(mf.SpecError, match="at least one"):
            mf.train_many(mf.Mixture(2), [])


class TestSaves:
    def test_grid(self):
        data = mf.train(mf.Mixture(2), method=METHOD).dataset
        assert data.step.values.tolist() == [0, 40, 80, 120, 150]
        np.testing.assert_allclose(data.time, 0.1 * data.step)

    def test_recording_more_often_changes_no_bit(self):
        fine = mf.train(mf.Mixture(2), mf.Transformer(width=8), mf.GradientDescent(0.1, 150, save_every=1)).dataset
        coarse = mf.train(mf.Mixture(2), mf.Transformer(width=8), mf.GradientDescent(0.1, 150, save_every=50)).dataset
        assert same(fine.isel(time=slice(None, None, 50)), coarse)

    def test_save_interval_longer_than_a_call(self, monkeypatch):
        whole = mf.train(mf.Mixture(2), mf.Transformer(width=8), mf.GradientDescent(0.1, 150, save_every=150)).dataset
        monkeypatch.setattr(descent, "CALL_SECONDS", 1e-9)  # every call is then as short as allowed
        pieces = mf.train(mf.Mixture(2), mf.Transformer(width=8), mf.GradientDescent(0.1, 150, save_every=150)).dataset
        assert same(whole, pieces)


@pytest.mark.parametrize(
    ("model", "transformer", "batch_size"),
    [
        ("symmetric", mf.Transformer(), None),
        ("gram", mf.Transformer(width=8), None),
        ("full", mf.Transformer(width=8, dimension=6), None),
        ("full", mf.Transformer(width=8), 3),
    ],
)
def test_a_continued_run_is_identical_to_a_long_one(tmp_path, model, transformer, batch_size):
    short, long = (
        mf.train(mf.Mixture(2), transformer, mf.GradientDescent(0.1, n, 40, batch_size=batch_size), model=model)
        for n in (150, 275)
    )
    short.save(tmp_path / "short.nc")
    continued = mf.extend(mf.load(tmp_path / "short.nc"), 125)
    assert same(continued.dataset, long.dataset)
    assert continued.dataset.step.values.tolist() == long.dataset.step.values.tolist()
    assert continued.spec == long.spec


def test_interruption_keeps_what_was_computed_and_can_be_continued():
    def stop(done, total):
        if done > 30:
            raise KeyboardInterrupt

    method = mf.GradientDescent(0.1, 500_000, save_every=100_000)
    with pytest.raises(mf.Interrupted, match="kept") as caught:
        mf.train(mf.Mixture(2), mf.Transformer(width=8), method, progress=stop)
    kept = caught.value.run
    done = int(kept.dataset.step[-1])
    assert 30 < done < 500_000
    assert kept.dataset.attrs["finished"] == 0
    straight = mf.train(mf.Mixture(2), mf.Transformer(width=8), mf.GradientDescent(0.1, done + 10, 100_000))
    assert same(mf.extend(kept, 10).dataset, straight.dataset)


@pytest.mark.parametrize(("model", "rate"), [("gram", 200.0), ("full", 1e200)])
def test_divergence_names_the_exact_step_and_keeps_the_history(model, rate):
    def attempt(save_every):
        with pytest.raises(mf.DivergedError, match="lower the learning rate") as caught:
            mf.train(mf.Mixture(2), mf.Transformer(width=8), mf.GradientDescent(rate, 3000, save_every), model=model)
        return caught.value

    fine, coarse = attempt(1), attempt(7)
    assert fine.step == coarse.step > 1
    assert int(fine.run.dataset.step[-1]) == fine.step - 1
    assert np.isfinite(fine.run.dataset.A.values).all()
    assert int(coarse.run.dataset.step[-1]) == (fine.step - 1) // 7 * 7


class TestMinibatch:
    def test_mean_over_batches_is_the_full_gradient(self):
        method = mf.GradientDescent(1e-3, 4000, 4000, batch_size=4)
        noisy = mf.train(mf.Mixture(2), mf.Transformer(width=8), method).dataset
        smooth = mf.train(mf.Mixture(2), mf.Transformer(width=8), mf.GradientDescent(1e-3, 4000, 4000)).dataset
        assert noisy.attrs["model"] == "gram"
        difference = np.abs(noisy.w.values[-1] - smooth.w.values[-1]).max()
        assert 1e-4 < difference < 0.1 * np.abs(smooth.w.values[-1]).max()

    def test_seed_decides(self):
        a, b, c = (
            mf.train(mf.Mixture(2), mf.Transformer(width=4), mf.GradientDescent(0.1, 20, batch_size=2, batch_seed=s))
            for s in (0, 0, 1)
        )
        assert same(a.dataset, b.dataset)
        assert not same(a.dataset, c.dataset)


class TestSample:
    def test_split_is_recorded_and_used(self):
        sample = mf.Mixture(2).sample(60, seed=3, test_fraction=0.5)
        data = mf.train(sample, mf.Transformer(width=8), METHOD).dataset
        joined = np.sort(np.concatenate([data.train_index, data.test_index]))
        assert joined.tolist() == list(range(60))
        k, s = sample.drawn
        names = [
            f"c{c + 1} " + " ".join(f"{'+' if x > 0 else '-'}v{j + 1}" for j, x in enumerate(row))
            for c, row in zip(k, s)
        ]
        margins = data.margin.isel(time=-1).sel(atom=[names[i] for i in data.test_index.values])
        expected = np.logaddexp(0, -margins.values).mean()
        assert float(data.loss_test[-1]) == pytest.approx(expected, rel=1e-12)

    def test_learns_the_training_frequencies(self):
        sample = mf.Mixture(2).sample(40, seed=0)
        task = sample.population()
        run = mf.train(sample, mf.Transformer(width=8), METHOD).dataset
        direct = mf.train(
            mf.FiniteTask(
                features=task.features, atoms=task.atoms, labels=task.labels, probabilities=task.probabilities
            ),
            mf.Transformer(width=8),
            METHOD,
        ).dataset
        assert np.array_equal(run.w.values, direct.w.values)


def test_progress_reaches_the_end():
    seen = []
    mf.train(mf.Mixture(2), method=METHOD, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (150, 150)
    assert seen == sorted(seen)


@pytest.mark.parametrize("model", ["gram", "full", "symmetric"])
def test_rates_of_neurons_and_attention(model):
    """A rate of 0 freezes; the rate of a part is its own η; both at once are the learning rate."""
    width = math.inf if model == "symmetric" else 8

    def final(rate, **rates):
        method = mf.GradientDescent(rate, 60, save_every=60, **rates)
        return mf.train(mf.Mixture(2), mf.Transformer(width=width), method, model=model).expand().dataset.isel(time=-1)

    still = final(0.1, attention_rate=0.0)
    staged = mf.ThreeStage(mf.GradientDescent(0.1, save_every=60), neurons=6.0, attention=0.1, converge=0.1)
    alone = mf.train(mf.Mixture(2), mf.Transformer(width=width), staged, model=model).expand().dataset
    np.testing.assert_allclose(still.w, alone.w.sel(time=6.0), rtol=0, atol=1e-14)
    assert np.abs(final(0.1, neurons_rate=0.0).w).max() == 0 < np.abs(still.w).max()
    twice, parts = final(0.2), final(0.1, neurons_rate=2.0, attention_rate=2.0)
    np.testing.assert_allclose(parts.A, twice.A, rtol=0, atol=1e-15)
    assert np.abs(final(0.1, attention_rate=2.0).A - twice.A).max() > 1e-6
