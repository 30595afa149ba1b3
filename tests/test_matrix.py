"""Every combination of task, network, method and front door works or is refused in one sentence; the handbook has the table."""

from pathlib import Path

import numpy as np
import pytest
from matrix import METHODS, NETWORKS, TASKS, cells, refusal, table

import mixflow as mf
from mixflow.paper.theory.run_claims import check
from mixflow.summary import summary
from mixflow.summary import table as described

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "combinations.md"
WORKING = [cell for cell in cells() if not refusal(*cell)]
# Every task, network and method is trained in some of the working cells: a fixed draw, for a cell costs a compilation.
DRAWN = [WORKING[i] for i in np.random.default_rng(0).permutation(len(WORKING))[:36]]


def test_every_combination_works_or_says_why_in_one_sentence():
    for cell in cells():
        why = refusal(*cell)
        assert "\n" not in why
        assert why == "" or why.endswith("."), cell
        assert why.count(". ") == 0, cell
    assert len(WORKING) >= 261


def test_the_handbook_shows_the_table():
    assert table() in PAGE.read_text()


def test_the_draw_has_every_kind():
    for i, kinds in enumerate((TASKS, NETWORKS, METHODS)):
        assert {cell[i] for cell in DRAWN} == set(kinds)


@pytest.mark.parametrize("cell", DRAWN, ids=" / ".join)
def test_front_doors(cell, tmp_path):
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
    assert np.allclose(batch[1].dataset.loss.values[-1], data.loss.values[-1], rtol=1e-9)


def one_sentence(call):
    """What the call gives, or None if it is refused in one sentence."""
    try:
        return call()
    except mf.SpecError as error:
        said = str(error)
    assert "\n" not in said
    return None
