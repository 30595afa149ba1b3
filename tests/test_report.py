"""The report: resumed, verified, self-contained, and honest about a broken engine."""

import dataclasses
import html.parser
import json
import shutil

import pytest

import mixflow as mf
from mixflow.cli import main
from mixflow.jaxed import Programs
from mixflow.paper import experiments
from mixflow.paper.report import records
from mixflow.paper.report.render import inline_svg, number
from mixflow.paper.report.verify import agree

VOID = {"meta", "br", "img", "link", "hr", "input"}


def small(name, **changes):
    """An experiment with smaller settings."""
    each = experiments.experiment(name)
    config = {
        key: dataclasses.replace(entry, quick=changes.get(key, entry.quick)) for key, entry in each.config.items()
    }
    return dataclasses.replace(each, config=config)


def use_two(patch):
    """Let the report room know two experiments only, of real runs made small."""
    chosen = {
        "simultaneous": small("simultaneous", seeds=2),
        "width": small("width", widths=[8, 256, 4096], seeds=3),
    }
    for room in ("reproduce", "verify"):
        patch.setattr(f"mixflow.paper.report.{room}.NAMES", tuple(chosen))
        patch.setattr(f"mixflow.paper.report.{room}.experiment", chosen.__getitem__)
    return chosen


@pytest.fixture
def only_two(monkeypatch):
    return use_two(monkeypatch)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A report of two experiments, made once; tests that alter it work on a copy."""
    folder = tmp_path_factory.mktemp("report")
    with pytest.MonkeyPatch.context() as patch:
        use_two(patch)
        assert main(["reproduce", "--out", str(folder)]) == 0
    return folder


@pytest.fixture
def copy(finished, only_two, tmp_path):
    shutil.copytree(finished, tmp_path / "copy")
    return tmp_path / "copy"


def files(folder, suffixes=(".nc", ".csv", ".svg", ".pdf")):
    return {
        p.name: p.read_bytes()
        for name in ("series", "figures")
        for p in (folder / name).iterdir()
        if p.suffix in suffixes
    }


def test_two_runs_give_byte_identical_series_and_figures(finished, only_two, tmp_path, capsys):
    assert main(["reproduce", "--only", "simultaneous", "--out", str(tmp_path)]) == 0
    old, new = files(finished), files(tmp_path)
    assert {
        "simultaneous-mean-field.nc",
        "simultaneous-mean-field.csv",
        "simultaneous-run.svg",
        "simultaneous-run.pdf",
    } <= set(new)
    assert all(old[name] == content for name, content in new.items())


def test_finished_experiments_are_not_run_again(copy, only_two, monkeypatch, capsys):
    ran = []
    monkeypatch.setattr("mixflow.paper.report.reproduce.perform", lambda *a, **k: ran.append(a[1].name))
    assert main(["reproduce", "--out", str(copy), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert ran == []
    assert [record["name"] for record in report["experiments"]] == ["simultaneous", "width"]


@pytest.mark.parametrize("change", ["config", "code", "file"])
def test_a_changed_config_code_or_file_calls_for_a_new_run(copy, only_two, monkeypatch, change):
    each = only_two["width"]
    settings = each.settings()
    assert records.stored(copy, each, settings)
    if change == "config":
        settings["seeds"] += 1
    elif change == "code":
        monkeypatch.setattr(records, "code_version", lambda: "another")
    else:
        next((copy / "series").glob("width-*.csv")).write_text("0")
    assert records.stored(copy, each, settings) is None


def test_verify_passes_on_a_fresh_report(finished, only_two, capsys):
    assert main(["verify", str(finished)]) == 0
    assert "agree within their tolerances" in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["number", "interval", "verdict"])
def test_verify_finds_an_altered_number(copy, capsys, kind):
    report = json.loads((copy / "report.json").read_text())
    record = next(record for record in report["experiments"] if record["name"] == "width")
    check = record["checks"][0]
    if kind == "verdict":
        check["ok"] = False
    else:
        check["measured" if kind == "number" else "low"] *= 1.00001
    (copy / "report.json").write_text(json.dumps(report))
    assert main(["verify", str(copy / "report.json"), "--only", "width", "--json"]) == 1
    rows = json.loads(capsys.readouterr().out)["rows"]
    differing = {row["experiment"] for row in rows if not row["agrees"]}
    assert "width" in differing
    assert differing <= {"width", "report.html"}  # the page rounds, so a small change may leave it the same


def test_verify_finds_an_altered_page_and_file(copy, monkeypatch, capsys):
    monkeypatch.setattr("mixflow.paper.report.verify._again", lambda *a: [])
    assert main(["verify", str(copy)]) == 0
    page = copy / "report.html"
    page.write_text(page.read_text().replace("0.003296467", "0.002296467"))
    assert main(["verify", str(copy)]) == 1
    assert "another page" in capsys.readouterr().out
    next((copy / "series").glob("simultaneous-*.csv")).write_text("time,loss\n0,0\n")
    assert main(["verify", str(copy)]) == 1
    assert "altered" in capsys.readouterr().out


def test_a_broken_engine_fails_and_the_report_says_what(tmp_path, only_two, monkeypatch, capsys):
    """The sign of the attention's step flipped: the loss no longer falls to where the mathematics says."""
    from mixflow.engines.symmetric import Symmetric
    from mixflow.methods import descent

    true = Symmetric.parameters
    flipped = lambda self, transformers, eta_w, eta_A: true(self, transformers, eta_w, -eta_A)  # noqa: E731
    monkeypatch.setattr(Symmetric, "parameters", flipped)
    monkeypatch.setattr(descent, "programs", Programs(8))
    assert main(["reproduce", "--only", "simultaneous", "--out", str(tmp_path)]) == 1
    said = capsys.readouterr().out
    assert "FAILED  simultaneous: three stages, one after the other" in said
    page = (tmp_path / "report.html").read_text()
    assert "checks fail." in page
    assert "population loss at the end; predicted 0.003296466671" in page


