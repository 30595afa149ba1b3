"""The paper's experiment: K = 2, every weight trained at once by gradient descent; do three stages appear?"""

import math

import mixflow as mf

from ..batch import train_batch
from .curves import curves, first_below
from .shape import Experiment, Picture, Results, Setting, between, equal, near, shown

ORDER = ["neurons", "attention", "convergence"]
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

CONFIG = {
    "learning_rate": Setting(0.1, "the paper's"),
    "omega": Setting(0.3, "the paper asks for ω < 1 and names no value"),
    "bias": Setting(0.5, "not trained and not given in the paper; 1/2 leaves every neuron on at the start"),
    "steps": Setting(20_000, "time 2,000: the loss has fallen like 1/t for nine tenths of it"),
    "save_every": Setting(10, "one save for each unit of time"),
    "width": Setting(64, "the finite transformer whose seeds give the intervals"),
    "seeds": Setting(8, "enough for a t-interval", full=32),
}


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
    """Three stages in the paper's order, the weights the mathematics predicts, the same at finite width."""
    limit, settings = results.runs["mean-field"], results.facts["settings"]
    series = results.series["mean-field"]
    end = series.isel(time=-1)
    rate, spacing = settings["learning_rate"], settings["learning_rate"] * settings["save_every"]
    checks = [
        equal("stage order", "three stages, one after the other", in_order(limit.stages), ", ".join(ORDER)),
        near("loss", "population loss at the end", end.loss, LOSS, 1e-6, relative=True),
        equal("accuracy", "every sample is classified rightly at the end", f"{float(end.accuracy):g}", 1),
        near("T1", "the first neuron switches off", limit.stages[0].end or math.nan, SWITCH_OFF, rate),
        between("T2", "the hard samples' loss falls to half its plateau", limit.stages[1].end or math.nan, 195, 210),
    ]
    checks += [near(name, says, end[name], value, 1e-4) for name, (says, value) in END.items()]
    for level, steps in STEPS_TO.items():
        reached = first_below(series.time.values, series.loss.values, level)
        says = f"time of the first save with loss below {level:g}"
        checks.append(between(f"loss below {level:g}", says, reached, steps * rate - 1e-9, steps * rate + spacing))
    plateau = series.sel(time=slice(50, 150))
    checks.append(between("plateau high", "loss on the plateau, t = 50", plateau.loss[0], 0.4, 0.48))
    checks.append(
        between("plateau margin", "hard samples undecided at t = 50", plateau.smallest_margin[0], -0.01, 0.01)
    )
    slope = limit.stages[2].evidence.get("slope", math.nan)
    checks.append(near("decay", "loss ~ 1/t: halving takes twice as long each time (slope 1)", slope, 1.0, 0.5))
    return checks + _over_seeds(results)


def _over_seeds(results):
    stages, width = results.facts["stages"], results.facts["settings"]["width"]
    found = sum(in_order(each) == ", ".join(ORDER) for each in stages)
    checks = [equal("seeds", f"seeds at width {width} with the three stages in order", found, len(stages))]
    for (name, side), boundary in mf.measure.stage_intervals(stages).items():
        if side == "end":
            says = f"end of the {name} stage, mean over {boundary.found} seeds at width {width}"
            checks.append(shown(f"{name} end", says, boundary.mean, low=boundary.low, high=boundary.high))
    return checks


def in_order(stages):
    """The names of the stages that exist, by their start."""
    found = [stage for stage in stages if stage.found]
    return ", ".join(stage.name for stage in sorted(found, key=lambda stage: stage.start))


def figures(results):
    """One picture: losses, neurons, attention, with the stages shaded."""
    limit = results.runs["mean-field"]
    ends = [stage.end for stage in limit.stages[:2]]
    caption = (
        "Every weight trained at once by gradient descent, infinite width. The neurons learn the easy samples, the loss waits "
        "on a plateau while attention learns which identifier belongs to which signal, then it converges."
    )
    alt = (
        "Three panels over logarithmic time. Losses of easy samples fall first, those of hard samples only near t = "
        f"{ends[1] or math.nan:.0f}. w·v rises from the start, w·c after t = {ends[0] or math.nan:.0f}. A[c_k, v_k] rises and "
        "A[c_k, v_j] and A[v_k, c_k] fall during the attention stage."
    )
    return [Picture("run", caption, alt, mf.plot_run(limit))]


EXPERIMENT = Experiment(
    name="simultaneous",
    title="Simultaneous training, two classes",
    question="If all weights are trained at once, do neurons, attention and convergence still come one after the other?",
    section="§5, What training does",
    config=CONFIG,
    run=run,
    verdict=verdict,
    figures=figures,
    seconds=(8.0, 12.0),
)
