"""`mixflow verify`: run again what a report contains and compare number by number."""

import json
import sys

from .common import DONE, FAILED, JSON

SUMMARY = "Run again what a report contains and compare number by number."
EXAMPLE = "mixflow verify results"


def flags():
    return [
        (["report"], {"metavar": "REPORT", "help": "a report's folder, or its report.json"}),
        (["--only"], {"action": "append", "metavar": "NAME", "help": "only this experiment (repeatable)"}),
        *JSON,
    ]


def run(options):
    from ..extras import needs

    needs("report")
    from ..paper.report.reproduce import one_name
    from ..paper.report.verify import verify
    from ..paper.report.words import comparison

    only = [one_name(name) for name in options.only or ()]
    rows = verify(options.report, only=only, note=lambda text: print(text, file=sys.stderr))
    agrees = all(row["agrees"] for row in rows)
    print(json.dumps({"agrees": agrees, "rows": rows}, allow_nan=False) if options.json else comparison(rows))
    return DONE if agrees else FAILED
