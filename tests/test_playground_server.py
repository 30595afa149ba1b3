"""The playground's server: every answer bounded, every bad request refused, jobs shared, stopped and freed."""

import signal
import socket
import struct
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from pages import answers, arrays_of, ask, get, open_socket, playground, run, status, wait_until

import mixflow as mf
from mixflow.engines import choose
from mixflow.errors import SpecError
from mixflow.playground.controls import CONTROLS
from mixflow.playground.frames import decode, encode
from mixflow.playground.presets import PRESETS
from mixflow.playground.recipes import METHODS, TASKS
from mixflow.playground.requests import Request
from mixflow.playground.server import listen

QUICK = {"steps": 400}
LONG = {"steps": 500_000, "learning_rate": 0.001}  # some seconds of work


@pytest.fixture(scope="module")
def server():
    with playground() as (address, _):
        yield address


# requests and frames ---------------------------------------------------------------------------------------------------


def test_frames_survive_the_way():
    arrays = {"a": np.arange(6.0).reshape(2, 3), "b": np.array([1, 2, 3], np.uint8), "c": np.zeros((0, 4), np.float32)}
    header, back = decode(encode("chunk", {"key": "k"}, arrays))
    assert header["kind"] == "chunk"
    assert header["key"] == "k"
    for name, array in arrays.items():
        assert back[name].dtype == array.dtype
        assert np.array_equal(back[name], array)


def test_arrays_lie_where_a_browser_can_view_them():
    for words in range(9):
        frame = encode("x", {"pad": "a" * words}, {"a": np.ones(3, np.uint8), "b": np.ones(2)})
        (length,) = struct.unpack("<I", frame[4:8])
        assert (8 + length) % 8 == 0
        assert all(offset % 8 == 0 for *_, offset in decode(frame)[0]["arrays"])


def test_equal_settings_have_one_key():
    assert Request.of({}).key == Request.of({"classes": 2, "omega": 0.3}).key
    assert Request.of({"seed": 5}).key == Request.of({}).key  # infinite width has no seed
    assert Request.of({"seed": 5, "width": "64"}).key != Request.of({"width": "64"}).key
    assert Request.of({"until": 50}).key == Request.of({}).key  # descent does not look at it


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("task", TASKS)
def test_every_task_and_method_builds(task, method):
    asked = Request.of({"task": task, "method": method, "classes": 3})
    built, _, trained = asked.spec()
    assert getattr(built, "uniform", False) == (task == "plain")
    saves = getattr(trained, "method", trained)
    assert method == "flow" or 600 <= saves.steps / saves.save_every < 1200


def test_tasks_have_their_own_controls():
    assert Request.of({"task": "unequal", "prior": 0.75}).spec()[0].priors == (0.75, 0.25)
    assert Request.of({"task": "coherent", "coherence": 0.25}).spec()[0].gram[0] == (1.0, 0.25, 0.25, 0.25)
    assert Request.of({"task": "noisy", "wrong": 0.25}).spec()[0].probabilities[1] == pytest.approx(0.25 / 8)
    assert Request.of({"task": "longer", "distractors": 2}).spec()[0].features[-1] == "d1"
    assert Request.of({"prior": 0.75}).key == Request.of({}).key  # the plain task does not look at it
    assert Request.of({"task": "unequal", "coherence": 0.5}).key == Request.of({"task": "unequal"}).key


def test_presets_are_requests():
    for preset in PRESETS:
        Request.of({name: value for name, value in preset["state"].items() if name in CONTROLS}).spec()
    assert len({preset["id"] for preset in PRESETS}) == len(PRESETS)


def test_programs_compiled_ahead_are_the_ones_asked_for():
    from mixflow.playground.warm import AHEAD

    for asked in AHEAD:
        default = {name: value for name, value in asked.items() if name not in ("until", "steps")}
        ahead, later = (choose(*Request.of(wanted).spec()) for wanted in (asked, default))
        assert ahead.key == later.key


