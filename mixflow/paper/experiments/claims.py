"""The claims that no other experiment of the report decides, each by runs of its own that can refute it."""

import math
from dataclasses import replace

import numpy as np

from ..check import shown
from ..figures.bars import plot_bars
from ..theory.claims import REGISTRY, Lab, evaluate
from ..theory.mechanism import compare
from .shape import Experiment, Picture, Results, Setting

ELSEWHERE = ("learned", "width", "mechanism", "every-K")  # in simultaneous, width and construction
CONFIG = {
    "claims": Setting([name for name in REGISTRY if name not in ELSEWHERE], "those no other experiment decides"),
    "seeds": Setting(16, "runs at finite width behind each interval", full=32),
    "width": Setting(256, "of those runs"),
    "steps": Setting(20_000, "as in the simultaneous experiment"),
}


def run(settings, progress):
    """Decide the claims one after the other; they share the runs they can."""
    import xarray

    lab = Lab(seeds=settings["seeds"], width=settings["width"], steps=settings["steps"])
    done = []

    def note(check):
        done.append(check)
        progress(len(done), len(settings["claims"]))

    checks = evaluate(lab, settings["claims"], note)
    table = xarray.Dataset(
        {
            "measured": ("claim", [math.nan if each.measured is None else float(each.measured) for each in checks]),
            "verdict": ("claim", np.array([each.verdict for each in checks])),
        },
        coords={"claim": [each.name for each in checks]},
    )
    return Results(series={"claims": table}, facts={"checks": checks, "routes": compare(lab.descent)["routes"]})


def verdict(results):
    """The claims, and beside those about single runs their mean over seeds."""
    found = []
    for each in results.facts["checks"]:
        # Below 1e-9 a number is made of rounding, and another machine finds another one.
        tiny = isinstance(each.measured, float) and abs(each.measured) < 1e-9
        found.append(replace(each, tolerance=1e6 if tiny else 1e-5))
        if "spread" in each.facts:
            says = f"{each.quantity.removesuffix(', in the flow')}, mean"
            mean = each.facts["mean_over_seeds"]
            found.append(shown(f"{each.name} seeds", says, mean, tolerance=1e-5, **each.facts["spread"]))
    return found


def answer(results):
    """How many hold, and which do not."""
    checks = results.facts["checks"]
    failed = [each.name for each in checks if not each.holds]
    by_name = {each.name: each for each in checks}
    first = by_name.get("neurons-first")
    lead = (
        f" It takes {first.measured:.1f} times as long until a score has moved by 1 as until half of the easy loss is gone."
        if first
        else ""
    )
    return (
        f"{len(checks) - len(failed)} of {len(checks)} hold" + (f"; not {', '.join(failed)}." if failed else ".") + lead
    )


def figures(results):
    """What carries the answer: the trained network with parts taken away."""
    by_name = {each.name: each for each in results.facts["checks"]}
    groups = {"without …": {name: one["smallest_margin"] for name, one in results.facts["routes"].items()}}
    labels = ["smallest y·F of the trained network"]
    if "second-head" in by_name and by_name["second-head"].facts.get("one head"):
        groups["trained with …"] = {name: one["accuracy"] for name, one in by_name["second-head"].facts.items()}
        labels.append("accuracy")
    text = "; ".join(f"{name}: {value:.2f}" for name, value in next(iter(groups.values())).items())
    return [
        Picture(
            "parts",
            "What carries the answer. Left: the smallest margin of the trained network with the scores or values of "
            "one route set "
            "to 0; either route alone suffices, the identifier as key carries more. Right: networks trained from the "
            "start with "
            "one head, one attention or tied values.",
            f"Horizontal bars of the smallest margin with one part left out: {text}; and of the accuracy of changed "
            "networks.",
            plot_bars(groups, xlabels=labels),
        )
    ]


EXPERIMENT = Experiment(
    name="claims",
    title="The claims, one by one",
    question="Which statements of the paper, and which beyond it, does the exact dynamics confirm?",
    section="§5 to §9",
    config=CONFIG,
    run=run,
    verdict=verdict,
    figures=figures,
    answer=answer,
    seconds=(20.0, 90.0),
)
