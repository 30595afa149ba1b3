"""From control values to the library's objects: a row for each task and method."""

import math
from dataclasses import replace

from ..methods import GradientDescent, GradientFlow, ThreeStage
from ..networks.construct import construct
from ..tasks import Mixture, variants

SAVES = 600  # states kept of a run, at least: more than a screen has columns


def save_every(steps):
    """Steps between two saves: a power of two, as in the page's own engine (static/record.js).

    >>> save_every(20_000)
    32
    """
    return 2 ** max(0, math.floor(math.log2(steps / SAVES)))


# tasks ---------------------------------------------------------------------------------------------------------------


def _mixture(c):
    return Mixture(classes=c["classes"])


def _unequal(c):
    K, p = c["classes"], c["prior"]
    return Mixture(classes=K, priors=[p] + [(1 - p) / (K - 1)] * (K - 1))


def _coherent(c):
    return variants.coherent(classes=c["classes"], coherence=c["coherence"])


def _noisy(c):
    return variants.label_noise(_mixture(c), probability=c["wrong"])


def _longer(c):
    return variants.distractors(_mixture(c), count=c["distractors"])


# name: (label, most classes with which a page stays quick, controls -> task). Another task is one more row here, its controls, if
# it has any, in controls.py, and, for the page's own engine and its scripts, a row in static/tasks.js and static/script.js.
TASKS = {
    "plain": ("equal classes (the paper)", 200, _mixture),
    "unequal": ("unequal classes", 5, _unequal),
    "coherent": ("coherent features", 5, _coherent),
    "noisy": ("wrong labels", 4, _noisy),
    "longer": ("tokens that say nothing", 3, _longer),
}


LOSSES = {"logistic": ("logistic (the paper)",), "exponential": ("exponential",)}


def task(c):
    """The task of these controls, with their loss."""
    return replace(TASKS[c["task"]][2](c), loss=c["loss"])


# networks ------------------------------------------------------------------------------------------------------------

# The same for networks: (label, options of the Transformer, without it the paper's). For the page's own engine: the names in
# static/engine.js.
NETWORKS = {
    "paper": ("two heads (the paper)", {}),
    "shared": ("one attention for both", {"shared_attention": True}),
    "direct": ("scores trained directly", {"attention": "direct"}),
    "linear": ("no ReLU: linear", {"activation": "linear"}),
    "sum": ("queries added, not averaged", {"queries": "sum"}),
}


# methods -------------------------------------------------------------------------------------------------------------


def _descent(c, steps=None):
    steps = c["steps"] if steps is None else steps
    batches = {} if c["batch"] == "all" else {"batch_size": int(c["batch"]), "batch_seed": c["batch_seed"]}
    return GradientDescent(learning_rate=c["learning_rate"], steps=steps, save_every=save_every(steps), **batches)


def _flow(c):
    return GradientFlow(until=c["until"])


def _three_stage(c):
    lengths = {name: c[name] for name in ("neurons", "attention", "converge")}
    return ThreeStage(_descent(c, round(sum(lengths.values()) / c["learning_rate"])), **lengths)


def _construct(c):
    return construct(**{name: c[name] for name in ("classes", "target_margin", "bias")})


# The same for methods of training …
METHODS = {
    "gd": ("gradient descent", _descent),
    "flow": ("gradient flow", _flow),
    "three": ("three stages", _three_stage),
}
TRAINED = tuple(METHODS)
# … and for networks that are written down instead.
CONSTRUCTIONS = {"construct": ("none: written down in closed form", _construct)}


def labels(*tables):
    """{name: label} of the rows, as a control's choices."""
    return {name: label for table in tables for name, (label, *_) in table.items()}
