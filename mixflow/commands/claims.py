"""`mixflow claims`: decide every claim by its own experiment (about a minute)."""

from .common import JSON, print_verdicts

SUMMARY = "Decide every claim by its own experiment (about a minute)."
EXAMPLE = "mixflow claims neurons-first width"


def flags():
    return [
        (["names"], {"nargs": "*", "metavar": "CLAIM", "help": "only these claims (default: all)"}),
        (["--seeds"], {"type": int, "default": 16, "help": "runs at finite width behind each interval"}),
        *JSON,
    ]


def run(options):
    from ..checks import one_of, whole
    from ..paper.theory.claims import REGISTRY, Lab, evaluate

    lab = Lab(seeds=whole("seeds", options.seeds, least=2))
    names = [one_of("claim", name, tuple(REGISTRY)) for name in options.names] or None
    return print_verdicts(lambda report: evaluate(lab, names, report), options.json)
