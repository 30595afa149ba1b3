"""The package: extras that say how to get them, tested versions, types of lazy names, completion."""

import re
import shutil
import subprocess
import tomllib
from importlib import util
from pathlib import Path

import pytest

import mixflow as mf
from mixflow.cli import main
from mixflow.commands import NAMES
from mixflow.extras import EXTRAS, needs
from mixflow.tasks.mnist_files import read_digits

pytestmark = pytest.mark.as_user

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NAME = re.compile(r"[A-Za-z0-9_-]+")


def packages(requirements):
    """Names of packages, lower case; our own extras are not among them."""
    return {NAME.match(line)[0].lower().replace("_", "-") for line in requirements} - {"mixflow"}


def pinned(path):
    """{name: version} of a constraints file."""
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    return {name.lower().replace("_", "-"): version for name, version in (line.split("==") for line in lines)}


SETS = {"3.11": "constraints.txt", "3.12": "constraints-3.12.txt", "3.13": "constraints-3.13.txt"}


def test_every_supported_python_has_a_tested_set_and_the_ends_of_jax_are_among_them():
    listed = {line.split(":: ")[-1] for line in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", line)}
    assert listed == set(SETS)
    wanted = packages(PROJECT["dependencies"])
    for extra in PROJECT["optional-dependencies"].values():
        wanted |= packages(extra)
    minors = set()
    for name in SETS.values():
        versions = pinned(ROOT / name)
        assert wanted <= set(versions), f"{name} has no version of {wanted - set(versions)}"
        assert versions["jax"] == versions["jaxlib"]
        minors.add(versions["jax"].rsplit(".")[1])
    (jax,) = (line for line in PROJECT["dependencies"] if line.startswith("jax>"))
    least, below = (int(end) for end in re.findall(r"0\.(\d+)", jax))
    assert minors == {str(minor) for minor in range(least, below)}


def test_extras_are_those_of_the_package_and_the_core_has_none_of_them():
    core, extras = packages(PROJECT["dependencies"]), PROJECT["optional-dependencies"]
    for name, (_, needed) in EXTRAS.items():
        assert packages(extras[name]) == {{"flint": "python-flint"}.get(module, module) for module in needed}
        assert not packages(extras[name]) & core
    assert set(NAME.findall(extras["all"][0])) - {"mixflow"} == set(EXTRAS)


CALLS = {
    "sweep": lambda: mf.sweep({"seeds": {"transformer.seed": 2}}, "nowhere"),
    "images": lambda: (read_digits.cache_clear(), mf.Mnist().population()),  # another test may have read them
    "networks": lambda: mf.train(mf.Mixture(), mf.Transformer(width=4), mf.Optimizer(kind="adam", steps=2)),
}


@pytest.mark.parametrize("extra", EXTRAS)
def test_a_missing_extra_is_one_sentence_with_the_command(extra, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    gone, find = EXTRAS[extra][1], util.find_spec
    monkeypatch.setattr(util, "find_spec", lambda name, package=None: None if name in gone else find(name, package))
    with pytest.raises(mf.MixflowError, match=re.escape(f"pip install 'mixflow[{extra}]'.")) as refused:
        CALLS.get(extra, lambda: needs(extra))()
    assert "\n" not in str(refused.value)
    command = {"playground": ["playground", "--no-browser"], "report": ["reproduce"]}.get(extra)
    if command:
        assert main(command) == 2
        assert f"pip install 'mixflow[{extra}]'" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_wheel_says_that_it_is_typed():
    assert (ROOT / "mixflow/py.typed").exists()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_names_every_command_and_flag(shell, capsys):
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    for name in NAMES:
        assert re.search(rf"\b{name}\b", script)
    assert "learning-rate" in script
    if shutil.which(shell):
        done = subprocess.run([shell, "-n"], input=script, text=True, capture_output=True)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("line", "expected"),
    [("mixflow tr", ["train"]), ("mixflow train --learn", ["--learning-rate"]), ("mixflow completion f", ["fish"])],
)
def test_bash_completes(line, expected, capsys):
    main(["completion", "bash"])
    words = line.split()
    asked = f'''
COMP_WORDS=({" ".join(words)}); COMP_CWORD={len(words) - 1}
_mixflow; printf '%s\\n' "${{COMPREPLY[@]}}"'''
    done = subprocess.run(["bash"], input=capsys.readouterr().out + asked, text=True, capture_output=True, check=True)
    assert done.stdout.split() == expected
