"""The command line: exit codes, one-line errors, JSON that a program can read."""

import contextlib
import json
import os
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


@pytest.fixture(scope="module")
def short_runs(tmp_path_factory):
    """{kind: path} of a short descent and a short flow."""
    folder = tmp_path_factory.mktemp("short")
    flags = {
        "descent": "--width 4 --steps 4 --save-every 2",
        "flow": "--method flow --until 4.1 --set method.save_at=3",
    }
    for kind, words in flags.items():
        assert main(["train", *words.split(), "--out", str(folder / f"{kind}.nc")]) == 0
    return {kind: str(folder / f"{kind}.nc") for kind in flags}


def test_a_flow_goes_on_up_to_a_time(capsys, short_runs):
    code, out, _ = call(capsys, "train", "--continue", short_runs["flow"], "--until", "8", "--json")
    assert code == 0
    assert json.loads(out)["time"] == pytest.approx(8, abs=1e-12)
    assert "up to the time --until" in " ".join(call(capsys, "train", "--help")[1].split())


@pytest.mark.parametrize(
    ("kind", "words", "says"),
    [
        (
            "descent",
            "--steps 2 --omega 5 --heads 1 --loss exponential",
            "--loss, --omega, --heads with --continue: a run",
        ),
        (
            "descent",
            "--momentum 0.9",
            "--momentum with --continue: a run goes on as it is, and this one takes --steps,",
        ),
        ("descent", "--set transformer.omega=9", "--set with --continue"),
        (
            "descent",
            "--three-stage --network vanilla --model full",
            "--network, --three-stage, --model with --continue",
        ),
        ("descent", "--method flow --until 3", "--method, --until with --continue"),
        ("descent", "other.toml", "SPEC with --continue"),
        ("descent", "--steps 0", "steps = 0"),
        ("flow", "--steps 3", "this one takes --until"),
        ("flow", "--until 4", "until = 4.0: expected a finite number above 4.1; the run stands there"),
        ("flow", "--until loss:0.1", "until = 'loss:0.1'"),
    ],
)
def test_what_cannot_change_while_a_run_goes_on_is_refused(capsys, short_runs, kind, words, says):
    code, out, err = call(capsys, "train", "--continue", short_runs[kind], *words.split())
    assert code == 2
    assert says in err
    assert err.count("\n") == 1
    assert out == ""


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("--width 4", "2-mixture, width 4, ω = 0.3, b = 0.5, model gram"),
        (
            "--width 4 --loss exponential --heads 1 --offset --queries one --transformer-attention tied --momentum 0.9",
            "2-mixture, exponential loss, width 4, ω = 0.3, b = 0.5, heads 1, attention tied, queries one, offset, momentum 0.9, "
            "model gram",
        ),
        (
            "--network vanilla --width 4 --method optimizer --rule momentum --momentum 0.5",
            "2-mixture, width 4, 1 layers of 2 heads, optimizer, rule momentum, momentum 0.5, model full",
        ),
    ],
)
def test_the_headline_names_what_differs_from_the_paper(capsys, words, says):
    code, out, _ = call(capsys, "train", "--steps", "2", *words.split())
    assert code == 0
    assert out.split("\n")[0] == says


def test_weights_of_many_classes_are_shown_by_sector(capsys):
    code, out, _ = call(capsys, *["train", "--classes", "12", "--steps", "40", "--learning-rate", "1", "--json"])
    w = json.loads(out)["w"]
    code, out, _ = call(capsys, *["train", "--classes", "12", "--steps", "40", "--learning-rate", "1"])
    assert code == 0
    assert f"w·v_k {w['v']:.4f}   A[c_k, v_k] " in out


