"""Sweeps without a cluster: descriptions, plans, batches, the manifest at a million runs, bad input."""

import datetime
import hashlib
import json
import math
import socket
import sqlite3
import threading
import time
import tomllib
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import mixflow as mf
from mixflow.cli import main
from mixflow.errors import SpecError, StoreError
from mixflow.spec import build
from mixflow.sweeping import cluster, cost
from mixflow.sweeping.manifest import DONE, FAILED, WAITING, Manifest, lock, owner
from mixflow.sweeping.plan import Plan
from mixflow.sweeping.run import check_header, write_header
from mixflow.sweeping.spec import Sweep
from mixflow.sweeping.work import pack, run_batch, trajectories, unpack

TINY = {"task": {"classes": 1}, "method": {"steps": 40, "save_every": 10}}


def planned(**description):
    return Plan(Sweep({**TINY, **description}))


def finished(folder, **description):
    """A sweep whose batches are computed in this process."""
    described = Sweep({**TINY, **description})
    plan = Plan(described)
    write_header(folder, described, plan)
    manifest = Manifest.writing(folder)
    for batch in range(plan.batches):
        manifest.finish(batch, *run_batch(plan.job(batch)))
    manifest.close()
    return mf.sweep(described, folder)  # nothing is left to compute: it writes results.nc


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


def test_members_of_a_batch_equal_single_runs_bit_for_bit():
    plan = planned(grid={"transformer.width": [4, math.inf], "task.classes": [2]}, seeds={"transformer.seed": 3})
    for batch in range(plan.batches):
        job = plan.job(batch)
        for table, (task, arrays) in zip(job["transformers"], trajectories(job), strict=True):
            run = mf.train(task, build("transformer", table), mf.GradientDescent(steps=40, save_every=10)).dataset
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
    for (rate, omega), (task, arrays) in zip(settings, trajectories(job), strict=True):
        transformer = mf.Transformer(width=width, omega=omega)
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
    ("classes", "width", "names"),
    [
        (2, 4, ["loss", "w", "A", "margin", "z"]),
        (2, math.inf, ["loss", "w", "A", "margin", "z", "w_sector", "A_sector"]),
        (7, math.inf, ["loss", "margin", "z", "w_sector", "A_sector"]),
    ],
    ids=["gram", "symmetric", "types"],
)
def test_series_have_the_dimensions_of_the_dataset(tmp_path, classes, width, names):
    fixed = {"task": {"classes": classes}, "transformer": {"width": width}, "method": {"steps": 20}}
    found = finished(tmp_path, **fixed, grid={"transformer.omega": [0.3, 0.4]}, output={"series": names}).trajectories()
    task, transformer = mf.Mixture(classes), mf.Transformer(width=width, omega=0.4)
    run = mf.train(task, transformer, mf.GradientDescent(steps=20)).dataset
    assert set(names) == set(found.data_vars)
    for name in found.data_vars:
        assert found[name].dims == ("run", *run[name].dims)
        np.testing.assert_array_equal(found[name].sel(run=1).values, run[name].values)
        for dim in run[name].dims[1:]:
            assert found[dim].values.tolist() == run[dim].values.tolist()


def test_a_series_of_some_groups_is_kept_of_those():
    both = planned(transformer={}, grid={"transformer.width": [4, math.inf]}, output={"series": ["w_sector"]})
    assert [group.kept > 0 for group in both.groups] == [False, True]


def test_heads_of_a_task_with_more_classes_keep_their_names(tmp_path):
    task = mf.variants.multiclass(2, values=3)
    run = mf.train(task, mf.Transformer(), mf.GradientDescent(steps=20))
    kept = finished(tmp_path, task={"kind": "multiclass", "values": 3}, output={"series": ["w"]}).trajectories()
    assert kept["head"].values.tolist() == run.dataset["head"].values.tolist() == ["0", "1", "2"]


