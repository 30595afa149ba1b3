"""Attackers of running processes: kill -9 while something is written, Ctrl-C while something is trained."""

import functools
import itertools
import os
import shutil
import signal
import subprocess
import sys
import time

import programs
from hypothesis import strategies as st

import mixflow as mf
from mixflow import sealed
from mixflow.sweeping.manifest import DONE, Manifest

PATIENCE = 120.0  # seconds for a program to end after Ctrl-C, on a machine that has other things to do
STARTING = 3.0  # seconds in which Python, JAX and the first compilation are there


def kill(data, folder):
    """kill -9 at any moment of writing: what was said to be written is there, and everything there is whole."""
    folder = folder / f"kill{time.monotonic_ns()}"
    folder.mkdir()
    with programs.started(programs.write, folder) as (program, said):
        time.sleep(data.draw(st.floats(0, 0.2)))
        program.kill()
        finished = 1 + _told(said)
    assert len(sealed.read(folder / "file")) == 40_000
    found = Manifest(folder)
    assert (found.state(programs.BATCHES)[: min(finished, programs.BATCHES)] == DONE).all(), finished
    assert all(content is not None for _, content in found.parts())
    left = {path.name for path in folder.iterdir()} - {"file", "sweep.sqlite", "sweep.sqlite-wal", "sweep.sqlite-shm"}
    assert len(left) <= 1  # the file that was being written, under a name of its own
    shutil.rmtree(folder)
    return "made"


def _told(said):
    """How many messages there are to the end of a connection."""
    for number in itertools.count():
        try:
            said.recv()
        except EOFError:
            return number


def ctrl_c(data, folder):
    """Ctrl-C at any moment of `mixflow train`: exit code 130, no traceback, and the file, if there is one, is a run."""
    out = folder / "interrupted.nc"
    out.unlink(missing_ok=True)
    words = ["train", "--width", "4", "--steps", "1000000000", "--save-every", "100000", "--out", str(out)]
    code, said = (_while_starting if data.draw(st.booleans()) else _at_work)(data, folder, words)
    ours = os.path.dirname(mf.__file__)
    if code == -signal.SIGINT or ("Traceback" in said and ours not in said):  # Python itself had not started yet
        return "refused"
    assert code == 130, (code, said)
    assert "Traceback" not in said, said
    if out.exists():
        assert len(mf.load(out).dataset.time)
        return "made"
    return "refused"


def _while_starting(data, folder, words):
    """The exit code and the words of a program that is interrupted while everything is imported."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in the background, and then in its children too
        signal.signal(signal.SIGINT, signal.default_int_handler)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    program = subprocess.Popen([sys.executable, "-m", "mixflow", *words], **pipes)
    time.sleep(data.draw(st.floats(0.02, STARTING)))
    os.kill(program.pid, signal.SIGINT)
    try:
        _, said = program.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        program.kill()
        raise AssertionError("Ctrl-C was lost") from None
    return program.returncode, said


def _at_work(data, folder, words):
    """The same from the first line of the program on: what is imported is there."""
    errors = folder / "errors"
    with programs.started(programs.run, errors, *words) as (program, _):
        time.sleep(data.draw(st.floats(0, STARTING / 2)))
        os.kill(program.pid, signal.SIGINT)
        program.join(PATIENCE)
        assert program.exitcode is not None, "Ctrl-C was lost"
        return program.exitcode, errors.read_text()


def everyone(folder):
    """{name: attacker of one argument}."""
    return {"kill": functools.partial(kill, folder=folder), "Ctrl-C": functools.partial(ctrl_c, folder=folder)}
