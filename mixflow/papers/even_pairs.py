"""Even pairs, first letter equals last: Huang, Liang, Yang, "How transformers learn regular language recognition", ICML 2025.

From the source: output uᵀ Σ_l x_l softmax(Xᵀ W x_L / λ), linear; the last token asks; W and u trained from zero by descent; W
moves faster by λ in a first phase; the loss is the sum over the lengths of mean logistic losses. Our choices: features are
(position, letter), orthonormal; lengths 1 to 6, all 126 strings; rate 0.1, λ = 2, a first phase of 100 steps.
"""

import itertools

import numpy as np

import mixflow as mf

from .. import papers as kit

CONFIG = {
    "lengths": kit.Setting(6, "all strings of up to six letters: 126 of them"),
    "learning_rate": kit.Setting(0.1, "of u, and of W after the first phase"),
    "temperature": kit.Setting(2.0, "λ; the source's proof wants it of the order of the squared length"),
    "phase": kit.Setting(100, "steps in which W's rate is λ times as large"),
    "steps": kit.Setting(10_000, "the loss has fallen by a factor of 400", full=100_000),
}
NETWORK = mf.Transformer(heads=1, attention="direct", queries="one", activation="linear", bias=0.0)


def strings(longest):
    """The task: every string of up to `longest` letters, each length with the same weight."""
    words = [word for length in range(1, longest + 1) for word in itertools.product("ab", repeat=length)]
    atoms = [[(f"{place}{letter}", 1) for place, letter in enumerate(word, 1)] for word in words]
    return mf.FiniteTask(
        features=[f"{place}{letter}" for place in range(1, longest + 1) for letter in "ab"],
        atoms=atoms,
        labels=[1 if word[0] == word[-1] else -1 for word in words],
        probabilities=[1 / longest / 2 ** len(word) for word in words],
        query=[atom[-1] for atom in atoms],
    )


