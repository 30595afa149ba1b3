"""Descriptions of sweeps and their plans: axes, batches, pilots, estimates, a million runs, bad input."""

import datetime
import json
import math
import time
import tomllib
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from sweeps import TINY, digest, planned

import mixflow as mf
from mixflow.cli import main
from mixflow.errors import SpecError
from mixflow.sweeping import cost
from mixflow.sweeping.manifest import DONE, WAITING, Manifest
from mixflow.sweeping.plan import Plan
from mixflow.sweeping.spec import Sweep


def test_axes_of_every_kind():
    sweep = Sweep(
        {
            "grid": {"transformer": {"omega": {"from": 0.1, "to": 0.4, "count": 4}, "width": [8, math.inf]}},
            "list": [{"task.classes": 1, "method.steps": 50}, {"task.classes": 2, "method.steps": 100}],
            "random": {"count": 5, "seed": 1, "transformer.bias": {"low": 0.1, "high": 1.0, "scale": "log"}},
            "seeds": {"transformer.seed": {"first": 7, "count": 3}},
        }
    )
    assert sweep.shape == (4, 2, 2, 5, 3)
    settings = sweep.settings((3, 1, 1, 0, 2))
    assert settings["transformer"]["omega"] == pytest.approx(0.4)
    assert settings["transformer"]["width"] == "inf"
    assert settings["transformer"]["seed"] == 9
    assert (settings["task"]["classes"], settings["method"]["steps"]) == (2, 100)
    assert 0.1 <= settings["transformer"]["bias"] <= 1.0
    again = Sweep(json.loads(json.dumps(sweep.describe())))
    assert again.fingerprint == sweep.fingerprint
    assert again.settings((3, 1, 1, 0, 2)) == settings


def test_a_random_field_keeps_its_draws_when_another_is_added():
    rule = {"transformer.omega": {"low": 0.1, "high": 0.9}}
    alone = Sweep({"random": {"count": 9, **rule}})
    more = Sweep({"random": {"count": 9, "transformer.bias": {"low": 0.1, "high": 0.9}, **rule}})
    name = "transformer.omega"
    np.testing.assert_array_equal(alone.axes[0].columns[name].labels(), more.axes[0].columns[name].labels())


def test_batches_partition_the_runs_and_share_task_method_and_program():
    plan = planned(
        grid={"transformer.width": [4, 8, math.inf], "task.classes": [1, 2], "transformer.omega": [0.1, 0.2, 0.3]},
        seeds={"transformer.seed": 5},
    )
    seen = []
    for batch in range(plan.batches):
        job = plan.job(batch)
        seen += job["runs"]
        assert len({spec["width"] == "inf" for spec in job["transformers"]}) == 1
        assert len(job["runs"]) == plan.size(batch)
    # Infinite width does not depend on the seed: those runs are counted once.
    assert len(seen) == len(set(seen)) == plan.runs == 2 * 2 * 3 * 5 + 2 * 3
    assert {group.program.split(",")[0] for group in plan.groups} == {"gram", "symmetric"}


@pytest.mark.parametrize(
    ("description", "words"),
    [
        ({"grid": {"transformer.omga": [0.1]}}, "did you mean 'transformer.omega'"),
        ({"grid": {"omega": [0.1]}}, "did you mean 'transformer.omega'"),
        ({"gird": {}}, "did you mean 'grid'"),
        ({"task": {"clases": 2}}, "did you mean 'classes'"),
        ({"output": {"serie": []}}, "did you mean 'series'"),
        ({"grid": {"transformer.omega": []}}, "is empty"),
        ({"list": []}, "list is empty"),
        ({"seeds": {"transformer.seed": 0}}, "at least one"),
        ({"grid": {"transformer.omega": [0.1, 0.2, 0.1]}}, "duplicate runs"),
        ({"list": [{"transformer.omega": 0.1}, {"transformer.omega": 0.1}]}, "duplicate runs"),
        ({"grid": {"transformer.seed": [1, 2]}, "seeds": {"transformer.seed": 2}}, "two axes"),
        ({"grid": {"transformer.omega": [0.1, -0.1]}}, "omega = -0.1"),
        ({"grid": {"transformer.omega": 0.3}}, "expected a list"),
        ({"grid": {"transformer.omega": {"from": 0, "to": 1, "count": 3, "scale": "log"}}}, "above 0"),
        ({"random": {"count": 3, "transformer.omega": {"low": 1, "high": 0}}}, "above 1"),
        ({"random": {"count": 9, "transformer.width": {"choose": [4, 8]}}}, "draw fewer"),
        ({"model": "gramm"}, "did you mean 'gram'"),
        ({"method": {"kind": "flows"}}, "did you mean 'flow'"),
        ({"task": {"kind": "sample"}}, "task.n is missing"),
        ({"grid": {"task.classes": [2, 3], "task.priors": [[0.5, 0.5]]}}, "priors has 2 entries"),
        ({"grid": {"method.save_every": list(range(1, 401)), "method.steps": list(range(1, 401))}}, "groups"),
    ],
)  # fmt: skip
def test_bad_descriptions(description, words):
    with pytest.raises(SpecError, match=words.replace("[", r"\[")):
        Plan(Sweep(description))


