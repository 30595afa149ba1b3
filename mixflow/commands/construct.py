"""`mixflow construct`: write down a transformer for any number of classes, with a certified margin."""

import json

from .common import DONE, JSON

SUMMARY = "Write down a transformer for any number of classes, with a certified margin."
EXAMPLE = "mixflow construct --classes 5 --target-margin 2"


def flags():
    scale = {"type": float, "metavar": "X"}
    return [
        (["--classes"], {"type": int, "default": 2, "metavar": "K", "help": "number of mixtures"}),
        (
            ["--target-margin"],
            {**scale, "help": "the margin wanted on every sample (default: 1 unless --beta is given)"},
        ),
        (["--width"], {"type": int, "metavar": "M", "help": "width m of W_K and W_Q, at least K (default: K)"}),
        (["--beta"], {**scale, "help": "value β of the identifiers"}),
        (["--B"], {**scale, "help": "score B of the own signal (default: 2C)"}),
        (["--C"], {**scale, "help": "score C of the identifier for itself (default: log K + 3)"}),
        (["--bias"], {"type": float, "default": 0.5, "help": "bias b of the neurons"}),
        *JSON,
    ]


def run(options):
    from ..paper.theory.mechanism import construction_facts, construction_table

    names = ("classes", "target_margin", "width", "beta", "B", "C", "bias")
    facts = construction_facts({name: getattr(options, name) for name in names})
    print(json.dumps(facts, allow_nan=False) if options.json else construction_table(facts))
    return DONE
