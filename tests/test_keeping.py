"""Nothing finished is lost: Ctrl-C once or twice, a place that cannot be written, and what is said of it."""

import json
import signal
import subprocess
import sys
import tempfile
import time

import pytest
from test_cli import call

import mixflow as mf
from mixflow import sealed
from mixflow.proofs import file

# Keeping takes a second here, so that another Ctrl-C meets it.
SLOWLY = """import time, mixflow.runs.train as t
finished = t.finished
def slowly(*a, **k):
    time.sleep(1)
    return finished(*a, **k)
t.finished = slowly
"""


def interrupted(path, save_every, *pauses, before=""):
    """What a training says on stderr that gets Ctrl-C once it is under way, and again after each pause; it must end with 130."""
    flags = f"train --width 64 --steps 900000000 --save-every {save_every} --out {path}".split()
    # The bar is silent without a terminal; here it says when descent is under way.
    code = (
        f"{before}import sys, mixflow.progress as p, mixflow.cli as cli\n"
        "p.Progress.__call__ = lambda self, done, total: print('going', flush=True)\n"
        f"sys.exit(cli.main({flags!r}))"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "going\n"
    for pause in (0.0, *pauses):
        time.sleep(pause)
        process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    return err


def test_ctrl_c_keeps_what_was_finished(tmp_path):
    path = tmp_path / "run.nc"
    assert "kept" in interrupted(path, 1000000)
    done = subprocess.run([sys.executable, "-m", "mixflow", "info", path, "--json"], capture_output=True, text=True)
    assert json.loads(done.stdout)["step"] > 0


@pytest.mark.parametrize("pause", [0.1, 0.4])
def test_a_second_ctrl_c_does_not_lose_what_is_being_kept(tmp_path, pause):
    path = tmp_path / "run.nc"
    assert f"kept {path}" in interrupted(path, 1000, pause, before=SLOWLY)
    assert int(mf.load(path).dataset.step[-1]) > 0


@pytest.fixture
def full(tmp_path, monkeypatch):
    """A full disk for every file whose name has "gone" in it; the folder for temporary files."""

    def gone(path, content):
        if "gone" in str(path):
            raise mf.StoreError(
                f"cannot write {path}: No space left on device; nothing was written, choose another place."
            )
        return write_whole(path, content)

    write_whole = sealed.write_whole
    monkeypatch.setattr(sealed, "write_whole", gone)
    monkeypatch.setattr(file, "write_whole", gone)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_finished_run_that_cannot_be_written_is_kept_elsewhere(full, capsys):
    code, _, err = call(capsys, "train", "--steps", "20", "--out", str(full / "gone.nc"))
    assert code == 2
    (kept,) = full.iterdir()
    assert f"No space left on device; the run is kept as {kept} instead" in err
    assert int(mf.load(kept).dataset.step[-1]) == 20


def test_so_are_a_proof_and_its_figure(full, capsys):
    code, _, err = call(capsys, "prove", "--time", "1", "--out", str(full / "gone.json"))
    assert code == 2
    (kept,) = full.iterdir()
    assert f"No space left on device; the proof is kept as {kept} instead" in err
    assert mf.Proof.load(kept).end == 1
    kept.unlink()
    code, _, err = call(capsys, "prove", "--time", "1", "--figure", str(full / "gone.svg"))
    assert code == 2
    (kept,) = full.iterdir()
    assert f"No space left on device; the figure is kept as {kept} instead" in err
    assert "<svg" in kept.read_text()


def test_where_nothing_can_be_kept_the_first_reason_is_told(full, monkeypatch, capsys):
    monkeypatch.setattr(tempfile, "tempdir", str(full / "gone"))
    code, _, err = call(capsys, "prove", "--time", "1", "--out", str(full / "gone.json"))
    assert code == 2
    assert f"cannot write {full / 'gone.json'}: No space left on device; nothing was written" in err


def test_what_is_not_written_is_not_said_to_be_kept(capsys):
    code, _, err = call(capsys, "train", "--learning-rate", "1e300", "--steps", "50")
    assert code == 2
    assert "kept" not in err
    assert "nothing was written, give --out" in err
