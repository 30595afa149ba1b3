"""From the description to batches: runs grouped by compiled shape, packed into lanes, cut into pieces of about a second.

Everything here is a pure function of the description, never of the machine or of timing, so that a resumed sweep has the
same batches. Groups are products of index sets: a million runs take no more memory than their axes.
"""

import bisect
import itertools
import json
import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .. import native
from ..checks import one_of
from ..engines import choose
from ..errors import SpecError
from ..spec import plain
from .spec import objects
from .work import no_separation

MOST_GROUPS = 100_000
BATCH_SECONDS = 1.0  # long against the 10 ms a batch costs to send and write, short against what a crash may lose
MOST_RUNS = 256
MOST_BYTES = 32 << 20  # of trajectories in one batch
PIECES = 16  # even a small group is cut into this many batches, so that every core of a desktop has work
# Of a step of all lanes for each unit of `Engine.work`, in machine code (True) and by JAX, as measured (benchmarks/README.md):
# 0.82 µs at K = 2, 3.1 for the 5.3 units of K = 3; by JAX 64 for the 22 units of K = 4, 8,054 for the 2,304 of K = 8.
UNIT_SECONDS = {True: 0.8e-6, False: 3e-6}
UNUSED_AT_INFINITY = {"transformer.seed", "transformer.dimension"}  # what the mean-field limit does not depend on


