"""What several commands share: exit codes, flags, the parsing of values, printing."""

import contextlib
import json
import sys

DONE, FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130

JSON = [(["--json"], {"action": "store_true", "help": "print one JSON object instead of a table"})]


def say(text):
    """A line on stderr; where nobody can read it, that is no reason to fail."""
    with contextlib.suppress(OSError, ValueError):
        print(text, file=sys.stderr, flush=True)


def check_writable(path, suffixes=None):
    """Refuse an impossible output before hours of work, not after."""
    import os

    from ..errors import StoreError
    from ..sealed import writable

    if path is None:
        return
    path = writable(path)
    folder = path.parent
    if suffixes and path.suffix not in suffixes:
        raise StoreError(f"cannot write {path}: its name must end in {', '.join(suffixes)}.")
    if not folder.is_dir():
        raise StoreError(f"cannot write {path}: the folder {folder} does not exist; make it first.")
    if not os.access(folder, os.W_OK):
        raise StoreError(f"cannot write {path}: no permission in {folder}; choose another place.")


def show(run, as_json, provenance=False):
    from ..summary import summary, table

    print(
        json.dumps(summary(run, provenance=provenance), allow_nan=False)
        if as_json
        else table(run, provenance=provenance)
    )


def run_flags():
    return [(["run"], {"metavar": "RUN", "help": "a run file"}), *JSON]


def print_verdicts(evaluate, as_json):
    """Print findings as they come (or one JSON object at the end) and turn them into an exit code."""
    import time

    began = time.perf_counter()
    findings = evaluate(
        (lambda finding: print(f"{finding.name}: {finding.verdict}", file=sys.stderr)) if as_json else print
    )
    failed = [finding.name for finding in findings if finding.verdict == "fails"]
    if as_json:
        facts = {"claims": [finding.to_dict() for finding in findings], "failed": failed}
        print(json.dumps({**facts, "seconds": time.perf_counter() - began}, allow_nan=False))
    else:
        print(
            f"\n{sum(f.holds for f in findings)} hold, {len(failed)} fail{': ' + ', '.join(failed) if failed else ''}"
        )
    return FAILED if failed else DONE
