"""What can be claimed of a single run, from its dataset alone; `check` evaluates all that apply.

Each function takes a run's dataset, its task and its transformer and returns (measured, holds, facts), or raises
`Silent(reason)` where the claim says nothing about such a run.
"""

import math

import numpy as np

import mixflow as mf

from ..check import Check, paper, theory
from ..reaching import reaches
from .comparison import LEVEL, enclosed
from .critical import CV, critical_of_run, score_of_run

SEPARATED = 0.1  # feature margin of the hard samples: K = 2 starts at 0 and is at 0.48 after t = 2000
FEWEST, ENOUGH = 20, 500  # saves until separation: with fewer h is not known well enough, with more every few will do


class Silent(Exception):
    """The claim does not apply; the message says why."""


def _saved_often(data):
    """Silent where a descent was saved so rarely that its times would be read off straight lines between two saves."""
    if "step" not in data.coords:
        return
    time, easy = data["time"].values, data["loss_easy"].transpose("time", ...).values
    if len(time) < FEWEST:
        raise Silent(f"only {len(time)} saves: save more often")
    half = reaches(time, easy, easy[0] / 2) if np.isfinite(easy).all() else None
    if half is not None and (count := int(np.searchsorted(time, half))) < 3:
        raise Silent(f"only {count} saves until half of the easy loss is gone: save more often")


def neurons_first(data, task, transformer):
    """Time at which a score has moved by 1, over the time at which half of the easy loss is gone: above 1."""
    _saved_often(data)
    easy = data["loss_easy"].transpose("time", ...).values
    if not np.isfinite(easy).all():
        raise Silent("the task has no easy samples")
    time, scores = data["time"].values, _scores(data)
    half = reaches(time, easy, easy[0] / 2)
    moved = reaches(time, np.abs(scores - scores[0]).max(axis=1), 1.0)
    if half is None:
        return math.nan, False, {"reason": "half of the easy loss is never gone"}
    if moved is None:
        return math.inf, False, {"reason": "no score ever moves by 1: the attention does not learn"}
    ratio = moved / max(half, 1e-12)
    stages = mf.measure.detect(data)
    in_order = all(stage.found for stage in stages) and stages[0].end <= stages[1].end <= stages[2].start + 1e-9
    facts = {stage.name: [stage.start, stage.end] for stage in stages} | {"half easy": half, "score by 1": moved}
    return ratio, bool(ratio > 1 and in_order), facts


def neurons_align(data, task, transformer):
    """The switch-off time over its prediction 9b + 9/2 (e^{2b} − 1), which neglects the attention's motion until then (K = 2)."""
    if getattr(task, "classes", None) != 2 or not transformer.mean_field or "w" not in data:
        raise Silent("the closed form is for K = 2 at infinite width")
    if transformer.bias <= 0 or transformer.omega >= 1 or transformer.tie_values:
        raise Silent("it needs 0 < b, ω < 1 and untied values")
    _saved_often(data)
    off = mf.measure.detect(data)[0].evidence.get("switch_off")
    if off is None:
        return math.nan, False, {"reason": "no neuron switches off"}
    predicted = 9 * transformer.bias + 4.5 * math.expm1(2 * transformer.bias)
    before = data.isel(time=data["time"].values < off)
    c = np.array([name.startswith("c") for name in data["feature"].values])
    stray = float(np.abs(before["w"].values[..., c]).max(initial=0.0))
    ratio = off / predicted
    return (
        ratio,
        abs(ratio - 1) < 0.03 and stray < 1e-9,
        {"switch_off": off, "predicted": predicted, "largest_wc": stray},
    )


def features_separate(data, task, transformer):
    """The hard samples' exact feature margin at the end: at least SEPARATED, and a tenth of it at the first switch-off."""
    if "A" not in data:
        raise Silent("the features are not listed: run.expand() writes them out for K ≤ 8")
    population = task.population()
    if not population.hard.any():
        raise Silent("the task has no hard samples")
    samples = mf.measure.deciding(population)
    stages = mf.measure.detect(data)
    time = data["time"].values
    begin = stages[0].end if stages[0].found and stages[0].end is not None else time[0]
    index = int(np.searchsorted(time, begin, side="right")) - 1
    A = data["A"].transpose("time", "head", "key", "query").values
    early, late = (float(mf.measure.feature_margin(population, A[i], samples=samples)) for i in (index, -1))
    # K ≥ 3 asks for all samples, whose margin is smaller: 0.034 at K = 3, and 0 before.
    enough = SEPARATED if samples == "hard" else SEPARATED / 5
    return late, late >= enough and early <= late / 10, {"early": early, "samples": samples, "at": float(time[index])}


