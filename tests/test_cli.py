"""The command line: exit codes, one-line errors, JSON that a program can read."""

import json
import os
import signal
import subprocess
import sys

import pytest

from mixflow.cli import main
from mixflow.commands import NAMES

pytestmark = pytest.mark.as_user


def call(capsys, *words):
    try:
        code = main(list(words))
    except SystemExit as stopped:
        code = stopped.code
    out, err = capsys.readouterr()
    return code, out, err


def test_train_json_has_what_a_program_needs(capsys):
    words = [
        "train",
        "--classes",
        "2",
        "--width",
        "inf",
        "--omega",
        "0.3",
        "--method",
        "gd",
        "--learning-rate",
        "0.1",
        "--steps",
        "20000",
        "--json",
    ]
    code, out, _ = call(capsys, *words)
    result = json.loads(out)
    assert code == 0
    assert result["loss"] == pytest.approx(0.00329647, rel=1e-5)
    assert result["accuracy"] == 1.0
    assert result["time"] == 2000.0
    assert [stage["name"] for stage in result["stages"]] == ["neurons", "attention", "convergence"]
    assert f"{result['w']['+']['c1']:.4f}" == "5.6661"
    assert f"{result['A']['+']['c1']['v1']:.4f}" == "4.8889"


def test_train_many_classes_prints_sectors(capsys):
    code, out, _ = call(capsys, *["train", "--classes", "20", "--steps", "50", "--json"])
    assert code == 0
    assert set(json.loads(out)["A"]) == {"common", "contrast"}
    assert call(capsys, *["train", "--classes", "20", "--steps", "50"])[0] == 0


def test_train_writes_continues_and_informs(capsys, tmp_path):
    short, long = str(tmp_path / "short.nc"), str(tmp_path / "long.nc")
    assert call(capsys, *f"train --width 8 --steps 100 --out {short}".split())[0] == 0
    assert call(capsys, *f"train --continue {short} --steps 100 --out {long}".split())[0] == 0
    code, out, _ = call(capsys, "info", long, "--json")
    info = json.loads(out)
    assert code == 0
    assert info["step"] == 200
    assert info["provenance"]["model"] == "gram"
    assert info["spec"]["transformer"]["width"] == 8
    assert "gram" in call(capsys, "info", long)[1]


@pytest.mark.parametrize("suffix", ["svg", "pdf", "png"])
def test_train_draws(capsys, tmp_path, suffix):
    path = tmp_path / f"run.{suffix}"
    assert call(capsys, *f"train --steps 300 --plot {path}".split())[0] == 0
    assert path.stat().st_size > 5000


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("train --classes 0", "classes = 0"),
        ("train --classes two", "invalid int value"),
        ("train --width 0", "width = 0"),
        ("train --width wide", "not a whole number or inf"),
        ("train --omega nan", "omega = nan"),
        ("train --learning-rate 0", "learning_rate = 0"),
        ("train --learning-rate -1", "learning_rate = -1"),
        ("train --priors 0.5,0.6", "priors sum to 1.1"),
        ("train --priors a,b", "not a list of numbers"),
        ("train --classes 20 --width 8", "limit of 4096"),
        ("train --width 8 --learning-rate 300", "diverged at step"),
        ("train --stpes 3", "unrecognized arguments: --stpes 3; did you mean '--steps'; see mixflow train --help"),
        ("train --classes 1000000000", "expected a whole number from 1 to 100000"),
        ("construct --classes 1000000000", "expected a whole number from 2 to 100000"),
        ("train --out no/such/folder/run.nc", "does not exist"),
        ("train --out .", "it is a folder"),
        ("train --plot picture.docx --steps 5", "docx"),
        ("info missing.nc", "cannot read missing.nc"),
        ("fly", "invalid choice: 'fly'"),
    ],
)
def test_bad_usage_is_one_line_and_exit_code_2(capsys, words, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = call(capsys, *words.split())
    assert code == 2
    assert says in err
    assert err.count("\n") == 1
    assert out == ""
    assert os.listdir(tmp_path) == []


def test_a_diverged_run_is_kept(capsys, tmp_path):
    path = tmp_path / "run.nc"
    code, _, err = call(capsys, *f"train --width 8 --learning-rate 300 --save-every 1 --out {path}".split())
    assert code == 2
    assert "kept" in err
    code, out, _ = call(capsys, "info", str(path), "--json")
    assert code == 0
    assert json.loads(out)["provenance"]["finished"] == 0


@pytest.mark.parametrize("name", NAMES)
def test_every_command_has_help_with_an_example(capsys, name):
    code, out, _ = call(capsys, name, "--help")
    assert code == 0
    assert f"example: mixflow {name}" in out


def test_ctrl_c_keeps_what_was_finished(tmp_path):
    path = tmp_path / "run.nc"
    flags = f"train --width 64 --steps 900000000 --save-every 1000000 --out {path}".split()
    # The bar is silent without a terminal; here it says when descent is under way.
    code = (
        "import sys, mixflow.progress as p, mixflow.cli as cli\n"
        "p.Progress.__call__ = lambda self, done, total: print('going', flush=True)\n"
        f"sys.exit(cli.main({flags!r}))"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "going\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert "kept" in err
    done = subprocess.run([sys.executable, "-m", "mixflow", "info", path, "--json"], capture_output=True, text=True)
    assert json.loads(done.stdout)["step"] > 0


def test_help_imports_nothing_heavy():
    code = "import sys, mixflow.cli\ntry: mixflow.cli.main(['--help'])\nexcept SystemExit: pass\n"
    code += "print([m for m in ('numpy', 'jax', 'xarray', 'scipy', 'matplotlib', 'pandas') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
