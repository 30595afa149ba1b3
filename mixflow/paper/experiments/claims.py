"""Every claim of the paper, and a few beyond it, decided by an experiment that can fail."""

import math

import numpy as np

from ..figures.claims import plot_claims
from ..theory.claims import REGISTRY, Lab, evaluate
from .shape import Check, Experiment, Picture, Results, Setting

CONFIG = {
    "claims": Setting(list(REGISTRY), "all of them"),
    "seeds": Setting(6, "runs at finite width behind each interval", full=16),
    "width": Setting(256, "of those runs"),
    "steps": Setting(20_000, "as in the simultaneous experiment"),
}


def run(settings, progress):
    """Decide the claims one after the other; they share the runs they can."""
    import xarray

    lab = Lab(seeds=settings["seeds"], width=settings["width"], steps=settings["steps"])
    done = []

    def note(finding):
        done.append(finding)
        progress(len(done), len(settings["claims"]))

    findings = evaluate(lab, settings["claims"], note)
    number = lambda x: math.nan if x is None else float(x)  # noqa: E731
    table = xarray.Dataset(
        {part: ("claim", [number(getattr(each, part)) for each in findings]) for part in ("measured", "low", "high")}
        | {"verdict": ("claim", np.array([each.verdict for each in findings]))},
        coords={"claim": [each.name for each in findings]},
    )
    return Results(series={"claims": table}, facts={"findings": findings})


def verdict(results):
    """One check for each claim; a claim that does not apply to this setting is shown without a verdict."""
    checks = []
    for each in results.facts["findings"]:
        ok = {"holds": True, "fails": False}.get(each.verdict)
        measured = math.nan if each.measured is None else float(each.measured)
        says = f"{each.sentence.rstrip('.')}: {each.quantity}" if each.quantity else each.sentence
        # Below this a number is made of rounding, and another machine finds another one.
        tolerance = 1e6 if abs(measured) < 1e-9 else 1e-5
        checks.append(Check(each.name, says, measured, each.prediction, ok, each.low, each.high, tolerance))
    return checks


def figures(results):
    """The claims at a glance."""
    findings = results.facts["findings"]
    held = sum(each.verdict == "holds" for each in findings)
    return [
        Picture(
            "verdicts",
            "Every claim with its verdict; the numbers are in the table below.",
            f"A list of {len(findings)} claims with a mark for each: {held} hold"
            + "".join(f"; {each.name} {each.verdict}" for each in findings if each.verdict != "holds")
            + ".",
            plot_claims([(each.name, each.verdict) for each in findings]),
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
    seconds=(40.0, 90.0),
)