def one_over_t(data, task, transformer):
    """The slope of halving times in the convergence stage: 1 for a loss like 1/t, 0 for exponential decay, 2 for t^(−1/2)."""
    _saved_often(data)
    stage = mf.measure.detect(data)[2]
    if not stage.found:
        return math.nan, False, {"reason": stage.evidence["reason"]}
    slope = stage.evidence.get("slope")
    if slope is None or not math.isfinite(slope):
        return math.nan, False, {"reason": "the loss does not fall far enough to tell its law; train longer"}
    return float(slope), 0.5 <= slope <= 1.5, {"start": stage.start, "loss": float(data["loss"].values[-1])}


def learned(data, task, transformer):
    """The final accuracy: 1."""
    accuracy = float(data["accuracy"].values[-1])
    return accuracy, accuracy > 1 - 1e-9, {"loss": float(data["loss"].values[-1])}


def conserved(data, task, transformer):
    """Largest drift of tr C and tr C² relative to their terms: rounding in the flow, below 5 % in descent."""
    suffix = "" if "A" in data else "_sector"
    A, G_K, G_Q = (data[name + suffix].transpose("time", ...).values for name in ("A", "G_K", "G_Q"))
    gram = None if suffix else getattr(task.population(), "gram", None)
    change = float(mf.measure.drift(A, G_K, G_Q, gram).max())
    least = float(mf.measure.smallest_eigenvalue(A, G_K, G_Q).min())
    descent = "step" in data.coords
    return change, change < (0.05 if descent else 1e-6) and least > -1e-8, {"smallest_eigenvalue": least}


def critical_drives(data, task, transformer):
    """A_cv by its one growth entry h_cv over A_cv, when that first reaches 1: near 1 (class averages at finite width)."""
    if not getattr(task, "uniform", False) or task.classes < 2 or not ({"G_K", "G_K_sector"} & set(data)):
        raise Silent("it needs the classes of a uniform Mixture, and the Gram matrices")
    if transformer.tie_values or "switches" in data.attrs:
        raise Silent("it is about untied values, with all weights trained at once")
    time = data["time"].values
    end = reaches(time, score_of_run(data, task, transformer), LEVEL)
    if end is None:
        return math.nan, False, {"reason": f"A_cv of the contrast sector never reaches {LEVEL:g}"}
    count = int(np.searchsorted(time, end)) + 1
    if count < FEWEST:
        raise Silent(f"only {count} saves until A_cv reaches {LEVEL:g}: save more often")
    kept = np.unique(np.linspace(0, count - 1, min(count, ENOUGH)).astype(int))
    system = critical_of_run(data.isel(time=kept), task, transformer)
    bounded, _, _ = enclosed(system, windows=40)
    ratio = float(system.driven[-1] / system.B[-1, *CV])
    left = float(system.defect.max() / np.abs(system.speed).max())
    facts = {"separation": end, "bounded": bounded, "residual_of_averaging": left}
    return ratio, bool(bounded and 0.65 < ratio < 1.1), facts


# name -> how it is measured, what is claimed, what is predicted, what that rests on
CLAIMS = {
    "neurons-first": (
        neurons_first,
        "Neurons learn before attention.",
        "above 1, stages in order",
        paper("the first of the paper's stages trains the neurons, the second the attention; any ratio above 1"),
    ),
    "neurons-align": (
        neurons_align,
        "Stage 1 aligns w with the signals; w·c = 0 until the first neuron switches off, at the predicted time.",
        "1 ± 0.03 with |w·c| < 1e-9 before",
        theory("9b + 9/2 (e^{2b} − 1) with the attention held still; ± 3 %: what the attention's motion may add"),
    ),
    "features-separate": (
        features_separate,
        "Attention takes the features of the hard samples from not separable to well separated.",
        f"at least {SEPARATED} at the end (all samples, K ≥ 3: {SEPARATED / 5:g}), a tenth of it at the first "
        "switch-off",
        paper("separable after stage 2; how large the margin must be was chosen", after=True),
    ),
    "critical-drives": (
        critical_drives,
        "One entry h_cv of the slope drives the contrast sector, which linear comparison systems bound.",
        "0.65 to 1.1, every entry between the comparison systems",
        theory(
            "A_cv = ω² sinh 2∫h_cv dt while h_cv is the only entry (docs/mathematics.md §12); range chosen", after=True
        ),
    ),
    "one-over-t": (
        one_over_t,
        "Stage 3 drives the population loss to zero like 1/t.",
        "1 ± 0.5",
        theory("logistic loss with margins that grow like log t; nearer to 1 than to 0 (exponential) or 2 (t^−½)"),
    ),
    "learned": (
        learned,
        "Every sample is classified rightly at the end.",
        "1",
        paper("the loss goes to 0; tolerance: rounding of the weights"),
    ),
    "conserved": (
        conserved,
        "The invariants of the exact reduction hold and the joint Gram matrix stays positive.",
        "below 1e-6 in the flow, below 0.05 in descent",
        theory("tr C and tr C² are conserved by the flow (docs/mathematics.md §3); descent drifts in proportion to η"),
    ),
}


