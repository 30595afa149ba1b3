"""Sweeps with real clusters of separate processes that are killed, poisoned, corrupted and starved of disk."""

import contextlib
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

import mixflow as mf
from mixflow.sweeping.manifest import Manifest, lock
from mixflow.sweeping.plan import Plan
from mixflow.sweeping.run import write_header
from mixflow.sweeping.spec import Sweep
from mixflow.sweeping.work import run_batch

SPEC = """
name = "faults"
task.classes = 1
transformer.width = 4
method = { steps = 30000, save_every = 3000 }
output = { batch = 8, series = ["loss"] }
[grid]
transformer.omega = [0.2, 0.3, 0.4, 0.5]
[seeds]
transformer.seed = 24
"""
BATCHES = 12


def command(*words):
    return [sys.executable, "-m", "mixflow", "sweep", *map(str, words)]


def finish(*words, **more):
    return subprocess.run(command(*words), capture_output=True, text=True, timeout=120, **more)


@pytest.fixture(scope="module")
def spec(tmp_path_factory):
    path = tmp_path_factory.mktemp("spec") / "faults.toml"
    path.write_text(SPEC)
    return path


@pytest.fixture(scope="module")
def reference(spec):
    """The sweep in this process, batch by batch, without a cluster: what every other way must end in."""
    out = spec.parent / "reference"
    out.mkdir()
    plan = Plan(Sweep.of(spec))
    write_header(out, plan.sweep, plan)
    with contextlib.closing(Manifest.writing(out)) as manifest:
        for batch in range(plan.batches):
            manifest.finish(batch, *run_batch(plan.job(batch)))
    mf.sweep(spec, out)
    return out


def parts(folder):
    return dict(Manifest(folder).parts())


def times(folder):
    """{batch: when it was finished}, of every batch that is."""
    try:
        return {batch: at for batch, at, *_ in Manifest(folder).times()}
    except mf.StoreError:  # killed before it began
        return {}


def assert_same(folder, reference):
    assert parts(folder) == parts(reference)
    assert sorted(parts(folder)) == list(range(BATCHES))
    one, two = mf.open_sweep(folder), mf.open_sweep(reference)
    assert one.complete
    assert one.dataset.load().drop_attrs().identical(two.dataset.load().drop_attrs())
    assert sorted(path.name for path in folder.iterdir()) == ["lock", "results.nc", "sweep.sqlite"]


def test_results_of_a_sweep(spec, reference, tmp_path, capsys):
    assert main_exit(spec, "--out", reference, "--json") == 0
    assert json.loads(capsys.readouterr().out)["runs_done"] == 96
    result = mf.open_sweep(reference)
    data = result.dataset
    assert data.sizes["run"] == 96
    assert data.loss.chunks is not None  # lazily
    for r in (17, 95):
        one = data.isel(run=r)
        transformer = mf.Transformer(width=4, omega=float(one.omega), seed=int(one.seed))
        run = mf.train(mf.Mixture(classes=1), transformer, mf.GradientDescent(steps=30000, save_every=3000))
        assert float(one.loss) == float(run.dataset.loss[-1])
        np.testing.assert_array_equal(result.trajectories().loss.sel(run=int(one.run)).values, run.dataset.loss.values)
    grid = result.grid("loss")
    assert dict(grid.loss.sizes) == {"omega": 4, "seed": 24}
    assert float(grid.loss.sel(omega=0.3, seed=5)) == float(data.loss[24 + 5])
    assert main_exit("status", reference) == main_exit("export", reference, "--to", tmp_path / "t.csv") == 0
    assert (tmp_path / "t.csv").read_text().count("\n") == 97
    for kind in ("curves", "threshold", "heat"):
        assert main_exit("plot", reference, "--figure", kind, "--to", tmp_path / f"{kind}.svg") == 0
        assert (tmp_path / f"{kind}.svg").stat().st_size > 5000


def main_exit(*words):
    from mixflow.cli import main

    return main(["sweep", *map(str, words)])


