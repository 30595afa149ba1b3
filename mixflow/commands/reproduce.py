"""`mixflow reproduce`: run the paper's experiments and write a report: figures, numbers, verdicts, trained models."""

import json

from .common import DONE, FAILED, JSON

SUMMARY = "Run the paper's experiments and write a report: figures, numbers, verdicts, trained models."
EXAMPLE = "mixflow reproduce --out results"


def flags():
    return [
        (["--full"], {"action": "store_true", "help": "more seeds and longer runs"}),
        (
            ["--only"],
            {"action": "append", "metavar": "NAME", "help": f"run only this experiment (repeatable): {_experiments()}"},
        ),
        (["--out"], {"metavar": "DIR", "default": "results", "help": "folder of the report"}),
        *JSON,
    ]


def run(options):
    from ..report.reproduce import one_name, reproduce
    from ..report.words import outcome

    report = reproduce(options.out, only=[one_name(name) for name in options.only or ()], full=options.full)
    print(json.dumps(report, allow_nan=False) if options.json else outcome(report, options.out))
    return DONE if report["ok"] else FAILED


def _experiments():
    from ..experiments import NAMES

    return ", ".join(NAMES)
