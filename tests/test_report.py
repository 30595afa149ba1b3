"""The report: resumed, verified, self-contained, and honest about a broken engine."""

import dataclasses
import json
import shutil

import pytest

import mixflow as mf
from mixflow.cli import main
from mixflow.jaxed import Programs
from mixflow.paper import experiments
from mixflow.paper.experiments.shape import quiet
from mixflow.paper.report import criteria, records
from mixflow.paper.report.reproduce import write_report
from mixflow.paper.report.verify import agree, alike


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


@pytest.fixture(scope="module")
def once(tmp_path_factory):
    """`perform` that runs each experiment with the same settings once: what `verify` compares an altered report with."""
    done = {}

    def again(folder, each, settings, **options):
        key = each.name, json.dumps(settings, sort_keys=True)
        if key not in done:
            done[key] = tmp_path_factory.mktemp("again")
            records.perform(done[key], each, settings, **options)
        shutil.copytree(done[key], folder, dirs_exist_ok=True)
        return json.loads((folder / "records" / f"{each.name}.json").read_text())

    return again


@pytest.fixture
def copy(finished, only_two, once, monkeypatch, tmp_path):
    monkeypatch.setattr("mixflow.paper.report.verify.perform", once)
    shutil.copytree(finished, tmp_path / "copy")
    return tmp_path / "copy"


def files(folder, suffixes=(".nc", ".csv", ".svg", ".pdf")):
    return {
        p.name: p.read_bytes()
        for name in ("series", "figures")
        for p in (folder / name).iterdir()
        if p.suffix in suffixes
    }


def test_two_runs_give_byte_identical_series_and_figures(finished, only_two, once, tmp_path):
    each = only_two["simultaneous"]
    once(tmp_path, each, each.settings(), full=False, progress=quiet)
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


def test_verify_passes_on_a_fresh_report(copy, capsys):
    assert main(["verify", str(copy)]) == 0
    assert "agree within their tolerances" in capsys.readouterr().out


def altered(copy, change):
    """Change report.json and render the page anew, as someone who wants to deceive would."""
    report = json.loads((copy / "report.json").read_text())
    change(report)
    write_report(copy, report)
    return report


def differing(copy, capsys, *words):
    """What `verify` says does not agree; it must exit with 1."""
    assert main(["verify", str(copy), "--json", *words]) == 1
    rows = json.loads(capsys.readouterr().out)["rows"]
    return {(row["experiment"], row["what"]) for row in rows if not row["agrees"]}


def checks_of(report, name="width"):
    return next(record for record in report["experiments"] if record["name"] == name)["checks"]


def triple(report):
    """Numbers three times as large under a tolerance of five: believed, if the report's own tolerance decided."""
    for check in checks_of(report):
        if isinstance(check["measured"], float):
            check["measured"], check["tolerance"] = 3 * check["measured"], 5.0


def nudge(report):
    checks_of(report)[0]["measured"] *= 1.00001


def widen(report):
    checks_of(report)[0]["low"] *= 1.00001


def other_words(report):
    checks_of(report)[0]["sentence"] = "learning is instantaneous"


def other_basis(report):
    for check in checks_of(report):
        check["kind"], check["because"], check["after"] = "theory", "a theorem", False


def more_held(report):
    report["held"], report["judged"] = 1000, 1000


def other_answer(report):
    report["experiments"][1]["answer"] = "Yes, always."


def other_settings(report):
    report["experiments"][1]["settings"]["seeds"] = 2


def fewer_checks(report):
    del report["experiments"][1]["checks"][0]


def not_rounding(report):
    """What is zero up to rounding may be another number on another machine, but not any number."""
    (check,) = (check for check in checks_of(report, "simultaneous") if check["name"] == "w.c")
    check["measured"] = 12345.678


def small_number(report):
    (record,) = (record for record in report["experiments"] if record["name"] == "simultaneous")
    assert "0.0033" in record["answer"]
    record["answer"] = record["answer"].replace("0.0033", "0.0533")


def forged_error(report):
    report["experiments"][1]["error"] = "it failed"


@pytest.mark.parametrize("change", [not_rounding, small_number], ids=lambda change: change.__name__)
def test_verify_is_not_deceived_by_small_numbers(copy, capsys, change):
    altered(copy, change)
    found = differing(copy, capsys, "--only", "simultaneous")
    assert len(found) == 1


@pytest.mark.parametrize(
    "change",
    [
        triple,
        nudge,
        widen,
        other_words,
        other_basis,
        more_held,
        other_answer,
        other_settings,
        fewer_checks,
        forged_error,
    ],
    ids=lambda change: change.__name__,
)
def test_verify_is_not_deceived_by_an_altered_report(copy, capsys, change):
    altered(copy, change)
    only = [] if change is more_held else ["--only", "width"]
    found = {experiment for experiment, _ in differing(copy, capsys, *only)}
    assert found == ({"report"} if change is more_held else {"width"})


