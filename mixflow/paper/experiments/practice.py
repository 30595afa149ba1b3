"""What practitioners can take from it: how long the plateau lasts when one thing is changed, and what ends it sooner."""

import math
from dataclasses import replace

import mixflow as mf

from ..batch import train_batch
from ..check import between, over_seeds, shown, theory
from ..figures.bars import plot_bars
from ..reaching import reaches
from .learning_time import LEARNED
from .shape import Experiment, Picture, Results, Setting

CONFIG = {
    "omega": Setting([0.1, 0.3, 0.9], "initial scale of keys and queries; 0.3 is the base case"),
    "bias": Setting([0.25, 0.5, 1.0], "of the neurons; 0.5 is the base case"),
    "prior": Setting([0.5, 0.7, 0.9], "probability of the first class; 0.5 is balanced"),
    "width": Setting([16, 64, 256], "finite networks beside the infinite one"),
    "seeds": Setting(16, "of each width"),
    "rate": Setting([0.1, 1.0], "learning rate of descent; time is rate × step"),
    "batch": Setting([8, 64], "samples of a minibatch, drawn with replacement, width 64"),
    "adam": Setting([0.001, 0.01], "learning rate of Adam, width 64, time counted in steps"),
    "steps": Setting(12_000, "of descent at rate 0.1: every row here learns before"),
}
LONG = 4  # times as many steps where classes are unbalanced
BASE = mf.Transformer(omega=0.3, bias=0.5)


def learned(data):
    """When the loss falls to 0.1, between saves; NaN if it does not."""
    return reaches(data["time"].values, data["loss"].values, LEARNED) or math.nan


def run(settings, progress):
    """One change at a time from the base case: K = 2, ω = 0.3, b = 1/2, infinite width, descent at rate 0.1."""
    import xarray

    method = mf.GradientDescent(0.1, settings["steps"], save_every=10)
    rows, total = {}, 16

    def note(name, value, time, spread=None):
        rows[name, value] = (time, spread or {})
        progress(len(rows), total)

    for omega in settings["omega"]:
        note("initial scale ω", omega, learned(mf.train(mf.Mixture(2), replace(BASE, omega=omega), method).dataset))
    for bias in settings["bias"]:
        note("bias b", bias, learned(mf.train(mf.Mixture(2), replace(BASE, bias=bias), method).dataset))
    longer = replace(method, steps=LONG * method.steps)
    for prior in settings["prior"]:
        task = mf.variants.imbalanced(2, priors=(prior, 1 - prior))
        data = mf.train(task, BASE, longer).dataset
        rare = data.margin.values[:, [name.startswith("c2") for name in data.atom.values.astype(str)]].min(axis=1)
        note("share of one class", prior, reaches(data.time.values, rare, 1.0) or math.nan)
    for width in settings["width"]:
        networks = [replace(BASE, width=width, seed=seed) for seed in range(settings["seeds"])]
        batch = train_batch(mf.Mixture(2), networks, method)
        times = [learned(batch.isel(run=i)) for i in range(len(networks))]
        note("width m", width, *over_seeds(times, f"seeds at width {width}"))
    for rate in settings["rate"]:
        steps = round(0.1 * settings["steps"] / rate)
        note("learning rate", rate, learned(mf.train(mf.Mixture(2), BASE, mf.GradientDescent(rate, steps, 1)).dataset))
    for size in settings["batch"]:
        small = mf.GradientDescent(0.1, settings["steps"], save_every=10, batch_size=size)
        note("minibatch", size, learned(mf.train(mf.Mixture(2), replace(BASE, width=64), small).dataset))
    for rate in settings["adam"]:
        steps = mf.Optimizer(kind="adam", learning_rate=rate, steps=round(12 / rate), save_every=5)
        data = mf.train(mf.Mixture(2), replace(BASE, width=64), steps).dataset
        note("Adam", rate, learned(data) / rate)
    names, values = zip(*rows, strict=True)
    table = xarray.Dataset(
        {"time": ("row", [time for time, _ in rows.values()], {"long_name": "time to loss 0.1; Adam: steps"})},
        coords={"change": ("row", list(names)), "value": ("row", list(values))},
    )
    return Results(series={"learning": table}, facts={"rows": rows, "steps": settings["steps"]})


