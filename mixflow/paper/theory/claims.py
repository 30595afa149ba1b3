"""The registry of claims: every statement of the paper, and a few beyond it, as an experiment that can fail.

`evaluate(Lab())` runs them all; a Lab holds the task, the transformer and the runs that several claims share. Claims about a
single run (`run_claims.py`) are measured on the mean-field run and on seeds; the others bring their own runs.
"""

import functools
import math
from dataclasses import dataclass, field, replace

import numpy as np

import mixflow as mf

from ..batch import changed, train_batch
from ..check import Check, over_seeds, paper, stored, theory
from .comparison import separation
from .mechanism import compare, entries
from .run_claims import CLAIMS as ON_RUNS
from .run_claims import decide

PROVEN = 0.1  # the loss whose time is enclosed


@dataclass(frozen=True, eq=False)
class Lab:
    """The setting of the claims, and the runs they share; replace the task to see claims fail."""

    task: object = mf.Mixture(classes=2)
    transformer: mf.Transformer = field(default_factory=lambda: mf.Transformer(omega=0.3, bias=0.5))
    seeds: int = 16
    width: int = 256
    steps: int = 20_000

    @functools.cached_property
    def descent(self):
        """The paper's run: every weight at once, mean-field, learning rate 0.1."""
        return mf.train(self.task, self.transformer, mf.GradientDescent(0.1, self.steps, 10), model="gram")

    @functools.cached_property
    def batch(self):
        """The same at finite width, one run for each seed."""
        networks = [replace(self.transformer, width=self.width, seed=seed) for seed in range(self.seeds)]
        return networks, train_batch(self.task, networks, mf.GradientDescent(0.1, self.steps, 20))

    @functools.cached_property
    def three_stage(self):
        """Algorithm 1 with its default switches, by descent."""
        return mf.train(self.task, self.transformer, mf.ThreeStage(mf.GradientDescent(0.1, self.steps, 20)))


def _on_runs(name):
    """A claim about single runs: the mean-field run decides, and every seed at finite width must agree."""

    def claim(lab):
        main = decide(name, lab.descent.dataset, lab.task, lab.transformer)
        if main.measured is None:
            return replace(main, ok=False, facts={**main.facts, "reason": f"not applicable: {main.facts['reason']}"})
        if name == "neurons-align":  # a closed form at infinite width
            return main
        networks, batch = lab.batch
        members = [decide(name, batch.isel(run=i), lab.task, network) for i, network in enumerate(networks)]
        told = [member for member in members if member.measured is not None]
        mean, spread = over_seeds([member.measured for member in told], f"seeds at width {lab.width}")
        agree = sum(member.holds for member in told)
        facts = {**main.facts, "seeds": len(told), "seeds_that_agree": agree, "mean_over_seeds": mean, "spread": spread}
        return replace(main, ok=main.holds and agree == len(told), facts=facts)

    claim.__doc__ = ON_RUNS[name][1]
    return claim


def neurons_first(lab):
    """Neurons learn before attention: on runs of descent, with the number of the flow, where both times are located."""
    on_runs = _on_runs("neurons-first")(lab)
    flow = mf.train(lab.task, lab.transformer, mf.GradientFlow(until=300.0, save_at=3001))
    exact = decide("neurons-first", flow.dataset, lab.task, lab.transformer)
    quantity = f"{on_runs.quantity}, in the flow"
    return replace(
        on_runs, measured=exact.measured, quantity=quantity, facts={**on_runs.facts, "descent": on_runs.measured}
    )


def critical_bounded(lab):
    """The critical sub-system drives stage 2 and linear systems bound its growth."""
    points = [separation(2, omega, bias, saves=1500) for omega in (0.1, 0.6) for bias in (0.25, 1.0)]
    held = [p["holds"] and p["proven"] and p["upper"] and p["lower"] < p["actual"] < p["upper"] for p in points]
    ratios = [p["predicted"] / p["actual"] for p in points]
    return Check(
        name="critical-bounded",
        sentence="The contrast sector drives stage 2; linear comparison systems bound its growth and predict its time.",
        quantity="predicted over actual time to A_cv = 1, mean of four (ω, b)",
        predicted="every ratio within 25 % of 1; every entry at every save between proven comparison systems",
        measured=float(np.mean(ratios)),
        low=min(ratios),
        high=max(ratios),
        over="the four (ω, b), least to largest",
        ok=bool(all(held) and all(abs(ratio - 1) < 0.25 for ratio in ratios)),
        facts={"points": points},
        **theory(
            "Müller's theorem for the bounds (docs/mathematics.md §12); 25 % for the prediction was chosen", after=True
        ),
    )


