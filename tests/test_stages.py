"""Stage detection: switches of staged runs, events of simultaneous ones, and the honest "no such stage"."""

import json
from functools import cache

import numpy as np
import pytest
import twin
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

import mixflow as mf
from mixflow.engines import forward
from mixflow.errors import SpecError
from mixflow.measure import observables
from mixflow.measure.between_saves import switch_off
from mixflow.measure.seeds import stage_intervals
from mixflow.measure.stages import NAMES, Stage, decay, detect
from mixflow.measure.trajectory import Trajectory
from mixflow.methods import GradientDescent
from mixflow.networks.transformer import Transformer
from mixflow.tasks import Mixture

pytestmark = pytest.mark.filterwarnings("error")
PAPER = Mixture(2)


def trajectory(run, task=PAPER, bias=0.5, keep=slice(None)):
    w, A, task = run["w"][keep], run["A"][keep], task.population()
    z = forward.preactivation(task, w, A, bias)
    margin = forward.margin(task, z)
    loss = observables.losses(task, margin)
    return Trajectory(
        time=run["time"][keep],
        loss=loss["all"],
        loss_easy=loss["easy"],
        loss_hard=loss["hard"],
        w=w,
        A=A,
        z=z,
        margin=margin,
    )


@cache
def descent(steps=20_000, save_every=10, learning_rate=0.1, train_attention=True, classes=2, **transformer):
    return twin.twin_descent(
        Mixture(classes), Transformer(**transformer), learning_rate, steps, save_every, train_attention=train_attention
    )


@cache
def staged(steps=(1000, 5000, 5000)):
    return twin.three_stage(PAPER, Transformer(), 0.1, steps, 1)


def falling(time, loss):
    """A run of which only the loss is looked at."""
    return Trajectory(time=time, loss=loss, **dict.fromkeys(("loss_easy", "loss_hard", "w", "A", "z", "margin"), loss))


def boundaries(stages):
    return [(stage.start, stage.end) for stage in stages]


def test_simultaneous_descent_has_three_stages_at_the_known_events():
    neurons, attention, convergence = detect(trajectory(descent()))
    assert [stage.name for stage in (neurons, attention, convergence)] == list(NAMES)
    assert neurons.start == 0
    assert neurons.end == attention.start == pytest.approx(12.197, abs=0.1)
    assert attention.evidence["plateau"] == pytest.approx(np.log(2), abs=1e-7)
    assert attention.end == convergence.start == pytest.approx(201.87, abs=0.1)
    assert abs(attention.evidence["steepest_fall"] - attention.end) < 0.1 * attention.end
    assert convergence.end == 2000
    assert convergence.complete
    law = convergence.evidence
    run = descent()
    late = run["time"] > 500
    fitted = 1 / (law["kappa"] * (run["time"][late] - law["origin"]))
    np.testing.assert_allclose(fitted, run["loss"][late], rtol=0.15)


@pytest.mark.parametrize(("every", "tolerance"), [(2, 0.05), (5, 0.3), (8, 0.6)])
def test_boundaries_do_not_depend_on_the_save_spacing(every, tolerance):
    fine, coarse = detect(trajectory(descent())), detect(trajectory(descent(), keep=slice(None, None, every)))
    assert coarse[0].end == pytest.approx(fine[0].end, abs=tolerance)
    assert coarse[1].end == pytest.approx(fine[1].end, rel=2e-3)
    assert coarse[2].complete


def test_boundaries_survive_noise():
    clean = trajectory(descent())
    rng = np.random.default_rng(0)
    noisy = {name: getattr(clean, name) for name in clean.__dataclass_fields__}
    for name in ("loss", "loss_easy", "loss_hard"):
        noisy[name] = noisy[name] * np.exp(0.02 * rng.standard_normal(len(clean.time)))
    noisy["loss_hard"][50] /= 10  # an outlier on the plateau is no boundary
    before, after = detect(clean), detect(Trajectory(**noisy))
    assert after[1].end == pytest.approx(before[1].end, rel=0.02)
    assert after[2].found


