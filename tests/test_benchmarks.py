"""The benchmarks start, explain themselves, and compare programs that compute the same thing."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mixflow.bench import table
from mixflow.cli import main

FOLDER = Path(__file__).parents[1] / "benchmarks"
SCRIPTS = sorted(path.name for path in FOLDER.glob("*.py") if path.name != "engine.py")


def run(script, *arguments):
    return subprocess.run([sys.executable, FOLDER / script, *arguments], capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("script", SCRIPTS)
def test_help(script):
    done = run(script, "--help")
    assert done.returncode == 0, done.stderr
    assert "--json" in done.stdout


@pytest.mark.skipif(not shutil.which("gcc"), reason="no C compiler")
def test_c_kernel_agrees_with_minimal_and_the_engine():
    done = run("against_c.py", "--steps", "1000", "--repeats", "1", "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert max(result["kernel_error"], result["engine_error"]) < 1e-9
    assert result["engine_over_kernel"] > 0


def test_symmetric_scaling_reports_an_exponent():
    done = run("symmetric_scaling.py", "--points", "2", "--steps", "2", "--repeats", "1", "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["classes"] == [100, 10_000]
    assert len(result["us_per_step"]) == 2


def test_missing_compiler_is_one_clear_sentence():
    done = run("against_c.py", "--compiler", "no-such-compiler")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].endswith("install gcc or name one with --compiler")


def test_mixflow_bench_shows_ratios_and_growth(monkeypatch, capsys):
    for name, values in {
        "LISTED": (2, 3),
        "SYMMETRIC": (9, 20),
        "WIDTHS": (4, 8),
        "SEEDS": (2, 4),
        "STEPS": (20, 40),
    }.items():
        monkeypatch.setattr(table, name, values)
    monkeypatch.setattr(table, "UNTIL", 20.0)
    assert main(["bench", "--seconds", "0.3", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [len(found[part]) for part in ("step", "flow", "growth")] == [4, 2, 5]
    assert all(row["microseconds"] > 0 and row["ratio"] > 0 for row in found["step"])
    assert "switches" in found["flow"][0]["what"]
    assert all(len(row["values"]) == 2 for row in found["growth"])
    assert main(["bench", "--seconds", "-1"]) == 2
    assert "seconds = -1" in capsys.readouterr().err
