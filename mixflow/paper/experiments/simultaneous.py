"""The paper's experiment: K = 2, every weight trained at once by gradient descent; do three stages appear?"""

import math

import numpy as np

import mixflow as mf

from ..batch import train_batch
from ..check import between, equal, near, paper, shown, stored, theory
from ..reaching import reaches
from .curves import ORDER, curves, in_order
from .shape import Experiment, Picture, Results, Setting

# docs/mathematics.md §3, from a program that shares nothing with this one: the end of the run with ω = 0.3, b = 1/2, η = 0.1
# after 20,000 steps, and the number of steps after which the loss is first below a level.
END = {
    "w_c": ("w·c_k at the end", 5.6661),
    "w_v": ("w·v_k at the end", 4.2723),
    "A_c_own": ("A[c_k, v_k] at the end: the identifier as key, its own signal asks", 4.8889),
    "A_c_other": ("A[c_k, v_j] at the end: the identifier as key, another signal asks", -5.0293),
    "A_query_own": ("A[v_k, c_k] at the end: the identifier asks, its own signal is the key", -3.5211),
}
LOSS = 0.003296466671
STEPS_TO = {0.5: 135, 0.3: 1774, 0.1: 2464, 0.01: 7124}
SWITCH_OFF = 12.197  # §5: where the flow's first neuron switches off; descent follows within a learning rate

SMALL = "a “sufficiently small positive constant such as 1/2” in the paper; that it is not trained is our choice"
CONFIG = {
    "learning_rate": Setting(0.1, "the paper's"),
    "omega": Setting(0.3, "the paper's “some small constant” ω < 1 without a number; the value is our choice"),
    "bias": Setting(0.5, SMALL),
    "steps": Setting(20_000, "time 2,000: the loss has fallen like 1/t for nine tenths of it"),
    "save_every": Setting(10, "one save for each unit of time; what is timed is located between the saves"),
    "width": Setting(64, "the finite transformer whose seeds give the intervals"),
    "seeds": Setting(16, "the least for which an interval is shown", full=64),
}
STORED = "from a program that shares nothing with this one, docs/mathematics.md §3; tolerance: the digits stored"


def run(settings, progress):
    """The infinitely wide transformer, then several finite ones from different random starts."""
    method = mf.GradientDescent(settings["learning_rate"], settings["steps"], settings["save_every"])
    common = {"omega": settings["omega"], "bias": settings["bias"]}
    limit = mf.train(mf.Mixture(2), mf.Transformer(width=math.inf, **common), method, progress=progress)
    finite = [mf.Transformer(width=settings["width"], seed=seed, **common) for seed in range(settings["seeds"])]
    many = train_batch(mf.Mixture(2), finite, method, progress=progress)
    stages = [mf.measure.detect(many.isel(run=i)) for i in range(len(finite))]
    over_seeds = many[["loss", "loss_easy", "loss_hard", "accuracy"]].drop_vars(
        ["model", "diverged_step"], errors="ignore"
    )
    over_seeds.attrs = {"spec": many.attrs["spec"]}
    return Results(
        runs={"mean-field": limit},
        series={"mean-field": curves(limit), "seeds": over_seeds},
        facts={"stages": stages, "settings": settings},
    )


def verdict(results):
    """The paper's three stages, what theory says of stage 1, and the numbers stored before."""
    limit, settings = results.runs["mean-field"], results.facts["settings"]
    series = results.series["mean-field"]
    end, rate = series.isel(time=-1), settings["learning_rate"]
    checks = [
        equal(
            "stage order",
            "three stages, one after the other",
            in_order(limit.stages),
            ", ".join(ORDER),
            **paper("the three stages of the paper's analysis: neurons, attention, convergence; nothing to tolerate"),
        ),
        equal(
            "accuracy",
            "every sample is classified rightly at the end",
            f"{float(end.accuracy):g}",
            1,
            **paper("the paper's conclusion, the loss goes to 0; nothing to tolerate"),
        ),
        *_stage_one(limit, settings),
        near(
            "decay",
            "loss ~ 1/t: halving takes twice as long each time (slope 1)",
            limit.stages[2].evidence.get("slope", math.nan),
            1.0,
            0.5,
            **theory(
                "logistic loss with margins that grow like log t; ± 0.5 is nearer to 1 than to 0 (exponential) or 2 "
                "(t^−½)"
            ),
        ),
        near("loss", "population loss at the end", end.loss, LOSS, 1e-6, relative=True, **stored(STORED)),
        near(
            "T1",
            "the first neuron switches off",
            limit.stages[0].end or math.nan,
            SWITCH_OFF,
            rate,
            **stored("the flow's time, docs/mathematics.md §5; descent follows within a learning rate"),
        ),
        between(
            "T2",
            "the hard samples' loss falls to half its plateau",
            limit.stages[1].end or math.nan,
            195,
            210,
            **stored("seen before in this run", after=True),
        ),
    ]
    checks += [near(key, says, end[key], value, 1e-4, **stored(STORED)) for key, (says, value) in END.items()]
    for level, steps in STEPS_TO.items():
        t = reaches(series.time.values, series.loss.values, level)
        says = f"the loss falls to {level:g}, between saves"
        bounds = ((steps - 1) * rate, steps * rate)
        checks.append(between(f"loss {level:g}", says, t or math.nan, *bounds, **stored(STORED)))
    says = "loss on the plateau, t = 50"
    plateau = series.sel(time=50, method="nearest")
    checks.append(between("plateau", says, plateau.loss, 0.4, 0.48, **stored("seen before", after=True)))
    return checks + _over_seeds(results)