@pytest.mark.parametrize("steps", [(1000, 5000, 5000), (400, 6100, 3000)])
@pytest.mark.parametrize("every", [1, 7, 37, 130])
def test_the_switches_of_three_stages_are_found_between_saves(steps, every):
    run = staged(steps)
    keep = np.arange(0, len(run["time"]), every)
    found = detect(trajectory(run, keep=keep))
    T1, T2 = 0.1 * steps[0], 0.1 * (steps[0] + steps[1])
    assert found[0].end == found[1].start == pytest.approx(T1, rel=2e-3)
    assert found[1].end == found[2].start == pytest.approx(T2, rel=2e-3)
    assert all(stage.found for stage in found)


def test_three_stages_stopped_in_the_second():
    neurons, attention, convergence = detect(trajectory(staged(), keep=slice(0, 4000, 10)))
    assert neurons.complete
    assert attention.found
    assert not attention.complete
    assert not convergence.found
    assert "only the attention moves" in convergence.evidence["reason"]


def test_frozen_attention_has_no_attention_stage():
    neurons, attention, convergence = detect(trajectory(descent(steps=3000, train_attention=False)))
    assert neurons.found
    assert not neurons.complete
    assert neurons.evidence["switch_off"] == pytest.approx(12.2, abs=0.1)
    assert [stage.found for stage in (attention, convergence)] == [False, False]
    assert attention.evidence["reason"] == "the attention never moved"
    assert "no such stage (the attention never moved)" in str(attention)


