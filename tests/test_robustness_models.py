"""The robustness rows of networks and update rules: each kind runs, is what it says, and is judged rightly."""

import math
from dataclasses import replace

import numpy as np
import pytest

import mixflow as mf
from mixflow.measure.stages import NAMES, detect
from mixflow.paper.experiments import robustness_models as rows
from mixflow.paper.experiments.robustness_rows import HELD, INFINITE
from mixflow.paper.theory.mechanism import final_state, signs

KINDS = {trial.variant: trial for trial in rows.TRIALS}
TRAP = "keeps this task's symmetry: scores between c1 c2 and v1 v2 stay 0 for ever"
LIMITS = {
    "shared attention": f"shared attention {TRAP}",
    "linear output": f"a linear output {TRAP}",
    "scaled scores": "scores divided by √width vanish and attention stays uniform",
    "standard initialisation": "these scores start random and are trained directly, at the rate 2/d.",
}


@pytest.mark.parametrize("variant", KINDS)
def test_every_kind_of_row_runs(variant):
    trial = KINDS[variant]
    row = trial.row(trial.strengths[0])
    found = row.run([0, 1, INFINITE] if row.infinite else [0, 1], False, steps=40)
    assert row.infinite == (variant not in ("sign descent", "Adam") and trial.group != rows.STANDARD)
    assert len(found) == 2 + row.infinite
    assert [one.limit.partition("at infinite width ")[2] for one in found[2:]] == [
        LIMITS.get(variant, "")
    ] * row.infinite
    for one in found:
        assert [stage.name for stage in one.stages] == list(NAMES)
        assert 0 <= one.hard_accuracy <= 1
        assert 0 < one.loss < 2
        assert (one.mechanism is None) == (trial.group == rows.STANDARD)
    assert found[0].loss != found[1].loss  # the seeds differ


@pytest.mark.parametrize("variant", ["shared attention", "linear output"])
def test_double_precision_holds_the_trap_as_long_as_it_is_looked_at(variant):
    """Later rounding would free a shared attention (at t = 1450), and the table would show what no network does."""
    network = KINDS[variant].network(KINDS[variant].strengths[0], INFINITE)
    with pytest.warns(UserWarning, match="stay 0 for ever"):
        data = mf.train(rows.TASK, network, mf.GradientDescent(rows.RATE, round(HELD / rows.RATE), 2000)).dataset
    c = [str(name).startswith("c") for name in data.key.values]
    between = data.A.transpose(..., "key", "query").values[..., c, :][..., ~np.array(c)]
    assert np.abs(between).max() < 1e-9
    assert 0 <= float(data.loss[-1]) - math.log(2) / 2 < 0.01


def test_every_row_says_what_it_is():
    names = [(row.variant, row.strength) for row in [*rows.ROWS, *rows.MORE]]
    assert len(set(names)) == len(names)
    for trial in rows.TRIALS:
        for row in (trial.row(strength) for strength in (*trial.strengths, *trial.more)):
            assert row.base == ("" if "time in steps" in row.says else rows.BASE)
            assert row.threshold == (trial in rows.SEARCHES)
            network, method = trial.network(row.strength, 3), trial.method(row.strength, False)
            assert network.seed == 3
            # what one save is worth in the row's time: the base case's clock, or steps
            spacing = method.learning_rate * trial.unit(row.strength)
            expected = 1.0 if row.base == "" else rows.RATE if variant_clock(trial) else method.learning_rate
            assert spacing == pytest.approx(expected)
            if row.base:
                assert method.steps * spacing == pytest.approx(rows.UNTIL, rel=0.01)
            assert network != rows.base_network(None, 3) or method != rows.base_method()


def variant_clock(trial):
    return trial.variant == "momentum"


def test_the_base_case_is_judged_as_the_run_itself():
    """T2, accuracy and signs of an outcome are those of the same run, trained alone."""
    network, method = rows.base_network(None, 1), replace(rows.base_method(), steps=6000)
    trial = rows.Trial("base", "base", "nothing", ("",), method=lambda *_: method)
    found = trial.run([1], strength="")[0]
    run = mf.train(rows.TASK, network, method)
    assert found.separation == run.stages[1].end
    assert found.hard_accuracy == 1
    assert found.mechanism is all(sign * value > 0 for sign, value in signs(*final_state(run)).values()) is True
    assert found.loss == float(run.dataset.loss[-1])