def test_pilots_are_finished_work_in_the_same_processes(tmp_path, monkeypatch):
    started, judged = [], []
    local, refuse = cluster._local, cost.refuse_absurd
    monkeypatch.setattr(cluster, "_local", lambda place: started.append(place) or local(place))
    monkeypatch.setattr("mixflow.sweeping.run.refuse_absurd", lambda *given: judged.append(given) or refuse(*given))
    description = {**TINY, "seeds": {"transformer.seed": 40}, "transformer": {"width": 4}, "output": {"batch": 8}}
    result = mf.sweep(description, tmp_path, workers=1)
    assert result.complete
    assert len(started) == 1
    before, after = (given[0] for given in judged)
    assert (before.calibrated, after.calibrated) == (False, True)
    assert len(result.manifest.times()) == 5  # three pilots and two more, each once
    assert result.manifest.fact("accepted")


def test_reductions_of_the_papers_run():
    sweep = {"output": {"reductions": ["final", "stages", "levels", "separation"], "series": ["loss", "w"]}}
    part = unpack(run_batch(Plan(Sweep({"model": "gram", **sweep})).job(0))[0])
    assert part["loss"][0] == pytest.approx(0.0032964667, rel=1e-6)
    assert part["neurons_end"][0] == pytest.approx(12.17, abs=0.03)
    assert part["attention_end"][0] == pytest.approx(201.9, abs=0.2)
    assert part["converging"][0]
    for level, at in {0.5: 13.5, 0.3: 177.4, 0.1: 246.4, 0.01: 712.4}.items():  # docs/mathematics.md §3
        assert part[f"time_to_loss_{level}"][0] == pytest.approx(at, abs=1.1)
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


def listening(answer):
    """The address of a port that answers like this whoever knocks."""
    server = socket.create_server(("127.0.0.1", 0))
    held = []

    def serve():
        while True:
            try:
                held.append(server.accept()[0])
                held[-1].sendall(answer)
            except OSError:
                return

    threading.Thread(target=serve, daemon=True).start()
    return server, f"tcp://127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ({"workers": -1}, "workers = -1: expected a whole number from 1"),
        ({"workers": 0}, "workers = 0"),
        ({"workers": 10**9}, "workers = 1000000000"),
        ({"dashboard": 10**6}, "dashboard = 1000000"),
        ({"max_core_hours": math.nan}, "max_core_hours = nan"),
        ({"scheduler": "x"}, "missing port number"),
        ({"scheduler": "tcp://127.0.0.1:9"}, "cannot reach a scheduler at"),
        ({"scheduler": "nowhere://127.0.0.1:9"}, "unknown address scheme"),
        ({"scheduler": "no-such-file.json"}, "No such file"),
        ({"scheduler": b""}, "cannot reach a scheduler at"),
        ({"scheduler": b"HTTP/1.1 400 Bad Request\r\n\r\n"}, "cannot reach a scheduler at"),
        ({"scheduler": "tls://127.0.0.1:9", "tls_ca": "none.pem"}, "cannot reach a scheduler at"),
    ],
)  # fmt: skip
def test_a_bad_place_is_one_sentence_within_seconds(tmp_path, place, words):
    server = None
    if isinstance(place.get("scheduler"), bytes):  # a port that does not speak Dask
        server, address = listening(place["scheduler"])
        place = {"scheduler": address}
    began = time.perf_counter()
    with pytest.raises(SpecError, match=words) as error:
        mf.sweep({**TINY, "seeds": {"transformer.seed": 2}, "transformer": {"width": 4}}, tmp_path / "out", **place)
    assert time.perf_counter() - began < 10
    assert "\n" not in str(error.value)
    if server:
        server.close()


def test_another_sweep_or_version_in_the_folder_is_refused(tmp_path):
    one, two = (Sweep({"grid": {"transformer.omega": values}}) for values in ([0.1], [0.2]))
    write_header(tmp_path, one, Plan(one))
    check_header(Manifest(tmp_path), one)
    with pytest.raises(StoreError, match="another sweep"):
        check_header(Manifest(tmp_path), two)
    manifest = Manifest.writing(tmp_path)
    manifest.note("versions", {**manifest.fact("versions"), "jaxlib": "0.0.1"})
    manifest.close()
    with pytest.raises(StoreError, match=r"jaxlib 0\.0\.1"):
        check_header(Manifest(tmp_path), one)
    manifest = Manifest.writing(tmp_path)
    manifest.note("sweep", two.describe())  # forged: the description is not the one that the fingerprint is of
    manifest.close()
    with pytest.raises(StoreError, match="does not describe the sweep it holds"):
        mf.open_sweep(tmp_path)


