"""How single-head attention learns: Snell, Zhong, Klein, Steinhardt, "Approximating how single head attention learns", 2021.

From the source: a constant token asks; samples {0, 0} → − and {0, 1} → +, loss −yF, linear output, W_KQ trained directly; the
value is learned first, from co-occurrence, and drives the attention; where co-occurrence says nothing, as in copying
permutations, "the learning of the attention fails". Our choices: 3 words, a token is word + place, the asking token says which
place to copy; entries of W_K and W_Q are N(0, ω²/m) with ω = 0.3, shared by the three classes; softmax loss, rate 0.5.
"""

import itertools
import math

import numpy as np

import mixflow as mf

from .. import papers as kit

CONFIG = {
    "learning_rate": kit.Setting(0.001, "of the sum over both samples: nearly the flow"),
    "steps": kit.Setting(8000, "until t = 8"),
    "omega": kit.Setting(0.3, "as everywhere here"),
    "widths": kit.Setting([4**k for k in range(2, 10)], "the delay is a matter of ln m"),
    "seeds": kit.Setting(8, "one batch of lanes for each width", full=32),
    "copy_rate": kit.Setting(0.5, "fine beside delays of 100 units of time"),
    "copy_steps": kit.Setting(800, "t = 400: twice the delay of the widest network"),
}
LINEAR = {"queries": "one", "activation": "linear", "bias": 0.0}
GROWS = np.kron(
    np.eye(3) - 1 / 3, np.ones((3, 1))
)  # the one mode of A that grows: who asks for a place reads that place


def deciding():
    """Token 1 decides; a token that stands in no sample asks."""
    atoms, ask = [[("0", 1), ("0", 1)], [("0", 1), ("1", 1)]], [("ask", 1)] * 2
    return mf.FiniteTask(features=("0", "1", "ask"), atoms=atoms, labels=[-1, 1], query=ask, loss="linear")


def copying():
    """Copy the word at the place that is asked for, from permutations of three words."""
    cases = list(itertools.product(itertools.permutations("abc"), range(3)))
    tokens = [word + str(place) for place in range(3) for word in "abc"]
    gram = np.eye(12)  # a token is the sum of a word and a place, orthonormal each
    gram[:9, :9] = [[(x[0] == y[0]) + (x[1] == y[1]) for y in tokens] for x in tokens]
    return mf.FiniteTask(
        features=[*tokens, "?0", "?1", "?2"],
        atoms=[[(word + str(i), 1) for i, word in enumerate(order)] for order, _ in cases],
        labels=["abc".index(order[place]) for order, place in cases],
        query=[(f"?{place}", 1) for _, place in cases],
        gram=gram,
        loss="softmax",
    )


def run(settings, progress):
    """The deciding token; copying at many widths and at infinite width."""
    direct = mf.Transformer(heads=1, attention="direct", **LINEAR)
    rate = 2 * settings["learning_rate"]  # the task is a mean over two samples
    descent = mf.GradientDescent(rate, settings["steps"], save_every=1)
    one = mf.train(deciding(), direct, descent, progress=progress).dataset
    gap = one.A.values[:, 0, 1, 2] - one.A.values[:, 0, 0, 2]
    value, share = ("value of the deciding token", one.w.values[:, 0, 1]), ("attention on it", 1 / (1 + np.exp(-gap)))
    first = {"value": value, "score": ("its score, less the other's", gap), "share": share}
    method = mf.GradientDescent(settings["copy_rate"], settings["copy_steps"], save_every=5)
    shared = {"shared_attention": True, "omega": settings["omega"], **LINEAR}
    widths = np.repeat(settings["widths"], settings["seeds"])
    nets = [mf.Transformer(int(width), seed=seed, **shared) for seed, width in enumerate(widths)]
    many = mf.train_many(copying(), nets, method, progress=progress).dataset
    limit = mf.train(copying(), mf.Transformer(**shared), method, progress=progress)
    half = [np.interp(-math.log(3) / 2, -np.minimum.accumulate(loss), many.time) for loss in many.loss.values]
    copies = {
        "width": ("width", widths),
        "start": ("A(0) along the mode that grows", np.sum(many.A.values[:, 0, 0, :9, 9:] * GROWS, axis=(1, 2))),
        "delay": ("time to a loss of ½ ln 3", half),
    }
    first, copies = kit.labelled("step", one.step, first), kit.labelled("run", range(len(nets)), copies)
    apart, sigma = float(np.abs(limit.dataset.loss - math.log(3)).max()), math.sqrt(2) * settings["omega"] / 9
    later = settings["copy_rate"] / math.log1p(settings["copy_rate"] * sigma)  # docs/mathematics.md §16
    series, facts = {"deciding": first, "copying": copies}, {"apart": apart, "later": later, **settings}
    return kit.Results(runs={"infinite": limit}, series=series, facts=facts)


