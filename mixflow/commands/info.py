"""`mixflow info`: show what a run file contains and where it came from."""

from .common import DONE, run_flags, show

SUMMARY = "Show what a run file contains and where it came from."
EXAMPLE = "mixflow info run.nc"


def flags():
    return run_flags()


def run(options):
    from .. import load

    show(load(options.run), options.json, provenance=True)
    return DONE
