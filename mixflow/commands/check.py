"""`mixflow check`: decide the claims that apply to a run file."""

from .common import print_verdicts, run_flags

SUMMARY = "Decide the claims that apply to a run file."
EXAMPLE = "mixflow check run.nc"


def flags():
    return run_flags()


def run(options):
    from .. import load
    from ..paper.theory.run_claims import check
    from ..runs.files import believed

    with believed(options.run):
        checks = check(load(options.run))
    return print_verdicts(lambda report: [report(each) or each for each in checks], options.json)
