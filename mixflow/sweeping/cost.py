"""What a sweep costs, told by its first batches: runs, core-hours, wall time, bytes.

A few real batches of every kind of group run first and count as finished work; what they took is extrapolated to the rest.

    wall = start + first calls + work / workers + half a batch + end

`start` is what connecting took; the first call of a program in a worker loads libraries and compiles, once in every worker. The
end, stopping the processes and writing everything into one file, is told by the start: both are mostly processes and imports.
"""

import math
import os
import pathlib
import shutil
from dataclasses import dataclass

import numpy as np

from ..errors import SpecError

KINDS = (
    8  # kinds of groups that have pilots; the others take the ratio of measured to nominal time of the nearest in size
)
PILOTS = 3  # batches of each kind for each worker: the first one compiles, the others tell the time
ROW_BYTES, PART_BYTES = 230, 4600  # of one run's reductions, and of a part's own headers (an .npz of twenty arrays)
BATCH_SECONDS = 0.012  # of processor for sending, receiving, writing and syncing a batch
END_OVER_START = 0.8  # stopping and consolidating, in units of the start: 0.6 to 1.0 measured, idle and busy
ROUGH = 2  # without pilots a cost is known to about this factor: only what is beyond it is refused unseen


@dataclass(frozen=True)
class Estimate:
    """What a sweep is expected to cost; `groups` lists (label, runs, core-seconds)."""

    runs: int
    batches: int
    workers: int
    core_seconds: float
    wall_seconds: float
    bytes: int
    free: int
    groups: tuple
    calibrated: bool  # by pilots; else nominal

    def to_dict(self):
        """JSON-ready."""
        groups = [{"label": label, "runs": runs, "core_seconds": cost} for label, runs, cost in self.groups]
        return {**vars(self), "core_hours": self.core_seconds / 3600, "groups": groups}

    def __str__(self):
        from dask.utils import format_bytes, format_time

        wide = max(38, *(len(label) for label, _, _ in self.groups[:20]))
        lines = [f"{'group':{wide}} {'runs':>10} {'core-hours':>11}"]
        for label, runs, seconds in self.groups[:20]:
            lines.append(f"{label:{wide}} {runs:>10} {seconds / 3600:>11.3g}")
        if len(self.groups) > 20:
            lines.append(f"… and {len(self.groups) - 20} more groups")
        lines.append("")
        lines.append(
            f"runs        {self.runs} in {_count(len(self.groups), 'group')} and {_count(self.batches, 'batch')}"
        )
        lines.append(f"core-hours  {self.core_seconds / 3600:.3g}")
        lines.append(f"wall time   {format_time(self.wall_seconds)} on {_count(self.workers, 'worker')}")
        lines.append(f"disk        {format_bytes(self.bytes)} of {format_bytes(self.free)} free")
        return "\n".join(lines)


def pilots(plan, workers):
    """Batches to run first: PILOTS for each worker of each kind of group, the cheapest kinds first, spread over the kind."""
    by_label = {}
    for g, group in enumerate(plan.groups):
        by_label.setdefault(group.label, []).append(g)
    kinds = sorted(by_label.values(), key=lambda groups: plan.groups[groups[0]].nominal)
    if len(kinds) > KINDS:
        kinds = [kinds[round(i)] for i in np.linspace(0, len(kinds) - 1, KINDS)]
    for groups in kinds:
        end = np.cumsum([plan.groups[g].batches for g in groups])
        for i in np.unique(np.linspace(0, end[-1] - 1, min(end[-1], PILOTS * workers)).astype(int)):
            k = int(np.searchsorted(end, i, side="right"))
            yield int(plan.first[groups[k] + 1] - end[k] + i)