def test_compiling_ahead_waits_for_the_first_run(monkeypatch):
    from mixflow.playground import warm

    trained, first_done = [], threading.Event()
    monkeypatch.setattr(warm, "train", lambda *spec: trained.append(spec))
    thread = warm.compile_ahead(first_done)
    assert trained == []
    first_done.set()
    thread.join(10)
    assert [type(method).__name__ for _, _, method in trained] == ["GradientFlow"]


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"classes": 10**400}, "classes K"),
        ({"classes": 2.5}, "whole number"),
        ({"classes": True}, "whole number"),
        ({"classes": 201}, "from 2 to 200"),
        ({"omega": float("nan")}, "initial scale"),
        ({"omega": float("inf")}, "initial scale"),
        ({"omega": "0.3"}, "initial scale"),
        ({"width": 64}, "width m"),
        ({"width": "65"}, "width m"),
        ({"width": "64", "classes": 6}, "infinite width"),
        ({"task": "coherent", "classes": 6}, "with this task"),
        ({"task": "unequal", "classes": 4, "method": "flow"}, "K ≤ 3"),
        ({"task": "unequal", "prior": 1.0}, "from 0.01 to 0.99"),
        ({"task": "coherent", "classes": 3, "coherence": -0.25}, "from -0.2 to"),
        ({"task": "longer", "classes": 4}, "K ≤ 3"),
        ({"task": "noisy", "wrong": 0.5}, "share of wrong labels"),
        ({"task": "weird"}, "expected one of plain"),
        ({"method": "flow", "classes": 50}, "takes the gradient flow minutes"),
        ({"method": "construct", "target_margin": 0}, "margin wanted"),
        ({"method": "three", "learning_rate": 0.001, "converge": 1e6}, "steps"),
        ({"tie_values": 1}, "true or false"),
        ({"colour": "red"}, "no control"),
        ([], "object"),
        (None, "object"),
    ],
)
def test_refusals_say_what_is_expected(asked, says):
    with pytest.raises(SpecError, match=says):
        Request.of(asked)


# runs ----------------------------------------------------------------------------------------------------------------


def test_a_run_streams_and_equals_the_library(server):
    with open_socket(server) as page:
        frames = run(page, steps=20_000)
    kinds = [header["kind"] for header, _ in frames]
    assert kinds[:2] == ["accepted", "start"]
    assert kinds[-1] == "done"
    assert kinds.count("chunk") >= 1
    task, transformer, method = Request.of({"steps": 20_000}).spec()
    data = mf.train(task, transformer, method).dataset
    for name in ("time", "loss", "loss_hard"):  # the mean over atoms rounds differently in chunks: its last digit may
        streamed = np.concatenate([arrays[name] for _, arrays in frames if name in arrays])
        np.testing.assert_allclose(streamed, data[name].values, rtol=1e-13)
    assert [stage["name"] for stage in frames[-1][0]["stages"]] == ["neurons", "attention", "convergence"]


@pytest.mark.parametrize("classes", [3, 50])
def test_a_constructed_network_is_shown_as_one_state(server, tmp_path, classes):
    with open_socket(server) as page:
        frames = run(page, method="construct", classes=classes, target_margin=2.0)
        header, arrays = frames[-1]
        net = mf.construct(classes=classes, target_margin=2.0)
        assert frames[1][0]["until"] == 0
        assert header["stages"] == header["events"] == []
        assert arrays["time"].tolist() == [0]
        assert arrays["loss"] == pytest.approx(net.evaluate().loss, rel=1e-12)
        assert arrays["margin"] == pytest.approx(2.0, rel=1e-6)
        assert arrays["z"].min() > 0  # every neuron is on
        if classes == 3:
            assert np.array_equal(arrays["A"][0], net.A)
    path = tmp_path / "net.nc"
    path.write_bytes(get(server, f"run/{header['key']}.nc").content)
    assert mf.load(path).method == net


@pytest.mark.parametrize("task", TASKS)
def test_every_task_has_every_view(server, task):
    with open_socket(server) as page:
        frames = run(page, **QUICK, task=task, distractors=2)
        header = frames[-1][0]
        assert header["kind"] == "done"
        assert {arrays["scores"].shape[1] for _, arrays in frames if "scores" in arrays} == {4}
        lines = {tuple(told["names"]["lines"]) for told, _ in frames if "names" in told}
        assert [line.split("  ")[0] for line in lines.pop()] == [
            "A[c_k, v_k]",
            "A[c_k, v_j]",
            "A[v_k, c_k]",
            "A[v_j, c_k]",
        ]
        assert lines == set()  # every frame speaks of the same curves
        names = header["names"]
        tokens = [[(names["features"][f], sign) for f, sign in atom] for atom in names["tokens"]]
        assert tokens[-1][-1] == ("d1" if task == "longer" else "v2", -1)
        assert len(tokens) == len(names["atoms"]) == len(names["weights"]) == arrays_of(frames, "margin").shape[1]
        assert (names["least"] > 0) == (task == "noisy")


