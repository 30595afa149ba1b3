"""The runner of mutants tells killed from survived, and says where its list is no longer true."""

import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "mutants"))
import run as mutants


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A tree of one sum and one test of it."""
    root = tmp_path_factory.mktemp("tree")
    (root / "tests").mkdir()
    (root / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")
    (root / "sums.py").write_text("def total(a, b):\n    return a + b + 0\n")
    (root / "tests" / "test_sums.py").write_text(
        "import sums\n\n\ndef test_total():\n    assert sums.total(2, 3) == 5\n"
    )
    return root


def test_verdicts(tree, tmp_path):
    mutants.FRESH.set_forkserver_preload(["pytest"])  # these tests need no more
    sum_of = {"file": "sums.py", "tests": ("tests/test_sums.py",)}
    broken = mutants.Mutant(old="a + b", new="a - b", **sum_of)
    same = mutants.Mutant(old="b + 0", new="b - 0", why="x + 0 = x − 0", **sum_of)
    gone = mutants.Mutant(old="a * b", new="a / b", **sum_of)
    verdicts = mutants.run([broken, same, gone], tmp_path / "known.jsonl", tree, report=lambda *_, **__: None)
    assert list(verdicts.values()) == [mutants.KILLED, mutants.SURVIVED, mutants.STALE]
    assert (tree / "sums.py").read_text() == "def total(a, b):\n    return a + b + 0\n"
    lines, code = mutants.summary(verdicts)
    assert lines[0] == "1 of 2 mutants killed: 50.0%"
    assert "x + 0 = x − 0" in "\n".join(lines)
    assert code == 1
    assert mutants.summary({broken: mutants.KILLED}) == (["1 of 1 mutants killed: 100.0%"], 0)


def test_every_mutant_names_a_test_that_is_there():
    found = mutants.listed()
    assert len(found) >= 150
    names = sorted({test for mutant in found for test in mutant.tests})
    words = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-n", "0", "-p", "no:cacheprovider", *names]
    done = subprocess.run(words, cwd=mutants.ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_mutant_applies_to_its_file():
    texts = {file: (mutants.ROOT / file).read_text() for file in {mutant.file for mutant in mutants.listed()}}
    stale = [f"{m.file}: {m.old}" for m in mutants.listed() if m.applied(texts[m.file]) is None]
    assert not stale  # a line of the list is gone from its file, or stands there more than once
    assert not [m for m in mutants.listed() if m.applied(texts[m.file]) == texts[m.file]]
    trials = [(m.file, m.old, m.new) for m in mutants.listed()]
    assert len(set(trials)) == len(trials)
