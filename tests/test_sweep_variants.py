"""Sweeps beyond the paper: every task of `mf.variants`, changed networks and optimisers, each equal to its single run."""

from functools import partial

import numpy as np
import pytest

import mixflow as mf
from mixflow import variants
from mixflow.errors import SpecError
from mixflow.sweeping import cost
from mixflow.sweeping.plan import Plan
from mixflow.sweeping.spec import Sweep
from mixflow.sweeping.work import run_batch, unpack

SHORT = {"steps": 200, "save_every": 40}
NET = {"width": 6, "seed": 3, "omega": 0.4}
# kind: (what makes the task, its fixed fields, an axis and its values)
TASKS = {
    "coherent": (variants.coherent, {"pairs": "own"}, "coherence", [0.1, 0.4]),
    "imbalanced": (variants.imbalanced, {"priors": [0.3, 0.7]}, "positive", [0.4, 0.8]),
    "composed": (variants.composed, {}, "rule", ["pair", "parity"]),
    "multiclass": (variants.multiclass, {}, "values", [2, 3]),
    "regression": (variants.regression, {"classes": 1}, "values", [[-1.0, 1.0], [0.5, 2.0]]),
    "repeated": (variants.repeated, {}, "signals", [1, 3]),
    "label_noise": (partial(variants.label_noise, mf.Mixture(2)), {}, "probability", [0.1, 0.2]),
    "distractors": (partial(variants.distractors, mf.Mixture(2)), {"kinds": 2}, "count", [1, 2]),
    "noisy": (variants.NoisyMixture, {"samples": 16, "test_samples": 8}, "sigma", [0.2, 0.6]),
}


def rows(description):
    """All rows of a sweep, computed here, by run."""
    plan = Plan(Sweep(description))
    parts = [unpack(run_batch(plan.job(batch))[0]) for batch in range(plan.batches)]
    order = np.argsort(np.concatenate([part["run"] for part in parts]))
    return plan, {name: np.concatenate([part[name] for part in parts])[order] for name in parts[0]}


def test_every_task_variant_has_a_kind():
    assert set(TASKS) - {"noisy"} == set(variants.__all__) - {"NoisyMixture"}


@pytest.mark.parametrize("kind", TASKS)
def test_a_task_variant_in_a_sweep_equals_its_single_run(kind):
    make, fixed, axis, values = TASKS[kind]
    swept = {"task": {"kind": kind, **fixed}, "transformer": NET, "method": SHORT, "grid": {f"task.{axis}": values}}
    plan, found = rows(swept)
    assert all(kind in group.label for group in plan.groups)
    for i, value in enumerate(values):
        data = mf.train(make(**fixed, **{axis: value}), mf.Transformer(**NET), mf.GradientDescent(**SHORT)).dataset
        assert found["loss"][i] == float(data.loss[-1])
        assert found["accuracy"][i] == float(data.accuracy[-1])
        if kind == "noisy":
            assert found["loss_test"][i] == float(data.loss_test[-1])
    assert found["loss"][0] != found["loss"][1]


def test_a_sweep_reads_stages_as_a_run_does():
    task, method = variants.label_noise(mf.Mixture(2), probability=0.1), {"steps": 6000, "save_every": 10}
    noisy = {"kind": "label_noise", "probability": 0.1}
    _, found = rows({"task": noisy, "method": method, "grid": {"transformer.omega": [0.3, 0.4]}})
    for i, omega in enumerate((0.3, 0.4)):
        stages = mf.train(task, mf.Transformer(omega=omega), mf.GradientDescent(**method)).stages
        assert [stage.found for stage in stages] == [True, True, True]
        assert found["neurons_end"][i] == stages[0].end
        assert found["attention_end"][i] == stages[1].end


@pytest.mark.parametrize(
    ("network", "build"),
    [
        ({"width": 6, "heads": 4}, lambda seed: mf.Transformer(width=6, heads=4, seed=seed)),
        ({"kind": "vanilla", "mlp_width": 8}, lambda seed: mf.Vanilla(mlp_width=8, seed=seed)),
        ({"width": 6}, lambda seed: mf.Transformer(width=6, seed=seed)),
    ],
    ids=["four heads", "vanilla", "transformer"],
)  # fmt: skip
def test_networks_and_optimisers_share_lanes_and_equal_their_single_runs(network, build):
    adam = {"kind": "optimizer", "rule": "adam", **SHORT}
    axes = {"grid": {"method.learning_rate": [0.01, 0.02]}, "seeds": {"transformer.seed": 2}}
    plan, found = rows({"transformer": network, "method": adam, **axes})
    assert len(plan.groups) == 1
    assert plan.groups[0].lanes > 1
    for i, (rate, seed) in enumerate((rate, seed) for rate in (0.01, 0.02) for seed in range(2)):
        method = mf.Optimizer(kind="adam", learning_rate=rate, **SHORT)
        run = mf.train(mf.Mixture(2), build(seed), method)
        assert found["loss"][i] == pytest.approx(float(run.dataset.loss[-1]), rel=1e-12)
        ends = [stage.end for stage in run.stages if stage.name == "neurons" and stage.complete]
        assert found["neurons_end"][i] == pytest.approx(ends[0] if ends else np.nan, rel=1e-9, nan_ok=True)
    assert len(set(found["loss"])) == 4


