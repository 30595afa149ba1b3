"""True gradient flow beside gradient descent: does descent converge to it at first order, and when does which neuron switch?"""

import math

import numpy as np

import mixflow as mf

from ..check import between, equal, near, shown, stored, theory
from ..figures.slope import plot_slopes
from .curves import curves
from .shape import Experiment, Picture, Results, Setting

# docs/mathematics.md §7, found by descent with η = 0.02, which sees an event some units late or early: head +, the samples
# that are all minus (−−) and those whose own sign alone is minus (−+). What happens, when, and how far off that may be.
EVENTS = (
    ("y=- n=0", "on", "off", 12.197, 0.01),
    ("y=- n=0", "off", "on", 258.4, 0.5),
    ("y=- n=0", "on", "sliding", 281.5, 0.5),
    ("y=- n=0", "sliding", "off", 386.7, 5.0),
    ("y=- n=1", "on", "sliding", 948.3, 0.5),
    ("y=- n=1", "sliding", "off", 1842.4, 2.0),
    ("y=- n=0", "off", "sliding", 1842.0, 2.0),
)
WORDS = {"y=- n=0": "both signs −", "y=- n=1": "own sign −, other +"}

CONFIG = {
    "omega": Setting(0.3, "as in the simultaneous experiment"),
    "bias": Setting(0.5, "as in the simultaneous experiment"),
    "until": Setting(2000.0, "as long as the simultaneous experiment"),
    "rtol": Setting(1e-9, "far below every difference from descent that is shown"),
    "learning_rates": Setting(
        [0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001],
        "two decades: descent sees the switch-off only at its next step, and how much later that is depends on where "
        "the steps "
        "happen to fall, which makes single ratios of errors uneven and a fit over many rates even",
        full=[0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001, 0.0005, 0.0002, 0.0001],
    ),
    "compare_at": Setting([10.0, 100.0], "before the first neuron switches off, and well after it"),
}


def run(settings, progress):
    """The flow with its event list; descent at every learning rate to the times of comparison."""
    import xarray

    task, start = mf.Mixture(2), mf.Transformer(width=math.inf, omega=settings["omega"], bias=settings["bias"])
    flow = mf.train(task, start, mf.GradientFlow(settings["until"], settings["rtol"]), progress=progress)
    rates, times = settings["learning_rates"], settings["compare_at"]
    exact = mf.train(task, start, mf.GradientFlow(max(times), settings["rtol"], save_at=times), progress=progress)
    distance = np.zeros((len(rates), len(times)))
    for i, rate in enumerate(rates):
        steps = round(max(times) / rate)
        method = mf.GradientDescent(rate, steps, save_every=round(min(times) / rate))
        data = mf.train(task, start, method, progress=progress).dataset.sel(time=times, method="nearest")
        for name in ("w", "A"):
            gap = np.abs(data[name].values - exact.dataset[name].values).reshape(len(times), -1).max(axis=1)
            distance[i] = np.maximum(distance[i], gap)
    apart = xarray.Dataset(
        {"distance": (("learning_rate", "at"), distance, {"long_name": "largest difference of w and A from the flow"})},
        coords={"learning_rate": rates, "at": times},
    )
    columns = list(zip(*flow.events)) or [()] * 5
    events = xarray.Dataset(
        {
            name: ("event", np.array(column))
            for name, column in zip(("time", "head", "atom", "before", "after"), columns)
        }
    )
    return Results(runs={"flow": flow}, series={"flow": curves(flow), "distance": apart, "events": events})


