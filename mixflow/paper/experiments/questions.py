"""What readers of the paper ask and it leaves open, each answered by a number."""

import math

import numpy as np

import mixflow as mf

from ..batch import changed, train_batch
from ..check import between, equal, near, paper, shown, stored, theory
from ..figures.questions import plot_questions
from ..reaching import reaches
from ..theory.critical import CV, critical, plateau_growth
from .curves import curves, right
from .learning_time import LEARNED
from .shape import Experiment, Picture, Results, Setting

CONFIG = {
    "learning_rate": Setting(0.1, "the paper's"),
    "omega": Setting(0.3, "as in the simultaneous experiment"),
    "bias": Setting(0.5, "as in the simultaneous experiment"),
    "large_bias": Setting(4.0, "no neuron switches off before 9b + 9/2 (e^{2b} − 1), about t = 13,000"),
    "ends": Setting([10.0, 20.0], "of stage 1: before and after the first switch-off at t = 12.2"),
    "attention": Setting(500.0, "of stage 2, as in the three-stage experiment"),
    "empty": Setting([0, 1, 2, 4], "zero tokens added to every sample"),
    "steps": Setting(20_000, "as in the simultaneous experiment"),
    "width": Setting(64, "of networks with ReLU before the average; they store every weight"),
    "values": Setting([1, 4], "neurons in each head there"),
    "seeds": Setting(3, "of those networks: enough to see that all learn", full=16),
}


def with_empty(count):
    """The two-mixture with so many zero tokens in every sample."""
    task = mf.Mixture(2).population()
    atoms = [[*atom, *[("v1", 0.0)] * count] for atom in task.atoms]
    return mf.FiniteTask(features=task.features, atoms=atoms, labels=task.labels, hard=task.hard)


def contrast(data):
    """(T,) the contrast sector's c–v score of head +, own minus other signal."""
    own, other, *_ = (values for _, _, values in mf.plot.attention_lines(data).values())
    return np.asarray(own) - np.asarray(other)


