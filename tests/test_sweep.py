"""Sweeps without a cluster: descriptions, plans, batches, the manifest at a million runs, bad input."""

import json
import math
import time
import tomllib
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import mixflow as mf
from mixflow.cli import main
from mixflow.errors import SpecError, StoreError
from mixflow.sweeping import cluster, cost
from mixflow.sweeping import run as run_module
from mixflow.sweeping.calibrate import Measured, calibrate, probe
from mixflow.sweeping.consolidated import consolidate
from mixflow.sweeping.manifest import DONE, FAILED, Manifest, lock, owner, part_path
from mixflow.sweeping.plan import Plan
from mixflow.sweeping.run import check_header, read_header, write_header
from mixflow.sweeping.spec import Sweep
from mixflow.sweeping.trajectories import coordinate, trajectories
from mixflow.sweeping.work import run_batch, unpack

TINY = {"task": {"classes": 1}, "method": {"steps": 40, "save_every": 10}}


def planned(**description):
    return Plan(Sweep({**TINY, **description}))


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
    again = Sweep.rebuild(json.loads(json.dumps(sweep.describe())))
    assert again.fingerprint == sweep.fingerprint
    assert again.settings((3, 1, 1, 0, 2)) == settings


def test_a_random_field_keeps_its_draws_when_another_is_added():
    rule = {"transformer.omega": {"low": 0.1, "high": 0.9}}
    alone = Sweep({"random": {"count": 9, **rule}})
    more = Sweep({"random": {"count": 9, "transformer.bias": {"low": 0.1, "high": 0.9}, **rule}})
    np.testing.assert_array_equal(alone.axes[0].columns[0], more.axes[0].columns[1])


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
    assert {group.engine for group in plan.groups} == {"gram", "symmetric"}


def test_members_of_a_batch_equal_single_runs_bit_for_bit():
    plan = planned(grid={"transformer.width": [4, math.inf], "task.classes": [2]}, seeds={"transformer.seed": 3})
    for batch in range(plan.batches):
        for task, transformer, arrays in trajectories(plan.job(batch)):
            run = mf.train(task, transformer, mf.GradientDescent(steps=40, save_every=10)).dataset
            for name in ("loss", "accuracy", "w", "A", "z", "margin", "loss_hard"):
                np.testing.assert_array_equal(arrays[name], run[name].values)


@pytest.mark.parametrize("width", [4, math.inf])
def test_learning_rates_share_lanes_and_equal_single_runs_bit_for_bit(width):
    rates = [0.05, 0.1, 0.2]
    plan = planned(
        task={"classes": 2}, transformer={"width": width}, output={"series": ["loss"]},
        grid={"method.learning_rate": rates, "transformer.omega": [0.3, 0.4]},
    )  # fmt: skip
    assert (len(plan.groups), plan.batches, plan.runs) == (1, 1, 6)
    job = plan.job(0)
    settings = [(rate, omega) for rate in rates for omega in (0.3, 0.4)]
    for (rate, omega), (task, transformer, arrays) in zip(settings, trajectories(job), strict=True):
        assert transformer.omega == omega
        run = mf.train(task, transformer, mf.GradientDescent(learning_rate=rate, steps=40, save_every=10)).dataset
        for name in ("time", "loss", "w", "A", "margin"):
            np.testing.assert_array_equal(arrays[name], run[name].values)
    part = unpack(run_batch(job)[0])
    assert part["time"].tolist() == [40 * rate for rate, _ in settings]
    assert part["series_time"].shape == (6, 5)  # every run has its own times
    # a flow has no learning rate, and stages end at events of their own
    staged = {"kind": "three-stage", "method": {"kind": "descent"}, "neurons": 2, "attention": 2, "converge": 2}
    assert len(planned(method=staged, grid={"method.method.learning_rate": rates}).groups) == 3