def start(spec, out):
    return subprocess.Popen(
        command(spec, "--out", out, "--workers", "2"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip


def workers(client):
    """Worker processes of a client (Dask's helpers, which track resources, are no workers)."""
    try:
        children = psutil.Process(client.pid).children(recursive=True)
        return [child for child in children if "spawn_main" in " ".join(child.cmdline())]
    except psutil.Error:
        return []


def kill_once(client, rng, what):
    """Wait a random moment of the sweep's life, then strike."""
    deadline = time.monotonic() + rng.uniform(2.0, 6.0)
    while time.monotonic() < deadline and client.poll() is None:
        time.sleep(0.02)
    if client.poll() is not None:
        return
    if what == "worker":
        for worker in workers(client)[:1]:
            worker.kill()
    elif what == "client":
        client.kill()
    elif what == "interrupt":
        os.killpg(client.pid, signal.SIGINT)
    else:
        os.killpg(client.pid, signal.SIGKILL)


def test_kills_at_random_moments_change_nothing(spec, reference, tmp_path):
    rng, out, before = random.Random(7), tmp_path / "killed", {}
    for what in ("client", "interrupt", "everything"):
        client = start(spec, out)
        kill_once(client, rng, what)
        _, error = client.communicate(timeout=60)
        if what == "interrupt" and client.returncode == -signal.SIGINT:  # to a shell 130, too
            assert (out / "results.nc").exists()  # done, and Python had given the signal back: nothing else may end so
            assert not error
        elif what == "interrupt" and client.returncode != 0:
            assert client.returncode == 130, error
            assert "Traceback" not in error
            assert "interrupted" in error
        assert before.items() <= times(out).items()  # nothing is lost or run again once it is finished
        before = times(out)
    client = start(spec, out)
    kill_once(client, rng, "worker")
    _, error = client.communicate(timeout=90)
    assert client.returncode == 0, error
    assert_same(out, reference)
    assert before.items() <= times(out).items()


POISON = """
import mixflow.sweeping.work as place
right = getattr(place.choose, "right", place.choose)  # Dask loads a preload more than once

def choose(task, transformer, method, model):
    if transformer.omega == 0.3 and transformer.seed == 0:
        {act}
    return right(task, transformer, method, model)

choose.right = right
place.choose = choose
"""


def test_poisoned_batches_are_named_and_damaged_parts_computed_again(spec, reference, tmp_path):
    out, poison = tmp_path / "out", tmp_path / "poison.py"
    poison.write_text(POISON.format(act="raise ValueError('poison')"))
    environment = {**os.environ, "DASK_DISTRIBUTED__WORKER__PRELOAD": str(poison)}
    done = finish(spec, "--out", out, "--workers", "1", env=environment)
    assert done.returncode == 1, done.stderr
    assert "batch 3 failed: ValueError: poison" in done.stdout
    assert list(mf.open_sweep(out).failed) == [3]
    assert mf.open_sweep(out).dataset.sizes["run"] == 88
    with sqlite3.connect(out / "sweep.sqlite") as db:
        flipped = parts(out)[0]
        flipped = flipped[:100] + bytes([flipped[100] ^ 1]) + flipped[101:]
        db.execute("UPDATE batch SET content = ? WHERE number = 0", (flipped,))
        db.execute("UPDATE batch SET content = substr(content, 1, 1000) WHERE number = 5")
        db.execute("UPDATE batch SET sha256 = NULL WHERE number = 8")
        db.execute("DELETE FROM batch WHERE number = 7")
    db.close()
    before = times(out)
    done = finish("resume", out, "--workers", "1")
    assert done.returncode == 0, done.stderr
    assert "3 batches do not match their checksums and are computed again: 0, 5, 8" in done.stderr
    assert sorted(batch for batch, at in times(out).items() if at != before.get(batch)) == [0, 3, 5, 7, 8]
    assert_same(out, reference)


def test_a_full_disk_leaves_a_resumable_folder(spec, reference, tmp_path):
    out = tmp_path / "out"
    limit = 60_000  # bytes any file may have: the header and a batch or two fit into the log, twelve do not

    starved = (
        f"import os, resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit})); "
        "os.execv(sys.argv[1], sys.argv[1:])"
    )
    words = [sys.executable, "-c", starved, *command(spec, "--out", out, "--workers", "1")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert "cannot write" in done.stderr
    assert "make room and resume" in done.stderr
    assert "Traceback" not in done.stderr
    before = times(out)
    assert 0 < len(before) < BATCHES
    git = Path(mf.__file__).parents[1] / ".git"
    if git.exists():  # asking git for the commit must not leave its lock behind when git too runs out of disk
        words = ["git", "-C", str(git.parent), "rev-parse", "--git-path", "index.lock"]
        found = subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
        assert not (git.parent / found).exists()
    done = finish("resume", out, "--workers", "1")
    assert done.returncode == 0, done.stderr
    assert before.items() <= times(out).items()
    assert_same(out, reference)


def test_a_second_client_is_told_and_stops(spec, tmp_path):
    with lock(tmp_path):
        done = finish(spec, "--out", tmp_path)
    assert done.returncode == 2
    assert f"in use by process {os.getpid()}" in done.stderr


class DaskCluster:
    """A scheduler and workers in processes of their own, on the loopback interface; `more` are options of both."""

    def __init__(self, folder, *more):
        self.folder, self.file, self.started = folder, folder / "address.json", []
        self.options = ["--host", "127.0.0.1", "--dashboard-address", "127.0.0.1:0", *map(str, more)]

    def __enter__(self):
        self._dask("scheduler", "--port", "0", "--no-dashboard", "--scheduler-file", self.file)
        return self

    def __exit__(self, *problem):
        for process in self.started:
            process.kill()
            process.wait()

    def worker(self, **more):
        return self._dask("worker", "--scheduler-file", self.file, "--nthreads", "1", "--no-nanny", **more)

    @property
    def address(self):
        deadline = time.monotonic() + 30
        while not (self.file.exists() and self.file.read_text()) and time.monotonic() < deadline:
            time.sleep(0.05)
        return json.loads(self.file.read_text())["address"]

    def _dask(self, *words, **more):
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        line = [sys.executable, "-m", "dask", *map(str, words), *self.options]
        process = subprocess.Popen(line, cwd=self.folder, **quiet, **more)  # away from the source's own metadata
        self.started.append(process)
        return process


def test_a_cluster_at_an_address(spec, reference, tmp_path):
    """A scheduler of its own: a worker with another mixflow is refused, the right one does the sweep."""
    other = tmp_path / "other" / "mixflow-9.9.9.dist-info"
    other.mkdir(parents=True)
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: mixflow\nVersion: 9.9.9\n")
    with DaskCluster(tmp_path) as cluster:
        wrong = cluster.worker(env={**os.environ, "PYTHONPATH": str(other.parent)})
        assert cluster.address.startswith("tcp://127.0.0.1:")
        out = tmp_path / "out"
        done = finish(spec, "--out", out, "--scheduler", cluster.address)
        assert done.returncode == 2
        assert "has mixflow 9.9.9, this client has" in done.stderr
        wrong.kill()
        wrong.wait()
        cluster.worker()
        done = finish(spec, "--out", out, "--scheduler", cluster.address)
        assert done.returncode == 0, done.stderr
        assert_same(out, reference)
        left = tmp_path / "left"  # the scheduler dies in the middle: one sentence, and what is finished is kept
        client = subprocess.Popen(
            command(spec, "--out", left, "--scheduler", cluster.address), stderr=subprocess.PIPE, text=True
        )
        while client.poll() is None and not times(left):
            time.sleep(0.05)
        cluster.started[0].kill()
        _, error = client.communicate(timeout=60)
        assert client.returncode == 2
        assert "the scheduler went away" in error
        assert error.count("\n") == 1
        before = times(left)
        done = finish("resume", left, "--workers", "1")
        assert done.returncode == 0, done.stderr
        assert before.items() <= times(left).items()
        assert_same(left, reference)


def authority(folder, name):
    """A throw-away certificate authority with one certificate for this machine: {"ca", "cert", "key": path}."""
    program = shutil.which("openssl")
    if program is None:
        pytest.skip("no openssl on the path to make certificates with")

    def openssl(*words):
        subprocess.run([program, *map(str, words)], cwd=folder, check=True, capture_output=True)

    def path(kind):
        return folder / f"{name}-{kind}.pem"

    fresh = ("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    openssl(*fresh, "-x509", "-days", "2", "-subj", f"/CN={name}", "-keyout", path("ca-key"), "-out", path("ca"))
    openssl(*fresh, "-subj", "/CN=127.0.0.1", "-keyout", path("key"), "-out", path("request"))
    signed = ("-CA", path("ca"), "-CAkey", path("ca-key"), "-set_serial", "1", "-days", "2")
    openssl("x509", "-req", "-in", path("request"), *signed, "-out", path("cert"))
    return {kind: path(kind) for kind in ("ca", "cert", "key")}


def test_a_cluster_that_needs_certificates(spec, reference, tmp_path, capsys):
    """The right files do the sweep; without them, or with another authority's, Dask's own words within ten seconds."""
    ours, theirs = authority(tmp_path, "ours"), authority(tmp_path, "theirs")

    def files(**given):
        return [word for name, path in given.items() for word in (f"--tls-{name}", path)]

    dask_options = ("--protocol", "tls", *files(**{"ca-file": ours["ca"], "cert": ours["cert"], "key": ours["key"]}))
    with DaskCluster(tmp_path, *dask_options) as cluster:
        cluster.worker()
        address = cluster.address
        assert address.startswith("tls://127.0.0.1:")
        wrong = [
            [],
            files(**theirs),  # we do not trust the scheduler
            files(**{**theirs, "ca": ours["ca"]}),  # it does not trust us
            files(**{**ours, "key": theirs["key"]}),  # not the key of the certificate
            files(**{**ours, "key": tmp_path / "none.pem"}),
        ]
        for options in wrong:
            began = time.perf_counter()  # in this process: starting Python on a busy machine is not what is measured
            assert main_exit(spec, "--out", tmp_path / "no", "--scheduler", address, *options) == 2
            error = capsys.readouterr().err
            assert f"cannot reach a scheduler at '{address}'" in error
            assert error.count("\n") == 1
            assert time.perf_counter() - began < 10
        done = finish(spec, "--out", tmp_path / "out", "--scheduler", address, *files(**ours))
        assert done.returncode == 0, done.stderr
        assert_same(tmp_path / "out", reference)


def test_local_processes_listen_on_the_loopback_interface_only(spec, tmp_path):
    client = start(spec, tmp_path / "out")
    try:
        deadline = time.monotonic() + 30
        while len(workers(client)) < 2 and time.monotonic() < deadline and client.poll() is None:
            time.sleep(0.05)
        time.sleep(1.0)
        family = [psutil.Process(client.pid), *psutil.Process(client.pid).children(recursive=True)]
        heard = [c.laddr.ip for p in family for c in p.net_connections(kind="inet") if c.status == psutil.CONN_LISTEN]
        assert heard
        assert set(heard) <= {"127.0.0.1", "::1"}
    finally:
        client.kill()
        client.communicate(timeout=30)


@pytest.mark.parametrize("failures", [0, 2, 3])
def test_a_worker_killed_while_it_starts_only_costs_another_start(monkeypatch, failures):
    from mixflow.errors import MixflowError
    from mixflow.sweeping import cluster

    tries = iter([*[RuntimeError("Nanny failed to start")] * failures, "started"])

    def local(place):
        found = next(tries)
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(cluster, "_local", local)
    if failures < 3:
        assert cluster._started(None) == "started"
    else:
        with pytest.raises(MixflowError, match=r"do not start \(Nanny failed to start\).*--workers"):
            cluster._started(None)
