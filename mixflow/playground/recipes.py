"""From control values to calls of the library: a row for each task and method, built for the engine, written for people."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from ..methods import GradientDescent, GradientFlow, ThreeStage
from ..networks.construct import construct
from ..tasks import Mixture, variants

SAVES = 1000  # states kept of a run: more than a screen has columns


@dataclass(frozen=True)
class Call:
    """A function with its arguments: built for the engine, written out for "copy as Python", so both always agree."""

    function: Callable
    arguments: dict

    def build(self):
        return self.function(**{name: _built(value) for name, value in self.arguments.items()})

    def code(self):
        home = "mf.variants" if ".variants" in self.function.__module__ else "mf"
        arguments = ", ".join(f"{name}={_written(value)}" for name, value in self.arguments.items())
        return f"{home}.{self.function.__name__}({arguments})"


@dataclass(frozen=True)
class Spelled:
    """A long value with the short expression that gives it."""

    value: object
    code: str


def _built(value):
    return value.build() if isinstance(value, Call) else value.value if isinstance(value, Spelled) else value


def _written(value):
    if isinstance(value, Call):
        return value.code()
    if isinstance(value, Spelled):
        return value.code
    return "math.inf" if value == math.inf else repr(value)


# tasks ---------------------------------------------------------------------------------------------------------------


def _unequal(c):
    K, p = c["classes"], c["prior"]
    rest = [(1 - p) / (K - 1)] * (K - 1)
    return Call(Mixture, {"classes": K, "priors": Spelled([p, *rest], f"[{p!r}] + [(1 - {p!r}) / {K - 1}] * {K - 1}")})


def _mixture(c):
    return Call(Mixture, {"classes": c["classes"]})


# name: (label, most classes with which a page stays quick, controls -> Call). Another task is one more row here and its
# controls, if it has any, in controls.py.
TASKS = {
    "plain": ("equal classes, orthonormal features", 200, _mixture),
    "unequal": ("unequal classes", 5, _unequal),
    "coherent": (
        "coherent features", 5,
        lambda c: Call(variants.coherent, {"classes": c["classes"], "coherence": c["coherence"]}),
    ),
    "noisy": (
        "wrong labels", 4,
        lambda c: Call(variants.label_noise, {"task": _mixture(c), "probability": c["wrong"]}),
    ),
    "longer": (
        "tokens that say nothing", 3,
        lambda c: Call(variants.distractors, {"task": _mixture(c), "count": c["distractors"]}),
    ),
}  # fmt: skip


# methods -------------------------------------------------------------------------------------------------------------


def _descent(c, steps):
    return Call(
        GradientDescent, {"learning_rate": c["learning_rate"], "steps": steps, "save_every": max(1, -(-steps // SAVES))}
    )


def _three_stage(c):
    lengths = {name: c[name] for name in ("neurons", "attention", "converge")}
    return Call(ThreeStage, {"method": _descent(c, round(sum(lengths.values()) / c["learning_rate"])), **lengths})


# The same for methods of training …
METHODS = {
    "gd": ("gradient descent", lambda c: _descent(c, c["steps"])),
    "flow": ("gradient flow", lambda c: Call(GradientFlow, {"until": c["until"]})),
    "three": ("three stages", _three_stage),
}
TRAINED = tuple(METHODS)
# … and for networks that are written down instead.
CONSTRUCTIONS = {
    "construct": (
        "none: written down in closed form",
        lambda c: Call(construct, {name: c[name] for name in ("classes", "target_margin", "bias")}),
    ),
}


def labels(*tables):
    """{name: label} of the rows, as a control's choices."""
    return {name: label for table in tables for name, (label, *_) in table.items()}