def test_verify_finds_a_figure_changed_together_with_its_hash(copy, capsys):
    figure = copy / "figures" / "width-distance.svg"
    figure.write_text(figure.read_text().replace("slope −0.5", "slope −0.9"))
    markers = copy / "figures" / "width-end-of-attention.svg"
    markers.write_text(markers.read_text().replace('xlink:href="#m', 'xlink:href="#zz'))
    pdf = copy / "figures" / "width-distance.pdf"
    pdf.write_bytes((copy / "figures" / "width-end-of-attention.pdf").read_bytes())
    table = copy / "series" / "width-width.csv"
    lines = table.read_text().splitlines()
    cells = lines[1].split(",")
    cells[-1] = str(1.0001 * float(cells[-1]))
    table.write_text("\n".join([lines[0], ",".join(cells), *lines[2:]]) + "\n")

    def rehash(report):
        record = next(record for record in report["experiments"] if record["name"] == "width")
        record["files"] = {name: records._digest(copy / name) for name in record["files"]}

    altered(copy, rehash)
    found = {what for _, what in differing(copy, capsys, "--only", "width")}
    assert found == {
        "figures/width-distance.svg",
        "figures/width-distance.pdf",
        "figures/width-end-of-attention.svg",
        "series/width-width.csv",
    }


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda report: report.update(experiments=[]), "holds no experiment"),
        (lambda report: report.update(experiments=7), "lacks experiments"),
        (lambda report: report["experiments"][0].pop("answer"), "lacks answer"),
        (lambda report: report["experiments"][0]["checks"][0].pop("kind"), "not the parts of a check"),
        (lambda report: report["experiments"].append(report["experiments"][0]), "there twice"),
        (lambda report: report.update(mixflow_report=1), "report version 1"),
    ],
)
def test_what_no_reproduce_has_written_is_refused_in_one_line(copy, capsys, change, says):
    report = json.loads((copy / "report.json").read_text())
    change(report)
    (copy / "report.json").write_text(json.dumps(report))
    assert main(["verify", str(copy)]) == 2
    said = capsys.readouterr().err
    assert says in said
    assert said.count("\n") == 1


def test_verify_finds_an_altered_page_and_file(copy, monkeypatch, capsys):
    page = copy / "report.html"
    page.write_text(page.read_text().replace("0.003296467", "0.002296467"))
    next((copy / "series").glob("width-*.csv")).write_text("time,loss\n0,0\n")
    found = {what for _, what in differing(copy, capsys, "--only", "width")}
    assert found >= {
        "the page made from report.json and the figures",
        "files as they were written",
        "series/width-width.csv",
    }


@pytest.mark.parametrize(("old", "new", "same"), [
    ("x 1.234 y", "x 1.2341 y", True), ("x 1.234 y", "x 2.234 y", False), ("x 1 y", "x 1 z", False), ("x −5", "x −5", True),
    ("x 1 y", "x 1 2 y", False), ("0.0033", "0.0034", True), ("0.0033", "0.0533", False), ("7e-16", "9e-15", True),
    ("16 of 16", "15 of 16", False),
])  # fmt: skip
def test_texts_that_differ_in_a_last_digit_are_alike(old, new, same):
    assert alike(old, new) is same


def test_a_flipped_sign_fails_rows_of_theory(tmp_path, only_two, monkeypatch, capsys):
    """The sign of the attention's step flipped, then that of the neurons': theory fails, not only what was stored."""
    from mixflow.engines.symmetric import Symmetric
    from mixflow.methods import chunks as descent

    true = Symmetric.parameters
    for signs in ((1, -1), (-1, 1)):

        def flipped(self, transformers, eta_w, eta_A, signs=signs):
            return true(self, transformers, signs[0] * eta_w, signs[1] * eta_A)

        monkeypatch.setattr(Symmetric, "parameters", flipped)
        monkeypatch.setattr(descent, "programs", Programs(8))
        folder = tmp_path / str(signs)
        assert main(["reproduce", "--only", "simultaneous", "--out", str(folder), "--json"]) == 1
        (record,) = json.loads(capsys.readouterr().out)["experiments"]
        failed = {check["kind"] for check in record["checks"] if check["ok"] is False}
        assert {"theory", "paper", "regression"} <= failed, signs
        page = (folder / "report.html").read_text()
        assert "checks fail." in page
        assert "population loss at the end; predicted 0.003296466671" in page


def test_a_criterion_that_was_not_written_down_before_is_named(finished):
    """The small report has another number of seeds; all its other criteria are those of the one file."""
    report = json.loads((finished / "report.json").read_text())
    assert report["criteria"] == ["simultaneous: seeds"]
    assert "before this run, except simultaneous: seeds." in (finished / "report.html").read_text()
    kept = json.loads(criteria.FILE.read_text())
    assert {name for name in experiments.NAMES if name not in experiments.OPTIONAL} <= set(kept)
    checks_of(report)[0]["predicted"] = "anything"
    assert len(criteria.moved(report["experiments"])) == 2
    assert "width: slope 50" in criteria.moved([report["experiments"][1] | {"checks": []}])  # one that is left out, too
    assert criteria.moved([{"name": "new", "checks": []}]) == ["those of new"]


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


def test_agreement():
    assert agree(1.0, 1.0 + 1e-7, 1e-6)
    assert agree(3e-16, 8e-14, 1e6)  # rounding
    assert agree(3e-11, 8e-9, 1e3)
    assert not agree(3e-11, 8e-7, 1e3)
    assert not agree(3e-11, -3e-9, 1e3)
    assert not agree(12345.678, 3e-16, 1e6)
    assert not agree(1.0, 1.0 + 1e-5, 1e-6)
    assert not agree(None, 1.0, 1e-6)
    assert agree("a", "a", 0)


def test_an_infinite_entry_hides_nothing_beside_it():
    import numpy as np

    from mixflow.paper.report.verify import _difference

    stored = np.array([np.inf, np.nan, 1.0])
    assert _difference(stored, stored) == 0
    for wrong in ([np.inf, np.nan, 2.0], [-np.inf, np.nan, 1.0], [3.0, np.nan, 1.0], [np.inf, 0.0, 1.0]):
        assert _difference(stored, np.array(wrong)) > 1e-3, wrong
