"""What several commands share: exit codes, flags, the parsing of values, printing."""

import contextlib
import json
import sys
import warnings

DONE, FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130

JSON = [(["--json"], {"action": "store_true", "help": "print one JSON object instead of a table"})]


def say(text):
    """A line on stderr; where nobody can read it, that is no reason to fail."""
    with contextlib.suppress(OSError, ValueError):
        print(text, file=sys.stderr, flush=True)


@contextlib.contextmanager
def notes():
    """Warnings of the library as lines on stderr, without the place in its code."""

    def show(message, *_):
        say(f"note: {message}")

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        yield


def check_writable(path, suffixes=None):
    """Refuse an impossible output before hours of work, not after."""
    import os

    from ..errors import StoreError
    from ..sealed import said, writable

    if path is None:
        return
    path = writable(path)
    folder = path.parent
    if suffixes and path.suffix not in suffixes:
        raise StoreError(f"cannot write {said(path)}: its name must end in {', '.join(suffixes)}.")
    if not folder.is_dir():
        raise StoreError(f"cannot write {said(path)}: the folder {said(folder)} does not exist; make it first.")
    if not os.access(folder, os.W_OK):
        raise StoreError(f"cannot write {said(path)}: no permission in {said(folder)}; choose another place.")


def keep(save, path, what, suffix):
    """Call save(path) for `what`; where that fails after all, in the folder for temporary files, and a StoreError says where.

    suffix  of the file there, ".nc" for example
    """
    import os
    import secrets
    import tempfile

    from ..errors import StoreError

    try:
        save(path)
    except StoreError as error:
        try:
            instead = os.path.join(tempfile.gettempdir(), f"mixflow-{secrets.token_hex(4)}{suffix}")
            save(instead)
        except OSError:  # a StoreError, or there is no such folder
            raise error from None
        why = str(error).partition(";")[0]
        raise StoreError(f"{why}; {what} is kept as {instead} instead, move it from there.") from None


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
    """Print checks as they come (or one JSON object at the end) and turn them into an exit code."""
    import time

    began = time.perf_counter()
    checks = evaluate((lambda check: print(f"{check.name}: {check.verdict}", file=sys.stderr)) if as_json else print)
    failed = [check.name for check in checks if check.verdict == "fails"]
    if as_json:
        facts = {"claims": [check.to_dict() for check in checks], "failed": failed}
        print(json.dumps({**facts, "seconds": time.perf_counter() - began}, allow_nan=False))
    else:
        print(f"\n{sum(c.holds for c in checks)} hold, {len(failed)} fail{': ' + ', '.join(failed) if failed else ''}")
    return FAILED if failed else DONE
