"""The handbook's notebooks run from top to bottom, and what a reader should see is in their output."""

import html
import os
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

import mixflow as mf
from mixflow import display
from mixflow.progress import Progress

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
WANTED = {  # what must be shown, at least: pictures, tables of our own, progress bars
    "student": (1, 3, 1),
    "theorist": (1, 4, 1),
    "interpretability": (1, 2, 2),
}


def executed(path, folder, monkeypatch):
    notebook = nbformat.read(path, as_version=4)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), *filter(None, sys.path)]))
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": folder}}).execute()
    return notebook


@pytest.mark.as_user
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_shows_pictures_tables_and_bars(path, tmp_path, monkeypatch):
    assert all(not cell.get("outputs") for cell in nbformat.read(path, as_version=4).cells), (
        "outputs are made by the build"
    )
    outputs = [output for cell in executed(path, tmp_path, monkeypatch).cells for output in cell.get("outputs", ())]
    shown = [output.get("data", {}) for output in outputs]
    pages = [data["text/html"] for data in shown if "text/html" in data]
    pictures, tables, bars = WANTED[path.stem]
    assert sum("image/png" in data for data in shown) >= pictures
    assert sum("border-collapse" in page for page in pages) >= tables
    assert sum("<progress" in page and "100 %" in page for page in pages) >= bars
    assert not [output for output in outputs if output.get("name") == "stderr"], "something was printed as an error"


class Stream:
    def __init__(self, terminal):
        self.written, self.terminal = "", terminal

    def write(self, text):
        self.written += text

    def flush(self):
        pass

    def isatty(self):
        return self.terminal


def test_a_terminal_has_a_bar_that_goes_away():
    stream = Stream(terminal=True)
    bar = Progress("step", stream=stream)
    bar(50, 100)
    assert "50 %" in stream.written
    assert "steps/s" in stream.written
    bar.close()
    assert stream.written.endswith("\r")
    assert "\n" not in stream.written


@pytest.mark.parametrize(("done", "share"), [(1e-3, "0 %"), (5e307, "50 %"), (1e308, "100 %")])
def test_a_flow_to_the_end_of_the_numbers_has_a_short_line(done, share):
    stream = Stream(terminal=True)
    Progress("unit", stream=stream)(done, 1e308)
    assert share in stream.written
    assert len(stream.written) < 80


def test_a_log_has_a_line_now_and_then(monkeypatch):
    for pause in ("LOG_FIRST", "LOG_SECONDS"):
        monkeypatch.setattr(f"mixflow.progress.{pause}", 0.0)
    stream = Stream(terminal=False)
    bar = Progress("step", stream=stream)
    bar(25, 100)
    bar(75, 100)
    bar.close()
    lines = stream.written.splitlines()
    assert [line.split(" %")[0] for line in lines] == ["25", "75"]
    assert "\r" not in stream.written


def test_a_log_of_a_short_run_is_empty():
    stream = Stream(terminal=False)
    bar = Progress("step", stream=stream)
    bar(100, 100)
    bar.close()
    assert stream.written == ""


def test_what_a_user_named_is_escaped():
    assert "<script>" not in display.pairs({"name": "<script>"})
    assert "<script>" not in display.table(("<script>",), [("<script>",)])


def test_a_curve_needs_two_points_and_survives_what_is_not_finite():
    assert display.curve([1.0], [2.0], "loss") == ""
    picture = display.curve([0.0, 1.0, 2.0, 3.0], [1.0, 0.5, float("nan"), 0.1], "loss")
    assert picture.count(",") == 2
    assert "currentColor" in picture


def test_a_proof_shows_its_theorem_and_its_tube():
    proof = mf.prove(mf.Mixture(), mf.Transformer(omega=0.3), until=1)
    page = proof._repr_html_()
    assert "<svg" in page
    assert html.escape(proof.statement().splitlines()[0]) in page