WHAT = {
    "share of one class": "every sample of the rarer class has margin 1 at t",
    "Adam": "loss 0.1 after so many steps",
}


def verdict(results):
    """Every time, and the two things that theory says of them."""
    rows = results.facts["rows"]
    checks = []
    for (name, value), (time, spread) in rows.items():
        says = f"{name} = {value:g}: {WHAT.get(name, 'loss 0.1 at t')}"
        checks.append(shown(f"{name} {value:g}", says, time, **spread))
    for rate in results_of(rows, "learning rate"):
        says = f"descent at rate {rate:g}: loss 0.1 after so many steps"
        checks.append(shown(f"steps {rate:g}", says, rows["learning rate", rate][0] / rate))
    slow, fast = (rows["initial scale ω", value][0] for value in (min(results_of(rows, "initial scale ω")), 0.3))
    says = "a smaller ω is slower: time at the smallest ω minus that at 0.3"
    why = theory("separation needs ∫ w·c dt = (K+1)³ asinh(1/ω²), which falls with ω (docs/mathematics.md §12)")
    return [*checks, between("slower ω", says, slow - fast, 0.0, None, **why)]


def results_of(rows, name):
    """The values of one change."""
    return [value for each, value in rows if each == name]


def answer(results):
    """The base case, what shortens its plateau, what breaks it, what Adam does."""
    rows = {key: time for key, (time, _) in results.facts["rows"].items()}
    times = {
        name: [rows[name, value] for value in results_of(rows, name)] for name in dict.fromkeys(n for n, _ in rows)
    }
    base = rows["initial scale ω", 0.3]
    share = results_of(rows, "share of one class")
    even, uneven, *_, last = times["share of one class"]
    rare = (
        f"and is not done by t = {LONG * 0.1 * results.facts['steps']:g}"
        if math.isnan(last)
        else f"and {last / even:.1f} times"
    )
    return (
        f"The base case learns at t = {base:.0f}; a larger ω brings it to {min(times['initial scale ω']):.0f}, a "
        "smaller bias to "
        f"{min(times['bias b']):.0f}. The rarer class takes {uneven / even:.1f} times as long at a share of "
        f"{share[1]:g} for the other, "
        f"{rare} at {share[-1]:g}. Width, a tenfold learning rate and minibatches hardly matter "
        f"({min(times['width m']):.0f} to "
        f"{max(times['width m']):.0f}, {times['learning rate'][-1]:.0f}, {times['minibatch'][0]:.0f}). Adam needs "
        f"{min(times['Adam']):.0f} steps at its best rate, descent {base / 0.1:.0f} at rate 0.1 and "
        f"{times['learning rate'][-1] / results_of(rows, 'learning rate')[-1]:.0f} at rate "
        f"{results_of(rows, 'learning rate')[-1]:g}."
    )


def figures(results):
    """All times as bars."""
    rows = {f"{name} = {value:g}": time for (name, value), (time, _) in results.facts["rows"].items() if name != "Adam"}
    adam = {
        f"{name}, η = {value:g}": time for (name, value), (time, _) in results.facts["rows"].items() if name == "Adam"
    }
    times = results.facts["rows"]
    adam |= {
        f"descent, η = {rate:g}": times["learning rate", rate][0] / rate for rate in results_of(times, "learning rate")
    }
    rows = {name: time for name, time in rows.items() if math.isfinite(time)}
    text = ", ".join(f"{name}: {time:.0f}" for name, time in rows.items())
    return [
        Picture(
            "times",
            "How long until the loss is 0.1 when one thing is changed from the base case (ω = 0.3, b = 1/2, "
            "balanced, infinite width, rate 0.1; for the shares of a class, until every sample of the rarer one has margin 1); "
            "right, in steps, beside Adam.",
            f"Bars of learning times: {text}; and of steps for Adam.",
            plot_bars({"one thing changed": rows, "in steps": adam}, xlabels=["time", "steps"]),
        )
    ]


EXPERIMENT = Experiment(
    name="practice",
    title="What practitioners can take from it",
    question="When is a plateau to be expected, what shortens it, and what does Adam change?",
    section="§5, What training does",
    config=CONFIG,
    run=run,
    verdict=verdict,
    figures=figures,
    answer=answer,
    seconds=(6.0, 20.0),
)