def stages_characterise(lab):
    """Three-stage training ends like simultaneous descent: same order, same signs, measured distance."""
    one, three = lab.descent.dataset.isel(time=-1), lab.three_stage.dataset.isel(time=-1)
    ends = [entries(run.w.values, run.A.values) for run in (one, three)]
    # What tells the classes apart: own minus other entries of both routes, the contrast sector's c–v scores.
    learned = [[e["w c"], e["w v"], e["A[c_k,v_k]"] - e["A[c_k,v_j]"], e["A[v_k,c_k]"] - e["A[v_j,c_k]"]] for e in ends]
    same = all(a * b > 0 for a, b in zip(*learned, strict=True))
    reached = all(switch["reached"] for switch in lab.three_stage.switches)
    cosine = _cosine(*(row[2:] for row in learned))
    return Check(
        name="three-stage",
        sentence="The three-stage algorithm characterises simultaneous descent: same order, same signs of what is "
        "learned.",
        quantity="cosine between the contrast sector's c–v scores of the two",
        predicted="above 0.8, with equal signs of w·c, w·v and both contrast scores, every switch reached",
        measured=cosine,
        ok=bool(same and reached and cosine > 0.8),
        facts={
            "same_signs": same,
            "switches_reached": reached,
            "cosine_of_all_scores": _cosine(one.A.values, three.A.values),
            "simultaneous": ends[0],
            "three_stage": ends[1],
        },
        **paper("Algorithm 1 is analysed to explain simultaneous training; 0.8 was chosen", after=True),
    )


def _cosine(a, b):
    a, b = np.ravel(a), np.ravel(b)
    norm = np.linalg.norm(a) * np.linalg.norm(b)
    return float(a @ b / norm) if norm else math.nan


def width_slope(lab):
    """Finite width tends to mean-field like m^(−1/2)."""
    widths, steps = (64, 256, 1024, 4096), 500
    networks = [replace(lab.transformer, width=m, seed=seed) for m in widths for seed in range(lab.seeds)]
    method = mf.GradientDescent(0.1, steps, steps)
    batch = train_batch(lab.task, networks, method)
    limit = mf.train(lab.task, lab.transformer, method, model="gram").dataset.A.values[-1]
    far = np.sqrt(((batch.A.values[:, -1] - limit) ** 2).mean(axis=(1, 2, 3))).reshape(len(widths), lab.seeds)
    slopes = [np.polyfit(np.log(widths), np.log(far[:, seed]), 1)[0] for seed in range(lab.seeds)]
    mean, spread = over_seeds(slopes, "seeds, each with its own fit")
    return Check(
        name="width",
        sentence="Finite width tends to mean-field.",
        quantity="slope of log distance of A against log width, m = 64 … 4096, t = 50",
        predicted="−0.5 ± 0.1",
        measured=mean,
        ok=bool(abs(mean + 0.5) < 0.1),
        facts={"distance": dict(zip(widths, far.mean(axis=1).tolist(), strict=True))},
        **spread,
        **theory("Gram matrices of m Gaussian rows are m^(−1/2) from their mean; ± 0.1: four widths"),
    )


HEADS = {  # what is taken away or added -> the options that do it
    "two heads": {},
    "one head": {"heads": 1},
    "one head, trained offset": {"heads": 1, "offset": True},
    "two heads, one attention": {"shared_attention": True},
    "tied values": {"tie_values": True},
}


def second_head(lab):
    """What the second head is for, by taking parts of the network away."""
    found = {}
    for name, options in HEADS.items():
        network = replace(lab.transformer, width=64, tie_values=options.get("tie_values", False))
        changes = {option: value for option, value in options.items() if option != "tie_values"}
        method = mf.GradientDescent(0.1, lab.steps, lab.steps)
        end = mf.train(lab.task, changed(network, **changes) if changes else network, method).dataset.isel(time=-1)
        found[name] = {
            "loss": float(end.loss),
            "accuracy": float(end.accuracy),
            "smallest_margin": float(end.margin.min()),
        }
    alone = found["one head"]["accuracy"]
    others = [each["accuracy"] for name, each in found.items() if name != "one head"]
    return Check(
        name="second-head",
        sentence="The second head supplies the negative answers: one ReLU head fails, any source of a negative output "
        "suffices.",
        quantity="accuracy of one head of width 64 without an offset",
        predicted="at most 3/4 (F ≥ 0: at best a tie on −); with an offset, a shared attention or tied values 1",
        measured=alone,
        ok=bool(alone <= 0.75 and min(others) > 1 - 1e-9),
        facts=found,
        **theory("F = ReLU(z) ≥ 0: half of the samples are at best ties, which count half; the rest must be 1"),
    )


def three_classes(lab):
    """K = 3 is learned although its hard samples start on the wrong side."""
    run = mf.train(mf.Mixture(classes=3), lab.transformer, mf.GradientDescent(0.1, lab.steps, 20))
    data = run.dataset
    hard = data.margin.values[:, data.hard.values.astype(bool)].min(axis=1)
    plateau = float(hard.min())
    accuracy, loss = float(data.accuracy.values[-1]), float(data.loss.values[-1])
    return Check(
        name="three-classes",
        sentence="K = 3 is learned although the K = 2 argument fails: its hard samples are first pushed to the wrong "
        "side.",
        quantity="smallest margin of the hard samples on the plateau",
        predicted="below −0.5 (K = 2: about 0), and accuracy 1 at the end",
        measured=plateau,
        ok=bool(plateau < -0.5 and accuracy > 1 - 1e-9),
        facts={"accuracy": accuracy, "loss": loss, "K = 2": float(lab.descent.dataset.margin.values.min())},
        **stored("K = 3 is learned in the paper; −0.5 was chosen after seeing the plateau", after=True),
    )