@dataclass(frozen=True, eq=False)
class Group:
    """Runs that share a compiled program, a task and a method but for its rate: `indices` are the positions along every axis."""

    indices: tuple
    lanes: int
    batch: int  # runs in a batch
    nominal: float  # seconds one run takes on a nominal machine
    kept: int  # bytes of one run's trajectories
    label: str
    same: tuple = ()  # axes along which all points are one run, which `indices` holds once

    @property
    def program(self):
        """What the compiled program depends on, near enough: the label without the length of the runs."""
        return self.label.rsplit(", ", 1)[0]

    @property
    def shape(self):
        return tuple(len(i) for i in self.indices)

    @property
    def runs(self):
        return math.prod(self.shape)

    @property
    def batches(self):
        return -(-self.runs // self.batch)


class Plan:
    """The groups and batches of a sweep.

    >>> from .spec import Sweep
    >>> plan = Plan(Sweep({"grid": {"transformer.omega": [0.1, 0.2], "transformer.width": [64, "inf"]}}))
    >>> plan.runs, [group.program for group in plan.groups]
    (4, ['gram, K = 2', 'symmetric, K = 2'])
    """

    def __init__(self, sweep):
        self.sweep = sweep
        self.groups = tuple(_groups(sweep))
        self.first = list(itertools.accumulate((group.batches for group in self.groups), initial=0))

    @property
    def batches(self):
        """How many batches there are."""
        return self.first[-1]

    @cached_property
    def runs(self):
        """How many runs there are; fewer than the grid has points where points are the same run."""
        return sum(group.runs for group in self.groups)

    def group_of(self, batch):
        """The index of the group a batch belongs to."""
        return bisect.bisect_right(self.first, batch) - 1

    def size(self, batch):
        """How many runs the batch has."""
        g = self.group_of(batch)
        group, start = self.groups[g], (batch - self.first[g]) * self.groups[g].batch
        return min(group.batch, group.runs - start)

    def sizes(self):
        """How many runs each batch has, as an array."""
        sizes = np.repeat([group.batch for group in self.groups], [group.batches for group in self.groups])
        ends = np.array(self.first[1:]) - 1
        sizes[ends] = [group.runs - group.batch * (group.batches - 1) for group in self.groups]
        return sizes

    def positions(self, batch):
        """(runs, axes) positions along every axis."""
        g = self.group_of(batch)
        group, start = self.groups[g], (batch - self.first[g]) * self.groups[g].batch
        flat = np.arange(start, min(start + group.batch, group.runs))
        inside = np.unravel_index(flat, group.shape) if group.shape else ()
        picked = [indices[i] for indices, i in zip(group.indices, inside)]
        return np.stack(picked, axis=1) if picked else np.zeros((1, 0), np.int64)

    def numbers(self, batch):
        """The numbers of its runs: their places in the grid of all axes, laid out flat."""
        positions = self.positions(batch)
        return np.ravel_multi_index(tuple(positions.T), self.sweep.shape) if self.sweep.axes else np.zeros(1, np.int64)

    def job(self, batch):
        """Everything a worker needs for one batch, as plain data."""
        sweep = self.sweep
        settings = [sweep.settings(row) for row in self.positions(batch)]
        group = self.groups[self.group_of(batch)]
        return {
            **{name: settings[0][name] for name in ("task", "method", "model")},
            "transformers": [one["transformer"] for one in settings],
            "rates": [one["method"].get("learning_rate") for one in settings],
            "runs": self.numbers(batch).tolist(),
            "lanes": group.lanes,
            "program": group.program,
            "output": sweep.output,
        }


def _groups(sweep):
    shared, by_shape = _lane_fields(sweep), _width_matters(sweep)
    classes = [_classes(axis, shared, by_shape) for axis in sweep.axes]
    count = math.prod(len(found) for found in classes)
    if count > MOST_GROUPS:
        raise SpecError(
            f"the sweep falls into {count} groups that cannot share a program, above the limit of {MOST_GROUPS}: draw "
            "task and method fields from fewer values."
        )
    offered, separated = {}, {}  # a series or a separation that only some groups have is kept of those
    for chosen in itertools.product(*classes):
        settings = sweep.settings([int(indices[0]) for indices in chosen])
        task, network, method, model = objects(settings)
        engine = choose(task, network, method, model)
        unused = UNUSED_AT_INFINITY if network.mean_field else set()
        same = tuple(a for a, axis in enumerate(sweep.axes) if unused.issuperset(axis.fields))
        chosen = [indices[:1] if a in same else indices for a, indices in enumerate(chosen)]
        packed = engine.lanes if "method.learning_rate" in shared else 1
        nominal = nominal_seconds(engine, method) / packed
        sizes = engine.save_bytes() if sweep.output["series"] else {}  # {variable: bytes of a save}
        offered |= sizes
        if "separation" in sweep.output["reductions"]:
            separated[no_separation(task, network)] = None
        kept = _saves(method) * sum(sizes.get(name, 0) for name in sweep.output["series"])
        runs = math.prod(len(indices) for indices in chosen)
        batch = sweep.output["batch"] or _batch_runs(packed, runs, nominal, kept)
        yield Group(tuple(chosen), packed, batch, nominal, kept, _label(settings, engine), same)
    for name in sweep.output["series"]:
        one_of("output.series", name, tuple(offered))
    if separated and None not in separated:
        raise SpecError(f"output.reductions has 'separation', but {next(iter(separated))}: leave it out.")


def _classes(axis, shared, by_shape):
    """Positions along an axis, split where the compiled program, the task or the method changes."""
    if shared.issuperset(axis.fields):
        return [np.arange(len(axis))]
    key = np.zeros(len(axis), np.int64)
    for name, column in axis.columns.items():
        if name in shared:
            continue
        signatures = [json.dumps(_signature(name, plain(value), by_shape)) for value in column.values]
        order = {text: i for i, text in enumerate(dict.fromkeys(signatures))}
        key = key * len(order) + np.array([order[text] for text in signatures])[column.codes]
        key = np.unique(key, return_inverse=True)[1]  # small again, so that many fields do not overflow
    _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    by_class = np.argsort(inverse, kind="stable")
    found = np.split(by_class, np.cumsum(np.bincount(inverse))[:-1])
    return [found[i] for i in np.argsort(first)]


def _lane_fields(sweep):
    """Fields in which the lanes of one call may differ: numbers that the compiled program takes as arguments."""
    fields = {"transformer.omega", "transformer.bias", "transformer.seed"}
    if not _width_matters(sweep):
        fields.add("transformer.dimension")
    if "learning_rate" in sweep.base["method"]:  # flows have none, and stages may end at events of their own
        fields.add("method.learning_rate")
    return fields


def _signature(name, value, by_shape):
    if name == "transformer.width" and not by_shape:
        return value == "inf"
    return value


def _width_matters(sweep):
    """Whether some run stores every weight: only then does its program depend on width and dimension."""
    _, network, method, _ = objects(sweep.base)
    if network.no_closure is not None or method.inner.no_closure is not None:
        return True
    moving = {name: column.values for axis in sweep.axes for name, column in axis.columns.items()}
    return "full" in (sweep.base["model"], *moving.get("model", ())) or "method.rule" in moving


def _batch_runs(lanes, runs, nominal, bytes_each):
    """Runs in a batch: whole lanes, about BATCH_SECONDS of nominal work, and enough pieces for several cores."""
    by_time = BATCH_SECONDS / nominal
    by_bytes = MOST_BYTES / max(bytes_each, 1)
    wanted = min(by_time, by_bytes, MOST_RUNS, -(-runs // PIECES))
    return max(1, int(wanted) // lanes) * lanes


def nominal_seconds(engine, method):
    """Rough time of one call of the engine (all its lanes) on a nominal core; only sizes batches and orders groups."""
    size = max(1.0, engine.work())
    if method.flows:  # some thousand evaluations, more with more atoms
        return 0.1 * size
    steps = 100_000 if method.staged else method.steps  # stages end at events: their length is known only afterwards
    return 1e-3 + UNIT_SECONDS[native.apt(engine)] * steps * size


def _saves(method):
    """How many times a run of this method records."""
    if method.flows:
        return len(method.times()) if not method.staged else 500
    return method.inner.steps // method.inner.save_every + 2


def _label(settings, engine):
    """What tells the group from others, for the plan's table."""
    task, method = settings["task"], settings["method"]
    length = f"{method['steps']} steps" if "steps" in method else method["kind"]
    return f"{engine.name}, {_words(task)}, {length}"


def _words(task):
    """A task in short: "K = 2", "label_noise coherent K = 2"."""
    inside = _words(task["task"]) if "task" in task else f"K = {task['classes']}" if "classes" in task else ""
    return inside if task["kind"] == "mixture" else f"{task['kind']} {inside}".strip()