def test_an_experiment_that_crashes_is_a_failed_check(tmp_path, only_two, monkeypatch, capsys):
    def broken(settings, progress):
        raise ZeroDivisionError("no width")

    monkeypatch.setitem(only_two, "width", dataclasses.replace(only_two["width"], run=broken))
    assert main(["reproduce", "--only", "width", "--out", str(tmp_path), "--json"]) == 1
    (record,) = json.loads(capsys.readouterr().out)["experiments"]
    assert record["error"] == "ZeroDivisionError: no width"
    assert "did not finish" in (tmp_path / "report.html").read_text()


def test_ctrl_c_keeps_what_was_finished(copy, only_two, monkeypatch, capsys):
    def interrupted(settings, progress):
        raise KeyboardInterrupt

    (copy / "records" / "width.json").unlink()
    monkeypatch.setitem(only_two, "width", dataclasses.replace(only_two["width"], run=interrupted))
    assert main(["reproduce", "--out", str(copy)]) == 130
    assert "1 finished experiments are kept" in capsys.readouterr().err
    assert records.stored(copy, only_two["simultaneous"], only_two["simultaneous"].settings())


class Page(html.parser.HTMLParser):
    """Open tags, ids, links and everything that could fetch."""

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.links, self.fetched, self.tags, self.images = [], [], [], [], set(), []

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.tags.add(tag)
        if tag not in VOID:
            self.open.append(tag)
        self.note(tag, found)

    def handle_startendtag(self, tag, attributes):
        self.tags.add(tag)
        self.note(tag, dict(attributes))

    def note(self, tag, found):
        if "id" in found:
            self.ids.append(found["id"])
        if tag in ("a", "use") and "href" in found:
            self.links.append(found["href"])
        self.fetched += [found[name] for name in ("src", "srcset", "data", "poster", "xlink:href") if name in found]
        if tag in ("svg", "img"):
            self.images.append(found.get("aria-label") or found.get("alt") or "")

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def page(finished):
    reader = Page()
    reader.feed((finished / "report.html").read_text())
    return reader


