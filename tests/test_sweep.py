"""Sweeps without a cluster: batches equal single runs, reductions and series, bad places."""

import math
import socket
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from sweeps import TINY, finished, planned

import mixflow as mf
from mixflow.errors import SpecError
from mixflow.spec import build
from mixflow.sweeping import cluster, cost
from mixflow.sweeping.manifest import Manifest
from mixflow.sweeping.plan import Plan
from mixflow.sweeping.results import SweepResult
from mixflow.sweeping.run import write_header
from mixflow.sweeping.spec import Sweep
from mixflow.sweeping.work import run_batch, trajectories, unpack


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


def test_a_separation_that_some_runs_have_is_kept_of_those():
    plan = planned(
        grid={"transformer.heads": [1, 2]},
        output={"reductions": ["separation"]},
        task={"classes": 2},
        transformer={"width": 4},
    )
    margins = [unpack(run_batch(plan.job(batch))[0])["separation_margin"][0] for batch in range(plan.batches)]
    assert np.isnan(margins).tolist() == [True, False]


def test_a_sweep_of_which_nothing_could_be_computed_says_why(tmp_path):
    described = Sweep({**TINY, "grid": {"transformer.omega": [0.1, 0.2]}})
    plan = Plan(described)
    write_header(tmp_path, described, plan)
    manifest = Manifest.writing(tmp_path)
    with pytest.raises(mf.StoreError, match="no finished batch yet: run mixflow sweep resume"):
        SweepResult(tmp_path, plan, manifest).table()
    manifest.fail(1, "SpecError: the second is bad.")
    manifest.close()
    with pytest.raises(
        mf.StoreError, match="batch 1 failed with SpecError: the second is bad; mend what it names and run"
    ):
        mf.open_sweep(tmp_path).table()


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