def estimate(plan, folder, workers, times=(), startup=0.0, waited=0.0):
    """The cost of a plan; nominal but for the kinds of groups in `times`, the manifest's account of finished batches.

    waited  seconds that pilots have run without an end, which a batch of their kind takes at least
    """
    measured = _measured(plan, times)
    rows, work, tail = {}, BATCH_SECONDS * plan.batches, 0.0
    for group in plan.groups:
        per_call = _price(group, measured, waited)
        cost = per_call * calls(group)
        label, runs, before = rows.get(group.label, (group.label, 0, 0.0))
        rows[group.label] = (label, runs + group.runs, before + cost)
        work += cost
        tail = max(tail, per_call * -(-group.batch // group.lanes))
    firsts = {}  # of each program
    for group, _, first in measured.values():
        firsts[group.program] = max(first, firsts.get(group.program, 0.0))
    once = sum(firsts.values())  # in every worker
    busy = min(workers, plan.batches)
    # The last batches do not end together: on average the workers wait for half of one.
    wall = startup * (1 + END_OVER_START) + once + max(work / busy, tail) + (tail / 2 if plan.batches > busy else 0)
    return Estimate(
        plan.runs,
        plan.batches,
        workers,
        work + once * busy,
        wall,
        estimated_bytes(plan),
        shutil.disk_usage(_existing(folder)).free,
        tuple(sorted(rows.values(), key=lambda row: -row[2])),
        bool(measured),
    )


def refuse_absurd(cost, max_core_hours):
    """A SpecError for a plan that cannot fit or that nobody meant."""
    from dask.utils import format_bytes

    if cost.bytes > 0.9 * cost.free:
        raise SpecError(
            f"the sweep needs about {format_bytes(cost.bytes)} and {format_bytes(cost.free)} are free: keep fewer series, save "
            "less often, choose another --out, or insist with --force."
        )
    if cost.core_seconds > 3600 * max_core_hours * (1 if cost.calibrated else ROUGH):
        raise SpecError(
            f"the sweep needs about {cost.core_seconds / 3600:.3g} core-hours, above the limit of {max_core_hours:g}: make it "
            "smaller, raise --max-core-hours, or insist with --force."
        )


def estimated_bytes(plan):
    """Of the manifest and of its copy in one file."""
    total = 0
    for group in plan.groups:
        total += 2 * group.runs * (ROW_BYTES + group.kept) + group.batches * PART_BYTES
    return int(total)


def _measured(plan, times):
    """{label: (a group, seconds of a lane-full, seconds that the first batch in a process takes beyond)} of what has run."""
    rows = {}
    for batch, _, seconds, warm in times:
        group = plan.groups[plan.group_of(batch)]
        lanefuls = -(-plan.size(batch) // group.lanes)
        rows.setdefault(group.label, (group, [], []))[2 if warm else 1].append((seconds, lanefuls))
    found = {}
    for label, (group, cold, warm) in rows.items():
        if warm:
            each = sum(seconds for seconds, _ in warm) / sum(count for _, count in warm)
        else:  # the libraries' start is in it: too much, but the most that is known
            each = min(seconds / count for seconds, count in cold)
        first = np.mean([seconds - each * count for seconds, count in cold]) if cold else 0.0
        found[label] = group, each, max(0.0, float(first))
    return found


def _price(group, measured, waited):
    """Seconds of one lane-full of a group."""
    if group.label in measured:
        return measured[group.label][1]
    seconds = group.nominal * group.lanes
    if measured:

        def distance(row):
            return row[0].program != group.program, abs(math.log(row[0].nominal / group.nominal))

        near, each, _ = min(measured.values(), key=distance)
        seconds *= each / (near.nominal * near.lanes)
    return max(seconds, waited / -(-group.batch // group.lanes))


def calls(group):
    """How many lane-fulls a group takes."""
    whole, rest = divmod(group.runs, group.batch)
    per_batch = -(-group.batch // group.lanes)
    return whole * per_batch + -(-rest // group.lanes)


def _count(number, word):
    return f"{number} {word}" if number == 1 else f"{number} {word}{'es' if word.endswith('ch') else 's'}"


def _existing(folder):
    folder = pathlib.Path(folder).absolute()
    return next(path for path in (folder, *folder.parents) if os.path.exists(path))
