"""Run again what a report contains, and say number by number whether it agrees within the stated tolerance."""

import math

import mixflow as mf

from ..experiments import NAMES, experiment
from .records import check_dict, damaged
from .render import render
from .reproduce import read_report

TINY = 1e-12  # absolute: differences of numbers that are zero up to rounding say nothing


def verify(path, *, only=(), progress=lambda done, total: None, note=lambda text: None):
    """Rows (experiment, what, report, again, tolerance, agrees), one for each number, file and page of the report."""
    report, folder = read_report(path)
    rows = [_page(folder, report)]
    for record in report["experiments"]:
        name = record["name"]
        if only and name not in only:
            continue
        if name not in NAMES:
            raise mf.StoreError(f"the report has an experiment {name!r} this mixflow does not know; update mixflow.")
        broken = damaged(folder, record)
        rows.append(
            row(
                name, "files as they were written", "intact", f"altered: {', '.join(broken)}" if broken else "intact", 0
            )
        )
        note(f"{name}: running again")
        rows += _again(record, folder, experiment(name), progress)
    return rows


def _again(record, folder, each, progress):
    results = each.run(record["settings"], progress)
    fresh = {check.name: check_dict(check) for check in each.verdict(results)}
    rows = []
    for check in record["checks"]:
        new = fresh.pop(check["name"], None)
        for part in ("measured", "low", "high"):
            if part == "measured" or check[part] is not None:
                what = check["says"] if part == "measured" else f"{check['says']}, {part} end of the interval"
                rows.append(row(each.name, what, check[part], new[part] if new else None, check["tolerance"]))
        if new and new["ok"] != check["ok"]:
            rows.append(row(each.name, f"{check['says']}, verdict", str(check["ok"]), str(new["ok"]), 0))
    rows += [row(each.name, check["says"], None, check["measured"], 0) for check in fresh.values()]
    for series in record["series"]:
        rows.append(_series(each.name, folder, series, results.series[series["name"]]))
    return rows


def _series(name, folder, series, fresh):
    """The largest relative difference of a stored series from the one computed again, each variable on its own scale."""
    import numpy as np
    import xarray

    try:
        with xarray.open_dataset(folder / series["files"][0], engine="h5netcdf") as stored:
            stored.load()
    except (OSError, ValueError) as error:
        return row(name, f"series {series['name']}", "readable", type(error).__name__, 0)
    worst = 0.0
    for variable in fresh.data_vars:
        old, new = stored[variable].values, fresh[variable].values
        if old.shape != new.shape:
            return row(name, f"series {series['name']}, {variable}", str(old.shape), str(new.shape), 0)
        if new.dtype.kind not in "fiub":
            worst = max(worst, float(not np.array_equal(old.astype(str), new.astype(str))))
            continue
        # Infinite and missing entries must be the same; as a scale they would make every difference look like nothing.
        old, new = old.astype(float), new.astype(float)
        apart = ~((old == new) | (np.isnan(old) & np.isnan(new)))
        scale = np.abs(new[np.isfinite(new)]).max(initial=TINY)
        gap = np.abs(old[apart] - new[apart]) / scale
        worst = max(worst, float(np.where(np.isnan(gap), np.inf, gap).max(initial=0.0)))
    what = f"series {series['name']}, largest difference relative to each variable's size"
    return {**row(name, what, 0.0, worst, 1e-6), "agrees": worst <= 1e-6}


def _page(folder, report):
    """The page must be what its numbers make: a page edited by hand is found without running anything."""
    try:
        same = (folder / "report.html").read_text() == render(folder, report)
        found = "the same" if same else "another page"
    except OSError as error:
        found = f"cannot be read: {error.strerror}"
    return row("report.html", "the page made from report.json and the figures", "the same", found, 0)


def row(name, what, old, new, tolerance):
    """One line of the comparison."""
    return {"experiment": name, "what": what, "report": old, "again": new, "tolerance": tolerance,
            "agrees": agree(old, new, tolerance)}  # fmt: skip


def agree(old, new, tolerance):
    """Equal words, or numbers within the relative tolerance."""
    if isinstance(old, (int, float)) and isinstance(new, (int, float)) and not isinstance(old, bool):
        return math.isclose(old, new, rel_tol=tolerance, abs_tol=TINY)
    return old == new