@pytest.mark.parametrize(
    ("classes", "width"), [(2, 4), (2, math.inf), (7, math.inf)], ids=["gram", "symmetric", "types"]
)
def test_series_have_the_dimensions_of_the_dataset(tmp_path, classes, width):
    names = ["loss", "w", "A", "margin", "z", "w_sector", "A_sector"]
    described = Sweep({"task": {"classes": classes}, "transformer": {"width": width}, "method": {"steps": 20}}
                      | {"grid": {"transformer.omega": [0.3, 0.4]}, "output": {"series": names}})  # fmt: skip
    plan = Plan(described)
    write_header(tmp_path, described, plan)
    manifest = Manifest(tmp_path, plan.batches)
    manifest.open()
    for batch in range(plan.batches):
        manifest.finish(batch, *run_batch(plan.job(batch)))
    manifest.close()
    consolidate(mf.open_sweep(tmp_path))
    found = mf.open_sweep(tmp_path).trajectories()
    task, transformer = mf.Mixture(classes), mf.Transformer(width=width, omega=0.4)
    run = mf.train(task, transformer, mf.GradientDescent(steps=20)).dataset
    assert [name for name in names if name in run] == [name for name in names if name in found]
    for name in found.data_vars:
        assert found[name].dims == ("run", *run[name].dims)
        np.testing.assert_array_equal(found[name].sel(run=1).values, run[name].values)
        for dim in run[name].dims[1:]:
            assert found[dim].values.tolist() == run[dim].values.tolist()


def test_heads_of_a_task_with_more_classes_keep_their_names():
    task = mf.variants.multiclass(2, values=3)
    run = mf.train(task, mf.Transformer(), mf.GradientDescent(steps=20))
    assert coordinate("head", task) == run.dataset["head"].values.tolist() == ["0", "1", "2"]


def test_measuring_and_working_share_the_processes(tmp_path, monkeypatch):
    started = []
    local = cluster._local
    monkeypatch.setattr(cluster, "_local", lambda place: started.append(place) or local(place))
    monkeypatch.setattr(run_module, "SMALL", 0.0)  # even a tiny sweep is measured first
    measured = []
    monkeypatch.setattr(cost, "calibrate", lambda *args: measured.append(args) or calibrate(*args))
    result = mf.sweep({**TINY, "seeds": {"transformer.seed": 9}, "transformer": {"width": 4}}, tmp_path, workers=1)
    assert result.complete
    assert len(measured) == len(started) == 1


def test_reductions_of_the_papers_run():
    sweep = {"output": {"reductions": ["final", "stages", "levels", "separation"], "series": ["loss", "w"]}}
    part = unpack(run_batch(Plan(Sweep({"model": "gram", **sweep})).job(0))[0])
    assert part["loss"][0] == pytest.approx(0.0032964667, rel=1e-6)
    assert part["neurons_end"][0] == pytest.approx(12.17, abs=0.03)
    assert part["attention_end"][0] == pytest.approx(201.9, abs=0.2)
    assert part["converging"][0]
    np.testing.assert_allclose(part["time_to_loss"][0], [13.5, 177.4, 246.4, 712.4], atol=1.1)  # docs/mathematics.md §3
    assert part["separation_time"][0] < part["attention_end"][0]
    assert part["series_w"].shape == (1, 2001, 2, 4)


def test_flow_and_three_stages():
    flow = Plan(Sweep({"method": {"kind": "flow", "until": 14}, "output": {"series": ["loss"]}}))
    part = unpack(run_batch(flow.job(0))[0])
    assert part["neurons_end"][0] == pytest.approx(12.197, abs=1e-3)  # docs/mathematics.md §5: the flow's switch-off
    assert part["series_time"][-1] == 14
    staged = {"kind": "three-stage", "method": {"kind": "descent"}, "neurons": 2, "attention": 2, "converge": 2}
    sweep = Sweep({"method": staged, "grid": {"method.method.learning_rate": [0.1, 0.2], "method.neurons": [1, 2]}})
    assert Plan(sweep).runs == 4


