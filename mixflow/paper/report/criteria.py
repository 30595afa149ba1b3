"""The criterion of every judged row, written down before the run, in one file: kind, prediction, why, whether after data.

python -m mixflow.paper.report.criteria FOLDER      writes criteria.json from a report of quick settings, for runs to come
"""

import json
import pathlib
import sys

from ..files import dump, write

FILE = pathlib.Path(__file__).with_name("criteria.json")
PARTS = ("kind", "predicted", "because", "after")


def criteria(records):
    """{experiment: {check: its parts}} of the checks that can fail."""
    return {
        record["name"]: {c["name"]: [c[part] for part in PARTS] for c in record["checks"] if c["kind"] != "shown"}
        for record in records
    }


def moved(records):
    """The judged rows of these records whose criterion is not the one written down, as "experiment: check"."""
    kept, found = json.loads(FILE.read_text()), criteria(records)
    rows = [(name, check) for name in found if name in kept for check in found[name] | kept[name]]
    changed = [f"{name}: {check}" for name, check in rows if found[name].get(check) != kept[name].get(check)]
    return changed + [f"those of {name}" for name in found if name not in kept]


if __name__ == "__main__":
    report = json.loads((pathlib.Path(sys.argv[1]) / "report.json").read_text())
    write(FILE, dump(criteria(report["experiments"])))