@pytest.mark.parametrize(
    ("stop", "found", "complete"),
    [
        (100, (True, False, False), (False, False, False)),
        (1000, (True, True, False), (True, False, False)),
        (2500, (True, True, False), (True, True, False)),
        (9000, (True, True, True), (True, True, True)),
    ],
)
def test_a_run_stopped_early_says_so(stop, found, complete):
    stages = detect(trajectory(descent(), keep=slice(0, stop // 10 + 1)))
    assert tuple(stage.found for stage in stages) == found
    assert tuple(stage.complete for stage in stages) == complete
    assert all("stopped early" in stage.evidence["reason"] for stage in stages if not stage.found)


@pytest.mark.parametrize(
    ("law", "found", "word"),
    [
        (lambda s: np.exp(-s / 100), True, "still running"),  # falls, but not like 1/t
        (lambda s: 1 / (1 + s / 7), True, "to 2000"),
        (lambda s: 0.1 + 0.9 / (1 + s), False, "stalls"),  # a floor
    ],
)
def test_convergence_is_judged_by_how_the_loss_falls(law, found, word):
    plain = trajectory(descent())
    T2 = detect(plain)[1].end
    after = plain.time > T2
    loss = plain.loss.copy()
    loss[after] = 0.2 * law(plain.time[after] - T2)
    series = {name: getattr(plain, name) for name in plain.__dataclass_fields__} | {"loss": loss}
    convergence = detect(Trajectory(**series))[2]
    assert convergence.found == found
    assert word in str(convergence)


def test_a_large_omega_moves_the_attention_first():
    run = trajectory(descent(steps=6000, save_every=20, learning_rate=0.01, omega=15.0))
    stages = detect(run)
    assert not stages[0].found
    moved = np.abs(run.A - run.A[0]).max(axis=1)
    assert np.interp(stages[0].evidence["score_moved_by_1"], run.time, moved) == pytest.approx(1.0)
    assert "attention moved first" in stages[0].evidence["reason"]
    assert stages[1].found
    assert stages[1].start == 0


@pytest.mark.parametrize("omega", [0.05, 0.9])
def test_every_small_omega_learns_the_neurons_first(omega):
    stages = detect(trajectory(descent(steps=10_000, omega=omega)))
    assert all(stage.found for stage in stages)
    assert stages[0].end == pytest.approx(12.1, abs=0.2)


def test_dead_neurons_never_move():
    stages = detect(trajectory(descent(steps=100, bias=-0.5), bias=-0.5))
    assert not any(stage.found for stage in stages)
    assert "take bias > 0" in stages[0].evidence["reason"]


def test_a_step_far_too_large_is_no_staged_run():
    """After it w stands still bit for bit while scores creep by 1e-21: saturated, not trained one after the other."""
    stages = mf.train(PAPER, Transformer(), GradientDescent(learning_rate=1000, steps=300)).stages
    assert [stage.found for stage in stages] == [True, False, False]
    assert stages[1].evidence["reason"] == "the attention never moved"


def test_one_class_needs_no_attention():
    stages = detect(trajectory(descent(steps=4000, classes=1), task=Mixture(1)))
    assert [stage.found for stage in stages] == [True, False, True]
    assert "no hard samples" in stages[1].evidence["reason"]


def test_three_classes():
    stages = detect(trajectory(descent(classes=3, save_every=40), task=Mixture(3)))
    assert all(stage.found for stage in stages)
    assert (
        stages[1].evidence["smallest_margin"] > 0
    )  # by T2 every sample is right, though the vote got 1/4 of them wrong
    assert stages[0].evidence["smallest_margin"] < -0.3


@settings(max_examples=40, deadline=None)
@given(st.floats(0.01, 10), st.floats(-200, 90), st.floats(0.02, 0.5))
def test_decay_recognises_one_over_t_with_any_origin(kappa, origin, spacing):
    time = 100 + np.append(0, np.cumsum(np.full(4000, spacing * (100 - origin))))
    law = decay(falling(time, 1 / (kappa * (time - origin))), 100.0)
    assert law["slope"] == pytest.approx(1, abs=0.1)
    assert law["kappa"] == pytest.approx(kappa, rel=0.02)


def test_decay_tells_other_laws_apart():
    time = np.linspace(1, 1e4, 100_001)
    assert abs(decay(falling(time, np.exp(-time / 1000)), 1.0)["slope"]) < 0.05
    assert decay(falling(time, time**-0.5), 1.0)["slope"] == pytest.approx(2, abs=0.1)
    assert decay(falling(time, 0.1 + 1 / time), 1.0)["slope"] > 1.5  # a floor


@settings(max_examples=40, deadline=None)
@given(st.floats(0.5, 30), st.floats(0.2, 2))
def test_switch_off_is_interpolated_from_the_smooth_side(when, spacing):
    time = np.arange(0, 60, spacing)
    z = 1 - (1 - np.exp(-time / 20)) / (1 - np.exp(-when / 20))  # reaches 0 at `when`, then stops falling
    z = np.where(time > when, 0.2 * z, z)
    got = switch_off(time, z[:, None])
    assert abs(got - when) <= (0.02 if when > 2.01 * spacing else 1.0) * spacing + 1e-9


def test_a_neuron_that_starts_silent_is_off_from_the_first_save():
    assert switch_off(np.array([1.0, 2.0]), np.array([[-0.5, 1.0], [-1.0, 1.0]])) == 1.0


@pytest.mark.parametrize("stop", [100, 1000, 2500, 20_000])
def test_stages_say_why_and_are_json_ready(stop):
    for stage in detect(trajectory(descent(), keep=slice(0, stop // 10 + 1))):
        text = json.loads(json.dumps(stage.to_dict(), allow_nan=False))
        assert text["name"] == stage.name
        assert text["because"] == stage.because != ""
        assert text["found"] == (text["start"] is not None)


def test_dataset_and_arrays_give_the_same_stages():
    plain = trajectory(descent(), keep=slice(None, None, 5))
    shape = {"w": (2, 4), "A": (2, 4, 4), "z": (2, 8), "margin": (8,)}
    dims = {"w": ("head", "feature"), "A": ("head", "key", "query"), "z": ("head", "atom"), "margin": ("atom",)}
    variables = {name: ("time", getattr(plain, name)) for name in ("loss", "loss_easy", "loss_hard")}
    variables |= {name: (("time", *dims[name]), getattr(plain, name).reshape(-1, *shape[name])) for name in shape}
    data = xr.Dataset(variables, coords={"time": plain.time})
    assert boundaries(detect(data.transpose("atom", "query", ...))) == boundaries(detect(plain))
    assert "fewer than two saves" in detect(data.isel(time=[0]))[0].because
    diverged = data.where(data.time <= 100)  # what a batch shows of a member that left float64
    assert boundaries(detect(diverged)) == boundaries(detect(data.sel(time=slice(0, 100))))
    with pytest.raises(SpecError, match="isel"):
        detect(data.expand_dims("run"))
    with pytest.raises(SpecError, match="lacks z"):
        detect(data.drop_vars("z"))


def test_sectors_give_the_same_stages():
    run, plain = descent(), trajectory(descent())
    block = run["A"][:, 0].reshape(-1, 2, 2, 2, 2)  # time, (c, v), class, (c, v), class
    contrast = block[:, :, 0, :, 0] - block[:, :, 0, :, 1]
    common = block[:, :, 0, :, 0] + block[:, :, 0, :, 1]
    series = {name: getattr(plain, name) for name in ("time", "loss", "loss_easy", "loss_hard", "z", "margin")}
    sectors = Trajectory.from_sectors(classes=2, common=common, contrast=contrast, w=run["w"][:, 0, [0, 2]], **series)
    np.testing.assert_allclose(np.sort(np.unique(sectors.A[-1])), np.sort(np.unique(block[-1][:, 0])), atol=1e-12)
    assert boundaries(detect(sectors)) == pytest.approx(np.array(boundaries(detect(plain))), rel=1e-9)


def test_eight_classes_are_read_from_sectors_and_stall_with_one_kind_of_sample_wrong():
    """At t = 30000 the loss of K = 8 sits on a second plateau: 1 sample in 128 is wrong, its margin near −2."""
    method = GradientDescent(learning_rate=0.5, steps=60_000, save_every=150)
    data = mf.train(Mixture(8), Transformer(), method).dataset
    assert "A" not in data
    neurons, attention, convergence = detect(data)
    assert neurons.end == attention.start == pytest.approx(108.4, rel=0.02)
    assert attention.end == pytest.approx(10_732, rel=0.01)
    assert not convergence.found
    assert "stalls" in convergence.evidence["reason"]
    assert "a sample is still wrong" in convergence.evidence["reason"]
    assert data.accuracy[-1] == pytest.approx(127 / 128)


@pytest.mark.parametrize("method", [mf.GradientDescent(0.1, 3000, save_every=20), mf.GradientFlow(until=300.0)])
def test_a_linear_network_has_no_neuron_that_switches_off(method):
    """Its z passes 0 without a kink, so the neurons' stage ends where a score has moved by 1, or has not ended."""
    run = mf.train(mf.Mixture(2), mf.Transformer(omega=0.3, bias=0.5, width=16, seed=1, activation="linear"), method)
    assert run.dataset.z.min() < 0
    assert run.stages[0].evidence["switch_off"] is None
    relu = mf.train(mf.Mixture(2), mf.Transformer(omega=0.3, bias=0.5, width=16, seed=1), method)
    assert relu.stages[0].evidence["switch_off"] is not None


def test_interval_over_seeds():
    seeds = [detect(trajectory(descent(steps=4000, save_every=20, width=32, seed=seed))) for seed in range(5)]
    got = stage_intervals(seeds)
    end = got["attention", "end"]
    values = np.array([stages[1].end for stages in seeds])
    half = 2.776445 * values.std(ddof=1) / np.sqrt(5)  # Student's t, 4 degrees of freedom, 95 %
    assert (end.found, end.total) == (5, 5)
    assert (end.low, end.mean, end.high) == pytest.approx(
        (values.mean() - half, values.mean(), values.mean() + half), rel=1e-6
    )
    assert end.low < 201.9 < end.high  # the mean-field boundary


def test_interval_leaves_out_what_is_no_boundary():
    early = Stage("attention", None, None, {"reason": "stopped early"})
    running = [Stage("neurons", 0.0, 9.0, {"complete": False}), early]
    done = [Stage("neurons", 0.0, 12.0), Stage("attention", 12.0, 200.0)]
    got = stage_intervals([running, done])
    assert got["neurons", "end"].mean == 12
    assert got["neurons", "end"].found == 1
    assert got["neurons", "end"].total == 2
    assert np.isnan(got["neurons", "end"].low)
    assert np.isnan(got["convergence", "start"].mean)
    with pytest.raises(SpecError, match="at least one run"):
        stage_intervals([])
