"""More classes: the same stages at K = 3 and K = 4, how long learning takes as K grows, whether the classes stay equal."""

import math
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np

import mixflow as mf

from ..batch import train_batch
from ..check import between, equal, near, over_seeds, paper, shown, stored, theory
from ..figures.slope import plot_slopes
from ..figures.stability import plot_stability
from ..reaching import reaches
from .claims_stability import growth as perturbed
from .curves import ORDER, curves, in_order, right
from .learning_time import LEARNED, agreement, point
from .shape import Experiment, Picture, Results, Setting

# docs/mathematics.md §3 and §4, from a program that shares nothing with this one: the loss after 39,999 steps, and the time
# at which it falls to 0.1: of the flow, and of descent at rate 0.1, which at K = 5 takes another branch.
LOSS = {3: 0.0035345922, 4: 0.0076419268}
FLOW = {2: 246.2384, 3: 734.637, 5: 2144.34, 10: 2.052e4, 20: 1.812e5}
DESCENT = {2: 246.4, 5: 3134.4}

CONFIG = {
    "learning_rate": Setting(0.1, "the paper's"),
    "omega": Setting(0.3, "as in the simultaneous experiment"),
    "bias": Setting(0.5, "as in the simultaneous experiment"),
    "steps": Setting(39_999, "enough for descent at K = 5"),
    "descent": Setting([2, 3, 4, 5], "the paper's two and three, and where descent at rate 0.1 leaves the flow"),
    "classes": Setting(
        [2, 3, 4, 5, 6, 8, 10, 14, 20],
        "learning times by flow, each with its certificate; 22 numbers for every K",
        full=[2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 17, 20, 24, 28, 34, 40],
    ),
    "gram": Setting([2, 3], "where the model of all entries is compared with the 22 numbers"),
    "width": Setting(256, "finite transformers with three classes, whose seeds give the interval"),
    "seeds": Setting(16, "the least for which an interval is shown", full=32),
    "stability": Setting(
        [2, 3], "perturbations linearised by symmetry type; larger K take minutes", full=[2, 3, 4, 5, 6]
    ),
    "stability_width": Setting(4096, "finite transformers beside them; K = 4 leaves the linear theory below 2^17"),
}


def _learning_times(classes, common, progress):
    """`point` of every K, two at a time: while one flow is being compiled, the interpreter is free for another."""
    points, pool = [], ThreadPoolExecutor(2)
    try:
        for found in pool.map(partial(point, **common), classes):
            points.append(found)
            progress(len(points), len(classes))
    finally:
        pool.shutdown(cancel_futures=True)  # after Ctrl-C, only what is under way is waited for
    return points


def run(settings, progress):
    """Learning times by flow for every K, descent for small K, several finite networks for K = 3."""
    import xarray

    common = {"omega": settings["omega"], "bias": settings["bias"]}
    method = mf.GradientDescent(settings["learning_rate"], settings["steps"], save_every=20)
    runs = {K: mf.train(mf.Mixture(K), mf.Transformer(**common), method) for K in settings["descent"]}
    points = _learning_times(settings["classes"], common, progress)
    descent = {K: reaches(each.dataset.time.values, each.dataset.loss.values, LEARNED) for K, each in runs.items()}
    growth = xarray.Dataset(
        {
            "flow": (
                "classes",
                [p["time"] for p in points],
                {"long_name": "time at which the flow's loss falls to 0.1"},
            ),
            "error": (
                "classes",
                [p["certificate"]["relative_difference"] for p in points],
                {"long_name": "its certificate"},
            ),
            "descent": (
                "classes",
                [descent.get(p["classes"]) or math.nan for p in points],
                {"long_name": "the same time of descent at rate 0.1"},
            ),
        },
        coords={"classes": settings["classes"]},
    )
    times = dict(zip(settings["classes"], growth.flow.values.tolist(), strict=True))
    finite = [mf.Transformer(width=settings["width"], seed=seed, **common) for seed in range(settings["seeds"])]
    rare = mf.GradientDescent(settings["learning_rate"], settings["steps"], save_every=settings["steps"])
    many = train_batch(mf.Mixture(3), finite, rare, progress=progress)
    stability = [
        perturbed(K, network=mf.Transformer(**common), points=100, widths=[settings["stability_width"]], seeds=16)
        for K in settings["stability"]
    ]
    return Results(
        runs={f"K{K}": runs[K] for K in (3, 4)},
        series={
            **{f"K{K}": curves(runs[K]) for K in (3, 4)},
            "growth": growth,
            **{f"stability-K{one['classes']}": _by_type(one) for one in stability},
        },
        facts={
            "columns": {f"K = {K}": runs[K] for K in (3, 4)},
            "stability": stability,
            "gram": {K: agreement(K, times[K], **common) for K in settings["gram"]},
            "loss": many.loss[:, -1].values,
            "accuracy": many.accuracy[:, -1].values,
            "settings": settings,
        },
    )