def verdict(results):
    """Order one, seven events, conserved quantities, and the certificate of the flow's own accuracy."""
    flow, apart = results.runs["flow"], results.series["distance"]
    euler = theory(
        "descent is Euler's method: its error is proportional to the step; ± 0.1 as is usual for order tests"
    )
    checks = [
        near(
            f"order {at:g}",
            f"order of convergence of descent to the flow at t = {at:g}",
            slope,
            1.0,
            0.1,
            low=low,
            high=high,
            over=f"the fit over {apart.sizes['learning_rate']} learning rates",
            **euler,
        )
        for at, (slope, low, high) in orders(apart).items()
    ]
    small = stored(
        "docs/mathematics.md §7, found by descent with η = 0.02, which sees an event some units late or early"
    )
    checks.append(equal("events", "neuron switches of head + until t = 2000", len(flow.events), len(EVENTS), **small))
    for event, (atom, before, after, time, within) in zip(flow.events, EVENTS):
        says = f"sample with {WORDS[atom]}: {before} → {after}"
        happened = f"{event.atom}: {event.before} → {event.after}"
        if happened != f"{atom}: {before} → {after}":
            checks.append(equal(f"event {time:g}", says, happened, f"{atom}: {before} → {after}", **small))
        else:
            checks.append(near(f"event {time:g}", says + ", at t", event.time, time, within, **small))
    proof = flow.certificate
    # Rounding decides these small numbers, so another machine finds others: only their size is compared.
    conserved = "conserved by the flow (docs/mathematics.md §3); tolerance: the solver's"
    for name, says, most, why in (
        (
            "relative_difference",
            "relative difference from a run with a hundredth of the tolerance",
            1e-9,
            "the solver keeps its tolerance, rtol = 1e-9",
        ),
        ("relative_drift_tr_C2", "relative drift of tr G_K² − 2 tr A Aᵀ + tr G_Q²", 1e-9, conserved),
        ("relative_drift_tr_C", "relative drift of tr G_K − tr G_Q", 1e-12, conserved),
    ):
        checks.append(between(name, says, proof[name], None, most, tolerance=1e3, **theory(why)))
    checks.append(shown("loss", "loss of the flow at the end", results.series["flow"].loss[-1]))
    return checks


def answer(results):
    """The order at both times, and how many switches the flow goes through."""
    found = ", ".join(f"{slope:.3f} at t = {at:g}" for at, (slope, _, _) in orders(results.series["distance"]).items())
    flow = results.runs["flow"]
    sliding = sum(event.after == "sliding" for event in flow.events)
    return (
        f"Yes, at first order in the learning rate (measured {found}). Until t = 2000 the neurons of head + switch "
        f"{len(flow.events)} times, "
        f"{sliding} times into sliding on their kink, each switch located and the flow certified to "
        f"{flow.certificate['relative_difference']:.0e}."
    )


def orders(apart):
    """{time: (slope, low, high)} of log distance against log learning rate, with the 95 % interval of the fit."""
    from scipy.stats import linregress
    from scipy.stats import t as student

    found = {}
    for at in apart["at"].values:
        fit = linregress(np.log(apart.learning_rate.values), np.log(apart.distance.sel(at=at).values))
        half = student.ppf(0.975, apart.sizes["learning_rate"] - 2) * fit.stderr
        found[float(at)] = (float(fit.slope), float(fit.slope - half), float(fit.slope + half))
    return found


def figures(results):
    """The neurons' switches over time, and the distance of descent from the flow."""
    flow, apart = results.runs["flow"], results.series["distance"]
    lines = {
        f"at t = {at:g}": (apart.learning_rate.values, apart.distance.sel(at=at).values) for at in apart["at"].values
    }
    switches = Picture(
        "events",
        "The flow and every neuron switch of head + (head − mirrors it). A sliding neuron rests on its own kink, z = "
        "0, with a "
        "gate between 0 and 1; descent flips such a neuron on and off thousands of times.",
        "Above, the losses of the gradient flow over logarithmic time with the stages shaded. Below, a bar for each "
        "sample type: "
        "the samples with both signs minus are off from t = 12, on at 258, sliding from 281 to 390 and from 1842 on; "
        "those with "
        "their own sign minus slide from 948 to 1842; the others stay on.",
        mf.plot.plot_events(flow, WORDS | {"y=+ n=0": "own sign +, other −", "y=+ n=1": "both signs +"}),
    )
    order = Picture(
        "order",
        "Distance of descent from the flow (largest entry of w and A). It is proportional to the learning rate: the "
        "flow is the "
        "limit of descent, and descent is a first-order method, across the switch-off too.",
        "Log-log plot of distance against learning rate from 0.001 to 0.1 for two times, with a line of slope 1 for "
        "comparison; "
        "both series run parallel to it.",
        plot_slopes(lines, slope=1.0, xlabel="learning rate", ylabel="distance from the flow"),
    )
    return [switches, order]


EXPERIMENT = Experiment(
    name="flow",
    title="Gradient flow beside gradient descent",
    question="Is gradient flow the limit of gradient descent, through every kink of the ReLU neurons?",
    section="§7, Gradient flow: a Filippov system",
    config=CONFIG,
    run=run,
    verdict=verdict,
    figures=figures,
    answer=answer,
    seconds=(5.0, 25.0),
)