@pytest.mark.parametrize("suffix", ["svg", "pdf", "png"])
def test_train_draws(capsys, tmp_path, suffix):
    path = tmp_path / f"run.{suffix}"
    assert call(capsys, *f"train --steps 300 --plot {path}".split())[0] == 0
    assert path.stat().st_size > 5000


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("train --classes 0", "classes = 0"),
        ("train --classes two", "classes = 'two'"),
        ("train --width 0", "width = 0"),
        ("train --width wide", "width = 'wide': expected a whole number"),
        ("train --omega nan", "omega = nan"),
        ("train --learning-rate 0", "learning_rate = 0"),
        ("train --learning-rate -1", "learning_rate = -1"),
        ("train --priors 0.5,0.6", "priors sum to 1.1"),
        ("train --priors a,b", "priors[0] = 'a': expected a finite number"),
        ("train --classes 20 --width 8", "limit of 4096"),
        ("train --width 8 --learning-rate 300", "diverged at step"),
        ("train --stpes 3", "unrecognized arguments: --stpes; did you mean '--steps'; see mixflow train --help"),
        ("train --classes 1000000000", "expected a whole number from 1 to 100000"),
        ("construct --classes 1000000000", "expected a whole number from 2 to 100000"),
        ("train --out no/such/folder/run.nc", "does not exist"),
        ("train --out .", "a folder stands there"),
        ("train --plot picture.docx --steps 5", "docx"),
        ("info missing.nc", "cannot read missing.nc"),
        ("fly", "invalid choice: 'fly'"),
        ("train --out /dev/null", "a device stands there"),
        ("train --plot /dev/null", "a device stands there"),
        ("info /dev/zero", "it is a device"),
        ("info .", "it is a folder"),
        (
            "train --until 5",
            "--until belongs to --method flow, and this is --method gd; use --steps or add --method flow",
        ),
        ("train --method flow --steps 5", "this is --method flow; use --until or add --method gd"),
        ("train --rule adam", "--rule belongs to --method optimizer, and this is --method gd; add --method optimizer"),
        ("train --three-stage --rule adam", "add --method optimizer"),
        ("train --layers 2", "--layers belongs to --network vanilla, and this is --network transformer; add --network"),
        ("train --attention tied", "add --three-stage, or say --transformer-attention for what the network has"),
        ("train --neurons 5", "which was not asked for; add --three-stage."),
        ("train --three-stage --steps 5", "say --neurons, --attention or --converge."),
        ("train --three-stage --neurons soon:5", "quantity = 'soon'"),
        ("train --set classes=3", "dotted name"),
        ("train --set task.classes", "NAME=VALUE"),
        ("train --set task.classes.more=3", "classes = {'more': 3}"),
        ("train missing.toml", "cannot read missing.toml"),
        ("train . --steps 5", "it is a folder"),
        (f"train --out {'x' * 300}", "File name too long"),
        ("train --network vanilla --omega 3", "--omega belongs to --network transformer"),
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


def test_help_imports_nothing_heavy():
    code = "import sys, mixflow.cli\ntry: mixflow.cli.main(['--help'])\nexcept SystemExit: pass\n"
    code += "print([m for m in ('numpy', 'jax', 'xarray', 'scipy', 'matplotlib', 'pandas') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


SPEC = """
name = "one run"
model = "gram"

[task]
kind = "label_noise"
probability = 0.1
task = { kind = "coherent", coherence = 0.3, pairs = "own" }

[transformer]
width = 16

[method]
kind = "three-stage"
neurons = 5
attention = { quantity = "feature_margin", threshold = 0.01, limit = 5 }
converge = 5
method = { kind = "descent", save_every = 5 }
"""


def test_train_takes_a_file_and_flags_that_change_it(capsys, tmp_path):
    import mixflow as mf

    path = tmp_path / "run.toml"
    path.write_text(SPEC)
    code, out, _ = call(capsys, "train", str(path), "--seed", "3", "--learning-rate", "0.2", "--json")
    assert code == 0
    found = json.loads(out)["spec"]
    assert found["model"] == "gram"
    assert (found["transformer"]["width"], found["transformer"]["seed"]) == (16, 3)
    assert found["method"]["method"]["learning_rate"] == 0.2
    assert found["method"]["method"]["save_every"] == 5
    task = mf.variants.label_noise(mf.variants.coherent(2, coherence=0.3, pairs="own"), probability=0.1)
    assert found["task"] == task.spec()
    code, out, _ = call(capsys, "train", str(path), "--method", "flow", "--json")
    assert json.loads(out)["spec"]["method"]["method"]["kind"] == "flow"


@pytest.mark.parametrize(
    "words",
    [
        "--set task.kind=regression --width 8",
        '--set task={kind="sample",n=40,seed=1} --width 8',
        "--method optimizer --rule adam --learning-rate 0.01 --width 8",
        "--network vanilla --width 4 --layers 2",
        "--classes 3 --priors 0.2,0.3,0.5 --width 8 --tie-values --batch-size 4",
    ],
)
def test_train_reaches_every_task_network_and_method(capsys, words):
    code, out, err = call(capsys, "train", *words.split(), "--steps", "20", "--json")
    assert code == 0, err
    assert json.loads(out)["step"] == 20