def test_the_page_is_well_formed_and_needs_nothing_from_outside(page, finished):
    assert page.open == []
    assert len(page.ids) == len(set(page.ids))
    assert page.fetched == []
    assert not page.tags & {"script", "link", "iframe", "object", "img"}
    text = (finished / "report.html").read_text()
    assert "http" not in text
    assert "@import" not in text


def test_every_link_leads_somewhere(page, finished):
    for link in page.links:
        assert link[1:] in page.ids if link.startswith("#") else (finished / link).is_file(), link


def test_every_figure_has_an_alternative_text(page):
    assert len(page.images) == 3
    assert all(len(text) > 60 for text in page.images)


def test_the_card_answers_seven_questions_with_evidence(finished):
    from mixflow.paper.report.card import card
    from mixflow.paper.report.reproduce import read_report

    rows = card(read_report(finished)[0])
    names = ["Code", "Data", "Splits", "Hardware", "Software versions", "Pseudocode", "Experiment set-up"]
    assert [variable for variable, _, _ in rows] == names
    assert all(answer and links for _, answer, links in rows)


def test_trained_models_load_with_one_call(finished):
    run = mf.load(finished / "models" / "simultaneous-mean-field.nc")
    assert float(run.dataset.loss[-1]) == pytest.approx(0.003296466671, rel=1e-9)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("reproduce --only widht", "did you mean 'width'"),
        ("verify nowhere", "cannot read"),
        ("verify .", "cannot read"),
    ],
)
def test_bad_usage_is_one_line(capsys, tmp_path, monkeypatch, words, says):
    monkeypatch.chdir(tmp_path)
    assert main(words.split()) == 2
    said = capsys.readouterr().err
    assert says in said
    assert said.count("\n") == 1


def test_a_file_that_is_no_report(capsys, tmp_path):
    (tmp_path / "report.json").write_text("[]")
    assert main(["verify", str(tmp_path)]) == 2
    assert "not a mixflow report" in capsys.readouterr().err


def test_numbers_for_people():
    assert [number(x) for x in (None, 1.0, -0.5, 1.23456789, 2.5e-9, "word")] == [
        "none", "1", "−0.5", "1.234568", "2.5·10⁻⁹", "word",
    ]  # fmt: skip


def test_agreement():
    assert agree(1.0, 1.0 + 1e-7, 1e-6)
    assert not agree(1.0, 1.0 + 1e-5, 1e-6)
    assert not agree(None, 1.0, 1e-6)
    assert agree("a", "a", 0)


def test_two_figures_in_one_page_share_no_id():
    svg = (
        '<svg width="1pt" height="1pt" xmlns="http://x.org/svg"><g id="a"/><use xlink:href="#a" fill="#000000"/></svg>'
    )
    text = inline_svg(svg, "one", 'says "this"')
    assert 'id="one-a"' in text
    assert 'href="#one-a"' in text
    assert "http" not in text
    assert "currentColor" in text
    assert 'aria-label="says &quot;this&quot;"' in text


def test_an_infinite_entry_hides_nothing_beside_it(tmp_path):
    import numpy as np
    import xarray

    from mixflow.paper.files import write_series
    from mixflow.paper.report.verify import _series

    stored = xarray.Dataset({"x": ("i", [np.inf, np.nan, 1.0])})
    write_series(stored, tmp_path / "s")
    series = {"name": "s", "files": ["s.nc"]}
    assert _series("e", tmp_path, series, stored)["agrees"]
    for wrong in ([np.inf, np.nan, 2.0], [-np.inf, np.nan, 1.0], [3.0, np.nan, 1.0], [np.inf, 0.0, 1.0]):
        assert not _series("e", tmp_path, series, xarray.Dataset({"x": ("i", wrong)}))["agrees"], wrong