def test_time_in_steps():
    trial = KINDS["Adam"]
    found = trial.run([0], strength=1e-2, steps=1500)[0]
    run = mf.train(rows.TASK, trial.network(1e-2, 0), replace(trial.method(1e-2, False), steps=1500, save_every=1))
    assert found.separation == pytest.approx(run.stages[1].end / 1e-2, rel=1e-9)


def test_separation_has_one_meaning_in_a_row():
    """Without a base it is read from the loss for every seed, whether an attention stage was found or not."""
    data = mf.train(rows.TASK, mf.Vanilla(layers=4, seed=0), mf.GradientDescent(0.1, 300, save_every=1)).dataset
    stage = detect(data)[1]
    found = rows.separation(data, stage, staged=False)
    hard, level = data.loss_hard.values, data.loss_hard.values.max() / 2
    later = data.time.values > found
    assert (hard[later] <= level).all()
    assert hard[~later][-1] > level
    ended = replace(stage, start=0.0, end=7.5, evidence={})
    assert rows.separation(data, ended, staged=False) == found
    assert rows.separation(data, ended, staged=True) == 7.5
    assert rows.separation(data, replace(ended, start=None, end=None), staged=True) is None
    assert rows.separation(data.isel(time=slice(0, 2)), ended, staged=False) is None


def test_attention_that_moves_after_the_hard_samples_are_learned_is_no_stage():
    data = mf.train(rows.TASK, mf.Vanilla(layers=1, seed=0), mf.GradientDescent(0.1, 300, save_every=1)).dataset
    stages = detect(data)
    assert stages[1].found  # a score does move by 1 …
    assert stages[1].start > rows.hard_learned(data)  # … when they are learned
    late = rows.judged(data, stages)
    assert [stage.found for stage in late] == [True, False, stages[2].found]
    assert "learned without it" in late[1].evidence["reason"]
    early = [stages[0], replace(stages[1], start=0.0), stages[2]]
    assert rows.judged(data, early) is early  # an earlier stage is left as it is
    base = mf.train(rows.TASK, rows.base_network(None, 0), replace(rows.base_method(), steps=6000))
    assert rows.judged(base.dataset, base.stages) is base.stages


def test_a_diverged_seed_has_not_learned():
    trial = KINDS["learning rate"]
    found = trial.run(range(2), strength=300.0, steps=50)
    assert [one.hard_accuracy for one in found] == [0, 0]
    assert all(math.isnan(one.separation) for one in found)


def test_signs_of_several_heads_and_values():
    """Two + heads that only together have the construction's signs; values count as the read-out weighs them."""
    data = mf.train_many(
        rows.TASK, [mf.Transformer(width=8, heads=4, value_scale=0.1, values=2)],
        mf.GradientDescent(0.1, 1),
    ).dataset.isel(run=0, time=-1)  # fmt: skip
    w, A = np.zeros((4, 2, 4)), np.zeros((4, 4, 4))
    A[:, [0, 1], [0, 1]] = 1.0  # A[c_k, c_k] > 0
    A[0, [2, 3], [0, 1]], A[2, [2, 3], [0, 1]] = 1.0, -3.0  # A[v_k, c_k]: mean −1 over the + heads
    w[[0, 2], 0, :2], w[[0, 2], 1, :2] = 1.0, -2.0  # with the read-out (3, 1): 3 − 2 > 0
    put = lambda w, A, u: data.assign(  # noqa: E731
        w=(("head", "value", "feature"), w), A=(("head", "key", "query"), A), read_out=(("head", "value"), u)
    )
    good = np.tile([3.0, 1.0], (4, 1))
    assert rows.construction_signs(put(w, A, good)) is True
    assert rows.construction_signs(put(w, A, np.ones((4, 2)))) is False
    assert rows.construction_signs(put(w, -A, good)) is False