def test_three_stages_arrive_as_one_run(server):
    with open_socket(server) as page:
        frames = run(page, method="three", neurons=100, attention=500, converge=500)
    header = frames[-1][0]
    kept = frames[-1:] if header["replace"] else frames  # how much was streamed depends on the machine
    time, loss = (np.concatenate([arrays[name] for _, arrays in kept if name in arrays]) for name in ("time", "loss"))
    assert np.all(np.diff(time) > 0)
    assert loss[-1] == pytest.approx(0.01448, abs=1e-5)
    assert [round(switch["end"]) for switch in header["switches"]] == [100, 600, 1100]


def test_downloads_are_the_run(server, tmp_path):
    with open_socket(server) as page:
        frames = run(page, **QUICK)
    path = tmp_path / "run.nc"
    path.write_bytes(get(server, f"run/{frames[-1][0]['key']}.nc").content)
    assert np.array_equal(mf.load(path).dataset.loss, arrays_of(frames, "loss"))


def test_finished_results_are_shared(server):
    with open_socket(server) as first, open_socket(server) as second:
        one = run(first, steps=20_000, omega=0.31)[-1][0]
        began = time.monotonic()
        two = run(second, steps=20_000, omega=0.31)[-1][0]
        assert time.monotonic() - began < 5
    assert one == two  # the very same frame, down to the seconds it took


def test_a_newer_run_cancels_the_older(server):
    with open_socket(server) as page:
        for omega in (0.4, 0.41, 0.42):
            ask(page, type="run", controls={**LONG, "omega": omega})
        ask(page, type="run", controls={**QUICK, "omega": 0.43})
        done = answers(page)[-1][0]
    assert done["key"] == Request.of({**QUICK, "omega": 0.43}).key
    wait_until(lambda: status(server)["unfinished"] == 0, 10, what="freeing the cancelled jobs")


def test_a_client_that_dies_frees_its_job(server):
    with open_socket(server) as page:
        ask(page, type="run", controls={**LONG, "omega": 0.5})
        answers(page, ("chunk",))
        assert status(server)["unfinished"] == 1
        page.socket.shutdown(socket.SHUT_RDWR)  # no goodbye
        began = time.monotonic()
        wait_until(lambda: status(server)["unfinished"] == 0, 10, what="freeing the job")
        assert time.monotonic() - began < 5  # 0.1 s on a quiet machine, see benchmarks/playground_load.py


def test_divergence_is_shown_with_what_there_is(server):
    with open_socket(server) as page:
        header = run(page, learning_rate=1000, steps=2000, omega=3)[-1][0]
    assert header["kind"] in ("done", "refused")
    if header["kind"] == "done" and header["warning"]:
        assert "diverged" in header["warning"]


# starting and stopping -----------------------------------------------------------------------------------------------


def test_a_frame_does_not_wait_for_the_one_before():
    """The protocol must be named: only then does asyncio turn Nagle's delay off."""
    with listen(0) as ours:
        assert ours.proto == socket.IPPROTO_TCP


def test_a_busy_port_is_named_and_the_next_offered(server):
    port = int(server.rsplit(":", 1)[1].rstrip("/"))
    words = [sys.executable, "-m", "mixflow", "playground", "--port", str(port), "--no-browser"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert f"port {port} is in use" in done.stderr
    assert "mixflow playground --port" in done.stderr
    assert "Traceback" not in done.stderr


def test_ctrl_c_stops_cleanly():
    with playground() as (address, process):
        with open_socket(address) as page:
            ask(page, type="run", controls=LONG)
            decode(page.recv(timeout=10))
            began = time.monotonic()
            process.send_signal(signal.SIGINT)
            assert process.wait(15) == 0
        assert time.monotonic() - began < 12
        assert "stopped" in process.stdout.read()
        assert process.stderr.read() == ""