def test_a_folder_of_an_older_format_is_refused_in_one_sentence(tmp_path, capsys):
    (tmp_path / "sweep.json").write_text('{"format": 2}')
    (tmp_path / "spec.toml").write_text("[grid]\ntransformer.omega = [0.1]\n")
    for words in (["status", tmp_path], ["resume", tmp_path], [tmp_path / "spec.toml", "--out", tmp_path]):
        assert main(["sweep", *map(str, words)]) == 2
        error = capsys.readouterr().err
        assert "older mixflow" in error
        assert error.count("\n") == 1


def test_the_lock_names_its_owner_and_a_stale_file_does_not_block(tmp_path):
    (tmp_path / "lock").write_text("process 1 on a machine that was rebooted\n")
    assert owner(tmp_path) is None
    with lock(tmp_path):
        assert "process" in owner(tmp_path)
        with pytest.raises(StoreError, match="in use by process"), lock(tmp_path):
            pass
    assert owner(tmp_path) is None


def manifest_of(folder, batches):
    manifest = Manifest.create(folder, {"batches": batches})
    for batch in range(batches):
        manifest.finish(batch, b"part", digest(b"part"), 0.1, True)
    return manifest


def digest(content):
    return hashlib.sha256(content).digest()


def test_a_batch_is_there_whole_or_waits(tmp_path):
    manifest = manifest_of(tmp_path, 3)
    manifest.finish(1, b"part", digest(b"other"), 0.1, True)
    manifest.fail(2, "ValueError: no")
    assert manifest.state(5).tolist() == [DONE, DONE, FAILED, WAITING, WAITING]
    assert manifest.errors() == {2: "ValueError: no"}
    assert list(manifest.parts()) == [(0, b"part"), (1, None)]
    assert manifest.verify() == [1]
    assert manifest.state(3).tolist() == [DONE, WAITING, FAILED]
    manifest.finish(2, b"part", digest(b"part"), 0.1, True)  # what failed once may be finished later
    manifest.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["sweep.sqlite"]  # no log is left behind
    assert Manifest(tmp_path).errors() == {}


def test_a_manifest_is_read_while_it_is_written_and_after_its_writer_died(tmp_path):
    manifest = manifest_of(tmp_path, 2)
    assert Manifest(tmp_path).state(2).tolist() == [DONE, DONE]  # from the log: the writer has not closed
    manifest._db.execute("BEGIN IMMEDIATE")
    manifest._db.execute("DELETE FROM batch")
    assert Manifest(tmp_path).state(2).tolist() == [DONE, DONE]  # nothing of a transaction that is not over
    manifest._db.close()  # as a kill would


def test_a_client_killed_before_its_first_transaction_leaves_no_sweep(tmp_path):
    sqlite3.connect(tmp_path / "sweep.sqlite").execute("PRAGMA journal_mode = WAL").connection.close()
    with pytest.raises(StoreError, match="holds no sweep"):
        mf.open_sweep(tmp_path)
    assert finished(tmp_path, transformer={"width": 4}).complete


