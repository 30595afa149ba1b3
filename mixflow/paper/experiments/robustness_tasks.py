"""The robustness table's task variants: what is changed, how strongly, and what is tried.

Settings were chosen before the results: the base case's width, ω, b, rate and time for all, except where `Dial` says
otherwise, and why.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

import mixflow as mf

from ..theory.mechanism import signs
from .robustness_rows import RATE, UNTIL, WIDTH, Outcome, Row, base_network, before_divergence, descent, together

BASE = "base"


@dataclass(frozen=True)
class TaskOutcome(Outcome):
    """With the share of the hard samples on which every neuron ends silent: their gradient is 0, they stay as they are."""

    silent: float = math.nan


@dataclass(frozen=True)
class Dial:
    """One variant: the tasks at its strengths.

    task       strength -> task
    strengths  the quick ones, and those `full` adds
    says       one plain sentence: what is different from the base case
    search     (a strength at which it is the base case, the largest one tried), for the bisection; None for no search
    signals    whether features begin with c1 … cK, v1 … vK, so that the construction's signs can be asked for
    rate, until  of the descent, where the base case's would not do
    base       the base row
    """

    variant: str
    task: Callable
    strengths: tuple
    says: str
    more: tuple = ()
    search: tuple | None = None
    signals: bool = True
    rate: float = RATE
    until: float = UNTIL
    base: str = BASE

    def run(self, seeds, full=False, *, strength):
        """Outcomes over seeds at a strength."""
        return outcomes(self.task(strength), seeds, self.rate, self.until, signals=self.signals)

    def rows(self):
        """A Row for each strength of the quick version."""
        return [self.row(strength) for strength in self.strengths]

    def row(self, strength):
        run = partial(self.run, strength=strength)
        return Row(self.variant, "task", strength, self.base, run, self.says, threshold=self.search is not None)


def outcomes(task, seeds, rate=RATE, until=UNTIL, *, signals=True):
    """Train one transformer for each seed, all in one batch, and judge each."""
    found = together(task, [base_network(None, seed) for seed in seeds], descent(rate, until))
    judge = noisy_outcome if isinstance(task, mf.variants.NoisyMixture) else finite_outcome
    return [judge(task, data, signals) for data, _ in found]


def finite_outcome(task, data, signals):
    """One run on a finite task, with every sample counted once and losses taken above the least possible one.

    In the base case this changes nothing: samples are equally likely and the least loss is 0. Counting once keeps a rare
    class from being forgotten; the least loss is what label noise leaves.
    """
    task, data = task.population(), before_divergence(data)
    samples = mf.measure.Samples(task)
    each = mf.measure.loss_of_each(task, data.z.variable.transpose("time", "head", "atom").values)
    series = {name: data[name].variable.transpose("time", ...).values for name in ("w", "A", "z", "margin")}
    losses = mf.measure.mean_losses(each, samples.evenly, task.hard)
    run = mf.measure.Trajectory(
        time=data.time.values, **series, **mf.measure.above_least(losses, samples.least_loss, samples.evenly, task.hard)
    )
    asked = task.hard & samples.likeliest
    margin = series["margin"][-1][asked]
    right = np.where(np.abs(margin) <= mf.measure.TIE, 0.5, margin > 0).mean()
    silent = (series["z"][-1][:, asked] <= 0).all(axis=0).mean()
    return _outcome(run, right, data, signals, silent)


def noisy_outcome(task, data, signals):
    """One run on noisy tokens: stages from the training samples, accuracy on the held-out ones."""
    data = before_divergence(data)
    z = data.z_test.variable.transpose("time", "head", ...).values[-1][:, data.hard_test.values.astype(bool)]
    right = data.accuracy_hard_test.values[-1]
    return _outcome(mf.measure.Trajectory.from_dataset(data), right, data, signals, (z <= 0).all(axis=0).mean())


def _outcome(run, right, data, signals, silent):
    stages = mf.measure.detect(run)
    attention = stages[1]
    end = data.isel(time=-1)
    mechanism = None
    if signals:
        at = [i for i, name in enumerate(end.feature.values) if str(name)[0] in "cv"]
        w, A = end.w.variable.isel(feature=at).values, end.A.variable.isel(key=at, query=at).values
        mechanism = all(sign * value > 0 for sign, value in signs(w, A).values())
    separation = attention.end if attention.found and attention.complete else np.nan
    return TaskOutcome(stages, float(right), float(separation), mechanism, float(end.loss), silent=float(silent))


def coherent(pairs):
    """The mixture with this coherence between the chosen pairs."""
    return lambda coherence: mf.variants.coherent(2, coherence=coherence, pairs=pairs)


def values(count):
    """`count` values evenly spaced from -1 to 1; an even number, so that 0 is not among them."""
    return tuple(np.linspace(-1, 1, count).tolist())


K4 = f"{BASE}, K = 4"
BASES = [
    Row(BASE, "base", f"width {WIDTH}", "", lambda seeds, full: outcomes(mf.Mixture(2), seeds), "the paper's task"),
    Row(K4, "base", f"width {WIDTH}", "", lambda seeds, full: outcomes(mf.Mixture(4), seeds, until=6000.0),
        "four classes, to t = 6000 because learning takes about K³ times as long"),
]  # fmt: skip

DIALS = [
    Dial("coherence", coherent("all"), (0.1, 0.3, 0.6), "any two features have this inner product",
         more=(0.2, 0.45, 0.8, 0.9), search=(0.0, 0.99)),
    Dial("coherence of own pairs", coherent("own"), (0.2, 0.5, 0.8), "each identifier has this inner product with its "
        "signal",
         more=(0.1, 0.35, 0.65, 0.95), search=(0.0, 0.99)),
    Dial("coherence across", coherent("cross"), (0.1, 0.25, 0.4), "every identifier has this inner product with every "
        "signal",
         more=(0.05, 0.2, 0.3, 0.45), search=(0.0, 0.495)),
    Dial("coherence of signals", coherent("signals"), (0.5,), "the signals have this inner product", more=(0.25, 0.8)),
    Dial("coherence of identifiers", coherent("identifiers"), (0.5,), "the identifiers have this inner product",
         more=(0.25, 0.8)),
    Dial("class imbalance", lambda p: mf.variants.imbalanced(2, priors=(p, 1 - p)), (0.6, 0.8, 0.95),
         "one class has this probability", more=(0.7, 0.9, 0.99), search=(0.5, 0.999)),
    Dial("sign imbalance", lambda q: mf.variants.imbalanced(2, positive=q), (0.6, 0.8, 0.95),
         "each sign is + with this probability", more=(0.7, 0.9, 0.99), search=(0.5, 0.999)),
    Dial("label noise", lambda p: mf.variants.label_noise(mf.Mixture(2), probability=p), (0.05, 0.1, 0.2, 0.3),
         "a label is wrong with this probability", more=(0.15, 0.25, 0.35, 0.4, 0.45), search=(0.0, 0.49)),
    Dial("distractors", lambda n: mf.variants.distractors(mf.Mixture(2), count=int(n)), (1, 2, 4),
         "so many more tokens ±d that say nothing", more=(3, 6, 8)),
    Dial("repeated signals", lambda n: mf.variants.repeated(2, signals=int(n)), (2, 3, 5),
         "each signal stands so many times, the identifier once", more=(4, 8)),
    Dial("composed identifiers", lambda _: mf.variants.composed((2, 2)), ("2 × 2",),
         "two tokens together name one of four signals", signals=False, until=6000.0, base=K4),
    Dial("composed identifiers, parity", lambda _: mf.variants.composed((2, 2), rule="parity"), ("2 × 2",),
         "two tokens together name one of two signals, neither says anything alone", signals=False),
    Dial("regression", lambda n: mf.variants.regression(2, values=values(int(n))), (2, 4, 6),
         "signals carry so many different values, squared loss", more=(8, 10)),
    Dial("multi-class labels", lambda n: mf.variants.multiclass(2, values=int(n)), (3, 4),
         "so many answers, softmax over as many heads", more=(2, 5, 6), signals=False),
    Dial("token noise", lambda sigma: mf.variants.NoisyMixture(sigma=sigma), (0.25, 0.5, 1.0),
         "a Gaussian vector of this length on each token, 256 samples, η = 0.5 because a step costs more",
         more=(0.35, 0.7, 1.4), rate=0.5),
]  # fmt: skip

ROWS = [*BASES, *(row for dial in DIALS for row in dial.rows())]
MORE = [dial.row(strength) for dial in DIALS for strength in dial.more]  # what `full` adds
SEARCHES = [dial for dial in DIALS if dial.search]