def test_a_diverging_run_is_a_result_not_a_failure():
    plan = Plan(
        Sweep({**TINY, "task": {"classes": 2}, "transformer": {"width": 8}, "grid": {"transformer.omega": [0.3, 60.0]}})
    )
    part = unpack(run_batch(plan.job(0))[0])
    assert part["diverged_step"][0] == -1
    assert part["diverged_step"][1] > 0
    assert np.isfinite(part["time"]).all()


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


def test_absurd_plans_are_refused():
    plan = planned(
        seeds={"transformer.seed": 10**6}, transformer={"width": 8}, output={"series": ["w"]}, method={"steps": 10**7}
    )
    priced = cost.estimate(plan, ".", workers=2)
    assert priced.runs == 10**6
    with pytest.raises(SpecError, match="are free"):
        cost.refuse_absurd(priced, 100)
    long = cost.estimate(planned(method={"steps": 10**12, "save_every": 10**10}), ".", workers=2)
    with pytest.raises(SpecError, match="core-hours"):
        cost.refuse_absurd(long, 100)


@pytest.mark.parametrize("every", [100, 5])
def test_a_short_probe_tells_the_time_of_the_whole(monkeypatch, every):
    """With a clock that only counts: 2 per step, 7 per save that is measured, 50 for a program's first call."""
    from mixflow.sweeping import calibrate as place

    traced, calls = set(), []

    def counted(job):
        method = job["method"]
        saves = method["steps"] // method["save_every"]
        calls.append(method["steps"])
        first = 0 if saves in traced else 50
        traced.add(saves)
        return 2 * method["steps"] + 7 * saves + first

    monkeypatch.setattr(place, "_timed", counted)
    monkeypatch.setattr(place, "PROBE_SECONDS", 300)
    monkeypatch.setattr(place, "jax", lambda: type("fake", (), {"clear_caches": staticmethod(traced.clear)}))
    job = {"method": {"kind": "descent", "steps": 20_000, "save_every": every}}
    seconds, first = probe(job, 20_000 * 3.0)  # the nominal step is half as long again as the true one
    assert seconds == pytest.approx(2 * 20_000 + 7 * 20_000 / every, rel=0.01)
    assert first == 50
    assert max(calls) < 10_000


def test_an_estimate_counts_everything_once(monkeypatch):
    """Start, libraries, each program, the work, half a batch, the end."""
    plan = planned(grid={"transformer.width": [4, math.inf], "method.steps": [4000, 8000]}, seeds={"transformer.seed": 160},
                   output={"batch": 16})  # fmt: skip
    measured = Measured(ready=3.0, groups=dict.fromkeys(range(len(plan.groups)), (0.5, 2.0)))
    monkeypatch.setattr(cost, "calibrate", lambda *_: measured)
    found = cost.estimate(plan, ".", workers=2, client="present", startup=5.0)
    assert {group.program for group in plan.groups} == {"gram, K = 1", "symmetric, K = 1"}
    work = 0.5 * (2 * 20 + 2 * 1) + cost.BATCH_SECONDS * plan.batches
    start, once, tail = 5.0 * (1 + cost.END_OVER_START), 3.0 + 2 * 2.0, 2 * 0.5
    assert found.wall_seconds == pytest.approx(start + once + work / 2 + tail / 2)
    assert found.core_seconds == pytest.approx(work + 2 * once)


def test_an_unreachable_scheduler_is_one_sentence_within_ten_seconds(tmp_path):
    began = time.perf_counter()
    with pytest.raises(SpecError, match="cannot reach the scheduler"):
        mf.sweep(
            {**TINY, "seeds": {"transformer.seed": 2}, "transformer": {"width": 4}},
            tmp_path,
            scheduler="tcp://127.0.0.1:9",
        )
    assert time.perf_counter() - began < 10
    files = {f"tls_{name}": str(tmp_path / "none.pem") for name in ("ca", "cert", "key")}
    with pytest.raises(SpecError, match="No such file"):
        mf.sweep(TINY, tmp_path / "tls", scheduler="tls://127.0.0.1:9", **files)
    with pytest.raises(SpecError, match="--tls-cert is missing"):
        mf.sweep(TINY, tmp_path / "tls", scheduler="tls://127.0.0.1:9", tls_ca=files["tls_ca"])


