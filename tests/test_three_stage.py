"""Algorithm 1: the reference losses, switches by time and by event, defaults over the whole grid, every model."""

import json
import math

import numpy as np
import pytest
from twin import three_stage

import mixflow as mf
from mixflow.measure.separability import feature_margin
from mixflow.methods.chunks import History

TIMES = {"neurons": 100, "attention": 500, "converge": 500}


@pytest.mark.parametrize("model", ["symmetric", "gram"])
def test_reference_losses_by_descent(model):
    run = mf.train(
        mf.Mixture(2), mf.Transformer(omega=0.3), mf.ThreeStage(mf.GradientDescent(0.1), **TIMES), model=model
    )
    losses = [f"{float(run.dataset.loss.sel(time=t, method='nearest')):.5f}" for t in (100, 600, 1100)]
    assert losses == ["0.40709", "0.20165", "0.01448"]
    assert [switch["trigger"] for switch in run.switches] == ["time"] * 3


@pytest.mark.parametrize("model", ["gram", "full"])
def test_finite_width_equals_the_twin(model):
    transformer = mf.Transformer(width=8, seed=2)
    method = mf.ThreeStage(mf.GradientDescent(0.1, save_every=7), neurons=5, attention=6, converge=4)
    run = mf.train(mf.Mixture(2), transformer, method, model=model).dataset
    expected = three_stage(mf.Mixture(2), transformer, 0.1, (50, 60, 40), 10)
    for name in ("w", "A", "G_K", "G_Q"):
        np.testing.assert_allclose(run[name].values[-1], expected[name][-1], rtol=0, atol=1e-11)


def test_each_stage_moves_only_its_own_part():
    data = mf.train(mf.Mixture(2), mf.Transformer(width=8), mf.ThreeStage(mf.GradientDescent(0.1), 20, 30, 10)).dataset
    between = lambda a, b: data.sel(time=slice(a - 1e-9, b + 1e-9))  # noqa: E731
    frozen = lambda x: np.array_equal(x.values[0], x.values[-1])  # noqa: E731
    for a, b, still, moves in ((0, 20, "A", "w"), (20, 50, "w", "A"), (50, 60, "A", "w")):
        part = between(a, b)
        assert frozen(part[still])
        assert not frozen(part[moves])


def test_descent_tends_to_the_flow():
    flow = mf.train(mf.Mixture(2), mf.Transformer(), mf.ThreeStage(mf.GradientFlow(rtol=1e-10), **TIMES)).dataset
    rates = 0.2 * 0.5 ** np.arange(6)
    distance = []
    for rate in rates:
        data = mf.train(mf.Mixture(2), mf.Transformer(), mf.ThreeStage(mf.GradientDescent(rate), **TIMES)).dataset
        distance.append(np.abs(data.A.values[-1] - flow.A.values[-1]).max())
    # Where a step falls relative to a kink makes single points jitter, so the order is fitted over six rates.
    assert np.polyfit(np.log(rates), np.log(distance), 1)[0] == pytest.approx(1.0, abs=0.25)


@pytest.mark.parametrize("inside", [mf.GradientDescent(0.1, save_every=10), mf.GradientFlow(rtol=1e-8)])
def test_events_fire_where_they_say(inside):
    method = mf.ThreeStage(
        inside, mf.Until("easy_margin", 1.5), mf.Until("feature_margin", 0.2), mf.Until("loss", 0.05)
    )
    run = mf.train(mf.Mixture(2), mf.Transformer(omega=0.5), method)
    data = run.dataset
    assert [switch["trigger"] for switch in run.switches] == ["easy_margin", "feature_margin", "loss"]
    at = [data.sel(time=switch["end"], method="nearest") for switch in run.switches]
    easy = ~data.hard.values.astype(bool)
    seen = [at[0].margin.values[easy].min(), feature_margin(run.task, at[1].A.values), float(at[2].loss)]
    assert seen == pytest.approx([s["value"] for s in run.switches], rel=1e-9)
    # Descent looks every 10 steps, so it overshoots a little; the flow stops at the root.
    assert seen == pytest.approx([1.5, 0.2, 0.05], rel=1e-6 if isinstance(inside, mf.GradientFlow) else 0.05)
    boundaries = [stage.end for stage in run.stages][:2]
    assert boundaries == pytest.approx([switch["end"] for switch in run.switches[:2]], rel=0.02)


@pytest.mark.parametrize("omega", [0.05, 0.3, 0.9])
@pytest.mark.parametrize("bias", [0.1, 0.5, 1.0])
def test_defaults_reach_small_loss_by_flow(omega, bias):
    run = mf.train(mf.Mixture(2), mf.Transformer(omega=omega, bias=bias), mf.ThreeStage(mf.GradientFlow(rtol=1e-7)))
    assert all(switch["reached"] for switch in run.switches), run.switches
    assert float(run.dataset.loss[-1]) <= 1e-3 * (1 + 1e-6)
    assert [stage.found for stage in run.stages] == [True] * 3


