"""One experiment, run and written down: figures, series, trained models, and a record that says what they are.

The record carries a key made of the settings and the code. A finished experiment whose key and files are unchanged is not run
again; anything else is.
"""

import dataclasses
import functools
import hashlib
import importlib
import json
import pathlib
import re
import time as clock
import traceback

import mixflow as mf

from ..check import Check
from ..experiments.shape import Experiment
from ..files import dump, markdown, write, write_series

RECORD_VERSION = 2
# Rooms that show numbers but make none: changing them calls for a new page, not for new runs.
SHOWING = ("cli.py", "__main__.py", "commands", "paper/report", "playground", "progress.py")
NUMERIC = ("python", "jax", "jaxlib", "llvmlite", "numpy", "scipy")


@functools.cache
def code_version():
    """SHA-256 of the source that makes numbers and of the libraries below it; unlike a commit it also sees an edit."""
    package = pathlib.Path(__file__).resolve().parents[2]  # mixflow itself
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        inside = path.relative_to(package)
        if not any(inside.is_relative_to(room) for room in SHOWING):
            digest.update(inside.as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    installed = mf.provenance.versions()
    digest.update(json.dumps([RECORD_VERSION, [installed.get(name) for name in NUMERIC]]).encode())
    return digest.hexdigest()


def key_of(experiment, settings):
    """What a stored record must agree on to be used instead of running again."""
    code = [code_version(), _digest(pathlib.Path(experiment.file)) if experiment.file else ""]
    return hashlib.sha256(json.dumps([experiment.name, settings, *code], sort_keys=True).encode()).hexdigest()


def record_path(folder, name):
    return pathlib.Path(folder) / "records" / f"{name}.json"


def stored(folder, experiment, settings):
    """The record of a finished run with these settings and this code, every file of it intact; None otherwise."""
    try:
        record = json.loads(record_path(folder, experiment.name).read_text())
    except (OSError, ValueError):
        return None
    if record.get("key") != key_of(experiment, settings) or record.get("error"):
        return None
    return None if damaged(folder, record) else record


def damaged(folder, record):
    """The files of a record that are missing or altered."""
    return [name for name, digest in record["files"].items() if _digest(pathlib.Path(folder) / name) != digest]


def perform(folder, experiment: Experiment, settings, *, full, progress, **parts):
    """Run the experiment, write its files, return and store its record; a failure becomes a failed check, not a crash.

    parts   each=…, what computes the parts of an experiment that has them, where that is not one after the other
    """
    folder = pathlib.Path(folder)
    for name in ("figures", "series", "models", "records", "tables"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    record = _header(experiment, settings, full)
    began, computed = clock.perf_counter(), False
    try:
        with one_thread():
            results = experiment.run(settings, progress, **parts)
        checks, computed = experiment.verdict(results), True
        record |= {"answer": true_minus(experiment.answer(results))} | _files(folder, experiment, results)
    except Exception as error:  # a broken engine must give a report that says so
        if computed and isinstance(error, mf.StoreError):  # a full disk is no fault of the experiment's
            raise
        kind = "".join(traceback.format_exception_only(error)).strip()
        said = str(error) if isinstance(error, mf.MixflowError) else kind
        checks = [unfinished(said)]
        record |= {"error": said, "answer": "None: the experiment did not finish.", **NOTHING}
    record["seconds"] = round(clock.perf_counter() - began, 3)
    record["checks"] = [check_dict(check) for check in checks]
    record["ok"] = all(check.ok is not False for check in checks)
    write(record_path(folder, experiment.name), dump(record))
    return record


def one_thread():
    """Inside, one thread multiplies matrices: on thousands of small ones several would only wait for each other."""
    from threadpoolctl import threadpool_limits

    importlib.import_module("scipy.linalg")  # it has a library of its own, which must be there to be told
    return threadpool_limits(1)


def true_minus(text):
    """The text with a minus sign, not a hyphen, before negative numbers."""
    return re.sub(r"(?<![\w-])-(?=\d)", "−", text)


NOTHING = {"figures": [], "series": [], "models": [], "sources": [], "tables": [], "stages": {}, "files": {}}


def unfinished(said):
    """The failed check of an experiment that did not finish."""
    basis = {"kind": "theory", "because": "an experiment that cannot be run shows nothing"}
    known = {"name": "finished", "sentence": "the experiment runs to its end", "predicted": "it does"}
    return Check(**known, measured=said, ok=False, tolerance=0.0, **basis)


def check_dict(check):
    """A check as a record keeps it, without its further facts."""
    return {name: value for name, value in check.to_dict().items() if name not in ("facts", "verdict")}


def _header(experiment, settings, full):
    return {
        "name": experiment.name,
        "title": experiment.title,
        "question": experiment.question,
        "section": experiment.section,
        "command": f"mixflow reproduce --only {experiment.file or experiment.name}" + (" --full" if full else ""),
        "settings": settings,
        "reasons": {name: entry.why for name, entry in experiment.config.items()},
        "key": key_of(experiment, settings),
        "error": None,
    }


def _files(folder, experiment, results):
    """Write everything the experiment leaves behind; returns the parts of the record that point to it."""
    written, figures, series, models, tables = [], [], [], [], []
    for picture in experiment.figures(results):
        stem = folder / "figures" / f"{experiment.name}-{picture.name}"
        paths = mf.plot.save(picture.figure, stem, kinds=("svg", "pdf"))
        written += paths
        described = {"name": picture.name, "caption": picture.caption, "alt": picture.alt}
        figures.append(described | {path.suffix[1:]: _inside(folder, path) for path in paths})
    for name, dataset in results.series.items():
        paths = write_series(dataset, folder / "series" / f"{experiment.name}-{name}")
        written += paths
        meaning = {str(v): dataset[v].attrs.get("long_name", "") for v in dataset.data_vars}
        series.append({"name": name, "files": [_inside(folder, path) for path in paths], "variables": meaning})
    for table in results.tables:
        path = write(folder / "tables" / f"{experiment.name}-{table.name}.md", markdown(table).encode())
        written.append(path)
        tables.append(dataclasses.asdict(table) | {"file": _inside(folder, path)})
    for name, run in results.runs.items():
        path = run.save(folder / "models" / f"{experiment.name}-{name}.nc")
        written.append(path)
        models.append({"name": name, "file": _inside(folder, path), "says": repr(run).strip("<>")})
    return {
        "figures": figures,
        "series": series,
        "models": models,
        "sources": [dataclasses.asdict(source) for source in results.sources],
        "tables": tables,
        "stages": {name: [stage.to_dict() for stage in run.stages] for name, run in results.runs.items()},
        "files": {_inside(folder, path): _digest(path) for path in written},
    }


def _inside(folder, path):
    return path.relative_to(folder).as_posix()


def _digest(path):
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None
