"""More classes: the same stages at K = 3 and K = 4, how long learning takes as K grows, whether the classes stay equal."""

import math

import numpy as np

import mixflow as mf

from ..batch import train_batch
from ..figures.slope import plot_slopes
from ..figures.stability import plot_stability
from .claims_stability import growth as perturbed
from .curves import curves, first_below
from .shape import Experiment, Picture, Results, Setting, between, equal, near, shown
from .simultaneous import ORDER, in_order

# docs/mathematics.md §3 and §4, from a program that shares nothing with this one: the loss after 39,999 steps, and the time
# at which it falls below 0.1.
LOSS = {3: 0.0035345922, 4: 0.0076419268}
LEARNED = {2: 246, 5: 3.1e3, 10: 2.05e4, 20: 1.81e5}

CONFIG = {
    "learning_rate": Setting(0.1, "the paper's"),
    "omega": Setting(0.3, "as in the simultaneous experiment"),
    "bias": Setting(0.5, "as in the simultaneous experiment"),
    "steps": Setting(39_999, "enough for K = 5; larger K get 350 K³ steps"),
    "classes": Setting(
        [2, 3, 4, 5, 6], "the paper's two and on; 22 numbers for every K", full=[2, 3, 4, 5, 6, 8, 10, 14, 20]
    ),
    "learned": Setting(0.1, "the loss below which a task counts as learned: every sample is right"),
    "width": Setting(256, "finite transformers with three classes, whose seeds give the interval"),
    "seeds": Setting(4, "enough for a t-interval", full=16),
    "stability": Setting(
        [2, 3], "perturbations linearised by symmetry type; larger K take minutes", full=[2, 3, 4, 5, 6]
    ),
    "stability_width": Setting(4096, "finite transformers beside them; K = 4 leaves the linear theory below 2^17"),
}