def run(settings, progress):
    """A run with a bias too large to switch off, two ends of stage 1, empty positions, ReLU before the average."""
    rate, common = settings["learning_rate"], {"omega": settings["omega"]}
    start = mf.Transformer(**common, bias=settings["bias"])
    method = mf.GradientDescent(rate, settings["steps"], save_every=20)
    base = mf.train(mf.Mixture(2), start, method)
    on = mf.train(mf.Mixture(2), mf.Transformer(**common, bias=settings["large_bias"]), method)
    staged = {}
    for end in settings["ends"]:
        stages = mf.ThreeStage(
            mf.GradientDescent(rate, 1000, 10), neurons=end, attention=settings["attention"], converge=1.0
        )
        staged[end] = mf.train(mf.Mixture(2), start, stages)
    longer, frozen = {}, {}
    for done, count in enumerate(settings["empty"]):
        L = 3 + count
        budget = mf.GradientDescent(rate, round(settings["steps"] * (L / 3) ** 3 / 4), save_every=20)
        data = mf.train(with_empty(count), start, budget).dataset
        longer[L] = reaches(data.time.values, data.loss.values, LEARNED) or math.nan
        alone = mf.ThreeStage(mf.GradientDescent(rate, 1000, 10), neurons=2.0 * L**2, attention=1.0, converge=1.0)
        frozen[L] = mf.train(with_empty(count), start, alone).stages[0].evidence["switch_off"] or math.nan
        progress(done + 1, len(settings["empty"]) + len(settings["values"]))
    before = {}
    for values in settings["values"]:
        options = {"activate": "before"} | ({"values": values, "value_scale": 0.1} if values > 1 else {})
        bases = [
            mf.Transformer(width=settings["width"], **common, bias=settings["bias"], seed=s)
            for s in range(settings["seeds"])
        ]
        rare = mf.GradientDescent(rate, settings["steps"], settings["steps"] // 100)
        batch = train_batch(mf.Mixture(2), [changed(each, **options) for each in bases], rare)
        ends = [mf.measure.detect(batch.isel(run=i))[1].end for i in range(len(bases))]
        before[values] = {"right": right(batch.accuracy[:, -1].values), "T2": ends}
    facts = {
        "base": base,
        "on": on,
        "staged": staged,
        "longer": longer,
        "frozen": frozen,
        "before": before,
        "settings": settings,
    }
    return Results(series={"scores": curves(base)}, facts=facts)


def verdict(results):
    """One or two rows for each question."""
    facts, settings = results.facts, results.facts["settings"]
    return [
        *_asymmetry(facts, settings),
        *_roles(results),
        *_first_end(facts),
        *_order(facts, settings),
        *_positions(facts, settings),
    ]


def _asymmetry(facts, settings):
    """Where does the asymmetry between the classes' own and other signals come from?"""
    score, loss = contrast(facts["on"].dataset), facts["on"].dataset.loss.values
    why = theory(
        "with every neuron on, A_cv = A_vc = 0 is invariant (docs/mathematics.md §5); tolerance: rounding",
        tolerance=1e6,
    )
    tied = theory("hard samples are tied then, and half of the samples at log 2 leave at least ½ log 2")
    b = settings["large_bias"]
    says = (
        f"b = {b:g}, so that no neuron switches off: largest contrast score until t = "
        f"{facts['on'].dataset.time.values[-1]:g}"
    )
    return [
        between("asymmetry", says, np.abs(score).max(), None, 1e-12, **why),
        between("floor", "its loss at the end", loss[-1], math.log(2) / 2, None, **tied),
    ]


def _roles(results):
    """How do the curves for the identifier as query look?"""
    end = results.series["scores"].isel(time=-1)
    return [
        shown("query own", "the identifier as query, own signal as key: A[v_k, c_k] at the end", end.A_query_own),
        shown(
            "query other", "the identifier as query, another signal as key: A[v_j, c_k] at the end", end.A_query_other
        ),
    ]


def _off(run):
    """When the first neuron switches off, located between the saves; None if none does."""
    return run.stages[0].evidence["switch_off"]


def _at(data, t):
    """The contrast score at a time."""
    return float(np.interp(t, data.time.values, contrast(data)))


def _first_end(facts):
    """Must stage 1 end after the first switch-off? And what separates after stage 2?"""
    early, late = (facts["staged"][end] for end in facts["settings"]["ends"])
    T1 = facts["settings"]["ends"]
    length = facts["settings"]["attention"]
    score, on = contrast(early.dataset), (early.dataset.z.values > 0).all(axis=(1, 2))
    first = _off(early) or math.nan
    before = theory(
        "w·c = 0, and with every neuron on nothing moves the contrast (docs/mathematics.md §5); rounding", tolerance=1e6
    )
    says = (
        f"stage 1 ends at t = {T1[0]:g}, before the first switch-off: largest contrast score while every neuron is on"
    )
    checks = [between("too early", says, np.abs(score[on]).max(), None, 1e-12, **before)]
    checks.append(shown("too early off", "there, stage 2 itself switches a neuron off only at t", first))
    slow = _at(early.dataset, T1[0] + length)
    checks.append(shown("too early end", "there, contrast score at the end of stage 2", slow))
    says = f"stage 1 ends at t = {T1[1]:g}, after it: contrast score at the end of stage 2"
    checks.append(
        between(
            "late enough",
            says,
            _at(late.dataset, T1[1] + length),
            0.1,
            None,
            **theory("h_cv > 0 then, so the contrast grows; 0.1: well above rounding"),
        )
    )
    field = mf.field(mf.Mixture(2), late.transformer, model="symmetric")
    w = late.dataset.w.sel(time=T1[1], method="nearest").sel(head="+").values
    G = field.unpack(field.y0)["G_K"]
    y = field.pack(np.array([w[0], w[-1]]), np.zeros((2, 2, 2)), G, G)
    ratio = critical(field, [T1[1]], y[None]).H[0][CV] / (w[0] * plateau_growth(2))
    formula = theory("h_cv = w·c/(2 (K+1)³) at uniform attention (docs/mathematics.md §12); tolerance: rounding")
    checks.append(near("h_cv", "h_cv at the start of stage 2 over w·c/(2 (K+1)³)", ratio, 1.0, 1e-9, **formula))
    A = late.dataset.A.values[-1]
    for kind in ("easy", "hard"):
        margin = mf.measure.feature_margin(mf.Mixture(2), A, samples=kind)
        says = f"feature margin of the {'consistent (easy)' if kind == 'easy' else 'hard'} samples after that stage 2"
        checks.append(
            between(
                f"{kind} after 2",
                says,
                margin,
                1e-9,
                None,
                **paper("the features are separable after stage 2; any positive margin"),
            )
        )
    return checks


def _order(facts, settings):
    """A construction with the neuron inside the average, and training it."""
    net = mf.construct(classes=2, target_margin=1.0)
    P = mf.measure.attention_probabilities(mf.Mixture(2), net.A)  # (head, atom, key, query)
    heard = np.einsum("hakq,hk->haq", np.nan_to_num(P), net.w)
    says = "closed form: smallest of what any single query reads, so ReLU inside or outside the average is the same"
    why = theory("w is β on identifiers and 0 on signals, so no query reads a negative value")
    checks = [between("inside", says, heard.min(), 0.0, None, **why)]
    for values, found in facts["before"].items():
        name = f"ReLU before the average, {values} value{'s' * (values > 1)} a head"
        says = f"{name}: seeds of {settings['seeds']} that end with every sample right"
        known = stored(
            "the paper's network has ReLU after the average; that the other order learns too was seen before"
        )
        checks.append(equal(f"before {values}", says, found["right"], settings["seeds"], **known))
        checks.append(
            shown(
                f"before {values} T2",
                f"{name}: end of the attention stage, mean",
                np.mean([t or math.nan for t in found["T2"]]),
            )
        )
    return checks


def _positions(facts, settings):
    """General L with empty positions."""
    b, rate = settings["bias"], settings["learning_rate"]
    checks = []
    for L, off in facts["frozen"].items():
        exact = L**2 * (b + math.expm1(2 * b) / 2)
        says = f"L = {L} with {L - 3} empty: stage 1 switches the first neuron off"
        why = theory("z = b − 2α/L with α' = 1/(2L (1 + e^{4α/L})) gives L² (b + (e^{2b} − 1)/2); one step of descent")
        checks.append(near(f"off {L}", says, off, exact, rate, **why))
    for L, time in facts["longer"].items():
        checks.append(shown(f"learned {L}", f"L = {L} with {L - 3} empty: the loss falls to 0.1 at t", time))
    return checks


def answer(results):
    """Each question in half a sentence."""
    facts, end = results.facts, results.series["scores"].isel(time=-1)
    early, late = facts["settings"]["ends"]
    T, length = facts["longer"], facts["settings"]["attention"]
    L = max(T)
    slow, fast = (_at(facts["staged"][end].dataset, end + length) for end in (early, late))
    off = _off(facts["staged"][early])
    itself = f"until it switches a neuron off itself, at t = {off:.0f}," if off else "to its end"
    return (
        "The asymmetry comes from neurons that switch off: with all on, the contrast score stays 0. As query the "
        "identifier ends at "
        f"{float(end.A_query_own):.2f} for its own and {float(end.A_query_other):.2f} for other signals. If stage 1 "
        "ends before the "
        f"first switch-off, at t = {early:g}, stage 2 stands still {itself} and reaches a contrast of {slow:.2f}; "
        f"ended at t = {late:g}, "
        f"{fast:.2f}. ReLU before the average learns too. {L - 3} empty positions make learning {T[L] / T[3]:.1f} "
        "times slower."
    )


def figures(results):
    """Key and query, both ends of stage 1, empty positions."""
    facts = results.facts
    staged = {}
    for end, run in facts["staged"].items():
        inside = run.dataset.isel(time=run.dataset.time.values >= end)
        staged[f"at t = {end:g}"] = (inside.time.values - end, contrast(inside))
    positions = (list(facts["longer"]), list(facts["longer"].values()))
    caption = (
        "Left: the four scores of the identifier, as key and as query. Middle: the contrast score in stage 2 when "
        "stage 1 ended before "
        "and after the first switch-off; before, it stays 0 (drawn at 10⁻¹⁸) until attention itself switches a "
        "neuron off. Right: learning time with empty "
        "positions."
    )
    alt = (
        "Three panels. Four attention scores over logarithmic time, own key rising, the others falling. A score that "
        "stays at zero "
        "beside one that grows. Learning time against the number of tokens on logarithmic axes beside a cubic line."
    )
    return [Picture("answers", caption, alt, plot_questions(results.series["scores"], staged, positions))]


EXPERIMENT = Experiment(
    name="questions",
    title="What readers ask",
    question="Where does the asymmetry come from, when may stage 1 end, and what do key and query, ReLU and empty "
    "positions do?",
    section="§5, What training does",
    config=CONFIG,
    run=run,
    verdict=verdict,
    figures=figures,
    answer=answer,
    seconds=(6.0, 40.0),
)
