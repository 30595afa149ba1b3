"""Easy and hard samples, and the geometry of the attention features: from inseparable to separated."""

import math

import numpy as np

import mixflow as mf

from ..batch import train_batch
from ..check import between, equal, near, over_seeds, paper, shown, theory
from ..figures.geometry import plot_margins, plot_plane
from .shape import Experiment, Picture, Results, Setting

CONFIG = {
    "learning_rate": Setting(0.1, "the paper's"),
    "omega": Setting(0.3, "as in the simultaneous experiment"),
    "bias": Setting(0.5, "as in the simultaneous experiment"),
    "steps": Setting(20_000, "as in the simultaneous experiment"),
    "times": Setting(120, "logarithmically spaced times at which the exact maximum margin is computed", full=400),
    "width": Setting(256, "finite transformers whose seeds give the interval of the feature margin"),
    "seeds": Setting(16, "the least for which an interval is shown", full=32),
}


def run(settings, progress):
    """One run at infinite width; the attention features of all eight samples along it, and their exact maximum margins."""
    import xarray

    task = mf.Mixture(2)
    method = mf.GradientDescent(settings["learning_rate"], settings["steps"], save_every=10)
    common = {"omega": settings["omega"], "bias": settings["bias"]}
    limit = mf.train(task, mf.Transformer(width=math.inf, **common), method, progress=progress)
    data = limit.dataset
    pick = np.unique(np.geomspace(1, len(data.time) - 1, settings["times"]).astype(int))
    some = data.isel(time=np.concatenate([[0], pick]))
    phi = mf.measure.attention_features(task, some.A.values)[:, 0]  # head +: (time, atom, feature)
    hard = task.population().hard
    margins = {kind: mf.measure.feature_margin(task, some.A.values, samples=kind) for kind in ("hard", "easy", "all")}
    series = xarray.Dataset(
        {
            "identifier": (
                ("time", "atom"),
                phi[..., :2].sum(-1),
                {"long_name": "attention on the identifier, head +"},
            ),
            "vote": (
                ("time", "atom"),
                phi[..., 2:].sum(-1),
                {"long_name": "attention-weighted sum of the signs, head +"},
            ),
            "margin_hard": ("time", margins["hard"], {"long_name": "maximum margin of the hard samples"}),
            "margin_easy": ("time", margins["easy"], {"long_name": "the same, easy samples"}),
            "margin_all": ("time", margins["all"], {"long_name": "the same, all samples"}),
            "output_easy": (
                "time",
                some.margin.values[:, ~hard].min(1),
                {"long_name": "smallest y·F of the easy samples"},
            ),
            "output_hard": (
                "time",
                some.margin.values[:, hard].min(1),
                {"long_name": "smallest y·F of the hard samples"},
            ),
        },
        coords={
            "time": some.time.values,
            "atom": data.atom.values,
            "label": ("atom", data.label.values),
            "hard": ("atom", hard),
        },
    )
    finite = [mf.Transformer(width=settings["width"], seed=seed, **common) for seed in range(settings["seeds"])]
    many = train_batch(task, finite, method, progress=progress)
    ends = mf.measure.feature_margin(task, many.A[:, -1].values)
    stages = [mf.measure.detect(many.isel(run=i)) for i in range(len(finite))]
    return Results(
        runs={"mean-field": limit},
        series={"features": series},
        facts={"ends": ends, "stages": stages, "width": settings["width"], "bias": settings["bias"]},
    )


LATER = paper(
    "the features of the hard samples are separable after stage 2; 0.2 of at most 1/√2 was chosen", after=True
)
SMALL = 1e-3


def verdict(results):
    """Inseparable at the start and through stage 1; separated at the end of the attention stage; easy samples first."""
    return [*_early(results), *_late(results)]


def _at(results, name, t):
    series = results.series["features"]
    return float(np.interp(t, series.time.values, series[name].values))


def _early(results):
    """Up to the first switch-off: hard samples of both labels have one feature."""
    limit, series = results.runs["mean-field"], results.series["features"]
    T1 = limit.stages[0].end or math.nan
    time, margin, hard = limit.dataset.time.values, limit.dataset.margin.values, series.hard.values

    def exact(chosen):
        return float(np.interp(T1, time, margin[:, chosen].min(axis=1)))

    tied = theory(
        "uniform attention gives hard samples of both labels one and the same feature (docs/mathematics.md §5)"
    )
    first = theory("z = b − 2α/3 = 0 there, so y·F = (b + 2α/3) − 0 = 2b; tolerance: interpolation between saves")
    start, start_all = (f"{float(series[name][0]):g}" for name in ("margin_hard", "margin_all"))
    off, twice = _at(results, "margin_hard", T1), 2 * results.facts["bias"]
    return [
        equal("start", "feature margin of the hard samples at the start: exactly", start, 0, **tied),
        equal("start all", "feature margin of all samples at the start: exactly", start_all, 0, **tied),
        between(
            "T1", "feature margin of the hard samples when the first neuron switches off", off, None, SMALL, **tied
        ),
        near("easy T1", "smallest y·F of the easy samples then: 2b", exact(~hard), twice, 0.01, **first),
        between("hard T1", "largest |y·F| of the hard samples then", abs(exact(hard)), None, SMALL, **tied),
    ]