def test_an_axis_gives_a_field_without_a_default_and_tasks_nest():
    inner = {"kind": "label_noise", "task": {"kind": "coherent"}}
    axes = {"grid": {"task.task.coherence": {"from": 0.1, "to": 0.3, "count": 2}, "task.probability": [0.05]}}
    plan, found = rows({"task": inner, "transformer": NET, "method": SHORT, **axes})
    assert plan.sweep.base["task"]["task"]["coherence"] == 0.1
    task = variants.label_noise(variants.coherent(2, coherence=0.3), probability=0.05)
    data = mf.train(task, mf.Transformer(**NET), mf.GradientDescent(**SHORT)).dataset
    assert found["loss"][1] == float(data.loss[-1])
    again = Sweep(plan.sweep.describe())
    assert again.fingerprint == plan.sweep.fingerprint


def test_the_plan_s_table_cuts_no_label():
    inner = {"kind": "label_noise", "probability": 0.1, "task": {"kind": "distractors", "task": {"kind": "coherent"}}}
    plan = Plan(Sweep({"task": inner, "grid": {"task.task.task.coherence": [0.1, 0.3]}}))
    table = str(cost.estimate(plan, ".", workers=1))
    assert "gram, label_noise distractors coherent K = 2, 20000 steps " in table
    assert "2 in 1 group and 2 batches" in table


def test_one_mean_field_run_stands_at_every_seed_whatever_the_model(tmp_path):
    task = {"kind": "imbalanced", "classes": 1}
    description = {
        "task": task,
        "method": SHORT,
        "grid": {"task.positive": [0.4, 0.6]},
        "seeds": {"transformer.seed": 3},
    }
    result = mf.sweep(description, tmp_path / "out", workers=1)
    assert result.plan.runs == 2
    loss = result.grid("loss").loss
    assert loss.sizes == {"positive": 2, "seed": 3}
    np.testing.assert_array_equal(loss, loss[:, :1].values.repeat(3, axis=1))


@pytest.mark.parametrize(
    ("description", "words"),
    [
        ({"task": {"kind": "coherrent"}}, "did you mean 'coherent'"),
        ({"task": {"kind": "coherent"}}, "task.coherence is missing"),
        ({"task": {"kind": "coherent", "coherence": 0.1, "cohrence": 0.2}}, "did you mean 'coherence'"),
        ({"task": {"kind": "coherent"}, "grid": {"task.coherence": [0.2, 2.0]}}, "makes Γ indefinite"),
        ({"task": {"kind": "label_noise", "probability": 0.1, "task": {"clases": 3}}}, "task.task.'clases' is unknown"),
        (
            {"task": {"kind": "sample", "n": 20, "seed": 0, "task": {"kind": "repeated"}}},
            "expected a task of kind mixture",
        ),
        (
            {"task": {"kind": "distractors", "task": {"kind": "noisy", "sigma": 0.1}}},
            "distractors needs a Mixture, a Sample or a FiniteTask",
        ),
        ({"transformer": {"kind": "variant"}}, "transformer.kind = 'variant': expected one of"),
        ({"transformer": {"kind": "vanilla"}, "method": {"kind": "flow"}}, "Vanilla by GradientFlow"),
        ({"method": {"kind": "three-stage", "method": {"kind": "optimizer", "rule": "adam"}}}, "set the width"),
        ({"transformer": {"kind": "vanilla"}, "output": {"series": ["G_Q"]}}, "output.series = 'G_Q'"),
        ({"transformer": {"kind": "vanilla"}, "output": {"reductions": ["separation"]}}, "leave it out"),
        ({"transformer": {"heads": 1}, "output": {"reductions": ["separation"]}}, "the network has 1: leave it out"),
        ({"task": {"classes": 20}, "output": {"reductions": ["separation"]}}, "not listed one by one: leave it out"),
    ],
)  # fmt: skip
def test_bad_variants_are_one_sentence(description, words):
    with pytest.raises(SpecError, match=words) as error:
        Plan(Sweep(description))
    assert "\n" not in str(error.value)
