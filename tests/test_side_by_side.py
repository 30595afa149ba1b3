"""Experiments and their parts in processes of their own: what they give comes back, and no process is left behind."""

import importlib
import json
import multiprocessing
import os

import pytest

import mixflow as mf
from mixflow.paper.experiments import experiment
from mixflow.paper.report.reproduce import _side_by_side as experiments
from mixflow.paper.report.side_by_side import processes, spread

FILE = """
import os
import mixflow.papers as kit

def run(settings, progress):
    {does}
    return kit.Results(facts={{"process": os.getpid()}})

def verdict(results):
    return [kit.equal("one", "it is one", 1, 1, **kit.theory("arithmetic"))]

EXPERIMENT = kit.Experiment(
    name="{name}", title="-", question="Where?", section="-", config={{}}, run=run, verdict=verdict,
    answer=lambda results: str(results.facts["process"]), figures=lambda results: [],
)
"""


def jobs(folder, **does):
    """One job for each name: a file that does what is said."""
    for name, line in does.items():
        (folder / f"{name}.py").write_text(FILE.format(name=name, does=line))
    return [(experiment(str(folder / f"{name}.py")), {}) for name in does]


def test_records_come_from_other_processes_and_none_is_left(tmp_path):
    # Each waits for the other: one process alone would never end.
    wait = "\n    ".join(
        ["import time, pathlib", "pathlib.Path(r'{0}/{1}').touch()", "while not pathlib.Path(r'{0}/{2}').exists():",
         "    time.sleep(0.01)"]
    )  # fmt: skip
    both = jobs(tmp_path, one=wait.format(tmp_path, "a", "b"), two=wait.format(tmp_path, "b", "a"))
    found = dict(experiments(tmp_path, both, 2, False))
    assert set(found) == {"one", "two"}
    assert len({os.getpid(), *(int(record["answer"]) for record in found.values())}) == 3
    assert all(json.loads((tmp_path / "records" / f"{name}.json").read_text()) == x for name, x in found.items())
    assert not multiprocessing.active_children()


def test_who_is_interrupted_leaves_no_process(tmp_path):
    found = experiments(tmp_path, jobs(tmp_path, quick="pass", slow="import time; time.sleep(600)"), 2, False)
    assert next(found)[0] == "quick"
    with pytest.raises(KeyboardInterrupt):
        found.throw(KeyboardInterrupt)
    assert not multiprocessing.active_children()


def test_a_process_that_dies_is_one_sentence(tmp_path):
    with pytest.raises(mf.MixflowError, match="--workers 1 goes on from there"):
        list(experiments(tmp_path, jobs(tmp_path, quick="pass", dies="os._exit(1)"), 2, False))


PART = """
import os, pathlib, time

def part(item):
    mine, awaited = map(pathlib.Path, item)
    while not awaited.exists():
        time.sleep(0.01)
    mine.touch()
    return mine.name, os.getpid()
"""


def test_parts_come_back_in_their_order(tmp_path, monkeypatch):
    # The first waits for the second, so they end in the other order, in two processes.
    (tmp_path / "parts_of_a_test.py").write_text(PART)
    monkeypatch.syspath_prepend(tmp_path)
    part, counts = importlib.import_module("parts_of_a_test").part, []
    found = spread(2)(part, [(tmp_path / "a", tmp_path / "b"), (tmp_path / "b", tmp_path)], counts.append)
    assert [name for name, _ in found] == ["a", "b"]
    assert counts == [1, 2]
    assert len({os.getpid(), *(process for _, process in found)}) == 3
    assert not multiprocessing.active_children()


def test_processes_are_started_where_they_are_worth_it():
    assert processes(2, 75.0, 3) == 2
    assert processes(1, 75.0, 3) == 0
    assert processes(8, 70.0, 2) == 2
    assert processes(8, 70.0) == 2
    assert processes(8, 16.0, 2) == 0
    assert processes(None, 0.0, 0) == 0
    with pytest.raises(mf.SpecError, match="workers = 0: expected a whole number from 1"):
        processes(0, 80.0, 2)
