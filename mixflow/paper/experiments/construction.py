"""The closed-form transformer beside a trained one: does two heads suffice for every K, and did training find the same signs?"""

import math

import numpy as np

import mixflow as mf

from ..check import between, equal, near, shown, stored, theory
from ..figures.slope import plot_curves
from ..theory.mechanism import compare
from .shape import Experiment, Picture, Results, Setting

CONFIG = {
    "classes": Setting([2, 3, 5, 8, 12], "every one of the K·2^K samples, one by one", full=[2, 3, 4, 5, 6, 8, 10, 12]),
    "many_classes": Setting([100, 1000], "too many samples to list: evaluated by type, which covers every sample"),
    "target_margin": Setting(1.0, "any positive number; 1 makes relative and absolute errors the same"),
    "scores": Setting([0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0], "values of C, with B = 2C, for the figure"),
    "steps": Setting(20_000, "the trained network is that of the simultaneous experiment"),
}


def run(settings, progress):
    """Evaluate the construction sample by sample, and train a network to compare it with."""
    import xarray

    K_all = [*settings["classes"], *settings["many_classes"]]
    nets = [mf.construct(classes=K, target_margin=settings["target_margin"]) for K in K_all]
    found = [net.evaluate() for net in nets]
    errors = [float(np.abs(each.margin - net.margin).max()) for each, net in zip(found, nets)]
    summary = xarray.Dataset(
        {
            "error": ("classes", errors, {"long_name": "largest difference of a sample's margin from the formula"}),
            "accuracy": (
                "classes",
                [each.accuracy for each in found],
                {"long_name": "share of samples classified rightly"},
            ),
            "samples": (
                "classes",
                [float(K) * 2.0**K if K < 1000 else math.inf for K in K_all],
                {"long_name": "K·2^K"},
            ),
        },
        coords={"classes": K_all},
    )
    C = settings["scores"]
    reach = [[mf.construct(classes=K, beta=K + 1.0, B=2 * c, C=c).margin for c in C] for K in settings["classes"]]
    curves = xarray.Dataset(
        {
            "margin": (
                ("C", "classes"),
                np.array(reach).T,
                {"long_name": "certified margin as a share of the largest, β/L"},
            )
        },
        coords={"C": C, "classes": settings["classes"]},
    )
    trained = mf.train(
        mf.Mixture(2),
        mf.Transformer(omega=0.3, bias=0.5),
        mf.GradientDescent(0.1, settings["steps"], 10),
        progress=progress,
    )
    return Results(
        runs={"trained": trained},
        series={"construction": summary, "margin": curves},
        facts={"mechanism": compare(trained), "settings": settings},
    )


def verdict(results):
    """The formula on every sample, and the signs of the trained network."""
    summary, found = results.series["construction"], results.facts["mechanism"]
    formula = theory("the closed form of docs/mathematics.md §9; tolerance: rounding")
    checks = []
    for K in summary.classes.values:
        one = summary.sel(classes=K)
        says = f"K = {K}: largest difference of any sample's margin from the formula"
        # Rounding decides this number, so another machine finds another one: only its size is compared.
        checks.append(between(f"formula {K}", says, one.error, None, 1e-12, tolerance=1e6, **formula))
        says = f"K = {K}: share of samples classified rightly"
        checks.append(near(f"accuracy {K}", says, one.accuracy, 1.0, 1e-9, **formula))
    for name, (sign, value) in found["signs"].items():
        text, wanted = ("positive" if x > 0 else "negative" for x in (value, sign))
        known = stored(
            "the closed form's sign; that training finds it was seen before (docs/mathematics.md §9)", after=True
        )
        checks.append(equal(f"sign {name}", f"trained network, {name}: sign", text, wanted, **known))
    for name in ("w", "A"):
        says = f"trained network: share of ‖{name}‖ that no closed form explains"
        checks.append(shown(f"distance {name}", says, found["distance"][name]))
    for name, facts in found["routes"].items():
        says = f"trained network{'' if name == 'nothing' else f' without {name}'}: share of samples right"
        checks.append(shown(f"without {name}", says, facts["accuracy"]))
    return checks


def answer(results):
    """The largest error of the formula, and what training shares with it."""
    summary, found = results.series["construction"], results.facts["mechanism"]
    return (
        f"Two heads are enough for every K tried up to {int(summary.classes[-1])}: the margin is the same on every "
        "sample, as the formula "
        f"says (largest difference {float(summary.error.max()):.0e}). Training finds its signs and a second route "
        "besides: "
        f"{found['distance']['A']:.0%} of ‖A‖ lies outside the closed form."
    )


def figures(results):
    """Scores of the construction and of the trained network; the margin as the scores grow."""
    trained = results.runs["trained"]
    data = trained.dataset.isel(time=-1).sel(head="+")
    net = mf.construct(classes=2, B=4.0, C=4.0, beta=1.0)
    matrices = {"closed form (B = C = 4)": net.A[0], "trained, t = 2000": data.A.values}
    curves = results.series["margin"]
    lines = {f"K = {K}": (curves.C.values, curves.margin.sel(classes=K).values) for K in curves.classes.values}
    return [
        Picture(
            "scores",
            "Attention scores of head +, key by query. The closed form uses the identifier as a query only; the "
            "trained "
            "network has the same signs there and a second route besides, the identifier as a key.",
            "Two 4 by 4 tables of attention scores. The closed form has positive entries where an identifier meets "
            "itself and "
            "negative ones where it asks its own signal. The trained network shares these signs and has further large "
            "entries in the rows of the identifiers: positive for their own signal, negative for the other.",
            mf.plot.plot_scores(matrices, list(data.key.values)),
        ),
        Picture(
            "margin",
            "The certified margin of the closed form, the same on every sample, as a share of the largest possible, "
            "β/L; B = 2C.",
            "Curves of the margin against the score C, each rising to 1; more classes need larger scores.",
            plot_curves(lines, xlabel="score C", ylabel="margin / (β/L)"),
        ),
    ]


EXPERIMENT = Experiment(
    name="construction",
    title="A transformer in closed form, for any number of classes",
    question="Are two heads enough for every K, and does training find what one would write down?",
    section="§9, A transformer in closed form",
    config=CONFIG,
    run=run,
    verdict=verdict,
    figures=figures,
    answer=answer,
    seconds=(2.0, 8.0),
)