def _late(results):
    """From the end of the attention stage on: hard samples are separated, at infinite width and over seeds."""
    limit, series, facts = results.runs["mean-field"], results.series["features"], results.facts
    T2 = limit.stages[1].end or math.nan
    hard, easy = (_at(results, name, T2) for name in ("margin_hard", "margin_easy"))
    least = limit.dataset.margin.values[-1].min()
    learned = paper("the loss goes to 0, so every sample is right; any positive margin")
    mean, spread = over_seeds(facts["ends"], f"seeds at width {facts['width']}")
    switch = mf.measure.stage_intervals(facts["stages"])["neurons", "end"]
    over = {"low": switch.low, "high": switch.high, "over": f"{switch.found} seeds at width {facts['width']}"}
    return [
        between("T2", "feature margin of the hard samples at the end of the attention stage", hard, 0.2, None, **LATER),
        shown("consistent T2", "feature margin of the easy samples then (their votes agree with the label)", easy),
        shown("end", "feature margin of the hard samples at the end", series.margin_hard[-1]),
        shown("end all", "feature margin of all samples at the end", series.margin_all[-1]),
        between("end output", "smallest y·F over all samples at the end", least, 0.0, None, **learned),
        between("seeds", "feature margin of the hard samples at the end, mean", mean, 0.2, None, **spread, **LATER),
        shown("seeds T1", "first switch-off, mean", switch.mean, **over),
    ]


def answer(results):
    """The margin before and after, and where all samples are separable."""
    series = results.series["features"]
    T2 = results.runs["mean-field"].stages[1].end or math.nan
    hard, easy, every = (
        float(np.interp(T2, series.time, series[f"margin_{kind}"])) for kind in ("hard", "easy", "all")
    )
    return (
        "Before attention moves, hard samples of both labels are one point, with maximum margin exactly 0. At the "
        "end of the attention "
        f"stage the margin is {hard:.3f} for the hard samples, {easy:.3f} for the easy ones and {every:.3f} for all "
        "together."
    )


def figures(results):
    """The neuron's own plane at four times, and the margins over time."""
    limit, series = results.runs["mean-field"], results.series["features"]
    T1, T2 = (limit.stages[i].end or math.nan for i in (0, 1))
    times = {"start": 0.0, "end of neurons": T1, "end of attention": T2, "end": float(series.time[-1])}
    planes = Picture(
        "plane",
        "Each sample as head + sees it: how much attention its identifier gets, and the attention-weighted sum of "
        "its signs. By "
        "symmetry the neuron sees nothing else; the dashed line is where it switches on. At first the hard samples "
        "of both "
        "labels lie on one point, so no neuron can tell them apart; attention pulls them apart.",
        "Four scatter plots of eight samples. At the start and at the end of the neuron stage the hard samples of "
        "both labels "
        "coincide in the middle, with easy ones above and below. At the end of the attention stage hard positive "
        "samples have "
        "moved to the right and hard negative ones to the left, and at the end they are far apart.",
        plot_plane(series, limit, times),
    )
    margins = Picture(
        "margins",
        "Above, the smallest output margin of easy and hard samples. Below, the exact maximum margin any neurons "
        "could reach on "
        "the attention features: zero until the attention moves.",
        "Two panels over logarithmic time with shaded stages. The easy samples' margin grows from the start, the "
        "hard samples' "
        "stays at zero until the end of the attention stage; the feature margin rises from 0 to 0.48 just before that.",
        plot_margins(series, limit.stages),
    )
    return [planes, margins]


EXPERIMENT = Experiment(
    name="geometry",
    title="Easy and hard samples, and the geometry of the attention features",
    question="What does attention change so that the hard samples, which no neuron could separate, become separable?",
    section="§5, What training does",
    config=CONFIG,
    run=run,
    verdict=verdict,
    figures=figures,
    answer=answer,
    seconds=(3.0, 20.0),
)
