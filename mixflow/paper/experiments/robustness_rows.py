"""One row of the robustness table: a setting of a variant, trained over seeds, and what became of the three stages.

Beside the seeds runs the infinitely wide network, one more member of the same batch on the Gram engine.
"""

import contextlib
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import mixflow as mf

from ..batch import train_batch

WIDTH, OMEGA, BIAS = 64, 0.3, 0.5
RATE, UNTIL, SAVES = 0.1, 2000.0, 1000
INFINITE = None  # in place of a seed: the infinitely wide network
# Until here double precision keeps the symmetry that traps an infinitely wide network. The trap is a saddle: with shared
# attention the scores that should stay 0 are 1e-18 of rounding at first, 6e-12 here, and 1 at t = 1450.
HELD = 1000.0


@dataclass(frozen=True)
class Outcome:
    """One seed of one setting.

    stages         the three stages as `measure.stages.detect` returns them
    hard_accuracy  on the hard samples at the end, from 0 to 1
    separation     T2, when the hard samples' loss has halved for good, in units of training time; NaN if it never does
    mechanism      whether the trained attention has the construction's signs (None where it has no such matrix)
    loss           at the end
    limit          what becomes of the network at infinite width where that is not the ordinary limit (`Transformer.limit`)
    """

    stages: list
    hard_accuracy: float
    separation: float
    mechanism: bool | None
    loss: float
    limit: str = ""


def base_network(_, seed):
    """The base case's transformer, from a seed or infinitely wide."""
    return mf.Transformer(width=math.inf if seed is INFINITE else WIDTH, omega=OMEGA, bias=BIAS, seed=int(seed or 0))


def descent(rate, until=UNTIL):
    """Plain descent to the base case's end, or to another."""
    steps = round(until / rate)
    return mf.GradientDescent(rate, steps, save_every=max(1, steps // SAVES))


@contextlib.contextmanager
def unannounced():
    """Without warnings of what infinite width does: it stands in the table."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


def together(task, networks, method, model="gram"):
    """[(dataset, what infinite width does to it)] of each network, all in one batch; to HELD where that is a trap.

    On the Gram engine a wide network costs what a narrow one does, and the infinitely wide one runs in the same program.
    """
    with unannounced():
        data = train_batch(task, networks, method, model=model)
    known = None if hasattr(task, "tokens") else task
    told = [(network.limit(known) or "").partition(";")[0] for network in networks]
    each = [data.isel(run=i) for i in range(len(networks))]
    return [(one.sel(time=slice(None, HELD)) if limit else one, limit) for one, limit in zip(each, told, strict=True)]


def before_divergence(data):
    """The times at which the loss is finite; the dataset itself, which is cheaper than a copy, where it always is."""
    finite = np.isfinite(data["loss"].values)
    return data if finite.all() else data.isel(time=finite)


@dataclass(frozen=True)
class Row:
    """A variant at one strength.

    variant   e.g. "coherence", "label noise", "momentum"
    group     "task", "model", "optimiser" or "standard transformer"
    strength  a number where the variant has a dial, a word where it has none
    base      the name of the row its separation time is divided by: a Row of group "base", or "" for none
    run       (seeds, full) -> list of Outcome, one for each seed; all seeds in one batch
    says      one plain sentence: what is different from the base case
    infinite  whether there is an infinitely wide network, INFINITE among the seeds
    """

    variant: str
    group: str
    strength: float | str
    base: str
    run: Callable
    says: str
    threshold: bool = False  # whether the strength at which the picture breaks is searched by bisection
    infinite: bool = True