def _stage_one(limit, settings):
    """What holds exactly until the first neuron switches off: w·c = 0 and hard samples are tied (docs/mathematics.md §5)."""
    data = limit.expand().dataset if "A" not in limit.dataset else limit.dataset
    before = data.isel(time=data.time.values < (limit.stages[0].end or 0.0))
    hard, c = data.hard.values.astype(bool), [str(name).startswith("c") for name in data.feature.values]
    worth = float(np.abs(before.w.values[..., c]).max(initial=0.0))
    tied = float(np.abs(before.margin.values[:, hard]).max(initial=0.0))
    signals = data.w.sel(head="+").values[..., ~np.array(c)].max(axis=-1)
    moved = float(np.interp(limit.stages[0].end or math.nan, data.time.values, signals))
    why = "with every neuron on, w·c = 0 is invariant (docs/mathematics.md §5); tolerance: rounding"
    known = theory(why, tolerance=1e6)
    need = 1.5 * settings["bias"]
    return [
        between("w.c", "largest |w·c| before the first neuron switches off", worth, None, 1e-12, **known),
        between("ties", "largest |y·F| of a hard sample before that", tied, None, 1e-12, **known),
        near(
            "w.v",
            "w·v of head + when it does: 3b/2",
            moved,
            need,
            0.04 * need,
            **theory(
                "z = b − 2α/3 = 0 switches it off (docs/mathematics.md §5); tolerance: what attention moves until then"
            ),
        ),
    ]


def _over_seeds(results):
    stages, width = results.facts["stages"], results.facts["settings"]["width"]
    there = sum(in_order(each) == ", ".join(ORDER) for each in stages)
    says = f"seeds at width {width} with the three stages in order"
    checks = [
        equal(
            "seeds",
            says,
            there,
            len(stages),
            **paper("the paper's stages, at finite width and a random start; every seed must show them"),
        )
    ]
    for (name, side), boundary in mf.measure.stage_intervals(stages).items():
        if side == "end":
            says, over = f"end of the {name} stage, mean", f"{boundary.found} seeds at width {width}"
            checks.append(shown(f"{name} end", says, boundary.mean, low=boundary.low, high=boundary.high, over=over))
    return checks


def answer(results):
    """The times of the mean-field run."""
    T1, T2 = (stage.end or math.nan for stage in results.runs["mean-field"].stages[:2])
    loss = float(results.series["mean-field"].loss[-1])
    return (
        f"Yes. The neurons learn the easy samples until t = {T1:.1f}, attention the correspondence until t = {T2:.0f}, "
        f"then the loss falls like 1/t, to {loss:.4f} at t = {float(results.series['mean-field'].time[-1]):.0f}."
    )


def figures(results):
    """One picture: losses, neurons, attention, with the stages shaded."""
    limit = results.runs["mean-field"]
    ends = [stage.end for stage in limit.stages[:2]]
    caption = (
        "Every weight trained at once by gradient descent, infinite width. The neurons learn the easy samples, the "
        "loss waits "
        "on a plateau while attention learns which identifier belongs to which signal, then it converges."
    )
    alt = (
        "Three panels over logarithmic time. Losses of easy samples fall first, those of hard samples only near t = "
        f"{ends[1] or math.nan:.0f}. w·v rises from the start, w·c after t = {ends[0] or math.nan:.0f}. A[c_k, v_k] "
        "rises and "
        "A[c_k, v_j] and A[v_k, c_k] fall during the attention stage."
    )
    return [Picture("run", caption, alt, mf.plot_run(limit))]


EXPERIMENT = Experiment(
    name="simultaneous",
    title="Simultaneous training, two classes",
    question="If all weights are trained at once, do neurons, attention and convergence still come one after the "
    "other?",
    section="§5, What training does",
    config=CONFIG,
    run=run,
    verdict=verdict,
    figures=figures,
    answer=answer,
    seconds=(5.0, 12.0),
)