def test_another_sweep_or_version_in_the_folder_is_refused(tmp_path):
    one, two = (Sweep({"grid": {"transformer.omega": values}}) for values in ([0.1], [0.2]))
    write_header(tmp_path, one, Plan(one))
    check_header(read_header(tmp_path), one)
    with pytest.raises(StoreError, match="another sweep"):
        check_header(read_header(tmp_path), two)
    header = read_header(tmp_path)
    header["versions"]["jaxlib"] = "0.0.1"
    with pytest.raises(StoreError, match=r"jaxlib 0\.0\.1"):
        check_header(header, one)


def test_the_lock_names_its_owner_and_a_stale_file_does_not_block(tmp_path):
    (tmp_path / "lock").write_text("process 1 on a machine that was rebooted\n")
    assert owner(tmp_path) is None
    with lock(tmp_path):
        assert "process" in owner(tmp_path)
        with pytest.raises(StoreError, match="in use by process"), lock(tmp_path):
            pass
    assert owner(tmp_path) is None


def test_a_torn_line_costs_that_line_alone(tmp_path):
    manifest = Manifest(tmp_path, 4)
    manifest.open()
    for batch in (0, 1):
        manifest.finish(batch, b"part", "9f" * 32, 0.1)
    manifest.fail(2, "ValueError: no")
    manifest.close()
    with open(manifest.path, "ab") as file:
        file.write(b'{"batch": 3, "sha2')
    found = Manifest(tmp_path, 4).scan()
    assert found.state.tolist() == [DONE, DONE, FAILED, 0]
    found.open()  # cuts the torn line off, so that the next one starts on a line of its own
    found.finish(3, b"part", "9f" * 32, 0.1)
    found.close()
    assert Manifest(tmp_path, 4).scan().state.tolist() == [DONE, DONE, FAILED, DONE]
    assert found.verify() == [0, 1, 3]  # the checksums were invented


def test_a_million_runs_are_planned_and_scanned_in_flat_memory(tmp_path):
    began = time.process_time()  # of the processor: what a quiet machine would take
    draws = {
        "count": 10**6,
        "transformer.omega": {"low": 0.1, "high": 0.9},
        "transformer.bias": {"low": 0.1, "high": 0.9},
    }
    plan = planned(random=draws)
    assert plan.runs == 10**6
    line = '{"batch": %d, "sha256": "' + "ab" * 32 + '", "bytes": 4, "seconds": 0.1, "at": 1.0}\n'
    with open(tmp_path / "manifest.jsonl", "w") as file:
        file.writelines(line % batch for batch in range(plan.batches))
    manifest = Manifest(tmp_path, plan.batches).scan()
    assert (manifest.state == DONE).all()
    assert len(plan.job(plan.batches - 1)["runs"]) == plan.size(plan.batches - 1)
    assert time.process_time() - began < 10
    # One line for each batch of eight runs, the smallest there are: memory is a few arrays, whatever the number of lines.
    with open(tmp_path / "manifest.jsonl", "w") as file:
        file.writelines(line % batch for batch in range(125_000))
    began = time.process_time()
    tracemalloc.start()
    manifest = Manifest(tmp_path, 125_000).scan()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert time.process_time() - began < 10
    assert peak < 60 * 125_000
    assert (manifest.state == DONE).all()


def test_part_files_are_spread_over_folders():
    assert part_path("x", 123_456).parts == ("x", "parts", "123", "123456.npz")


def test_the_descriptions_in_the_documentation_are_valid():
    text = (Path(__file__).parents[1] / "docs" / "sweeps.md").read_text()
    blocks = [tomllib.loads(block.split("```")[0]) for block in text.split("```toml\n")[1:]]
    first, more_axes, variants, kept = blocks
    assert Plan(Sweep(first)).runs == 9 * (2 * 20 + 1)
    assert Plan(Sweep(more_axes)).runs == 2000
    assert Plan(Sweep(variants)).runs == 3 * 9
    assert Plan(Sweep(first | {"output": kept["output"]})).groups
