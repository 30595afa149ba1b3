"""Run again what a report contains into a folder beside it, and compare: numbers, texts, counts, files and the page.

Nothing of the report decides: settings, sentences, predictions, tolerances and counts are those of this code.
"""

import json
import math
import pathlib
import re
import tempfile
import zlib

import mixflow as mf

from ..experiments import NAMES, OPTIONAL, experiment
from .criteria import moved
from .elements import elements
from .records import damaged, perform
from .render import render
from .reproduce import counts, read_report

TINY = 1e-12  # absolute: differences of numbers that are zero up to rounding say nothing
SERIES = 1e-6  # relative to the largest entry of a variable
NEARLY = 2e-3  # relative, of numbers inside a text, which may also move by a unit of their last digit
DRAWN = 0.06  # absolute, of coordinates in a picture
NUMBER = re.compile(r"[-−]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
WORDS = re.compile(r"(?<=>)[^<>]+(?=</text>)")  # of an SVG
# What an SVG calls its parts, made of their numbers.
NAMES_OF_PARTS = re.compile(r'(?<=\bid=")[^"]+|(?<=xlink:href="#)[^"]+|(?<=url\(#)[^)]+')


def verify(path, *, only=(), progress=lambda done, total: None, note=lambda text: None):
    """Rows (experiment, what, report, again, tolerance, agrees), one for each number, text, file and page of the report."""
    report, folder = read_report(path)
    rows, again = [_page(folder, report)], []
    for record in report["experiments"]:
        name = record["name"]
        if only and name not in only:
            continue
        if name not in NAMES:
            raise mf.StoreError(
                f"the report has an experiment {name!r} this mixflow does not know; update mixflow, or name others with --only."
            )
        broken = damaged(folder, record)
        found = f"altered: {', '.join(broken)}" if broken else "intact"
        rows.append(row(name, "files as they were written", "intact", found, 0))
        note(f"{name}: running again")
        with tempfile.TemporaryDirectory() as beside:
            fresh, more = _again(
                record, folder, pathlib.Path(beside), experiment(name), report["settings"] == "full", progress
            )
        rows += more
        again.append(fresh)
    if not only:
        rows += _whole(report, again)
    return rows


def _whole(report, again):
    """The counts of the headline and the table of the paper's elements, from what was run again."""
    now = counts(again)
    rows = [row("report", f"headline: {key}", json.dumps(report.get(key)), json.dumps(now[key]), 0) for key in now]
    table = elements({record["name"]: record for record in again})
    rows.append(_text("report", "the paper, element by element", report.get("paper"), table))
    judged = [] if report["settings"] == "full" else moved(again)
    rows.append(_text("report", "rows judged by another criterion", report.get("criteria"), judged))
    missing = [name for name in NAMES if name not in OPTIONAL and name not in {record["name"] for record in again}]
    if missing:
        what = f"not in this report: {', '.join(missing)}"
        rows.append(row("report", what, f"{len(again)} experiments", f"{len(again)} experiments", 0))
    return rows


def _again(record, folder, beside, each, full, progress):
    """The experiment's fresh record, and rows that compare the stored one with it."""
    settings = each.settings(full)
    if isinstance(record["settings"].get("source"), str) and "source" in settings:
        settings["source"] = record["settings"]["source"]  # where the reader keeps the official files
    fresh = perform(beside, each, settings, full=full, progress=progress)
    rows = [
        row(
            each.name,
            "settings",
            json.dumps(record["settings"], sort_keys=True),
            json.dumps(settings, sort_keys=True),
            0,
        )
    ]
    new = {check["name"]: check for check in fresh["checks"]}
    for check in record["checks"]:
        rows += _check(each.name, check, new.pop(check["name"], None))
    rows += [row(each.name, check["sentence"], None, check["measured"], 0) for check in new.values()]
    for part in (
        "error",
        "title",
        "question",
        "section",
        "command",
        "reasons",
        "answer",
        "stages",
        "sources",
        "figures",
        "series",
        "models",
        "tables",
    ):
        rows.append(_text(each.name, part, record.get(part), fresh[part]))
    rows.append(
        row(each.name, "list of files", ", ".join(sorted(record["files"])), ", ".join(sorted(fresh["files"])), 0)
    )
    for name in sorted(set(record["files"]) & set(fresh["files"])):
        rows.append(_file(each.name, name, folder / name, beside / name))
    return fresh, rows


def _check(name, old, new):
    """A number, its interval, its verdict and its words; with the tolerance of the code."""
    if new is None:
        return [row(name, str(old["sentence"]), old["measured"], "this code has no such check", 0)]
    rows = []
    for part, where in (("measured", ""), ("low", ", low end"), ("high", ", high end")):
        if part == "measured" or new[part] is not None or old[part] is not None:
            rows.append(row(name, new["sentence"] + where, old[part], new[part], new["tolerance"]))
    words = ("sentence", "quantity", "predicted", "ok", "kind", "because", "after", "over", "tolerance")
    changed = [part for part in words if old[part] != new[part]]
    if changed:
        told = (json.dumps({part: check[part] for part in changed}, ensure_ascii=False) for check in (old, new))
        rows.append(row(name, f"{new['sentence']}: {', '.join(changed)}", *told, 0))
    return rows


def _text(name, what, old, new):
    """Words that are equal but for the last digit of numbers in them."""
    told = [json.dumps(each, sort_keys=True, ensure_ascii=False) for each in (old, new)]
    if alike(*told):
        told = ["the same", "the same"]
    return row(name, what, *told, 0)


def alike(old, new, drawn=0.0):
    """Whether two texts are equal but for numbers that differ by a unit of their last digit, or by `drawn`."""
    if old == new:
        return True
    if NUMBER.sub("0", old) != NUMBER.sub("0", new):
        return False

    def near(a, b):
        allowed = max(drawn, TINY, 1.01 * max(_unit(a), _unit(b)))
        return a == b or math.isclose(_float(a), _float(b), rel_tol=NEARLY, abs_tol=allowed)

    return all(near(a, b) for a, b in zip(NUMBER.findall(old), NUMBER.findall(new), strict=True))


def _float(text):
    return float(text.replace("−", "-"))


def _unit(text):
    """What a unit of the last digit is worth; nothing where there is no point, in a count.

    >>> [_unit(text) for text in ("0.0033", "7e-16", "1.5E+02", "12")]
    [0.0001, 1e-16, 10.0, 0.0]
    """
    digits, _, power = text.lower().partition("e")
    if "." not in digits and not power:
        return 0.0
    return float(f"1e{int(power or 0) - len(digits.partition('.')[2])}")


def _file(name, inside, old, new):
    """One file beside the page against the one just made."""
    try:
        if old.suffix in (".nc", ".csv"):
            worst = _apart(old, new) if old.suffix == ".nc" else _columns_apart(old.read_text(), new.read_text())
            if worst == math.inf:
                return row(name, inside, "the same", "another form, or other words", 0)
            return {**row(name, inside, 0.0, worst, SERIES), "agrees": worst <= SERIES}
        pictures = old.suffix in (".svg", ".pdf")
        same = alike(*(_readable(path) for path in (old, new)), drawn=DRAWN if pictures else 0.0)
        if old.suffix == ".svg":  # what is written in it is no coordinate
            same = same and alike(*("\n".join(WORDS.findall(path.read_text())) for path in (old, new)))
    except (OSError, ValueError, zlib.error, mf.MixflowError) as error:
        return row(name, inside, "readable", type(error).__name__, 0)
    return row(name, inside, "the same", "the same" if same else "another content", 0)


def _readable(path):
    """A file as text in which only numbers may differ: SVG with its parts numbered as they come, PDF unpacked."""
    content = path.read_bytes()
    if path.suffix == ".svg":
        names = {}
        return NAMES_OF_PARTS.sub(lambda found: names.setdefault(found[0], f"part{len(names)}"), content.decode())
    if path.suffix == ".pdf":
        streams = re.findall(rb"stream\r?\n(.*?)\r?\nendstream", content, re.S)
        return "\n".join(_unpacked(stream).decode("latin-1") for stream in streams)
    return content.decode()


def _unpacked(stream):
    try:
        return zlib.decompress(stream)
    except zlib.error:
        return stream


def _apart(old, new):
    """The largest difference of two netCDF files, each variable relative to its own size; infinite if their form differs."""
    import xarray

    data = []
    for path in (old, new):
        if path.parent.name == "models":
            data.append(mf.load(path).dataset)
        else:
            with xarray.open_dataset(path, engine="h5netcdf") as stored:
                data.append(stored.load())
    old, new = data
    names = sorted(map(str, new.variables))
    if names != sorted(map(str, old.variables)) or any(old[name].shape != new[name].shape for name in names):
        return math.inf
    return max((_difference(old[name].values, new[name].values) for name in names), default=0.0)


def _columns_apart(old, new):
    """The largest difference of two CSV tables, each column relative to its own size; infinite if their form differs."""
    import csv

    import numpy as np

    tables = [list(csv.reader(text.splitlines())) for text in (old, new)]
    if [*map(len, tables[0])] != [*map(len, tables[1])]:
        return math.inf
    worst = 0.0
    for columns in zip(*(zip(*table, strict=True) for table in tables), strict=True):
        try:
            values = [np.array(column[1:], float) for column in columns]
        except ValueError:
            values = [np.array(column[1:]) for column in columns]
        apart = math.inf if columns[0][0] != columns[1][0] else _difference(*values)
        worst = max(worst, apart)
    return worst


def _difference(old, new):
    """The largest difference of two arrays relative to the largest finite entry; words must be equal."""
    import numpy as np

    if new.dtype.kind not in "fiub" or old.dtype.kind not in "fiub":
        return 0.0 if np.array_equal(old.astype(str), new.astype(str)) else math.inf
    # Infinite and missing entries must be the same; as a scale they would make every difference look like nothing.
    old, new = old.astype(float), new.astype(float)
    apart = ~((old == new) | (np.isnan(old) & np.isnan(new)))
    scale = np.abs(new[np.isfinite(new)]).max(initial=TINY)
    gap = np.abs(old[apart] - new[apart]) / scale
    return float(np.where(np.isnan(gap), np.inf, gap).max(initial=0.0))


def _page(folder, report):
    """The page must be what its numbers make: a page edited by hand is found without running anything."""
    try:
        same = (folder / "report.html").read_text() == render(folder, report)
        found = "the same" if same else "another page"
    except OSError as error:
        found = f"cannot be read: {error.strerror}"
    except Exception as error:  # a forged report.json may lack anything the page shows
        found = f"cannot be made: {type(error).__name__}"
    return row("report.html", "the page made from report.json and the figures", "the same", found, 0)


def row(name, what, old, new, tolerance):
    """One line of the comparison."""
    known = {"experiment": name, "what": what, "report": old, "again": new, "tolerance": tolerance}
    return known | {"agrees": agree(old, new, tolerance)}


def agree(old, new, tolerance):
    """Equal words, or numbers within the relative tolerance; from 1 on, for what is nearly rounding, within so large a factor."""
    if not isinstance(old, (int, float)) or not isinstance(new, (int, float)) or isinstance(old, bool):
        return old == new
    if tolerance >= 1:
        return abs(old - new) <= TINY or (old * new > 0 and max(old / new, new / old) <= tolerance)
    return math.isclose(old, new, rel_tol=tolerance, abs_tol=TINY)