def _by_type(result):
    """The linearised growth of one K as a dataset."""
    import xarray

    linear = result["linear"]
    growth = np.array([one["growth"] for one in linear.values()]).T
    return xarray.Dataset(
        {"growth": (("time", "type"), growth, {"long_name": "asymmetry / its start"})},
        coords={"time": result["time"], "type": list(linear)},
    )


def exponents(growth):
    """d log T / d log K between neighbouring K: (K, exponent) pairs."""
    K, T = growth.classes.values, growth.flow.values
    return list(zip(np.sqrt(K[1:] * K[:-1]), np.diff(np.log(T)) / np.diff(np.log(K)), strict=True))


def verdict(results):
    """Stages and losses for K = 3 and 4, learning times of the flow with certificates, classes that stay equal."""
    settings = results.facts["settings"]
    independent = "from a program that shares nothing with this one, docs/mathematics.md §3, §4; the digits stored"
    learned = paper("K = 3 is learned in the paper's experiments; its analysis is for K = 2")
    checks = []
    for K, loss in LOSS.items():
        run = results.runs[f"K{K}"]
        end = run.dataset.isel(time=-1)
        basis = learned if K == 3 else stored("seen before")
        says = f"K = {K}: three stages, one after the other"
        checks.append(equal(f"order {K}", says, in_order(run.stages), ", ".join(ORDER), **basis))
        says = f"K = {K}: every sample is right at the end"
        checks.append(equal(f"accuracy {K}", says, f"{float(end.accuracy):g}", 1, **basis))
        says = f"K = {K}: loss after 39,999 steps"
        checks.append(near(f"loss {K}", says, end.loss, loss, 1e-6, relative=True, **stored(independent)))
    checks += _times(results, independent)
    where = f"seeds at width {settings['width']}"
    mean, spread = over_seeds(results.facts["loss"], where)
    checks.append(shown("seeds loss", "K = 3: loss at the end, mean", mean, **spread))
    says = f"K = 3: {where} that end with every sample right"
    checks.append(equal("seeds", says, right(results.facts["accuracy"]), settings["seeds"], **learned))
    return checks + [_as_linear(one, settings["stability_width"]) for one in results.facts["stability"]]


def _times(results, independent):
    """Learning times: of the flow with its certificate, of descent beside it, and how they grow with K."""
    growth, rate = results.series["growth"], results.facts["settings"]["learning_rate"]
    checks = []
    for K in growth.classes.values.tolist():
        one, says = growth.sel(classes=K), f"K = {K}: the flow's loss falls to 0.1 at t"
        if K in FLOW:
            checks.append(near(f"flow {K}", says, one.flow, FLOW[K], 1e-3, relative=True, **stored(independent)))
        else:
            checks.append(shown(f"flow {K}", says, one.flow))
        if math.isfinite(one.descent) and K in DESCENT:
            branch = "; another branch than the flow's" if K == 5 else ""
            says = f"K = {K}: descent at rate {rate:g} reaches it at t{branch}"
            checks.append(
                near(f"descent {K}", says, one.descent, DESCENT[K], 2e-3, relative=True, **stored(independent))
            )
    worst = float(growth.error.max())
    says = "largest relative difference of these flows from ones with a hundredth of the tolerance"
    tolerance = theory(
        "the solver keeps its tolerance, rtol = 1e-9, over all the time of the flow; a hundred times that"
    )
    checks.append(between("certificates", says, worst, None, 1e-7, tolerance=1e3, **tolerance))
    for K, difference in results.facts["gram"].items():
        says = f"K = {K}: loss of the network with all entries at that time, minus 0.1"
        same = theory("the 22 numbers are the network exactly (docs/mathematics.md §4); tolerance: the solver's")
        checks.append(between(f"gram {K}", says, abs(difference), None, 1e-9, tolerance=1e6, **same))
    (_, first), (_, last) = exponents(growth)[0], exponents(growth)[-1]
    K = growth.classes.values
    checks.append(shown("exponent first", f"power of K by which learning time grows, K = {K[0]} to {K[1]}", first))
    checks.append(shown("exponent last", f"the same, K = {K[-2]} to {K[-1]}", last))
    return checks