def verdict(results):
    """Powers, attention on the deciding token, and what becomes of copying."""
    data, copies, facts = results.series["deciding"], results.series["copying"], results.facts
    early, checks = data.sel(step=slice(10, 100)), []
    twin = kit.stored("another program, trained weight by weight")
    fails = kit.paper("copying permutations: “the learning of the attention fails”; here there is no gradient at all")
    delay = kit.stored("a delay, not a failure: another program learned at every finite width")
    mode = kit.theory("one mode of A grows, like e^{σt}, σ = √2 ω/9 (docs/mathematics.md §16)")
    for name, found in (("value", 1.000), ("score", 2.040)):
        says, measured = f"steps 10 to 100: power of t of the {name}", kit.power(early.step, early[name])
        checks.append(kit.near(name, says, measured, found, 1.5e-3, **twin))
    for t, share in ((1, 0.563062), (2, 0.730254), (4, 0.937104)):
        says, step = f"attention on the deciding token, t = {t}", round(t / facts["learning_rate"])
        checks.append(kit.near(f"share {t}", says, data.share.sel(step=step), share, 5e-7, **twin))
    size = np.abs(copies.start) * np.sqrt(copies.width)  # where it is small, other modes disturb
    clear = copies.isel(run=((copies.width >= 1024) & (size > size.median())).values)
    plane = np.stack([-np.log(np.abs(clear.start)), np.sign(clear.start), np.ones(clear.sizes["run"])], axis=1)
    later, per = np.linalg.lstsq(plane, clear.delay.values)[0][0], np.polyfit(np.log(copies.width), copies.delay, 1)[0]
    says = "width from 1024, clear start: delay for a start smaller by e"
    return [
        *checks,
        kit.between("infinite width", "largest change from ln 3", facts["apart"], None, 1e-12, tolerance=1e6, **fails),
        kit.between("finite width", "largest time to a loss of ½ ln 3", copies.delay.max(), None, 390, **delay),
        kit.near("later", says, later, facts["later"], 0.02, relative=True, **mode),
        kit.shown("per ln m", "delay for each unit of ln m: half of that, up to the luck of the draws", per),
    ]


def answer(results):
    """What is confirmed, and what is a matter of width."""
    found = {each.name: each.measured for each in verdict(results)}
    return (
        f"Yes: the value moves like t^{found['value']:.3f}, the attention like t^{found['score']:.3f}, and is "
        f"{found['share 4']:.1%} on the deciding token at t = 4. Copying permutations is never learned at infinite width; at "
        f"finite width it is a delay, not a failure: {found['per ln m']:.1f} units of time for each unit of ln m."
    )


def figures(results):
    """Value, score and attention of the deciding token; the delay of copying against the width."""
    data, copies = results.series["deciding"].isel(step=slice(10, None)), results.series["copying"]
    time, widths, half = results.facts["learning_rate"] * data.step, np.unique(copies.width), results.facts["later"] / 2
    with kit.panels(2) as (figure, (left, right)):
        for name, dash, (colour, _) in zip(("value", "score", "share"), ("-", "--", ":"), mf.plot.SERIES):
            left.loglog(time, data[name], dash, color=colour, label=data[name].long_name)
        right.semilogx(copies.width, copies.delay, ".", color=mf.plot.SERIES[0][0], label="one network each")
        line = float(copies.delay.mean()) + half * np.log(widths / np.exp(np.log(widths).mean()))
        right.semilogx(widths, line, "--", color="#767676", label=f"slope {half:.1f} for each unit of ln m")
        left.set_xlabel("time")
        right.set(xlabel="width m", ylabel="time to a loss of ½ ln 3")
    caption = "The value comes first and drives the attention. Where it cannot, in copying, wider networks wait longer."
    alt = "Left: the value rises with slope 1, the score with slope 2. Right: the delay rises with the logarithm of the width."
    return [kit.Picture("attention", caption, alt, figure)]


EXPERIMENT = kit.Experiment(
    name="single-head",
    title="How single-head attention learns",
    question="Does the value come first and drive the attention, and does attention fail where it cannot?",
    section="§16, Other published results",
    config=CONFIG,
    run=run,
    verdict=verdict,
    figures=figures,
    answer=answer,
    seconds=(6.0, 12.0),
)