def test_bad_usage_is_one_line_and_exit_code_2(tmp_path, capsys):
    (tmp_path / "broken.toml").write_text("grid = [")
    (tmp_path / "good.toml").write_text("[grid]\ntransformer.omega = [0.1]\n")
    for arguments, words in [
        ([tmp_path / "none.toml", "--out", tmp_path / "x"], "No such file"),
        ([tmp_path / "broken.toml", "--out", tmp_path / "x"], "not valid TOML"),
        ([tmp_path / "good.toml"], "--out DIR"),
        (["status", tmp_path], "holds no sweep"),
        (["resume", tmp_path / "none"], "holds no sweep"),
        (["stattus", tmp_path], "not a word"),
        (["export", tmp_path], "--to FILE"),
        (["status"], "which sweep"),
    ]:
        assert main(["sweep", *map(str, arguments)]) == 2
        error = capsys.readouterr().err
        assert words in error
        assert error.count("\n") == 1


def test_absurd_plans_are_refused_before_anything_runs(tmp_path):
    absurd = {"transformer": {"width": 8}, "seeds": {"transformer.seed": 10**6}, "method": {"steps": 10**7}}
    assert cost.estimate(planned(**absurd), ".", workers=2).runs == 10**6
    with pytest.raises(SpecError, match="are free"):
        mf.sweep({**absurd, "output": {"series": ["w"]}}, tmp_path / "out")
    with pytest.raises(SpecError, match="core-hours, above the limit of 100"):
        mf.sweep({"method": {"steps": 10**12, "save_every": 10**10}}, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_plan_whose_pilots_are_too_slow_is_refused_and_keeps_them(tmp_path, monkeypatch):
    monkeypatch.setattr(cost, "ROUGH", 1e9)  # the nominal cost lets it through
    description = {**TINY, "transformer": {"width": 4}, "seeds": {"transformer.seed": 800}, "output": {"batch": 8}}
    with pytest.raises(SpecError, match="core-hours, above the limit of 1e-09"):
        mf.sweep(description, tmp_path, workers=1, max_core_hours=1e-9)
    state = mf.open_sweep(tmp_path).state
    assert (state == DONE).sum() == cost.PILOTS
    assert (state == WAITING).sum() == 100 - cost.PILOTS


def test_pilots_are_of_every_kind_and_spread_over_it():
    plan = planned(
        grid={"method.steps": [40, 80], "task.priors": [[0.4, 0.6], [0.5, 0.5]], "transformer.omega": [0.3, 0.4]},
        task={"classes": 2}, transformer={"width": 4}, seeds={"transformer.seed": 100}, output={"batch": 8},
    )  # fmt: skip
    found = list(cost.pilots(plan, 2))
    assert len(found) == len(set(found)) == 2 * 2 * cost.PILOTS
    groups = [plan.group_of(batch) for batch in found]
    assert set(groups) == set(range(4))  # both priors of each length
    assert {min(found), max(found)} == {0, plan.batches - 1}
    few = planned(transformer={"width": 4}, seeds={"transformer.seed": 3})
    assert list(cost.pilots(few, 2)) == [0]
    many = planned(grid={"method.save_every": list(range(1, 41)), "method.steps": list(range(100, 140))})
    assert len(list(cost.pilots(many, 1))) == cost.KINDS * cost.PILOTS


def test_an_estimate_counts_everything_once():
    """Start, each program's first call, the work, half a batch, the end; a kind without pilots takes the nearest one's ratio."""
    plan = planned(grid={"transformer.width": [4, math.inf], "method.steps": [4000, 8000]}, seeds={"transformer.seed": 160},
                   output={"batch": 16})  # fmt: skip
    assert {group.program for group in plan.groups} == {"gram, K = 1", "symmetric, K = 1"}
    first = {group.label: plan.first[g] for g, group in enumerate(plan.groups)}
    times = []  # two lane-fulls in a batch of the finite width, one run at infinite width
    for label, seconds in {
        "gram, K = 1, 8000 steps": 1.0,
        "symmetric, K = 1, 4000 steps": 0.5,
        "symmetric, K = 1, 8000 steps": 0.5,
    }.items():
        times += [(first[label], 0.0, seconds + 2.0, 0), (first[label], 0.0, seconds, 1)]
    found = cost.estimate(plan, ".", workers=2, times=times, startup=5.0)
    nominal = {group.label: group.nominal for group in plan.groups}
    unseen = 0.5 * nominal["gram, K = 1, 4000 steps"] / nominal["gram, K = 1, 8000 steps"]
    work = 20 * 0.5 + 20 * unseen + 0.5 + 0.5 + cost.BATCH_SECONDS * plan.batches
    start, once, tail = 5.0 * (1 + cost.END_OVER_START), 2 * 2.0, 2 * 0.5
    assert found.wall_seconds == pytest.approx(start + once + work / 2 + tail / 2)
    assert found.core_seconds == pytest.approx(work + 2 * once)
    assert found.calibrated
    # pilots without an end: every batch of a kind that none has told takes at least as long
    waited = cost.estimate(
        planned(transformer={"width": 4}, seeds={"transformer.seed": 16}, output={"batch": 8}), ".", 1, waited=60
    )
    assert waited.core_seconds >= 2 * 60


TODAY = datetime.date(2024, 2, 29)


@pytest.mark.parametrize(
    "description",
    [
        {"seeds": {"transformer.seed": 10**30}},
        {"seeds": {"transformer.seed": 10**12}},
        {"seeds": {"transformer.seed": {"first": 2**63, "count": 2}}},
        {"seeds": {"transformer.seed": {"count": 2, "frist": 3}}},
        {"grid": {"transformer.omega": {"from": 0.1, "to": 0.2, "count": 10**12}}},
        {"grid": {"transformer.omega": [TODAY]}},
        {"grid": {"transformer.omega": [10**400]}},
        {"grid": {"transformer.seed": [2**63, 3]}},
        {"grid": {"transformer.omega": np.zeros((2, 2))}},
        {"grid": {"transformer.omega": np.array(["2020-01-01"], "M8[D]")}},
        {"grid": {"task.priors": [[TODAY]]}},
        {"grid": {"transformer.omega": {"from": 0.1, "to": 0.2, "count": 10**6}, "transformer.bias": [0.1, 0.2]},
         "seeds": {"transformer.seed": 10**6}},
        {"random": {"count": 10**30, "transformer.omega": {"low": 0.1, "high": 0.2}}},
        {"random": {"count": 3, "transformer.omega": {"low": -1e308, "high": 1e308}}},
        {"random": {"count": 3, "transformer.seed": {"low": 0, "high": 1e30, "whole": True}}},
        {"random": {"count": 3, "transformer.seed": {"low": 0.2, "high": 0.8, "whole": True}}},
        {"random": {"count": 3, "transformer.omega": {"choose": []}}},
        {"random": {"count": 3, "transformer.omega": {"choose": [TODAY]}}},
        {"list": [{}]},
        {"list": [{"transformer.omega": TODAY}]},
        {"task": {"classes": np.array([2, 3])}},
        {"transformer": {"omega": TODAY}},
        {"output": []},
        {"output": {"levels": 3}},
        {"output": {"reductions": None}},
        {"output": {"series": ["nonsense"]}},
        {"output": {"batch": 10**30}},
    ],
)  # fmt: skip
def test_any_description_is_a_plan_or_one_sentence_quickly(description):
    began = time.process_time()
    with pytest.raises(SpecError) as error:
        Plan(Sweep(description))
    assert "\n" not in str(error.value)
    assert time.process_time() - began < 2


def test_a_million_runs_are_planned_and_scanned_in_flat_memory(tmp_path):
    began = time.process_time()  # of the processor: what a quiet machine would take
    draws = {
        "count": 10**6,
        "transformer.omega": {"low": 0.1, "high": 0.9},
        "transformer.bias": {"low": 0.1, "high": 0.9},
    }
    plan = planned(random=draws)
    assert plan.runs == 10**6
    assert plan.sizes().sum() == 10**6
    assert len(plan.job(plan.batches - 1)["runs"]) == plan.size(plan.batches - 1)
    assert time.process_time() - began < 10
    # One row for each batch of eight runs, the smallest there are: memory is one array, whatever the number of rows.
    manifest = Manifest.create(tmp_path, {})
    with manifest._transaction():
        rows = ((batch, 1.0, 0.1, 1, None, digest(b"part"), b"part") for batch in range(125_000))
        manifest._db.executemany("INSERT INTO batch VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
    manifest.close()
    began = time.process_time()
    tracemalloc.start()
    manifest = Manifest.writing(tmp_path)
    state, damaged = Manifest(tmp_path).state(125_000), manifest.verify()
    manifest.close()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert time.process_time() - began < 10
    assert peak < 10 * 125_000
    assert (state == DONE).all()
    assert not damaged


def test_the_descriptions_in_the_documentation_are_valid():
    text = (Path(__file__).parents[1] / "docs" / "sweeps.md").read_text()
    blocks = [tomllib.loads(block.split("```")[0]) for block in text.split("```toml\n")[1:]]
    first, more_axes, variants, kept = blocks
    assert Plan(Sweep(first)).runs == 9 * (2 * 20 + 1)
    assert Plan(Sweep(more_axes)).runs == 2000
    assert Plan(Sweep(variants)).runs == 3 * 9
    assert Plan(Sweep(first | {"output": kept["output"]})).groups
