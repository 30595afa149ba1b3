"""Experiments in processes of their own: their records come back, and no process is left behind."""

import json
import multiprocessing
import os

import pytest

import mixflow as mf
from mixflow.paper.experiments import experiment
from mixflow.paper.report.side_by_side import processes, side_by_side

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
    found = dict(side_by_side(tmp_path, both, 2, full=False))
    assert set(found) == {"one", "two"}
    assert len({os.getpid(), *(int(record["answer"]) for record in found.values())}) == 3
    assert all(json.loads((tmp_path / "records" / f"{name}.json").read_text()) == x for name, x in found.items())
    assert not multiprocessing.active_children()


def test_who_is_interrupted_leaves_no_process(tmp_path):
    found = side_by_side(tmp_path, jobs(tmp_path, quick="pass", slow="import time; time.sleep(600)"), 2, full=False)
    assert next(found)[0] == "quick"
    with pytest.raises(KeyboardInterrupt):
        found.throw(KeyboardInterrupt)
    assert not multiprocessing.active_children()


def test_a_process_that_dies_is_one_sentence(tmp_path):
    with pytest.raises(mf.MixflowError, match="--workers 1 goes on from there"):
        list(side_by_side(tmp_path, jobs(tmp_path, quick="pass", dies="os._exit(1)"), 2, full=False))


def test_processes_are_started_where_they_are_worth_it():
    assert processes(2, [40.0, 30.0, 5.0]) == 2
    assert processes(1, [40.0, 30.0, 5.0]) == 0
    assert processes(8, [40.0, 30.0]) == 2
    assert processes(8, [8.0, 8.0]) == 0
    assert processes(None, []) == 0
    with pytest.raises(mf.SpecError, match="workers = 0: expected a whole number from 1"):
        processes(0, [40.0, 40.0])
