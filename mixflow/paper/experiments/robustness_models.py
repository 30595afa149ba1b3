"""The robustness table's networks and update rules: what is changed, how strongly, and what is tried.

Networks and update rules have the base case's width, ω, b, rate and time wherever a rate has the same meaning; sign descent and
Adam, where it has not, a usual rate and its neighbours, with times counted in steps. These were fixed before their results.
The standard transformer's were not: rates 0.1 and 0.003 were looked at first, on another random start, and showed that it learns
within a hundred steps, which set the length of its runs; 0.001 is AdamW's usual rate. `judged` came after its results as well:
without it most of its "three stages" would be due to scores that moved when the hard samples had been learned. It is applied to
every row, and changes no other.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

import mixflow as mf

from ..batch import changed as changed_network
from ..theory.mechanism import signs
from .robustness_rows import RATE, SAVES, UNTIL, Outcome, Row, base_network, before_divergence, descent, together

BASE = "base"
TASK = mf.Mixture(2)


def base_method(*_):
    """The base case's descent."""
    return descent(RATE)


def changed(name=None, **changes):
    """(strength, seed) -> the base case's transformer, with `name` set to the strength."""
    return lambda strength, seed: changed_network(
        base_network(None, seed), **changes, **({name: strength} if name else {})
    )