def test_a_threshold_that_is_never_reached_ends_at_the_limit_and_says_so():
    method = mf.ThreeStage(
        mf.GradientFlow(), 50, mf.Until("feature_margin", 5.0, limit=30), mf.Until("loss", 1e-9, limit=20)
    )
    with pytest.warns(UserWarning, match="choose another end") as told:
        run = mf.train(mf.Mixture(2), mf.Transformer(), method)
    assert "stage 2 (attention) reached its limit at t = 80: feature_margin was" in str(told[0].message)
    assert "stage 3 (convergence) reached its limit at t = 100: loss was" in str(told[1].message)
    assert [switch["trigger"] for switch in run.switches] == ["time", "limit", "limit"]
    assert [switch["reached"] for switch in run.switches] == [True, False, False]
    assert float(run.dataset.time[-1]) == pytest.approx(100)


def test_descent_does_not_wait_where_nothing_moves_any_more():
    attention = mf.Until("feature_margin", 0.1)  # but with omega = 0 attention has no gradient
    method = mf.ThreeStage(mf.GradientDescent(save_every=100), attention=attention, converge=mf.Until("loss", 0.5))
    with pytest.warns(
        UserWarning, match=r"^stage 2 \(attention\) stood still at t = 50: feature_margin was 0 and was to"
    ):
        run = mf.train(mf.Mixture(2), mf.Transformer(omega=0), method)
    assert [switch["trigger"] for switch in run.switches] == ["easy_margin", "standstill", "loss"]
    assert [switch["end"] for switch in run.switches] == [50, 50, 60]
    drawn = mf.ThreeStage(mf.GradientDescent(batch_size=1), 1, mf.Until("feature_margin", 0.1, limit=500), 1)
    with pytest.warns(UserWarning, match=r"reached its limit at t = 501:"):  # the next batch may be another
        assert mf.train(mf.Mixture(2), mf.Transformer(omega=0), drawn).switches[1]["trigger"] == "limit"


def test_a_standstill_begins_at_the_first_row_that_repeats_wherever_a_call_ended():
    rows, steps = np.array([[1.0, 0.0], [3.0, 0.0], [3.0, 1.0], [3.0, 1.0], [3.0, 1.0]]), [0, 10, 20, 30, 40]
    for cut in range(1, 5):
        history = History(steps=steps, parts=[{"x": rows[:cut]}, {"x": rows[cut:]}])
        history.drop_repeated()
        assert history.steps == [0, 10, 20]
        np.testing.assert_array_equal(history.saved["x"], rows[:3])


def test_every_stage_of_a_flow_is_certified():
    method = mf.ThreeStage(mf.GradientFlow(), converge=mf.Until("loss", 0.1))
    run = mf.train(mf.Mixture(2), mf.Transformer(width=32, seed=1), method)
    proofs = run.certificate
    assert [proof["stage"] for proof in proofs] == [switch["name"] for switch in run.switches]
    assert [proof["time"] for proof in proofs] == [[switch["start"], switch["end"]] for switch in run.switches]
    assert all(proof["relative_difference"] < 1e-8 and proof["same_events"] for proof in proofs)
    assert max(proof["relative_drift_tr_C2"] for proof in proofs) < 1e-8
    # A stage that is over before it begins has nothing to prove, and does not fail.
    over = mf.train(mf.Mixture(2), mf.Transformer(), mf.ThreeStage(mf.GradientFlow(), mf.Until("loss", 0.9), 5, 5))
    assert over.certificate[0]["time"] == [0, 0]
    assert mf.train(mf.Mixture(2), mf.Transformer(), mf.ThreeStage(mf.GradientDescent(), 5, 5, 5)).certificate is None


def test_three_mixtures_watch_all_samples():
    method = mf.ThreeStage(mf.GradientFlow(rtol=1e-7), 50, mf.Until("feature_margin", 0.01), converge=10)
    run = mf.train(mf.Mixture(3), mf.Transformer(omega=0.5), method)
    assert run.switches[1]["trigger"] == "feature_margin"
    assert run.switches[1]["end"] > run.switches[1]["start"] + 1


def test_many_classes_on_the_symmetric_model():
    run = mf.train(mf.Mixture(30), mf.Transformer(omega=0.5), mf.ThreeStage(mf.GradientDescent(1.0), 40, 40, 20))
    assert float(run.dataset.time[-1]) == 100


def test_an_event_the_task_cannot_have_is_refused_before_the_first_step():
    def moved(done, total):
        raise AssertionError("a stage was trained before the next one's end was looked at")

    with pytest.raises(mf.SpecError, match="end the attention stage after a time"):
        mf.train(mf.Mixture(30), mf.Transformer(), mf.ThreeStage(mf.GradientDescent(1.0)), progress=moved)