def answer(results):
    """What carries over, and what it costs."""
    growth = results.series["growth"]
    T = dict(zip(growth.classes.values.tolist(), growth.flow.values.tolist(), strict=True))
    powers = [power for _, power in exponents(growth)]
    branch = f"; descent at rate 0.1 takes until {float(growth.descent.sel(classes=5)):.0f} there" if 5 in T else ""
    few = ", ".join(f"{T[K]:.0f} for K = {K}" for K in (2, 3, 5) if K in T)
    return (
        f"It carries over: K = 3 and 4 go through the same stages to accuracy 1. The loss reaches 0.1 at t = {few} by "
        f"the flow{branch}. "
        f"No single power of K fits: between neighbouring K the exponent is {min(powers):.2f} to {max(powers):.2f}."
    )


def _as_linear(result, width):
    """Class against class: what the seeds' asymmetry grows by, over what the linearised flow says."""
    K, kind = result["classes"], "unequal, mirror"
    seeds = np.array([path[-1] for path in result["seeds"][str(width)][kind]])
    ratio, spread = over_seeds(seeds / result["linear"][kind]["growth"][-1], f"seeds at width {width}")
    says = f"K = {K}: growth of the classes' difference at width {width}, over that of the linearised flow"
    if K in (2, 3):  # larger K have a neuron close to silence (docs/findings.md)
        basis = theory(
            "the flow linearised around the class-symmetric solution (§11); 0.3 to 2: chance of few seeds", after=True
        )
        return between(f"stability {K}", says, ratio, 0.3, 2.0, **spread, **basis)
    return shown(f"stability {K}", says, ratio, **spread)


def figures(results):
    """K = 3 beside K = 4, the learning time against K, the growth of differences."""
    growth = results.series["growth"]
    K = growth.classes.values
    known = np.isfinite(growth.descent.values)
    lines = {
        "flow": (K, growth.flow.values),
        "descent at rate 0.1": (K[known], growth.descent.values[known]),
    }
    return [
        Picture(
            "runs",
            "Simultaneous descent with three and with four classes: the same three stages, the same signs of the "
            "scores.",
            "Two columns of three panels, K = 3 and K = 4, with shaded stages: losses, neurons and attention behave as "
            "for two classes, later.",
            mf.plot.plot_columns(results.facts["columns"]),
        ),
        Picture(
            "growth",
            "Time until the loss is 0.1 against the number of classes, beside a line of slope 3; at K = 5 descent at "
            "rate 0.1 "
            "takes another branch than the flow. No single power fits; up to K = 100 it rises to 3.9 "
            "(docs/findings.md §4).",
            "Log-log plot of the learning time against the number of classes; flow and descent agree except at K = "
            "5, and the "
            "points grow faster than a dashed line of slope 3.",
            plot_slopes(lines, slope=3.0, xlabel="classes K", ylabel="learning time, t", ticks=K),
        ),
        Picture(
            "stability",
            "Growth of small differences from the class-symmetric solution, by symmetry type: lines are the "
            "linearised flow, "
            "marks the mean of finite transformers.",
            "One panel for each number of classes: asymmetry relative to its start against time on a logarithmic "
            "scale, "
            "rising by one to two powers of ten, with marks of finite width beside the lines.",
            plot_stability(results.facts["stability"]),
        ),
    ]


EXPERIMENT = Experiment(
    name="classes",
    title="Three classes, four classes, and more",
    question="Does the mechanism carry over to more than two classes, and what does each further class cost?",
    section="§4, Mean-field with symmetry",
    config=CONFIG,
    run=run,
    verdict=verdict,
    figures=figures,
    answer=answer,
    seconds=(20.0, 700.0),
)
