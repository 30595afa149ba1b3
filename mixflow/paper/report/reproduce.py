"""Run the experiments, or take those already finished, and write the report."""

import contextlib
import datetime
import json
import pathlib
import sys
import time as clock

import mixflow as mf

from ..check import JUDGED, Check, tally
from ..experiments import NAMES, OPTIONAL, experiment
from ..experiments.shape import quiet
from ..files import dump, make_folder, write
from .criteria import moved
from .elements import elements
from .records import code_version, perform, stored
from .render import render, seconds
from .side_by_side import processes, side_by_side, spread

REPORT_VERSION = 2
LONGEST = 2**26  # bytes of a report.json; a full one has two million


def reproduce(folder="results", *, only=(), full=False, changed=None, workers=1, stream=None):
    """Run what is asked for and write the report into `folder`; returns its content.

    only     names, or Python files with an EXPERIMENT; by default everything if `full`, and what is not `OPTIONAL` if not
    changed  {experiment: {setting: value}} in place of the quick or full values
    workers  how many experiments, or parts of a single one, run at a time, each in a process of its own, if that is worth it;
             None: one for each core

    Experiments finished before in this folder, with the same settings and code, are not run again and are part of the
    report as well, asked for or not.
    """
    folder, stream = make_folder(folder), sys.stderr if stream is None else stream
    wanted = [experiment(name) for name in only or NAMES if only or full or name not in OPTIONAL]
    known = {each.name: each for each in [*map(experiment, NAMES), *wanted]}
    settings = {name: {**each.settings(full), **(changed or {}).get(name, {})} for name, each in known.items()}
    kept = {name: stored(folder, each, settings[name]) for name, each in known.items()}
    kept = {name: record for name, record in kept.items() if record}
    for each in wanted:
        if each.name in kept:
            stream.write(f"{each.name}: finished before, not run again\n")
    jobs = [(each, settings[each.name]) for each in wanted if each.name not in kept]
    many = processes(workers, sum(each.seconds[full] for each, _ in jobs), len(jobs))
    watch = Watch([each for each, _ in jobs], full, stream, many or 1)
    ran = set()
    try:
        found = _side_by_side(folder, jobs, many, full) if many else _in_turn(folder, jobs, watch, full, workers)
        with contextlib.closing(found):
            for name, record in found:
                kept[name] = record
                ran.add(name)
                watch.end(name, record)
    except KeyboardInterrupt:
        where = f" in {watch.now}" if watch.now else ""
        raise mf.Interrupted(
            f"interrupted{where}; {len(kept)} finished experiments are kept, the same command goes on from there."
        ) from None
    report = _report([kept[name] for name in known if name in kept], full, [name for name in known if name in ran])
    write_report(folder, report)
    return report


def _in_turn(folder, jobs, watch, full, workers):
    """(name, record) of every job (experiment, settings), one after the other; one of many parts over several processes."""
    for each, settings in jobs:
        watch.begin(each)
        many = processes(workers, each.seconds[full]) if each.in_parts else 0
        parts = {"each": spread(many)} if many else {}
        yield each.name, perform(folder, each, settings, full=full, progress=watch, **parts)


def _side_by_side(folder, jobs, workers, full):
    """(name, record) of every job as it is finished, those first that take longest."""
    longest = sorted(jobs, key=lambda job: -job[0].seconds[full])
    items = [(folder, each.file or each.name, settings, full) for each, settings in longest]
    with contextlib.closing(side_by_side(_one, items, workers)) as finished:
        for _, record in finished:
            yield record["name"], record


def _one(job):
    folder, name, settings, full = job
    return perform(folder, experiment(name), settings, full=full, progress=quiet)


def _report(records, full, ran):
    origin = mf.provenance.provenance()
    return {
        "mixflow_report": REPORT_VERSION,
        "settings": "full" if full else "quick",
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        **counts(records),
        "criteria": [] if full else moved(records),
        "paper": elements({record["name"]: record for record in records}),
        "seconds": round(sum(record["seconds"] for record in records), 3),
        "ran_now": ran,
        "provenance": {
            "commit": origin["commit"],
            "code": code_version(),
            "command": origin["command"],
            "versions": json.loads(origin["versions"]),
            "hardware": json.loads(origin["hardware"]) | {"threads": mf.provenance.threads()},
            "precision": origin["precision"],
        },
        "experiments": records,
    }


def counts(records):
    """What the headline says: held and judged checks of each kind, and whether anything fails."""
    checks = [check for record in records for check in record["checks"]]
    found = tally(checks)
    return {
        "ok": bool(records) and all(record["ok"] for record in records),
        "counts": found,
        "held": sum(found[kind][0] for kind in JUDGED),
        "judged": sum(found[kind][1] for kind in JUDGED),
        "after": sum(check["after"] for check in checks if check["kind"] in JUDGED),
    }


def write_report(folder, report):
    """report.json, then report.html made from it and from the figures beside it."""
    write(folder / "report.json", dump(report))
    write(folder / "report.html", render(folder, report).encode())