def exists_for_every_K(lab):
    """The closed-form transformer on whole populations."""
    error = 0.0
    for K in (2, 3, 5, 8, 12, 1000):
        net = mf.construct(classes=K, target_margin=1.0)
        error = max(error, float(np.abs(net.evaluate().margin - net.margin).max()))
    return Check(
        name="every-K",
        sentence="A two-headed transformer that solves the task exists for every K.",
        quantity="largest |margin − formula|, every atom for K = 2 … 12, every type for K = 1000",
        predicted="below 1e-12",
        measured=error,
        ok=bool(error < 1e-12),
        **theory("the closed form of docs/mathematics.md §9; tolerance: rounding"),
    )


def mechanism(lab):
    """The trained network's signs are the closed form's; how much each route carries is measured."""
    found = compare(lab.descent)
    least = min(sign * value for sign, value in found["signs"].values())
    return Check(
        name="mechanism",
        sentence="Trained networks have the signs of the closed form: w·c > 0, A[c_k,c_k] > 0 > A[v_k,c_k] in head +.",
        quantity="the smallest of the three, signs taken out",
        predicted="positive",
        measured=least,
        ok=bool(least > 0),
        facts={"signs": found["signs"], "distance": found["distance"], "routes": found["routes"]},
        **stored("the closed form's signs; that training finds them was seen before", after=True),
    )


def flow_rate(lab):
    """The flow far into stage 3."""
    times = (1e5, 1e6)
    run = mf.train(lab.task, lab.transformer, mf.GradientFlow(until=times[1], save_at=times, rtol=1e-8))
    loss = run.dataset.loss.values
    slope = float(np.log(loss[-1] / loss[-2]) / np.log(times[1] / times[0]))
    return Check(
        name="rate-far-out",
        sentence="Far into stage 3 the loss falls like 1/t, up to a logarithm.",
        quantity="d log loss / d log t between t = 1e5 and 1e6, flow",
        predicted="−1 ± 0.1",
        measured=slope,
        ok=bool(abs(slope + 1) < 0.1),
        facts={"loss": loss.tolist(), "error": run.certificate["relative_difference"]},
        **theory("logistic loss with margins that grow like log t; ± 0.1 for the logarithm"),
    )


def proven(lab):
    """The gradient flow learns, by theorem: bounds, with every rounding error, of the time at which its loss passes a level."""
    until = mf.Until("loss", PROVEN)
    proof = mf.prove(lab.task, lab.transformer, until=until)
    low, high = proof.time
    flow = mf.train(lab.task, lab.transformer, mf.GradientFlow(until=until, rtol=1e-10, atol=1e-12))
    time = float(flow.dataset.time[-1])
    room = 1e-8 * time  # of the flow, whose error is only measured
    return Check(
        name="proven",
        sentence="The gradient flow learns: it is enclosed, every rounding error included, until every sample is right.",
        quantity=f"time at which the flow's loss passes {PROVEN:g}",
        predicted=f"between {low:.12g} and {high:.12g}, and every sample right",
        measured=time,
        ok=low - room <= time <= high + room and proof.every_sample_right,
        facts=proof.facts(),
        **theory(
            "the lemma of docs/mathematics.md §14 in interval arithmetic; the flow that is compared errs by 1e-8 of the time"
        ),
    )


REGISTRY = {
    **{name: _on_runs(name) for name in ON_RUNS},
    "neurons-first": neurons_first,
    "critical-bounded": critical_bounded,
    "rate-far-out": flow_rate,
    "three-stage": stages_characterise,
    "width": width_slope,
    "second-head": second_head,
    "three-classes": three_classes,
    "mechanism": mechanism,
    "every-K": exists_for_every_K,
    "proven": proven,
}


def evaluate(lab=None, names=None, report=None):
    """The checks of the named claims (all if not given); `report(check)` sees each as it is decided.

    A claim whose experiment cannot be made on the lab's task fails with the reason, so that a broken setting cannot pass.
    """
    lab = Lab() if lab is None else lab
    checks = []
    for name in REGISTRY if names is None else names:
        try:
            check = REGISTRY[name](lab)
        except (mf.MixflowError, ArithmeticError) as error:
            sentence = (REGISTRY[name].__doc__ or name).strip()
            basis = theory("a claim that cannot be decided has failed")
            check = Check(
                name=name, sentence=sentence, measured=math.nan, ok=False, facts={"reason": str(error)}, **basis
            )
        checks.append(check)
        if report:
            report(check)
    return checks