def in_steps(kind, rate, steps):
    """An update rule without a time scale of its own, for `steps` steps."""
    return mf.Optimizer(kind=kind, learning_rate=rate, steps=steps, save_every=max(1, steps // SAVES))


@dataclass(frozen=True)
class Trial:
    """One variant at several strengths.

    network    (strength, seed) -> the network
    method     (strength, full) -> the method
    strengths  of the quick version, and those `full` adds
    says       one plain sentence: what is different from the base case
    unit       strength -> what one unit of the dataset's time is worth in the row's time
    search     (a strength at which the picture holds, the largest one tried), for the bisection; None for no search
    base       the base row; "" where time is counted in steps
    infinite   whether infinite width has a meaning: not for rules that look at every weight by itself
    """

    variant: str
    group: str
    says: str
    strengths: tuple
    network: Callable = base_network
    method: Callable = base_method
    more: tuple = ()
    unit: Callable = lambda _: 1.0
    search: tuple | None = None
    base: str = BASE
    infinite: bool = True

    def run(self, seeds, full=False, *, strength, steps=None):
        """Outcomes over seeds at a strength, all seeds in one batch; `steps` cuts the run short."""
        method = self.method(strength, full)
        if steps is not None:
            method = replace(method, steps=steps, save_every=max(1, steps // SAVES))
        found = together(
            TASK, [self.network(strength, seed) for seed in seeds], method, "gram" if self.infinite else "auto"
        )
        unit, staged = self.unit(strength), bool(self.base)
        return [replace(outcome(one, unit, staged), limit=limit) for one, limit in found]

    def row(self, strength):
        """The row of one strength."""
        run = partial(self.run, strength=strength)
        searched = self.search is not None
        return Row(self.variant, self.group, strength, self.base, run, self.says, searched, self.infinite)


def outcome(data, unit=1.0, staged=True):
    """What became of one seed; one that diverged answers nothing, so its accuracy is 0.

    staged  take T2 from the attention stage, as the base case does; otherwise from the loss alone
    """
    diverged = data.diverged_step.item() >= 0
    kept = before_divergence(data)
    stages, end = judged(kept, mf.measure.detect(kept)), kept.isel(time=-1)
    weight = end.probability.values * end.hard.values
    right = 0.0 if diverged else float(mf.measure.mean_accuracy(end.margin.values, weight))
    T2 = None if diverged else separation(kept, stages[1], staged)
    return Outcome(stages, right, math.nan if T2 is None else T2 * unit, construction_signs(end), float(end.loss))


def separation(data, attention, staged):
    """When the hard samples' loss has halved for good; None if it never does.

    In the base case that is the end of the attention stage, half of the plateau after T1. A standard transformer may pass T1
    when the hard samples are learned already, and half of what is then left would say nothing about them; its rows, like all
    that have no base, count from the largest loss of the run, every seed alike.
    """
    if staged:
        return attention.end if attention.found and attention.complete else None
    return hard_learned(data)


def hard_learned(data):
    """When the hard samples' loss falls for good to half of its largest value in the run; None if it never does."""
    hard = data.loss_hard.values
    return mf.measure.falls_to(data.time.values, hard, hard.max() / 2)


def judged(data, stages):
    """The stages as detected, except that an attention stage which begins when the hard samples are learned is none.

    The stage is to be where attention learns what the neurons could not. Scores may also move by 1 afterwards.
    """
    neurons, attention, convergence = stages
    learned = hard_learned(data)
    if not attention.found or learned is None or attention.start <= learned:
        return stages
    reason = (
        f"the hard samples' loss had halved at t = {learned:.4g}, before a score had moved by 1 at t = "
        f"{attention.start:.4g}: "
        "they were learned without it"
    )
    return [neurons, mf.measure.Stage("attention", None, None, {**attention.evidence, "reason": reason}), convergence]


def construction_signs(end):
    """Whether the + heads, taken together, have the construction's signs; None for a standard transformer."""
    if "key" not in end.dims:
        return None
    plus = np.flatnonzero([str(name).startswith("+") for name in end["head"].values])
    w, A = end.w.variable, end.A.variable  # without labels, which cost more than the arithmetic
    w = w * end.read_out.variable if "read_out" in end else w  # values as the read-out sees them
    w = w.sum("value") if "value" in w.dims else w
    w, A = (x.isel(head=plus).mean("head") for x in (w, A))
    found = signs(w.transpose("feature").values[None], A.transpose("key", "query").values[None])
    return all(sign * value > 0 for sign, value in found.values())


def momentum(beta, _):
    """Heavy ball with η = 0.1 (1 − β): β steps of memory, the same speed as the base case."""
    steps = round(UNTIL / RATE)
    return mf.Optimizer(
        kind="momentum", momentum=beta, learning_rate=RATE * (1 - beta), steps=steps, save_every=steps // SAVES
    )


def minibatch(size, _):
    """Each step on `size` samples, drawn anew for every seed."""
    return mf.Optimizer(
        kind="sgd", learning_rate=RATE, steps=round(UNTIL / RATE), save_every=20, batch_size=int(size), batch_seed=None
    )


def vanilla(layers, seed):
    """A standard transformer with this many layers."""
    return mf.Vanilla(layers=int(layers), seed=seed)


MODEL, OPTIMISER, STANDARD = "model", "optimiser", "standard transformer"
STEPS = 5000  # of rules whose rate is no time scale
TRIALS = [
    Trial("random values", MODEL, "w starts random, ⟨w, feature⟩ ~ N(0, this²), instead of 0", (0.01, 0.1, 0.5),
          changed("value_scale"), more=(0.03, 0.2, 1.0), search=(0.0, 2.0)),
    Trial("trained bias", MODEL, "b is trained too, from 1/2", ("trained",), changed(train_bias=True)),
    Trial("ReLU per query", MODEL, "the neuron acts before the average over queries", ("per query",),
          changed(activate="before")),
    Trial("value dimension", MODEL, "so many values and neurons in each head, a trained read-out, values from N(0, 0.1²)",
          (2, 4), changed("values", value_scale=0.1), more=(8,)),
    Trial("scaled scores", MODEL, "scores are divided by √m = 8", ("1/√m",), changed(scaled_scores=True)),
    Trial("standard initialisation", MODEL, "W_K, W_Q and w from N(0, 1/d), scores divided by √m", ("N(0, 1/d)",),
          changed(initialisation="standard", scaled_scores=True)),
    Trial("one head", MODEL, "no second head: the answer cannot be negative", ("no offset",), changed(heads=1)),
    Trial("one head, trained offset", MODEL, "no second head, but a trained number is subtracted from the answer",
          ("offset",), changed(heads=1, offset=True)),
    Trial("more heads", MODEL, "so many heads of alternating sign, their answers added", (3, 4), changed("heads"), more=(8,)),
    Trial("shared attention", MODEL, "both heads look with the same W_K and W_Q", ("shared",), changed(shared_attention=True)),
    Trial("linear output", MODEL, "no ReLU: the answer is the difference of what the heads read", ("linear",),
          changed(activation="linear")),
    Trial("learning rate", OPTIMISER, "the base case's descent with this rate, to the same time", (0.5, 2.0, 8.0, 32.0),
          method=lambda rate, _: descent(rate), more=(1.0, 4.0, 16.0), search=(0.1, 64.0)),
    Trial("minibatches", OPTIMISER, "so many samples drawn for each step instead of all", (1, 4), method=minibatch,
          more=(2, 16)),
    Trial("momentum", OPTIMISER, "heavy ball with this β and η = 0.1 (1 − β), time counted as 0.1 × "
        "step", (0.5, 0.9, 0.99),
          method=momentum, unit=lambda beta: 1 / (1 - beta), more=(0.999,)),
    Trial("sign descent", OPTIMISER, "every weight moves by ± this each step, time in steps", (1e-3, 1e-2), base="",
          infinite=False, method=lambda rate, _: in_steps("sign", rate, STEPS), unit=lambda rate: 1 / rate, more=(1e-4, 1e-1)),
    Trial("Adam", OPTIMISER, "Adam with this learning rate, time in steps", (1e-3, 1e-2), base="",
          infinite=False, method=lambda rate, _: in_steps("adam", rate, STEPS), unit=lambda rate: 1 / rate, more=(1e-4, 1e-1)),
    Trial("standard transformer, SGD", STANDARD, "so many layers of attention and MLP, descent with η = 0.1, time in "
        "steps",
          (1, 2, 4), vanilla, lambda _, full: in_steps("sgd", 0.1, 5000 if full else 1000), more=(3,), base="", infinite=False,
          unit=lambda _: 10.0),
    Trial("standard transformer, AdamW", STANDARD, "so many layers of attention and MLP, AdamW with η = 0.001, time in "
        "steps",
          (1, 2, 4), vanilla, lambda _, full: in_steps("adamw", 1e-3, 5000 if full else 1000), more=(3,), base="", infinite=False,
          unit=lambda _: 1000.0),
]  # fmt: skip

ROWS = [trial.row(strength) for trial in TRIALS for strength in trial.strengths]
MORE = [trial.row(strength) for trial in TRIALS for strength in trial.more]  # what `full` adds
SEARCHES = [trial for trial in TRIALS if trial.search]
