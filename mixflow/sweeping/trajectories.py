"""Trajectories of a batch as plain arrays, one lane-full in memory at a time.

The numbers are those of `train_many`, bit for bit. Its labelled datasets are left out where that pays, with the exact
reductions: for K = 2 they took three quarters of the time of a batch (0.25 s for 8 runs, against 0.06 s of descent), and a sweep
keeps a few numbers of each run.
"""

import numpy as np

from ..dataset import EXPAND_LIMIT, HEADS
from ..dataset import build as build_dataset
from ..engines.forward import loss_of_each, margin, preactivation
from ..engines.symmetric import type_margin, type_preactivation
from ..errors import DivergedError
from ..measure.means import averages, mean, mean_accuracy
from ..methods.descent import descend
from ..running.choose import choose
from ..running.flow import run_flow
from ..running.three_stage import run_three_stage
from ..tasks.symmetry import KINDS, SECTORS, atom_types, expand
from .fields import STEPWISE, make

REDUCED = ("gram", "full", "symmetric")  # models whose states are w, A, G_K and G_Q between features
# What a sweep keeps over time of every other model: what has no dimension but time.
PLAIN = ("loss", "loss_easy", "loss_hard", "accuracy", "loss_test", "accuracy_test")
# Dimensions after time, as the dataset has them (docs/schema.md); those not listed have none.
_MATRIX, _SECTORS = ("head", "key", "query"), ("sector", "key_kind", "query_kind")
DIMENSIONS = {
    "w": ("head", "feature"), "A": _MATRIX, "G_K": _MATRIX, "G_Q": _MATRIX, "margin": ("atom",), "z": ("head", "atom"),
    "w_sector": ("kind",), "A_sector": _SECTORS, "G_K_sector": _SECTORS, "G_Q_sector": _SECTORS,
}  # fmt: skip


def dimensions(name, task, engine):
    """Names of a variable's dimensions after time."""
    types = engine == "symmetric" and task.classes > EXPAND_LIMIT
    return tuple("atom_type" if types and dim == "atom" else dim for dim in DIMENSIONS.get(name, ()))


def coordinate(dim, task):
    """The labels along a dimension."""
    fixed = {
        "head": getattr(task, "heads", HEADS),
        "sector": SECTORS,
        "kind": KINDS,
        "key_kind": KINDS,
        "query_kind": KINDS,
    }
    if dim in fixed:
        return list(fixed[dim])
    if dim == "atom_type":
        return [str(name) for name in atom_types(task.classes)[0]]
    population = task.population()
    return list(population.names if dim == "atom" else population.features)


def trajectories(job):
    """(task, transformer, {variable: array}) of every run in order.

    The arrays have time first and the names of the dataset's variables; besides them stand "time", "engine" (the model's
    name), "diverged_step" (-1 if the run did not diverge; the arrays then end before it) and "error", what stopped it before
    its end.
    """
    transformers = [make("transformer", spec) for spec in job["transformers"]]
    task, method = make("task", job["task"]), make("method", job["method"])
    engine = choose(task, transformers[0], method, job["model"])
    for i in range(0, len(transformers), job["lanes"]):
        lanes = transformers[i : i + job["lanes"]]
        if job["method"]["kind"] in STEPWISE:
            members = _descent(engine, task, lanes, method, job["rates"][i : i + job["lanes"]])
        else:
            members = [_single(engine, task, lanes[0], method)]
        yield from ((task, transformer, arrays) for transformer, arrays in zip(lanes, members, strict=True))


def _descent(engine, task, transformers, method, rates):
    """Members of one lane-full, each with its own learning rate; spare lanes repeat the first member, as in `train_many`."""
    spare = engine.lanes - len(transformers)
    padded = [*transformers, *[transformers[0]] * spare]
    rate = np.array([*rates, *[rates[0]] * spare], float)
    starts = [engine.start(transformer) for transformer in padded]
    history = descend(engine, starts, engine.parameters(padded, rate, rate), method.steps, method.save_every)
    if history.interrupted:
        raise KeyboardInterrupt
    steps, saved = np.array(history.steps), history.saved
    listed = engine.name in REDUCED and not (engine.name == "symmetric" and task.classes > EXPAND_LIMIT)
    population = task.population() if listed else None
    for lane, transformer in enumerate(transformers):
        diverged = history.diverged.get(lane)
        keep = slice(None) if diverged is None else steps < diverged
        states = {name: x[keep] for name, x in engine.unstack(saved, lane).items()}
        time = rate[lane] * steps[keep]
        if engine.name in REDUCED:
            found = measured(task, population, engine.name, states, transformer.bias)
        else:
            found = _over_time(build_dataset(task, transformer, method, engine.name, states, time=time))
        step = -1 if diverged is None else diverged
        error = "" if diverged is None else f"the run diverged at step {diverged}"
        yield {"time": time, "engine": engine.name, "diverged_step": step, "error": error, **found}


def measured(task, population, model, states, bias):
    """The dataset's variables from a history of states; `population` is None where atoms are not listed."""
    found = {}
    if model == "symmetric":
        found = {f"{name}_sector": x for name, x in states.items()}
    if population is None:
        (m, p, hard), each = type_margin(states, task.classes, bias), None
        z = type_preactivation(states, task.classes, bias)
    else:
        states = expand(states, task.classes) if model == "symmetric" else states
        found |= states
        z = preactivation(population, states["w"], states["A"], bias)
        m, p, hard = margin(population, z), population.probabilities, population.hard
        each = loss_of_each(population, z)
    found |= {**averages(m, p, hard, each), "margin": m, "z": z}
    held_out = None if population is None else population.held_out
    if held_out is not None:
        found |= {"loss_test": mean(each, held_out), "accuracy_test": mean_accuracy(m, held_out)}
    return found


def _single(engine, task, transformer, method):
    """Flows and staged runs cannot share lanes; one that diverges or chatters keeps what it has and spoils no other."""
    found = {"time": np.zeros(0), "engine": engine.name, "diverged_step": -1, "error": ""}
    try:
        if hasattr(method, "stages"):
            run = run_three_stage(task, transformer, method, engine, certificate=False)
        else:
            run = run_flow(task, transformer, method, engine.name, certificate=False)
    except ArithmeticError as error:
        run, found["error"] = error.run, " ".join(str(error).split())
        if isinstance(error, DivergedError):
            found["diverged_step"] = 0 if error.step is None else error.step
    if hasattr(run, "dataset"):
        found |= {"time": run.dataset["time"].values, **_over_time(run.dataset)}
    return found


def _over_time(dataset):
    """The variables of a dataset that have a value at every save."""
    return {name: x.values for name, x in dataset.data_vars.items() if x.dims[:1] == ("time",)}
