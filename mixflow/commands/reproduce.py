"""`mixflow reproduce`: run the paper's experiments and write a report: figures, numbers, verdicts, trained models."""

import json

from .common import DONE, FAILED, JSON

SUMMARY = "Run the paper's experiments and write a report: figures, numbers, verdicts, trained models."
EXAMPLE = "mixflow reproduce --out results"


def flags():
    return [
        (["--full"], {"action": "store_true", "help": f"more seeds and longer runs, and {_optional()} too"}),
        (
            ["--only"],
            {
                "action": "append",
                "metavar": "NAME",
                "help": f"run only this experiment (repeatable): {_experiments()}, or a Python file "
                f"with an EXPERIMENT; {_optional()} run only so, or with --full",
            },
        ),
        (
            ["--mnist"],
            {"metavar": "DIR", "help": "folder with the official MNIST files (default: the embedded subset)"},
        ),
        (["--out"], {"metavar": "DIR", "default": "results", "help": "folder of the report"}),
        (
            ["--workers"],
            {
                "metavar": "N",
                "type": int,
                "help": "experiments at a time (default: one for each core, if that is worth it)",
            },
        ),
        *JSON,
    ]


def run(options):
    from ..extras import needs

    needs("report")
    from ..ctrl_c import work_begins
    from ..paper.report.reproduce import one_name, reproduce
    from ..paper.report.words import outcome

    changed = {"mnist": {"source": options.mnist}} if options.mnist else {}
    only = [one_name(name) for name in options.only or ()]
    work_begins()  # finished experiments are kept
    report = reproduce(options.out, only=only, full=options.full, changed=changed, workers=options.workers)
    print(json.dumps(report, allow_nan=False) if options.json else outcome(report, options.out))
    return DONE if report["ok"] else FAILED


def _experiments():
    from ..paper.experiments import NAMES

    return ", ".join(NAMES)


def _optional():
    from ..paper.experiments import OPTIONAL

    return ", ".join(OPTIONAL)
