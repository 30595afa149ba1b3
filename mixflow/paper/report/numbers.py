"""The stored record of numbers that the handbook quotes: collected from the files of long runs, one JSON file for all.

python -m mixflow.paper.report.numbers FOLDER … --out docs/numbers.json

takes from each folder what is there: records/ of `mixflow reproduce`, claims.json of `mixflow claims --json`, findings.txt of
`claims_findings`, learning_time.json, critical.json, stability.json and proofs.json of the scripts of these names. What no
folder has stays as it was. `tests/test_numbers.py` compares the pages with the record.
"""

import argparse
import json
import pathlib

import mixflow as mf

from ..files import dump, write


def from_records(folder):
    """{experiment: settings, {check: measured, low, high}, {table: rows}} of the finished experiments of a report."""
    found = {}
    for path in sorted(folder.glob("*.json")):
        record = json.loads(path.read_text())
        checks = {c["name"]: [c["measured"], c["low"], c["high"]] for c in record["checks"]}
        tables = {"tables": {table["name"]: table["rows"] for table in record["tables"]}} if record["tables"] else {}
        found[record["name"]] = {"settings": record["settings"], "checks": checks, **tables}
    return found


def from_claims(claims):
    """{claim: measured, low, high and facts}"""
    return {one["name"]: {key: one[key] for key in ("measured", "low", "high", "facts")} for one in claims["claims"]}


def from_stability(results):
    """For each K and symmetry type the growth at the end: linearised, of the worst start, and of the seeds at each width."""
    found = []
    for result in results:
        for kind, one in result["linear"].items():
            row = {"classes": result["classes"], "until": result["until"], "type": kind}
            row |= {"linear": one["growth"][-1], "worst": one["most"][-1], "coupling": one["coupling"]}
            if kind in result.get("agreement", {}):
                row["two flows"] = max(result["agreement"][kind]["difference"])
            for width, seeds in result["seeds"].items():
                if kind in seeds:
                    row[f"width {width}"] = mf.measure.mean_interval([path[-1] for path in seeds[kind]])
            found.append(row)
    return found


def from_learning_time(result):
    """As it is, without the certificates' counts."""
    points = [{key: p[key] for key in ("classes", "time")} for p in result["points"]]
    phases = [{key: p[key] for key in ("classes", "omega", "bias", "story", "time", "loss")} for p in result["phases"]]
    worst = [max(map(abs, fit["residual"])) for fit in result["laws"]]
    laws = [
        [fit["least"], fit["exponent"], fit["low"], fit["high"], far]
        for fit, far in zip(result["laws"], worst, strict=True)
    ]
    over = [[p["classes"], p["time"] / p["classes"] ** 4] for p in points]
    return {
        "points": points,
        "laws": laws,
        "local_exponents": result["local_exponents"],
        "over K^4": over,
        "phases": phases,
    }


READERS = {
    "claims": from_claims,
    "learning_time": from_learning_time,
    "critical": list,
    "stability": from_stability,
    "proofs": dict,
}


def collect(folders):
    """The record, from what the folders hold."""
    record = {}
    for folder in map(pathlib.Path, folders):
        for name, read in READERS.items():
            path = folder / f"{name}.json"
            if path.is_file():
                found = read(json.loads(path.read_text()))
                record[name] = record[name] + found if isinstance(record.get(name), list) else found
        record.setdefault("report", {}).update(from_records(folder / "records"))
        if (folder / "findings.txt").is_file():
            for line in (folder / "findings.txt").read_text().splitlines():
                name, result = line.split(" ", 1)
                record.setdefault("findings", {}).setdefault(name, []).append(json.loads(result))
    return record


def leaves(value):
    """Every number of a record."""
    if isinstance(value, dict):
        value = [*value.values(), *(float(key) for key in value if str(key).replace(".", "", 1).isdigit())]
    if isinstance(value, (list, tuple)):
        for each in value:
            yield from leaves(each)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield float(value)


def main(arguments=None):
    """Collect and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", metavar="FOLDER")
    parser.add_argument("--out", default="docs/numbers.json")
    options = parser.parse_args(arguments)
    kept = pathlib.Path(options.out)
    before = json.loads(kept.read_text()) if kept.is_file() else {}
    found = collect(options.folders)
    entries = {name: {**before.get(name, {}), **found.get(name, {})} for name in ("report", "findings")}
    record = {**before, **found, **entries}
    write(options.out, dump(record))
    print(f"written: {options.out}, {sum(1 for _ in leaves(record))} numbers from {', '.join(record)}")


if __name__ == "__main__":
    main()