def test_round_trip(tmp_path):
    for method in (mf.ThreeStage(mf.GradientFlow(), 10, 10, 10), mf.ThreeStage(mf.GradientDescent(0.1), 10, 10, 10)):
        run = mf.train(mf.Mixture(2), mf.Transformer(), method)
        run.save(tmp_path / "run.nc")
        loaded = mf.load(tmp_path / "run.nc")
        assert loaded.method == method
        assert loaded.switches == run.switches
        assert loaded.events == run.events
        assert loaded.certificate == run.certificate
        json.dumps(loaded.switches)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: mf.ThreeStage("flow"), "expected a method of kind descent or flow"),
        (lambda: mf.ThreeStage(neurons=0), "neurons = 0"),
        (lambda: mf.ThreeStage(attention=math.inf), "attention = inf"),
        (lambda: mf.ThreeStage(converge="soon"), "expected a duration or Until"),
        (lambda: mf.ThreeStage(mf.GradientFlow(save_at=[1.0])), "save_at lists times"),
        (lambda: mf.Until("los", 1.0), "did you mean 'loss'"),
        (lambda: mf.Until("loss", -1.0), "threshold = -1"),
        (lambda: mf.Until("loss", 1.0, limit=0), "limit = 0"),
        (lambda: mf.train(mf.Mixture(2), mf.Transformer(width=4), mf.GradientFlow(), model="full"), "no gradient flow"),
    ],
)
def test_bad_input(call, says):
    with pytest.raises(mf.SpecError, match=says) as caught:
        call()
    assert "\n" not in str(caught.value)


class TestCompare:
    def test_first_order_before_the_first_switch_off(self):
        sides = mf.compare(mf.Mixture(2), until=10.0, points=10, learning_rates=(0.1, 0.05, 0.025, 0.0125))
        assert float(sides.order) == pytest.approx(1.0, abs=0.05)
        assert float(sides.distance.sel(trajectory="flow").max()) == 0

    def test_finite_width_has_its_mean_field_beside_it(self):
        sides = mf.compare(mf.Mixture(2), mf.Transformer(width=64), until=20.0, points=10, learning_rates=(0.1,))
        assert "mean-field flow" in sides.trajectory.values
        assert 0 < float(sides.distance.sel(trajectory="mean-field flow")[-1]) < 0.2

    def test_learning_rates_must_fit_the_grid(self):
        with pytest.raises(mf.SpecError, match="does not divide"):
            mf.compare(mf.Mixture(2), until=10.0, points=10, learning_rates=(0.3,))

    @pytest.mark.parametrize("given", [True, False, 3.0, (1.0,), (5.0, 5.0), "ab"])
    def test_durations_of_two_stages(self, given):
        with pytest.raises(mf.SpecError, match=r"three_stage = .*: expected two durations"):
            mf.compare(mf.Mixture(2), until=10.0, points=10, three_stage=given)


class TestMany:
    def test_flow_members_equal_single_runs(self):
        models = [mf.Transformer(width=16, seed=0), mf.Transformer(width=16, seed=1), mf.Transformer()]
        method = mf.GradientFlow(until=40.0, save_at=20)
        batch = mf.train_many(mf.Mixture(2), models, method).dataset
        for i, model in enumerate(models):
            single = mf.train(mf.Mixture(2), model, method)
            assert np.array_equal(batch.A.values[i], single.dataset.A.values)
            assert int(batch.events[i]) == len(single.events) > 0

    def test_staged_members_equal_single_runs(self):
        models = [mf.Transformer(width=16, seed=s) for s in range(2)]
        method = mf.ThreeStage(mf.GradientDescent(0.1), 5, 5, 5)
        batch = mf.train_many(mf.Mixture(2), models, method).dataset
        single = mf.train(mf.Mixture(2), models[1], method).dataset
        assert np.array_equal(batch.w.values[1], single.w.values)

    def test_stages_that_end_at_events_have_times_of_their_own(self, tmp_path):
        models = [mf.Transformer(omega=0.3), mf.Transformer(omega=0.6)]
        method = mf.ThreeStage(mf.GradientDescent(0.1), attention=mf.Until("feature_margin", 0.1), converge=20.0)
        batch = mf.train_many(mf.Mixture(2), models, method)
        assert batch.dataset.loss.dims == ("run", "save"), batch.dataset.time
        singles = [mf.train(mf.Mixture(2), model, method) for model in models]
        assert singles[0].dataset.sizes["time"] != singles[1].dataset.sizes["time"]
        for runs in (batch, mf.load(batch.save(tmp_path / "runs.nc"))):
            for one, single in zip(runs, singles, strict=True):
                assert np.array_equal(one.dataset.time, single.dataset.time)
                assert np.array_equal(one.dataset.w, single.dataset.w)
                assert [stage.end for stage in one.stages] == [stage.end for stage in single.stages]