def run(settings, progress):
    """Two runs, one after the other: W's rate is λ times as large at first."""
    task, scale, phase = strings(settings["lengths"]), settings["temperature"], settings["phase"]
    rate, more = settings["learning_rate"] * settings["lengths"], settings["steps"] - phase  # a sum, not a mean
    # Scores W/λ move with 1/λ² times the rate of W.
    early = mf.GradientDescent(rate, phase, save_every=1, attention_rate=1 / scale)
    late = mf.GradientDescent(rate, more, save_every=max(10, settings["steps"] // 1000), attention_rate=1 / scale**2)
    first = mf.train(task, NETWORK, early, progress=progress)
    then = mf.train(task, NETWORK, late, start=first, progress=progress)
    step, A, u, loss = kit.joined([first, then], "A", "w", "loss")
    A, u = A[:, 0], u[:, 0]  # of the one head
    values = {
        "loss": ("sum over the lengths of the mean losses", settings["lengths"] * loss),
        "first": ("u on the first position", u[:, 0]),
        "second": ("u on the second position", u[:, 2]),
        "norm_u": ("‖u‖", np.linalg.norm(u, axis=1)),
        "norm_W": ("‖W‖", scale * np.linalg.norm(A, axis=(1, 2))),
        "attending": ("share of strings that attend most to their first letter (+), second (−)", attending(task, A)),
    }
    series = {"training": kit.labelled("step", step, values)}
    return kit.Results(runs={"late": then}, series=series, facts={"settings": settings})


def attending(task, A):
    """(time,) the share of strings that attend most to their first token if the label is +, to their second if it is −."""
    place = {name: i for i, name in enumerate(task.features)}
    read = [A[:, [place[name] for name, _ in atom], place[atom[-1][0]]].argmax(axis=1) for atom in task.atoms]
    return np.mean([at == (label < 0) for at, label in zip(read, task.labels)], axis=0)


def verdict(results):
    """The first step in closed form, the two phases as the source tells them, and the numbers of another program."""
    data, rate = results.series["training"], results.facts["settings"]["learning_rate"]
    early, late = data.sel(step=slice(3, 30)), data.sel(step=slice(data.step[-1] / 10, None))
    closed = kit.theory("under uniform attention only strings of one letter tell a letter's label: η/4")
    twin = kit.stored("another program, trained weight by weight")
    phases = kit.paper(
        "phase 1: u linear and quadratic in t; then a + string reads its first letter, a − string its second"
    )
    rates = kit.paper("phase 2: ‖u‖ grows like ln t, the loss falls at a rate of O(1/t)")
    moving = kit.stored("“attention becomes stable” is not seen with these constants; another program: 1.65")
    checks = [kit.near("first step", "u on the first position, step 1", data["first"][1], rate / 4, 1e-15, **closed)]
    for step, loss in ((1, 4.146500), (1_000, 0.342966), (10_000, 0.010228)):
        checks.append(kit.near(f"loss {step}", f"loss after step {step}", data.loss.sel(step=step), loss, 5e-7, **twin))
    for name, found in (("first", 0.91), ("second", 2.08)):
        says, measured = f"u on the {name} position: power of t, steps 3 to 30", kit.power(early.step, early[name])
        checks.append(kit.near(f"power {name}", says, measured, found, 0.005, **twin))
    sure, fit = data.attending.sel(step=slice(200, None)).min(), np.corrcoef(np.log(late.step), late.norm_u)[0, 1]
    falls, grows, moves = kit.power(late.step, late.loss), *(kit.growth(late.step, late[f"norm_{x}"]) for x in "uW")
    return [
        *checks,
        kit.between(
            "falls", "largest u on the second position, steps 3 to 30", early.second.max(), None, 0.0, **phases
        ),
        kit.near("attention", "share of strings that attend as said, least from step 200 on", sure, 1.0, 0.0, **phases),
        kit.between("logarithm", "last tenfold: correlation of ‖u‖ and ln t", fit, 0.99, None, **rates),
        kit.between("rate", "last tenfold: power of t with which the loss falls", falls, None, -1.0, **rates),
        kit.shown("u per ln t", "last tenfold: growth of ‖u‖ for each unit of ln t", grows),
        kit.between("W per ln t", "last tenfold: growth of ‖W‖ for each unit of ln t", moves, 1.5, None, **moving),
    ]


def answer(results):
    """What is confirmed, and what is not seen."""
    loss, found = float(results.series["training"].loss[-1]), {each.name: each.measured for each in verdict(results)}
    return (
        f"Yes: u grows like t^{found['power first']:.2f} on the first position and like −t^{found['power second']:.2f} on the "
        f"second; from step 200 every string attends as said; the loss falls to {loss:.4g}, at last like t^{found['rate']:.2f}. "
        f"Not seen with λ = {results.facts['settings']['temperature']:g}: that attention becomes stable. When ln t grows by 1, "
        f"‖W‖ still grows by {found['W per ln t']:.2f} and ‖u‖ by {found['u per ln t']:.2f}."
    )


def figures(results):
    """The loss with the strings that attend as said; u on two positions; norms against ln t."""
    data, colours = results.series["training"].isel(step=slice(2, None)), [colour for colour, _ in mf.plot.SERIES]
    blue, orange, green = colours[:3]
    with kit.panels(3) as (figure, (left, middle, right)):
        left.loglog(data.step, data.loss, color=blue, label="loss")
        left.loglog(data.step, data.attending, "--", color=orange, label="share of strings that attend as said")
        middle.loglog(data.step, data["first"], color=blue, label="u on the first position")
        middle.loglog(data.step, -data.second, "--", color=orange, label="−u on the second position")
        right.semilogx(data.step, data.norm_u, color=blue, label="‖u‖")
        right.semilogx(data.step, data.norm_W, "--", color=green, label="‖W‖")
        for axes in (left, middle, right):
            axes.set_xlabel("step")
    caption = "Attention separates the strings by step 200; then u grows like ln t, and W does not stop growing."
    alt = (
        "Three panels over logarithmic steps: the loss falls once all strings attend as said; u on the two positions grows "
        "with slopes near 1 and 2 at first; both norms keep rising."
    )
    return [kit.Picture("phases", caption, alt, figure)]


EXPERIMENT = kit.Experiment(
    name="even-pairs",
    title="Even pairs: a regular language in two phases",
    question="Does attention separate the strings first, and the read-out grow logarithmically afterwards?",
    section="§16, Other published results",
    config=CONFIG,
    run=run,
    verdict=verdict,
    figures=figures,
    answer=answer,
    seconds=(4.0, 12.0),
)