def test_damage_to_the_manifest_is_one_sentence(tmp_path):
    import xarray

    output = {"batch": 8, "series": ["w"]}
    with finished(tmp_path, transformer={"width": 4}, seeds={"transformer.seed": 40}, output=output).dataset as data:
        truth = data.load()
    path = tmp_path / "sweep.sqlite"
    sound = path.read_bytes()
    rng = np.random.default_rng(0)
    noticed = 0
    for at in rng.integers(0, len(sound) - 64, 40):
        path.write_bytes(sound[:at] + bytes(64) + sound[at + 64 :])
        (tmp_path / "results.nc").unlink(missing_ok=True)  # the table is then read from the manifest
        try:
            values = mf.open_sweep(tmp_path).dataset
        except StoreError:
            noticed += 1
        else:  # a row that lost its place, or an empty page: never other values
            xarray.testing.assert_identical(values, truth.sel(run=values.run))
    assert noticed > 20
    path.write_bytes(b"no database at all")
    with pytest.raises(StoreError, match="cannot read"):
        mf.open_sweep(tmp_path)


@pytest.mark.parametrize(
    "forged", ["foreign", "other runs", "short column", "no numbers", "no table", "sweep", "versions", "format"]
)
def test_a_forged_manifest_is_one_sentence(tmp_path, capsys, forged):
    """Whoever writes the checksums, too."""
    finished(tmp_path, transformer={"width": 4}, seeds={"transformer.seed": 24}, output={"batch": 8}).dataset.close()
    (tmp_path / "results.nc").unlink()
    part = unpack(dict(Manifest(tmp_path).parts())[1])
    changed = {"foreign": None, "other runs": {"run": part["run"] + 10**9}, "short column": {"loss": part["loss"][:2]}}
    with sqlite3.connect(tmp_path / "sweep.sqlite") as db:
        if forged in changed:
            content = b"PK\3\4" if changed[forged] is None else pack({**part, **changed[forged]})
            db.execute("UPDATE batch SET content = ?, sha256 = ? WHERE number = 1", (content, digest(content)))
        elif forged == "no numbers":
            db.execute("UPDATE batch SET content = NULL, sha256 = NULL, at = NULL, seconds = NULL WHERE number = 1")
        elif forged == "no table":
            db.execute("DROP TABLE batch")
        else:
            db.execute("UPDATE fact SET value = '[3]' WHERE name = ?", (forged,))
    db.close()
    for words in (["status"], ["export", "--to", tmp_path / "t.csv"], ["plot", "--to", tmp_path / "t.svg"]):
        code = main(["sweep", words[0], str(tmp_path), *map(str, words[1:])])
        assert code == 2 or (code == 0 and forged != "no table" and (words == ["status"] or forged == "versions"))
        assert capsys.readouterr().err.count("\n") == (code == 2)
    if forged != "no numbers":  # which are computed again
        assert main(["sweep", "resume", str(tmp_path), "--workers", "1"]) == 2
        assert "Traceback" not in capsys.readouterr().err


def test_an_altered_result_is_noticed_never_served_nor_kept(tmp_path, capsys):
    import h5py

    truth = finished(tmp_path, transformer={"width": 4}, seeds={"transformer.seed": 3}, output={"series": ["loss"]})
    with truth.dataset as data:
        loss = data.loss.values
    for name in ("loss", "group_0/loss"):
        with h5py.File(tmp_path / "results.nc", "r+") as file:
            file[name][0] = 0.0
        with pytest.raises(StoreError, match=r"mixflow sweep resume .* writes it again"):
            _ = mf.open_sweep(tmp_path).dataset
        with pytest.raises(StoreError, match="resume"):
            mf.open_sweep(tmp_path).trajectories()
        assert main(["sweep", "resume", str(tmp_path)]) == 0
        assert "checksum" in capsys.readouterr().err
        with mf.open_sweep(tmp_path).dataset as data:
            np.testing.assert_array_equal(data.loss.values, loss)


def test_a_table_has_one_row_for_each_run(tmp_path):
    result = finished(tmp_path, transformer={"width": 4}, seeds={"transformer.seed": 3})
    frame = result.dataset.to_dataframe()
    assert len(frame) == result.dataset.sizes["run"] == 3
    assert {"time_to_loss_0.5", "time_to_loss_0.01"} <= set(frame.columns)


