"""The benchmarks start, explain themselves, and the C kernel computes what minimal.py computes."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks"
SCRIPTS = sorted(path.name for path in FOLDER.glob("against_*.py"))


def run(script, *arguments):
    return subprocess.run([sys.executable, FOLDER / script, *arguments], capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("script", SCRIPTS)
def test_help(script):
    done = run(script, "--help")
    assert done.returncode == 0, done.stderr
    assert "--json" in done.stdout


@pytest.mark.skipif(not shutil.which("gcc"), reason="no C compiler")
def test_c_kernel_agrees_with_minimal():
    done = run("against_c.py", "--without-engine", "--steps", "1000", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["kernel_error"] < 1e-9


def test_missing_compiler_is_one_clear_sentence():
    done = run("against_c.py", "--compiler", "no-such-compiler")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].endswith("install gcc or name one with --compiler")
