"""Attackers of running processes: kill -9 while something is written, Ctrl-C while something is trained."""

import functools
import os
import signal
import subprocess
import sys
import time

from hypothesis import strategies as st

import mixflow as mf
from mixflow import sealed
from mixflow.sweeping.manifest import DONE, Manifest

PATIENCE = 120.0  # seconds for a program to end after Ctrl-C, on a machine that has other things to do
BATCHES = 200
# Writes a file whole, again and again, and finishes the batches of a sweep, one after the other; says how far it is.
WRITER = """
import hashlib, sys
from mixflow import sealed
from mixflow.sweeping.manifest import Manifest
folder = sys.argv[1]
manifest = Manifest.create(folder, {"batches": 0})
for i in range(10**6):
    content = bytes([i % 256]) * 40_000
    sealed.write_whole(folder + "/file", sealed.pack(content))
    manifest.finish(i % BATCHES, content, hashlib.sha256(content).digest(), 0.1, False)
    print(i, flush=True)
""".replace("BATCHES", str(BATCHES))


def kill(data, folder):
    """kill -9 at any moment of writing: what was said to be written is there, and everything there is whole."""
    folder = folder / f"kill{time.monotonic_ns()}"
    folder.mkdir()
    program = subprocess.Popen([sys.executable, "-c", WRITER, str(folder)], stdout=subprocess.PIPE)
    try:
        program.stdout.readline()
        time.sleep(data.draw(st.floats(0, 0.2)))
    finally:
        program.kill()
    said, _ = program.communicate()
    finished = len(said.splitlines()) + 1
    assert len(sealed.read(folder / "file")) == 40_000
    found = Manifest(folder)
    assert (found.state(BATCHES)[: min(finished, BATCHES)] == DONE).all(), finished
    assert all(content is not None for _, content in found.parts())
    left = {path.name for path in folder.iterdir()} - {"file", "sweep.sqlite", "sweep.sqlite-wal", "sweep.sqlite-shm"}
    assert len(left) <= 1  # the file that was being written, under a name of its own
    return "made"


def ctrl_c(data, folder):
    """Ctrl-C at any moment of `mixflow train`: exit code 130, no traceback, and the file, if there is one, is a run."""
    out = folder / "interrupted.nc"
    out.unlink(missing_ok=True)
    words = ["train", "--width", "4", "--steps", "1000000000", "--save-every", "100000", "--out", str(out)]
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in the background, and then in its children too
        signal.signal(signal.SIGINT, signal.default_int_handler)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    program = subprocess.Popen([sys.executable, "-m", "mixflow", *words], **pipes)
    time.sleep(data.draw(st.floats(0.05, 6)))
    os.kill(program.pid, signal.SIGINT)
    try:
        _, said = program.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        program.kill()
        raise AssertionError("Ctrl-C was lost") from None
    if program.returncode == -signal.SIGINT or "<frozen site>" in said:  # Python itself had not started yet
        return "refused"
    assert program.returncode == 130, (program.returncode, said)
    assert "Traceback" not in said, said
    if out.exists():
        assert len(mf.load(out).dataset.time)
        return "made"
    return "refused"


def everyone(folder):
    """{name: attacker of one argument}."""
    return {"kill": functools.partial(kill, folder=folder), "Ctrl-C": functools.partial(ctrl_c, folder=folder)}
