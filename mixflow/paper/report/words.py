"""What the terminal says after reproduce and verify."""

import pathlib

from ..check import JUDGED
from .render import number


def outcome(report, folder):
    """The stage table of the paper's run, a line for each experiment with its answer, what failed, and where the report is."""
    lines = []
    for record in report["experiments"]:
        for run, stages in record["stages"].items():
            if record["name"] == "simultaneous":
                lines += [f"simultaneous training, {run}:", *_stages(stages), ""]
    lines.append(f"{'experiment':14} {'checks':>9} {'time':>8}   answer")
    for record in report["experiments"]:
        judged = [check["ok"] for check in record["checks"] if check["ok"] is not None]
        held = f"{sum(judged)} of {len(judged)}"
        lines.append(f"{record['name']:14} {held:>9} {record['seconds']:6.1f} s   {record['answer']}")
    for record in report["experiments"]:
        for check in record["checks"]:
            if check["ok"] is False:
                found = f"predicted {check['predicted']}, measured {number(check['measured'])}"
                lines.append(f"FAILED  {record['name']}: {check['sentence']}; {found} ({check['kind']})")
    held = ", ".join(f"{kind} {report['counts'][kind][0]} of {report['counts'][kind][1]}" for kind in JUDGED)
    stored, total = report["counts"]["regression"]
    verdict = "all hold" if report["ok"] else "NOT all hold"
    lines += ["", f"{held}; {stored} of {total} numbers as stored before: {verdict}, {report['seconds']:.0f} s in all"]
    lines.append(f"report: {pathlib.Path(folder) / 'report.html'}")
    return "\n".join(lines)


def _stages(stages):
    rows = [f"{'stage':12} {'start':>10} {'end':>10}   evidence"]
    for stage in stages:
        start, end = ("–" if x is None else f"{x:.4g}" for x in (stage["start"], stage["end"]))
        rows.append(f"{stage['name']:12} {start:>10} {end:>10}   {stage['because']}")
    return rows


def comparison(rows):
    """A line for each number of a report: what it says, what came out again, whether they agree."""
    lines = [f"{'':9} {'experiment':14} {'report':>18} {'again':>18} {'tolerance':>10}   number"]
    for row in rows:
        mark = "agrees" if row["agrees"] else "DIFFERS"
        old, new = (_cut(number(row[side])) for side in ("report", "again"))
        lines.append(f"{mark:9} {row['experiment']:14} {old:>18} {new:>18} {row['tolerance']:10.0e}   {row['what']}")
    bad = sum(not row["agrees"] for row in rows)
    alone = "(date, commit, versions, machine and times are told by the report alone)"
    agree = f"all {len(rows)} agree within their tolerances {alone}"
    said = f"{bad} of {len(rows)} DO NOT agree" if bad else agree
    return "\n".join([*lines, "", said])


def _cut(text):
    return text if len(text) <= 18 else text[:17] + "…"
