"""What surrounds a command: pipes and devices in the place of files, bytes that are no text, terminals without ω, a full disk."""

import os
import subprocess
import sys

import pytest
from test_cli import call

import mixflow as mf
from mixflow.bench import clock
from mixflow.engines import choose
from mixflow.methods.chunks import History
from mixflow.paper.report import records

pytestmark = pytest.mark.as_user


def mixflow(*words, folder, **environment):
    done = subprocess.run(
        [sys.executable, "-m", "mixflow", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p), **environment},
        capture_output=True,
        timeout=120,
    )
    return done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")


@pytest.mark.parametrize("words", [("verify",), ("sweep", "--plan", "--out", "out")])
def test_pipes_are_not_waited_for_and_devices_not_read(tmp_path, words):
    os.mkfifo(tmp_path / "pipe")
    for place in (str(tmp_path / "pipe"), "/dev/zero"):
        code, _, err = mixflow(words[0], place, *words[1:], folder=tmp_path)
        assert (code, err.count("\n")) == (2, 1), err
        assert "it is a" in err


@pytest.mark.parametrize("text", ["a = " + "[" * 20_000, "[transformer]\nwidth = " + "1" * 100_000])
def test_a_sweep_is_read_as_carefully_as_a_run(tmp_path, capsys, text):
    (tmp_path / "deep.toml").write_text(text)
    for words in (("sweep", str(tmp_path / "deep.toml"), "--plan"), ("train", str(tmp_path / "deep.toml"))):
        code, _, err = call(capsys, *words)
        assert (code, err.count("\n")) == (2, 1), err


def test_a_run_is_not_lost_for_a_name_that_is_no_text(tmp_path):
    code, _, err = mixflow("train", "--steps", "5", b"--out=\xff\xfe.nc", folder=tmp_path)
    assert code == 0, err
    (path,) = tmp_path.iterdir()
    assert r"\udcff" in mf.load(path).dataset.attrs["command"]


@pytest.mark.parametrize("words", [("train", "--help"), ("train", "--steps", "5")])
def test_a_terminal_without_greek_gets_its_numbers(tmp_path, words):
    code, out, err = mixflow(*words, folder=tmp_path, PYTHONIOENCODING="ascii")
    assert code == 0, err
    assert r"\u03c9" in out


def test_ctrl_c_is_not_lost_between_two_measurements(monkeypatch):
    network = mf.Transformer(4)
    engine = choose(mf.Mixture(), network, mf.GradientDescent())
    monkeypatch.setattr(clock, "descend", lambda *a, **k: History(interrupted=True))
    with pytest.raises(KeyboardInterrupt):
        clock.descent(engine, network)


def test_a_full_disk_is_no_failed_check(tmp_path, monkeypatch, capsys):
    def full(*a):
        raise mf.StoreError("cannot write x: No space left on device; nothing was written, choose another place.")

    monkeypatch.setattr(records, "_files", full)
    code, out, err = call(capsys, "reproduce", "--only", "construction", "--workers", "1", "--out", str(tmp_path))
    assert code == 2
    assert "No space left" in err
    assert "FAILED" not in out + err