def test_samples_sweep_and_equal_their_single_runs():
    axes = {"grid": {"task.n": [12, 20]}, "seeds": {"task.seed": 2}}
    plan = planned(task={"kind": "sample"}, transformer={"width": 4}, output={"series": ["loss", "w"]}, **axes)
    parts = [unpack(run_batch(plan.job(batch))[0]) for batch in range(plan.batches)]
    found = {int(run): (part, i) for part in parts for i, run in enumerate(part["run"])}
    for run, (n, seed) in enumerate([(12, 0), (12, 1), (20, 0), (20, 1)]):
        task = mf.Sample(mf.Mixture(), n=n, seed=seed)
        data = mf.train(task, mf.Transformer(width=4), mf.GradientDescent(steps=40, save_every=10)).dataset
        part, i = found[run]
        assert part["loss"][i] == float(data.loss[-1])
        assert part["loss_test"][i] == float(data.loss_test[-1])
        np.testing.assert_array_equal(part["series_w"][i], data.w.values)


@pytest.mark.parametrize("classes", [2, 3])
def test_separation_asks_for_the_deciding_samples(classes):
    """At K = 3 the hard samples alone are separable from the start: all samples are asked, whose margin begins at 0."""
    output = {"reductions": ["separation"], "series": ["A"]}
    plan = planned(task={"classes": classes}, method={"steps": 20_000, "save_every": 200}, output=output)
    part = unpack(run_batch(plan.job(0))[0])
    from mixflow.measure.separability import feature_margin

    samples = "hard" if classes == 2 else "all"
    margins = feature_margin(mf.Mixture(classes), part["series_A"][0], samples=samples)
    assert part["separation_margin"][0] == margins[-1] > 0.1
    first = np.flatnonzero(margins >= 0.1)[0]
    time = part["series_time"]
    assert time[first - 1] < part["separation_time"][0] <= time[first]
    assert part["separation_time"][0] == pytest.approx(
        np.interp(0.1, margins[[first - 1, first]], time[[first - 1, first]])
    )


def test_a_run_that_chatters_spoils_no_other_and_is_not_tried_again(monkeypatch):
    from mixflow.sweeping import work as place
    from mixflow.sweeping.work import attempt

    right, calls = place.together, []

    def together(engines, networks, method, bar, read, rates=None):
        def spoilt(engine, network, outcome):
            if network.omega == 0.4:
                stopped = {"error": mf.ChatteringError("the neurons switch\nwithout end."), "ended": "chattering"}
                outcome.parts = [replace(outcome.last, **stopped, time=np.zeros(0), history={}, dense=None)]
            return read(engine, network, outcome)

        calls.append(networks[0].omega)
        return right(engines, networks, method, bar, spoilt, rates)

    monkeypatch.setattr(place, "together", together)
    flow = {"method": {"kind": "flow", "until": 2.0}, "output": {"series": ["loss"], "batch": 3}}
    plan = Plan(Sweep({**flow, "grid": {"transformer.omega": [0.3, 0.4, 0.5]}}))
    kind, content, *_ = attempt(plan.job(0))
    assert kind == "done"
    part = unpack(content)
    assert part["error"].tolist() == ["", r"the neurons switch\nwithout end.", ""]
    assert np.isfinite(part["loss"]).tolist() == [True, False, True]
    assert np.isfinite(part["series_loss"]).all(axis=1).tolist() == [True, False, True]
    assert calls == [0.3, 0.4, 0.5]
    monkeypatch.setattr(place, "together", lambda *_, **__: (_ for _ in ()).throw(SpecError("no")))
    assert attempt(plan.job(0)) == ("failed", "SpecError: no", False)


def test_three_stage_flows_compute_no_certificates_nobody_keeps(monkeypatch):
    from mixflow.methods import flow

    def certify(*arguments, **more):
        raise AssertionError("a certificate was computed")

    monkeypatch.setattr(flow, "certify", certify)
    staged = {
        "kind": "three-stage",
        "method": {"kind": "flow", "until": 1},
        "neurons": 1,
        "attention": 1,
        "converge": 1,
    }
    part = unpack(run_batch(Plan(Sweep({"method": staged})).job(0))[0])
    assert part["time"][0] == 3.0


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