@pytest.mark.parametrize("path", ["a\nb", "9" * 5000, "\ud800", "a\tb"])
def test_odd_paths_are_one_line(capsys, path):
    for line in (["train", path], ["info", path], ["train", "--out", f"{path}/x.nc"], ["train", "--plot", path]):
        code, _, err = call(capsys, *line)
        assert code == 2
        assert err.count("\n") == 1
        assert len(err) < 1000


@pytest.mark.parametrize("word", ["9" * 5000, f"task.{'x' * 5000}.y=1", f"task.kind.{'x' * 5000}.y=1"])
def test_long_words_are_cut_in_messages(capsys, word):
    code, _, err = call(capsys, "train", "--set", word)
    assert code == 2
    assert err.count("\n") == 1
    assert len(err) < 1000


def test_a_platform_that_is_not_there_is_one_sentence():
    with program(
        ["train", "--method", "flow", "--until", "1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "JAX_PLATFORMS": "cuda"},
    ) as process:
        _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert err.count("\n") == 1
    assert "set it to cpu" in err


def test_a_forged_file_with_a_right_checksum_is_one_sentence(capsys, tmp_path):
    import mixflow as mf
    from mixflow import sealed

    data = mf.train(mf.Mixture(), mf.Transformer(), mf.GradientDescent(steps=10)).dataset
    for forged in (
        data.drop_vars("loss"),
        data.isel(time=slice(0)),
        data.assign_attrs(spec="{}"),
        data.assign_attrs(spec="x"),
    ):
        path = tmp_path / "forged.nc"
        path.write_bytes(sealed.pack(bytes(forged.to_netcdf(engine="h5netcdf"))))
        code, _, err = call(capsys, "info", str(path))
        assert code == 2
        assert "holds no run that this version understands" in err
        assert err.count("\n") == 1


def program(words, **settings):
    return subprocess.Popen([sys.executable, "-m", "mixflow", *words], text=True, **settings)


@pytest.mark.parametrize(
    ("command", "out", "err", "code"),
    [
        ("construct", "/dev/full", None, 2),
        ("info --help", "/dev/full", None, 2),
        ("construct", None, "/dev/full", 0),
        ("train --steps 5", "/dev/full", "/dev/full", 2),
    ],
)
def test_output_that_cannot_be_written_is_no_traceback(command, out, err, code):
    streams = {"stdout": out, "stderr": err}
    with contextlib.ExitStack() as stack:
        opened = {
            name: stack.enter_context(open(path, "w")) if path else subprocess.PIPE for name, path in streams.items()
        }
        process = program(command.split(), **opened)
        said = "".join(text or "" for text in process.communicate(timeout=60))
    assert process.returncode == code
    assert "Traceback" not in said
    assert "Exception" not in said


@pytest.mark.parametrize("closed", ["1", "2", "1>&- 2"])
def test_closed_streams(closed, tmp_path):
    command = f"'{sys.executable}' -m mixflow train --steps 5 --out run.nc {closed}>&-"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done
    assert "Traceback" not in done.stdout + done.stderr
    assert os.listdir(tmp_path) == ["run.nc"]
    done = subprocess.run(
        ["sh", "-c", f"'{sys.executable}' -m mixflow train --classes 0 {closed}>&-"], capture_output=True
    )
    assert done.returncode == 2


@pytest.mark.parametrize("after", [0.0, 0.05, 0.2, 0.5, 1.0, 1.5])
def test_ctrl_c_while_it_starts_is_never_lost(after, tmp_path):
    words = f"train --width 64 --steps 900000000 --save-every 1000000 --out {tmp_path / 'run.nc'}".split()
    code = (
        "import os, sys, threading, mixflow.__main__ as program\n"
        f"threading.Timer({after}, os.kill, (os.getpid(), 2)).start()\n"
        f"sys.exit(program.main({words!r}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100)
    assert done.returncode == 130, done
    assert "interrupted" in done.stderr
    assert "Traceback" not in done.stderr
    assert set(os.listdir(tmp_path)) <= {"run.nc"}
