"""The paper's Algorithm 1 beside simultaneous training: neurons, then attention, then neurons again."""

import math

import mixflow as mf

from ..batch import train_batch
from ..check import equal, near, over_seeds, paper, shown, stored, theory
from .curves import ORDER, curves, in_order, right
from .shape import Experiment, Picture, Results, Setting

# docs/mathematics.md §6, from a program that shares nothing with this one: the loss after each stage.
AFTER = {"neurons": 0.40709, "attention": 0.20165, "convergence": 0.01448}

CONFIG = {
    "learning_rate": Setting(0.1, "the paper's"),
    "omega": Setting(0.3, "as in the simultaneous experiment"),
    "bias": Setting(0.5, "as in the simultaneous experiment"),
    "neurons": Setting(100.0, "stage 1: long enough for every easy sample to be right with a margin of 3b"),
    "attention": Setting(500.0, "stage 2: the features of the hard samples separate"),
    "converge": Setting(500.0, "stage 3: the loss falls thirteenfold"),
    "steps": Setting(11_000, "simultaneous training for as long as the three stages together"),
    "width": Setting(64, "the finite transformer whose seeds give the intervals"),
    "seeds": Setting(16, "the least for which an interval is shown", full=64),
}


def run(settings, progress):
    """Both schemes from one start at infinite width; the three stages again from several finite starts."""
    inner = mf.GradientDescent(settings["learning_rate"], settings["steps"], save_every=10)
    staged = mf.ThreeStage(inner, **{name: settings[name] for name in ("neurons", "attention", "converge")})
    start = mf.Transformer(width=math.inf, omega=settings["omega"], bias=settings["bias"])
    runs = {
        "three-stage": mf.train(mf.Mixture(2), start, staged, progress=progress),
        "simultaneous": mf.train(mf.Mixture(2), start, inner, progress=progress),
    }
    finite = [
        mf.Transformer(width=settings["width"], omega=settings["omega"], bias=settings["bias"], seed=seed)
        for seed in range(settings["seeds"])
    ]
    many = train_batch(mf.Mixture(2), finite, staged, progress=progress)
    return Results(
        runs=runs,
        series={name: curves(run) for name, run in runs.items()},
        facts={"loss": many.loss[:, -1].values, "accuracy": many.accuracy[:, -1].values, "settings": settings},
    )


def verdict(results):
    """The order of both schemes, the closed form of stage 1, the losses stored before."""
    staged, together = results.runs["three-stage"], results.runs["simultaneous"]
    series, settings = results.series["three-stage"], results.facts["settings"]
    order = ", ".join(ORDER)
    b = settings["bias"]
    off = staged.stages[0].evidence.get("switch_off") or math.nan
    exact = 9 * b + 4.5 * math.expm1(2 * b)
    why = (
        "w alone moves: α' = 1/(6 (1 + e^{4α/3})), so 2α/3 = b at 9b + 9/2 (e^{2b} − 1); tolerance: one step of descent"
    )
    checks = [
        near(
            "switch-off", "stage 1: the first neuron switches off", off, exact, settings["learning_rate"], **theory(why)
        ),
        equal("order", "stages read from the trajectory alone", in_order(staged.stages), order, **paper("Algorithm 1")),
        equal(
            "same order",
            "simultaneous training, by itself, in the same order",
            in_order(together.stages),
            order,
            **paper("the paper analyses three stages to explain simultaneous training; nothing to tolerate"),
        ),
        equal(
            "accuracy",
            "every sample is right at the end",
            f"{float(series.accuracy[-1]):g}",
            1,
            **paper("Algorithm 1 ends with the loss below any ε"),
        ),
    ]
    for switch in staged.switches:
        loss = series.loss.sel(time=switch["end"], method="nearest")
        says = f"loss after stage {switch['stage']}, {switch['name']}, t = {switch['end']:g}"
        known = stored("docs/mathematics.md §6, from a program that shares nothing with this one; the digits stored")
        checks.append(near(f"loss {switch['name']}", says, loss, AFTER[switch["name"]], 1e-5, **known))
    late = float(results.series["simultaneous"].loss[-1])
    checks.append(shown("simultaneous loss", "loss of simultaneous training after the same time", late))
    where = f"seeds at width {settings['width']}"
    mean, spread = over_seeds(results.facts["loss"], where)
    checks.append(shown("loss over seeds", "loss at the end, mean", mean, **spread))
    says, known = f"{where} that end with every sample right", paper("Algorithm 1, at finite width; every seed must")
    checks.append(equal("seeds", says, right(results.facts["accuracy"]), settings["seeds"], **known))
    return checks


def answer(results):
    """Both losses after the same time."""
    staged, together = (float(results.series[name].loss[-1]) for name in ("three-stage", "simultaneous"))
    return (
        "It shows the order and what is learned, not the speed: both go through neurons, attention, convergence, and "
        "after the "
        f"same time the loss is {staged:.4f} in three stages and {together:.4f} all at once."
    )


def figures(results):
    """Two columns on one time axis."""
    caption = (
        "The paper's three-stage algorithm (left) and simultaneous training (right) from the same start. In stage 1 "
        "and 3 only "
        "the neurons move, in stage 2 only the attention; simultaneous training goes through the same stages unasked."
    )
    alt = (
        "Two columns of three panels with shaded stages. Left: losses, w and attention scores with kinks where the "
        "stages "
        "switch at t = 100 and t = 600. Right: the same curves of simultaneous training, smooth, in the same order."
    )
    columns = {"three-stage algorithm": results.runs["three-stage"], "simultaneous": results.runs["simultaneous"]}
    return [Picture("schemes", caption, alt, mf.plot.plot_columns(columns))]


EXPERIMENT = Experiment(
    name="three-stage",
    title="The three-stage algorithm beside simultaneous training",
    question="Does training the parts one after the other, as the paper's proof does, show what simultaneous training "
    "does?",
    section="§6, Three-stage training",
    config=CONFIG,
    run=run,
    verdict=verdict,
    figures=figures,
    answer=answer,
    seconds=(3.0, 15.0),
)
