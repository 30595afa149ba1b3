"""Word co-occurrence: Yang, Kailkhura, Wang, Liang, "… transformers to recognize word co-occurrence …", NeurIPS 2024.

From the source: F = Σ_l Σ_j a_j w_jᵀ W_V X softmax(Xᵀ W_Kᵀ W_Q x_l/√m), linear, all of it trained; every sample holds the word
μ3; of 60, 30 hold μ1 and μ2 (label +), 10 only μ1, 10 only μ2, 10 neither (−); irrelevant words fill them up to 5; logistic loss,
d = 64, m = 128, 256 neurons, rate 0.01, 30,000 steps. Our choices: the draw, from 13 irrelevant words; a_j = ±1; Kaiming's
entries have variance 1/(3 fan-in); for the powers of m there are 2m neurons from zero, and entries of variance 2/(3m).
"""

import math

import numpy as np

import mixflow as mf

from .. import papers as kit

CONFIG = {
    "irrelevant": kit.Setting(13, "each stands in many samples; the source has 61"),
    "width": kit.Setting(128, "the source's m, with 2m neurons"),
    "dimension": kit.Setting(64, "the source's d: it sets the size of the start"),
    "learning_rate": kit.Setting(0.01, "the source's"),
    "steps": kit.Setting(30_000, "the source's"),
    "widths": kit.Setting([256, 512, 1024, 2048, 4096], "powers of m; a start of width m draws 2m² numbers"),
}
LINEAR = {"heads": 1, "activation": "linear", "queries": "sum", "scaled_scores": True, "bias": 0.0}
PAIRS = (("2", "1"), ("1", "2"), ("3", "1"), ("3", "2"))  # key and query whose scores the source follows


def words(irrelevant, seed=0):
    """The task: 60 samples of five words."""
    rng, features = np.random.default_rng(seed), [str(word) for word in range(1, irrelevant + 4)]
    kinds = [(("1", "2", "3"), 1, 30), (("1", "3"), -1, 10), (("2", "3"), -1, 10), (("3",), -1, 10)]
    samples = [(held, label) for held, label, many in kinds for _ in range(many)]
    atoms = [(*held, *rng.choice(features[3:], 5 - len(held), replace=False)) for held, _ in samples]
    labels = [label for _, label in samples]
    return mf.FiniteTask(features=features, atoms=[[(str(w), 1) for w in atom] for atom in atoms], labels=labels)


def run(settings, progress):
    """One network as the source has it; then the first phase at many widths."""
    task, m, rate = words(settings["irrelevant"]), settings["width"], settings["learning_rate"]
    entry = 1 / (3 * settings["dimension"])  # the variance of an entry of W_K, W_Q and W_V
    start = {"omega": math.sqrt(m * entry), "value_scale": math.sqrt(2 * m / 3), "dimension": settings["dimension"]}
    network = mf.Transformer(m, value_neurons=2 * m, **start, **LINEAR)
    first = mf.train(task, network, mf.GradientDescent(rate, 100, save_every=1), progress=progress)
    method = mf.GradientDescent(rate, settings["steps"] - 100, save_every=100)
    then = mf.train(task, network, method, start=first, progress=progress)
    step, A, loss, accuracy = kit.joined([first, then], "A", "loss", "accuracy")
    moved = math.sqrt(m) * (A[:, 0] - A[0, 0])  # of the product W_KᵀW_Q, which the scores are 1/√m of
    place = {name: i for i, name in enumerate(task.features)}
    values = {"loss": ("loss", loss), "accuracy": ("share of samples that are right", accuracy)}
    for key, query in PAIRS:
        values[f"A_{key}{query}"] = (f"change of A[μ{key}, μ{query}]", moved[:, place[key], place[query]])
    halves = [halving(task, width, progress) for width in settings["widths"]]
    time, change = zip(*halves)
    scaling = {"time": ("time until the loss has halved", time), "change": ("‖change of W_KᵀW_Q‖ until then", change)}
    widths = kit.labelled("width", settings["widths"], scaling)
    return kit.Results(runs={"late": then}, series={"training": kit.labelled("step", step, values), "widths": widths})


def halving(task, m, progress):
    """(time, ‖ΔA‖) where the loss has halved at width m, between steps of 1/(5m)."""
    network = mf.Transformer(m, omega=math.sqrt(2 / 3), value_neurons=2 * m, **LINEAR)
    data = mf.train(task, network, mf.GradientDescent(0.2 / m, 100, save_every=1), progress=progress).dataset
    time = np.interp(math.log(2), -np.log(data.loss / data.loss[0]), data.time)
    change = math.sqrt(m) * np.linalg.norm(data.A.values[:, 0] - data.A.values[0, 0], axis=(1, 2))
    return float(time), float(np.interp(time, data.time, change))


