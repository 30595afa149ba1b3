"""Every combination of task, network, method and front door works or is refused in one sentence; the handbook has the table."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from matrix import METHODS, NETWORKS, TASKS, cells, refusal, table

import mixflow as mf
from mixflow.cli import main
from mixflow.paper.theory.run_claims import check
from mixflow.summary import summary
from mixflow.summary import table as described
from mixflow.sweeping.plan import Plan
from mixflow.sweeping.spec import Sweep
from mixflow.sweeping.work import run_batch, unpack

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "combinations.md"
WORKING = [cell for cell in cells() if not refusal(*cell)]


def drawn(count):
    """So many of the working cells, each with the most kinds, then pairs of them, not trained before: a cell costs seconds."""

    def parts(cell):
        return {*enumerate(cell), *itertools.combinations(enumerate(cell), 2)}

    def worth(cell):
        new = parts(cell) - seen
        return sum(isinstance(part[0], int) for part in new), len(new)

    order = [WORKING[i] for i in np.random.default_rng(0).permutation(len(WORKING))]
    chosen, seen = [], set()
    for _ in range(count):
        best = max(order, key=worth)
        chosen.append(best)
        seen |= parts(best)
    return chosen


DRAWN = drawn(26)


def test_every_combination_works_or_says_why_in_one_sentence():
    for cell in cells():
        why = refusal(*cell)
        assert "\n" not in why
        assert why == "" or why.endswith("."), cell
        assert why.count(". ") == 0, cell
    assert len(WORKING) >= 411


def test_the_handbook_shows_the_table():
    assert table() in PAGE.read_text()


def test_the_draw_has_every_kind():
    for i, kinds in enumerate((TASKS, NETWORKS, METHODS)):
        assert {cell[i] for cell in DRAWN} == set(kinds)


@pytest.mark.filterwarnings("ignore:stage . .* reached its limit")
@pytest.mark.parametrize("cell", DRAWN, ids=" / ".join)
def test_front_doors(cell, tmp_path, capsys):
    task, network, method = TASKS[cell[0]], NETWORKS[cell[1]], METHODS[cell[2]]
    run = mf.train(task, network, method)
    data = run.dataset
    assert np.isfinite(data.loss).all()
    assert len(data.time) >= 3
    again = mf.load(run.save(tmp_path / "run.nc"))
    assert np.array_equal(again.dataset.loss, data.loss)
    assert summary(again)["loss"] == float(data.loss[-1])
    assert described(again)
    one_sentence(lambda: run.plot())
    one_sentence(lambda: check(again))
    more = one_sentence(lambda: mf.extend(again, 2))
    if more is not None:
        assert float(more.dataset.time[-1]) > float(data.time[-1])
    batch = mf.train_many(task, [network, network], method)
    last = data.loss.values[-1]
    assert np.allclose(batch[1].dataset.loss.values[-1], last, rtol=1e-9)
    tables = {"task": task.spec(), "transformer": network.spec(), "method": method.spec()}
    row = one_sentence(lambda: swept(tables))
    assert (row is None) == cell[1].startswith("own")  # its code stands in no file
    if row is not None:
        assert np.allclose(row["loss"], last, rtol=1e-9)
        assert np.allclose(commanded(tables, tmp_path, capsys)["loss"], last, rtol=1e-9)


def swept(tables):
    """The row of a sweep over one seed."""
    return unpack(run_batch(Plan(Sweep({**tables, "seeds": {"transformer.seed": 1}})).job(0))[0])


def commanded(tables, folder, capsys):
    """What `mixflow train SPEC.json --json` says."""
    (folder / "spec.json").write_text(json.dumps(tables))
    capsys.readouterr()
    assert main(["train", str(folder / "spec.json"), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def one_sentence(call):
    """What the call gives, or None if it is refused in one sentence."""
    try:
        return call()
    except mf.SpecError as error:
        said = str(error)
    assert "\n" not in said
    return None