def run(settings, progress):
    """One run at infinite width for each K; several finite ones for K = 3."""
    import xarray

    common = {"omega": settings["omega"], "bias": settings["bias"]}
    runs = {}
    for K in settings["classes"]:
        steps = max(settings["steps"], 350 * K**3 if K > 5 else 0)
        method = mf.GradientDescent(settings["learning_rate"], steps, save_every=max(20, steps // 2000))
        runs[K] = mf.train(mf.Mixture(K), mf.Transformer(width=math.inf, **common), method, progress=progress)
    learned = [
        first_below(run.dataset.time.values, run.dataset.loss.values, settings["learned"]) for run in runs.values()
    ]
    growth = xarray.Dataset(
        {"learned": ("classes", learned, {"long_name": f"first saved time with loss below {settings['learned']:g}"})},
        coords={"classes": list(runs)},
    )
    method = mf.GradientDescent(settings["learning_rate"], settings["steps"], save_every=200)
    finite = [mf.Transformer(width=settings["width"], seed=seed, **common) for seed in range(settings["seeds"])]
    many = train_batch(mf.Mixture(3), finite, method, progress=progress)
    kept = {f"K = {K}": runs[K] for K in (3, 4)}
    stability = []
    for K in settings["stability"]:
        one = perturbed(K, network=mf.Transformer(**common), points=100, widths=[settings["stability_width"]])
        stability.append(one)
        progress(len(stability), len(settings["stability"]))
    return Results(
        runs={f"K{K}": runs[K] for K in (3, 4)},
        series={
            **{f"K{K}": curves(runs[K]) for K in (3, 4)},
            "growth": growth,
            **{f"stability-K{one['classes']}": _by_type(one) for one in stability},
        },
        facts={
            "columns": kept, "stability": stability, "loss": many.loss[:, -1].values,
            "accuracy": many.accuracy[:, -1].values, "settings": settings,
        },
    )  # fmt: skip


def _by_type(result):
    """The linearised growth of one K as a dataset."""
    import xarray

    linear = result["linear"]
    growth = np.array([one["growth"] for one in linear.values()]).T
    return xarray.Dataset(
        {"growth": (("time", "type"), growth, {"long_name": "asymmetry / its start"})},
        coords={"time": result["time"], "type": list(linear)},
    )


def exponent(growth):
    """The slope of log learning time against log K, with the 95 % interval of the fit."""
    from scipy.stats import linregress
    from scipy.stats import t as student

    fit = linregress(np.log(growth.classes.values), np.log(growth.learned.values))
    half = student.ppf(0.975, growth.sizes["classes"] - 2) * fit.stderr
    return float(fit.slope), float(fit.slope - half), float(fit.slope + half)


def verdict(results):
    """The predicted losses, the stages in order, learning times near K³, the classes' difference as linearised."""
    growth, settings = results.series["growth"], results.facts["settings"]
    checks = []
    for K, loss in LOSS.items():
        run = results.runs[f"K{K}"]
        end = run.dataset.isel(time=-1)
        checks.append(
            equal(f"order {K}", f"K = {K}: three stages, one after the other", in_order(run.stages), ", ".join(ORDER))
        )
        checks.append(near(f"loss {K}", f"K = {K}: loss after 39,999 steps", end.loss, loss, 1e-6, relative=True))
        checks.append(
            equal(f"accuracy {K}", f"K = {K}: every sample is right at the end", f"{float(end.accuracy):g}", 1)
        )
    for K in growth.classes.values:
        says, time = f"K = {K}: time until the loss is below {settings['learned']:g}", growth.learned.sel(classes=K)
        if K in LEARNED:
            checks.append(near(f"learned {K}", says, time, LEARNED[K], 0.03, relative=True))
        else:
            checks.append(shown(f"learned {K}", says, time))
    slope, low, high = exponent(growth)
    checks.append(near("exponent", "learning time grows like K to the power", slope, 3.0, 0.3, low=low, high=high))
    mean, low, high = mf.measure.mean_interval(results.facts["loss"])
    width, seeds = settings["width"], settings["seeds"]
    checks.append(
        shown(
            "seeds loss", f"K = 3: loss at the end, mean over {seeds} seeds at width {width}", mean, low=low, high=high
        )
    )
    right = int(
        (results.facts["accuracy"] > 1 - 1e-9).sum()
    )  # the weights of the samples add up to 1 only within rounding
    for one in results.facts["stability"]:
        checks.append(_as_linear(one, settings["stability_width"]))
    checks.append(equal("seeds", f"K = 3: seeds at width {width} that end with every sample right", right, seeds))
    return checks


def _as_linear(result, width):
    """Class against class: what the seeds' asymmetry grows by, over what the linearised flow says."""
    K, kind = result["classes"], "unequal, mirror"
    seeds = np.array([path[-1] for path in result["seeds"][str(width)][kind]])
    ratio, low, high = mf.measure.mean_interval(seeds / result["linear"][kind]["growth"][-1])
    says = f"K = {K}: growth of the classes' difference at width {width}, over that of the linearised flow"
    if K in (2, 3):  # larger K have a neuron close to silence (docs/findings.md)
        return between(f"stability {K}", says, ratio, 0.3, 2.0, low=low, high=high)
    return shown(f"stability {K}", says, ratio, low=low, high=high)


def figures(results):
    """K = 3 beside K = 4, the learning time against K, the growth of differences."""
    growth = results.series["growth"]
    lines = {"loss below 0.1": (growth.classes.values, growth.learned.values)}
    return [
        Picture(
            "runs",
            "Simultaneous descent with three and with four classes: the same three stages, the same signs of the scores.",
            "Two columns of three panels, K = 3 and K = 4, with shaded stages: losses, neurons and attention behave as "
            "for two classes, later.",
            mf.plot.plot_columns(results.facts["columns"]),
        ),
        Picture(
            "growth",
            "Time until the loss is below 0.1 against the number of classes, beside a line of slope 3.",
            "Log-log plot of the learning time against the number of classes, close to a dashed line of slope 3.",
            plot_slopes(lines, slope=3.0, xlabel="classes K", ylabel="learning time, t", ticks=growth.classes.values),
        ),
        Picture(
            "stability",
            "Growth of small differences from the class-symmetric solution, by symmetry type: lines are the linearised flow, "
            "marks the mean of finite transformers.",
            "One panel for each number of classes: asymmetry relative to its start against time on a logarithmic scale, "
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
    seconds=(40.0, 700.0),
)