def read_report(path):
    """The report in a folder, or in its report.json, and the folder; a StoreError for what no `reproduce` has written."""
    path = pathlib.Path(path)
    try:
        file = path / "report.json" if path.is_dir() else path
        if file.exists() and not file.is_file():
            raise OSError(0, "it is a device or a pipe")  # which would be waited for, or has no end
        with open(file, "rb") as stream:
            content = stream.read(LONGEST + 1)
        if len(content) > LONGEST:
            raise OSError(0, f"it has more than {LONGEST} bytes")
        report = json.loads(content)
        version = report["mixflow_report"]
    except OSError as error:
        raise mf.StoreError(
            f"cannot read {file}: {error.strerror}; give a folder that `mixflow reproduce` has written."
        ) from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise mf.StoreError(f"{file} is not a mixflow report; give report.json or the folder it is in.") from None
    if version != REPORT_VERSION:
        raise mf.StoreError(
            f"{file} has report version {version}, this mixflow reads {REPORT_VERSION}; make the report again with "
            "this version."
        )
    if wrong := malformed(report):
        raise mf.StoreError(f"{file} was not written by mixflow: {wrong}; make the report again.")
    if not report["experiments"]:
        raise mf.StoreError(f"{file} holds no experiment, so it shows nothing; run `mixflow reproduce` first.")
    return report, file.parent


SHAPE = {
    "name": str,
    "title": str,
    "question": str,
    "section": str,
    "command": str,
    "answer": str,
    "settings": dict,
    "reasons": dict,
    "seconds": (int, float),
    "checks": list,
    "ok": bool,
    "figures": list,
    "series": list,
    "models": list,
    "sources": list,
    "tables": list,
    "stages": dict,
    "files": dict,
}


def malformed(report):
    """What of a report's form is wrong, or None."""
    records = report.get("experiments")
    if not isinstance(records, list) or not isinstance(report.get("counts"), dict):
        return "it lacks experiments or counts"
    if report.get("settings") not in ("full", "quick"):
        return "it does not say whether it is quick or full"
    for record in records:
        if not isinstance(record, dict):
            return "an experiment is no record"
        for key, kind in SHAPE.items():
            if not isinstance(record.get(key), kind):
                return f"an experiment lacks {key}"
        if not all(isinstance(check, dict) and set(check) == CHECK for check in record["checks"]):
            return f"a check of {record['name']} has not the parts of a check"
    names = [record["name"] for record in records]
    return "an experiment is there twice" if len(set(names)) < len(names) else None


CHECK = {name for name in Check.__dataclass_fields__ if name != "facts"}


def one_name(text):
    """An experiment's name, or a Python file; a SpecError suggests the nearest."""
    if text not in NAMES and not text.endswith(".py"):
        names = f"{', '.join(NAMES)}, or a Python file with an EXPERIMENT"
        raise mf.SpecError(f"--only {text}: expected one of {names}{mf.checks.nearest(text, NAMES)}.")
    return text


class Watch:
    """Progress over all experiments on stderr: which one, how long still. Guesses start from each experiment's own estimate
    and are corrected by how fast the finished ones went."""

    def __init__(self, experiments, full, stream, at_a_time=1):
        self.guess = {each.name: each.seconds[1 if full else 0] for each in experiments}
        self.stream, self.total = stream, len(experiments)
        self.began = self.started = clock.perf_counter()
        self.done, self.number, self.now, self.last = 0.0, 0, None, 0.0
        self.live, self.at_a_time = stream.isatty(), at_a_time
        if at_a_time > 1:
            self.note(f"{self.total} experiments, {at_a_time} at a time: about {seconds(self.left())}")

    def begin(self, each):
        self.number, self.now, self.started = self.number + 1, each.name, clock.perf_counter()
        if not self.live:
            self.note(f"[{self.number}/{self.total}] {each.name}: about {seconds(self.left())} left")

    def __call__(self, done, total):
        """Called by training as it goes."""
        if self.live and clock.perf_counter() - self.last > 0.2 and self.now:
            self.last = clock.perf_counter()
            share = f"{100 * done / max(total, 1):3.0f} %"
            text = f"[{self.number}/{self.total}] {self.now}: {share} of a run, about {seconds(self.left())} left"
            self.stream.write(f"\r{text:<78}")
            self.stream.flush()

    def end(self, name, record):
        self.done += self.guess[name]
        self.now = None
        held = "all checks hold" if record["ok"] else "A CHECK FAILED"
        if self.at_a_time > 1:
            self.number += 1
        left = f", about {seconds(self.left())} left" if self.at_a_time > 1 and self.number < self.total else ""
        self.note(f"[{self.number}/{self.total}] {name}: {held}, {record['seconds']:.1f} s{left}")

    def left(self):
        """Seconds: what the estimates say is left, times how slow the machine has been so far."""
        elapsed = clock.perf_counter() - self.began
        inside = clock.perf_counter() - self.started if self.now else 0.0
        pace = (elapsed - inside) / self.done if self.done else 1.0 / self.at_a_time
        return max(pace * (sum(self.guess.values()) - self.done) - inside, 1.0)

    def note(self, text):
        """A whole line, over whatever was drawn."""
        self.stream.write(f"{chr(13) if self.live else ''}{text:<78}\n" if self.live else f"{text}\n")
        self.stream.flush()
