"""`mixflow info`: show what a run file contains and where it came from."""

from .common import DONE, believed, run_flags, show

SUMMARY = "Show what a run file contains and where it came from."
EXAMPLE = "mixflow info run.nc"


def flags():
    return run_flags()


def run(options):
    from .. import load

    with believed(options.run):
        show(load(options.run), options.json, provenance=True)
    return DONE
