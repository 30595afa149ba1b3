"""The quantities an event can watch, from what an engine measures (docs/mathematics.md §6)."""

import numpy as np

from ..errors import SpecError
from .separability import deciding, feature_margin, no_margin


def watch(engine, end, network):
    """A function of a history, negative before the event `end` and zero at it; SpecError where the task cannot have it."""
    listed = True if end.quantity == "feature_margin" else None
    value = WATCHED[end.quantity](engine)

    def excess(history):
        return end.excess(value({name: x for name, (_, x) in engine.measure(history, network, listed).items()}))

    return excess


def _loss(engine):
    def value(seen):
        return seen["loss"]

    return value


def _hard(engine):
    labels = engine.coordinates()
    return labels["hard"][1] if "hard" in labels else engine.task.tokens.hard


def _loss_hard(engine):
    if not _hard(engine).any():
        raise SpecError("the task has no hard samples, so loss_hard means nothing; use loss.")

    def value(seen):
        return seen["loss_hard"]

    return value


def _easy_margin(engine):
    hard = _hard(engine)
    if hard.all():
        raise SpecError("the task has no easy samples, so easy_margin means nothing; end the stage after a time.")

    def value(seen):
        return seen["margin"][..., ~hard].min(axis=-1)

    return value


def _feature_margin(engine):
    task = engine.task
    population = None if task.unlisted else task.population()
    if hasattr(task, "tokens"):
        raise SpecError(
            "feature_margin says nothing on tokens that are all different, which have more dimensions than samples and can "
            "always be separated; end the attention stage after a time, for example attention=300."
        )
    if population is None:
        raise SpecError(
            f"feature_margin needs the list of atoms, which classes = {task.classes} is too many for; end the attention stage "
            "after a time, for example attention=1e4."
        )
    if (why := no_margin(population, len(engine.coordinates()["head"]))) is not None:
        raise SpecError(f"{why}; end the attention stage after a time, for example attention=500.")
    if not population.hard.any():
        raise SpecError("the task has no hard samples, so feature_margin means nothing; end the stage after a time.")
    samples = deciding(population)

    def value(seen):
        return np.atleast_1d(feature_margin(population, seen["A"], samples=samples, network=engine.network))

    return value


WATCHED = {"loss": _loss, "loss_hard": _loss_hard, "easy_margin": _easy_margin, "feature_margin": _feature_margin}