# What a claim needs of a run beyond the paper's network; a run without it is told so, claim by claim.
ATOMS, DESCENT, LABELS, LOGISTIC = (
    "the features are listed",
    "it is trained by plain descent or flow",
    "the labels are +1 and -1",
    "the loss is logistic",
)
NEEDS = {
    "features-separate": (ATOMS, LABELS),
    "critical-drives": (ATOMS, DESCENT, LOGISTIC),
    "neurons-align": (ATOMS, DESCENT, LOGISTIC),
    "one-over-t": (DESCENT, LOGISTIC),
    "conserved": (ATOMS, DESCENT),
}


def decide(name, data, task, transformer, missing=()):
    """One claim about one run, as a Check; `missing` is what the run does not have of NEEDS."""
    function, sentence, predicted, basis = CLAIMS[name]
    quantity = function.__doc__.split(": ")[0].strip().rstrip(".")
    known = {"name": name, "sentence": sentence, "quantity": quantity, "predicted": predicted, **basis}
    lacking = [need for need in NEEDS.get(name, ()) if need in missing]
    try:
        if lacking:
            raise Silent(f"it is about runs in which {' and '.join(lacking)}")
        measured, holds, facts = function(data, task, transformer)
    except Silent as silent:
        return Check(**known, facts={"reason": str(silent)})
    return Check(**known, measured=measured, ok=bool(holds), facts=facts)


def check(run):
    """All claims about a run, and its certificate if it is a flow."""
    if changed := run.transformer.altered:
        raise mf.SpecError(
            f"the run trained another network ({', '.join(changed)}): expected the paper's, which the claims are about; see "
            "run.stages."
        )
    task, method = run.task, run.spec["method"]
    population = None if task.unlisted else task.population()
    missing = [] if population is not None or "A_sector" in run.dataset else [ATOMS]
    loss = getattr(
        task if population is None else population, "loss", "logistic"
    )  # of tokens that are vectors it always is
    missing += [LABELS] if loss in ("squared", "softmax") else []
    missing += [LOGISTIC] if loss != "logistic" else []
    inner = method.get("method", method)
    rules = any(inner.get(name) for name in ("normalised", "momentum", "weight_decay"))
    if inner["rule"] != "sgd" if inner["kind"] == "optimizer" else rules:
        missing.append(DESCENT)
    checks = [decide(name, run.dataset, task, run.transformer, missing) for name in CLAIMS]
    return [*checks, _certified(run.certificate)]


def _certified(proof):
    """The certificate of a flow as a Check; of a staged one the worst stage decides."""
    known = {
        "name": "certificate",
        "sentence": "The flow is accurate: a hundred times tighter tolerance gives the same trajectory.",
        "quantity": "largest difference relative to the state",
        "predicted": "below 1000 times the tolerance asked for",
        **theory("the solver's error is proportional to its tolerance; 1000: what stage after stage may add up to"),
    }
    if proof is None:
        return Check(**known, facts={"reason": "descent has no tolerance; only flows carry a certificate"})
    parts = list(proof) if isinstance(proof, list) else [proof]
    if not all("relative_difference" in part for part in parts):
        return Check(**known, facts={"reason": "the flow was interrupted before its certificate"})
    error = max(part["relative_difference"] for part in parts)
    good = all(
        part["relative_difference"] < 1000 * part["rtol"] and part.get("smallest_eigenvalue", 0.0) > -1e-8
        for part in parts
    )
    return Check(**known, measured=error, ok=bool(good), facts=parts[0] if len(parts) == 1 else {"stages": parts})


def _scores(data):
    if "A" in data:
        return data["A"].transpose("time", ...).values.reshape(data.sizes["time"], -1)
    A = data["A_sector"].transpose("time", "sector", ...).values  # (time, sector, perhaps head, 2, 2)
    K = data.sizes["atom_type"] // 2
    other = (A[:, 0] - A[:, 1]) / K
    return np.stack([A[:, 1] + other, other], axis=1).reshape(len(A), -1)
