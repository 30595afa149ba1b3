"""Finite width against the mean-field limit: how fast does a transformer of width m approach the infinitely wide one?"""

import math

import numpy as np

import mixflow as mf

from ..batch import train_batch
from ..check import near, over_seeds, shown, stored, theory
from ..figures.slope import plot_slopes
from ..figures.spread import plot_spread
from .shape import Experiment, Picture, Results, Setting

CONFIG = {
    "learning_rate": Setting(0.1, "the paper's"),
    "omega": Setting(0.3, "as in the simultaneous experiment"),
    "bias": Setting(0.5, "as in the simultaneous experiment"),
    "widths": Setting(
        [8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096], "nine doublings; the cost does not depend on m"
    ),
    "seeds": Setting(16, "each gives its own slope, so the interval is honest about chance", full=64),
    "compare_at": Setting([50.0, 400.0], "on the plateau, and after the attention has been learned"),
    "steps": Setting(4000, "until the last time of comparison, well beyond the end of the attention stage"),
}


def run(settings, progress):
    """Every width and seed in one batch, and the limit."""
    import xarray

    method = mf.GradientDescent(settings["learning_rate"], settings["steps"], save_every=20)
    common = {"omega": settings["omega"], "bias": settings["bias"]}
    widths, seeds, times = settings["widths"], settings["seeds"], settings["compare_at"]
    limit = mf.train(mf.Mixture(2), mf.Transformer(width=math.inf, **common), method, model="gram", progress=progress)
    finite = [mf.Transformer(width=m, seed=seed, **common) for seed in range(seeds) for m in widths]
    many = train_batch(mf.Mixture(2), finite, method, progress=progress)
    at = {"time": times, "method": "nearest"}
    square = sum(
        ((many[name].sel(**at) - limit.dataset[name].sel(**at)) ** 2).sum(
            [d for d in many[name].dims if d not in ("run", "time")]
        )
        for name in ("w", "A")
    )
    distance = np.sqrt(square.transpose("run", "time").values).reshape(seeds, len(widths), len(times))
    T2 = np.array([_end(mf.measure.detect(many.isel(run=i))) for i in range(len(finite))]).reshape(seeds, len(widths))
    series = xarray.Dataset(
        {
            "distance": (
                ("width", "seed", "at"),
                distance.swapaxes(0, 1),
                {"long_name": "Euclidean norm of (w, A) − mean-field"},
            ),
            "T2": (("width", "seed"), T2.T, {"long_name": "end of the attention stage"}),
        },
        coords={"width": widths, "seed": range(seeds), "at": times},
        attrs={"mean_field_T2": _end(limit.stages)},
    )
    return Results(runs={"mean-field": limit}, series={"width": series})


def _end(stages):
    return math.nan if stages[1].end is None or not stages[1].complete else stages[1].end


def slopes(series):
    """(seeds, times): slope of log distance against log width, for every seed on its own."""
    x = np.log(series.width.values)
    y = np.log(series.distance.transpose("width", "seed", "at").values)
    return np.polyfit(x, y.reshape(len(x), -1), 1)[0].reshape(y.shape[1:])


def verdict(results):
    """The distance falls like m^(-1/2) at every time; wide transformers learn when the limit does."""
    series = results.series["width"]
    checks = []
    law = "Gram matrices of m Gaussian rows are m^(−1/2) from their mean (docs/mathematics.md §3); ± 0.1: finite widths"
    for at, each in zip(series["at"].values, slopes(series).T):
        mean, spread = over_seeds(each, "seeds, each with its own fit over all widths")
        says = f"slope of log distance from mean-field against log m at t = {at:g}"
        checks.append(near(f"slope {at:g}", says, mean, -0.5, 0.1, **spread, **theory(law)))
    limit = series.attrs["mean_field_T2"]
    narrow, wide = (int(series.width.values[i]) for i in (0, -1))
    for m in (narrow, wide):
        ends = series.T2.sel(width=m).values
        mean, spread = over_seeds(ends, f"seeds at width {m}")  # runs too short to see the end have none
        says = f"end of the attention stage at m = {m}, mean"
        if m == wide:
            known = stored("the limit's own end, computed beside it; 2 % was chosen after the first runs", after=True)
            checks.append(near(f"T2 {m}", says, mean, limit, 0.02, relative=True, **spread, **known))
        else:
            checks.append(shown(f"T2 {m}", says, mean, **spread))
    checks.append(shown("T2 limit", "end of the attention stage in the mean-field limit", limit))
    return checks


def answer(results):
    """The law, and what it means at one width."""
    series = results.series["width"]
    mean = float(slopes(series)[:, -1].mean())
    wide = int(series.width.values[-1])
    far = float(np.abs(series.T2.sel(width=wide).values / series.attrs["mean_field_T2"] - 1).max())
    return (
        f"Its distance from the limit falls like m^(−1/2) (measured power {mean:.3f}); at width {wide} every seed "
        "ends its attention "
        f"stage within {100 * far:.1f} % of the limit's time."
    )


def figures(results):
    """Distance against width, and when the attention stage ends against width."""
    series = results.series["width"]

    def geometric(d):
        return np.exp(np.log(d).mean("seed")).values

    lines, spread = {}, {}
    for at in series["at"].values:
        label, d = f"at t = {at:g}", series.distance.sel(at=at)
        lines[label], spread[label] = (series.width.values, geometric(d)), (d.min("seed").values, d.max("seed").values)
    law = plot_slopes(
        lines,
        slope=-0.5,
        xlabel="width m",
        ylabel="distance from mean-field",
        spread=spread,
        ticks=series.width.values[::3],
    )
    ends = plot_spread(
        series.T2, series.attrs["mean_field_T2"], xlabel="width m", ylabel="end of the attention stage, t"
    )
    return [
        Picture(
            "distance",
            "Distance of (w, A) from the mean-field limit: geometric mean over seeds, bars from the smallest to the "
            "largest. "
            "Nothing but the random start depends on m, and it approaches its limit like m^(−1/2).",
            "Log-log plot of the distance from mean-field against width 8 to 4096 at t = 50 and t = 400 with bars "
            "over seeds and "
            "a dashed line of slope minus one half, which both series follow.",
            law,
        ),
        Picture(
            "end-of-attention",
            "When the attention stage ends, seed by seed. Narrow transformers learn at different times, wide ones "
            "when the "
            "limit does.",
            "Scatter plot of the end of the attention stage for every seed against width; the points close in on the "
            "dashed "
            f"mean-field line at t = {series.attrs['mean_field_T2']:.0f} as the width grows.",
            ends,
        ),
    ]


EXPERIMENT = Experiment(
    name="width",
    title="Width 8 to 4096 against the mean-field limit",
    question="How wide must a transformer be to train like the infinitely wide one?",
    section="§3, The exact reduction",
    config=CONFIG,
    run=run,
    verdict=verdict,
    figures=figures,
    answer=answer,
    seconds=(3.0, 20.0),
)
