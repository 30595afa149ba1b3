"""Times of a flow do not depend on what is saved: stages, switch-offs, level crossings, separation; and they have derivatives."""

import math

import numpy as np
import pytest

import mixflow as mf
from mixflow.sweeping.plan import Plan
from mixflow.sweeping.spec import Sweep
from mixflow.sweeping.work import run_batch, unpack

UNTIL = 600.0
WEIGHTS = {-2: 1 / 12, -1: -8 / 12, 1: 8 / 12, 2: -1 / 12}


def flow(save_at, omega=0.3, until=UNTIL, rtol=1e-9):
    method = mf.GradientFlow(until=until, save_at=save_at, rtol=rtol)
    return mf.train(mf.Mixture(), mf.Transformer(omega=omega), method)


def numbers(stages):
    """Every number of the stages, those of the evidence too."""
    found = {}
    for stage in stages:
        for name, value in {"start": stage.start, "end": stage.end, **stage.evidence}.items():
            if isinstance(value, float):
                found[stage.name, name] = value
    return found


@pytest.fixture(scope="module")
def fine():
    return flow(None)


@pytest.mark.parametrize("save_at", [2, [3.0, 250.0, UNTIL]])
def test_two_very_different_grids_give_the_same_stages(fine, save_at):
    coarse = flow(save_at)
    assert numbers(coarse.stages) == pytest.approx(numbers(fine.stages), rel=0, abs=1e-8)
    assert [stage.because for stage in coarse.stages] == [stage.because for stage in fine.stages]
    assert all("save_spacing" not in stage.evidence for stage in fine.stages)


def test_the_boundaries_are_where_they_say(fine):
    """The first switch of a neuron is an event; the end of the attention stage is where half of log 2 is left on hard samples."""
    neurons, attention, convergence = fine.stages
    assert neurons.end == pytest.approx(fine.events[0].time, abs=1e-9)
    reached = mf.train(
        mf.Mixture(),
        mf.Transformer(omega=0.3),
        mf.GradientFlow(until=mf.Until("loss_hard", math.log(2) / 2), save_at=2),
    )
    assert attention.end == convergence.start == pytest.approx(float(reached.dataset.time[-1]), abs=1e-8)
    assert attention.evidence["plateau"] == pytest.approx(math.log(2), abs=1e-12)


def test_a_tighter_flow_moves_them_by_its_tolerance(fine):
    tight = flow(2, rtol=1e-11)
    for one, other in zip(fine.stages[:2], tight.stages[:2], strict=True):
        assert one.end == pytest.approx(other.end, rel=1e-9)


def test_the_error_of_a_learning_time_falls_with_the_tolerance_at_first_order():
    field = mf.field(mf.Mixture(), mf.Transformer(omega=0.3), "symmetric")

    def learned(rtol):
        method = mf.GradientFlow(until=300.0, rtol=rtol, save_at=2)
        return field.flow(method, stop=lambda t, y: 0.1 - float(field.loss(y))).time

    exact = learned(1e-11)
    assert exact == pytest.approx(246.23835368, abs=1e-8)
    rtols = 10.0 ** -np.arange(3, 9.1, 0.25)
    errors = [abs(learned(rtol) - exact) for rtol in rtols]
    assert np.polyfit(np.log(rtols), np.log(errors), 1)[0] == pytest.approx(1.0, abs=0.1)


def test_the_derivative_of_a_boundary_is_that_of_differences(fine):
    found = fine.sensitivity(of=mf.Until("loss_hard", math.log(2) / 2), to="omega")
    size = 3e-4
    ends = {k: flow(2, 0.3 + k * size, until=250.0, rtol=1e-11).stages[1].end for k in WEIGHTS}
    difference = sum(weight * ends[k] for k, weight in WEIGHTS.items()) / size
    assert float(found.time) == pytest.approx(fine.stages[1].end, abs=1e-8)
    assert float(found.time_by_omega) == pytest.approx(difference, rel=1e-7)


def test_a_run_that_goes_on_and_one_that_comes_back_from_disk_keep_them(fine, tmp_path):
    halfway = flow(7, until=150.0)
    assert not halfway.stages[1].complete
    longer = halfway.extend(UNTIL - 150.0)
    for one, other in zip(longer.stages[:2], fine.stages[:2], strict=True):
        assert (one.start, one.end) == pytest.approx((other.start, other.end), rel=1e-9)
        assert "save_spacing" not in one.evidence
    twice = longer.extend(100.0)  # what has ended is not looked for again
    assert numbers(twice.stages[:2]) == numbers(longer.stages[:2])
    assert twice.stages[2].end == UNTIL + 100
    path = longer.save(tmp_path / "run.nc")
    assert numbers(mf.load(path).stages) == numbers(longer.stages)


def test_a_dataset_that_was_cut_is_read_between_its_saves_and_says_so(fine):
    stages = mf.measure.detect(fine.dataset.isel(time=slice(None, None, 20)))
    assert stages[1].end == pytest.approx(fine.stages[1].end, abs=2)
    assert abs(stages[1].end - fine.stages[1].end) > 0.01
    assert "between saves" in stages[1].because
    assert "between saves" not in fine.stages[1].because


def test_members_of_a_batch_have_their_own(fine):
    networks = [mf.Transformer(omega=omega) for omega in (0.35, 0.3)]
    runs = mf.train_many(mf.Mixture(), networks, mf.GradientFlow(until=UNTIL, save_at=5))
    assert numbers(runs[1].stages) == pytest.approx(numbers(fine.stages), rel=0, abs=1e-8)
    assert numbers(runs.stages[1]) == numbers(mf.measure.detect(runs.dataset.isel(run=1)))
    assert runs[0].stages[1].end < runs[1].stages[1].end


def test_switches_of_staged_flows_are_exact():
    stages = {"neurons": 30.5, "attention": mf.Until("feature_margin", 0.1), "converge": 20.0}
    run = mf.train(mf.Mixture(), mf.Transformer(omega=0.3), mf.ThreeStage(mf.GradientFlow(save_at=3), **stages))
    assert run.stages[0].end == run.switches[0]["end"] == 30.5
    assert run.stages[1].end == run.switches[1]["end"]
    assert run.stages[0].evidence["switch_off"] == pytest.approx(run.events[0].time, abs=1e-9)


def test_a_sweep_reads_times_from_the_flow(fine):
    parts = []
    for save_at in (2, 400):
        output = {"reductions": ["stages", "levels", "separation"], "separation_margin": 0.15, "levels": [0.3, 0.1]}
        method = {"kind": "flow", "until": UNTIL, "save_at": save_at}
        sweep = Sweep({"method": method, "transformer": {"omega": 0.3}, "output": output})
        parts.append(unpack(run_batch(Plan(sweep).job(0))[0]))
    for name in ("neurons_end", "attention_end", "time_to_loss_0.3", "time_to_loss_0.1", "separation_time"):
        np.testing.assert_allclose(parts[0][name], parts[1][name], rtol=0, atol=1e-8)
    assert parts[0]["attention_end"][0] == pytest.approx(fine.stages[1].end, abs=1e-8)
    assert parts[0]["time_to_loss_0.1"][0] == pytest.approx(246.23835368, abs=1e-7)


def test_a_task_without_hard_samples_has_no_hard_loss_to_reach():
    with pytest.raises(mf.SpecError, match="no hard samples, so loss_hard means nothing"):
        mf.train(mf.Mixture(1), mf.Transformer(), mf.GradientFlow(until=mf.Until("loss_hard", 0.1)))