def verdict(results):
    """Two phases as the source tells them; the powers of m; the size of what another program found."""
    data, widths = results.series["training"], results.series["widths"]
    rises, falls = (np.array([data[f"A_{key}{query}"][-1] for key, query in pairs]) for pairs in (PAIRS[:2], PAIRS[2:]))
    right = data.isel(step=1 + int(np.max(np.flatnonzero(data.accuracy < 1))))
    early = max(abs(float(right[f"A_{key}{query}"])) for key, query in PAIRS) / rises.max()
    phases = kit.paper("phase 1: the neurons align, all samples are right, attention is almost unchanged")
    scores = kit.paper("phase 2: μ1 and μ2 attend more to each other and less to μ3")
    twin = kit.stored("another program, another draw: +0.0099, +0.0095, −0.0048, −0.0049; 3.8·10⁻⁵", after=True)
    twin["relative"] = True
    powers = kit.theory("w moves at the rate m₁ω² ∝ m, A at the rate 1/√m (docs/mathematics.md §16)", after=True)
    fits = {name: np.polyfit(np.log(widths.width), np.log(widths[name]), 1)[0] for name in ("time", "change")}
    mt = widths.time * widths.width
    return [
        kit.between("right", "step from which all samples are right", right.step, 1, 100, **phases),
        kit.between("attention waits", "share of the final change of A by then", early, None, 0.1, **phases),
        kit.between("rise", "least change of A[μ2, μ1] and A[μ1, μ2]", rises.min(), 0.0, None, **scores),
        kit.between("fall", "largest change of A[μ3, μ1] and A[μ3, μ2]", falls.max(), None, 0.0, **scores),
        kit.near("rises by", "mean change of A[μ2, μ1] and A[μ1, μ2]", rises.mean(), 0.0097, 0.2, **twin),
        kit.near("falls by", "mean change of A[μ3, μ1] and A[μ3, μ2]", falls.mean(), -0.00485, 0.2, **twin),
        kit.near("loss", "loss at the end", data.loss[-1], 3.8e-5, 0.2, **twin),
        kit.near("time", "power of m of the time until the loss has halved", fits["time"], -1.0, 0.03, **powers),
        kit.near("change", "power of m of the change of A until then", fits["change"], -1.5, 0.03, **powers),
        kit.shown("m·t", "m times the time until the loss has halved", mt.mean(), low=mt.min(), high=mt.max()),
    ]


def answer(results):
    """What is confirmed."""
    found = {each.name: each.measured for each in verdict(results)}
    return (
        f"Yes: from step {found['right']:.0f} all samples are right, when A has gone {found['attention waits']:.1%} of its way; "
        f"then μ1 and μ2 attend more to each other ({found['rises by']:+.4f}), less to μ3 ({found['falls by']:+.4f}); "
        f"the loss ends at {found['loss']:.1e}. Phase 1 lasts like m^{found['time']:.2f}, moving A like m^{found['change']:.2f}."
    )


def figures(results):
    """The loss with the share that is right; scores over training; the first phase against the width."""
    data, widths = results.series["training"].isel(step=slice(1, None)), results.series["widths"]
    colours = [colour for colour, _ in mf.plot.SERIES]
    with kit.panels(3) as (figure, (left, middle, right)):
        left.loglog(data.step, data.loss, color=colours[0], label="loss")
        left.loglog(data.step, data.accuracy, "--", color=colours[1], label="share of samples that are right")
        for (key, query), colour, dash in zip(PAIRS, colours, ("-", "--", "-.", ":")):
            moved = data[f"A_{key}{query}"]
            middle.semilogx(data.step, moved, dash, color=colour, label=moved.long_name)
        right.loglog(widths.width, widths.time, "o-", color=colours[0], label="time until the loss has halved")
        right.loglog(widths.width, widths.change, "s--", color=colours[1], label="change of A until then")
        for axes, name in ((left, "step"), (middle, "step"), (right, "width m")):
            axes.set_xlabel(name)
        right.set_xticks(widths.width.values, widths.width.values)
        right.minorticks_off()
    caption = "All samples are right long before attention moves; the wider the network, the shorter the first phase."
    alt = "The loss falls early; four scores part late, two up, two down; lines of slopes −1 and −3/2 over the width."
    return [kit.Picture("phases", caption, alt, figure)]


EXPERIMENT = kit.Experiment(
    name="co-occurrence",
    title="Word co-occurrence in two phases",
    question="Do the neurons learn first while attention waits, and how long does it wait?",
    section="§16, Other published results",
    config=CONFIG,
    run=run,
    verdict=verdict,
    figures=figures,
    answer=answer,
    seconds=(9.0, 20.0),
)
