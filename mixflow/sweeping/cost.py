"""What a plan will cost, before it runs: runs, core-hours, wall time, bytes; measured on the workers themselves.

    wall = start + ready + first calls + work / workers + half a batch + end

`start` is what connecting took, `ready` what a worker needs to load its libraries, a first call loads the compiled program of
each kind of group once in every worker; `work` is lane-fulls times their seconds and a little for each batch. The end, stopping
the processes and writing everything into one file, is told by the start: both are mostly processes and imports.
"""

import shutil
from dataclasses import dataclass

import numpy as np

from ..errors import SpecError
from .calibrate import calibrate

KINDS = 8  # kinds of groups measured; others take the factor between measured and nominal time of the nearest in size
ROW_BYTES, PART_BYTES = 230, 4600  # of one run's reductions, and of a part's own headers (an .npz of twenty arrays)
BATCH_SECONDS = 0.012  # of processor for sending, receiving, writing and syncing a batch
END_OVER_START = 0.8  # stopping and consolidating, in units of the start: 0.6 to 1.0 measured, idle and busy
SMALL = 60.0  # nominal core-seconds below which a sweep starts without being measured first


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
    calibrated: bool

    def to_dict(self):
        """JSON-ready."""
        groups = [{"label": label, "runs": runs, "core_seconds": cost} for label, runs, cost in self.groups]
        return {**vars(self), "core_hours": self.core_seconds / 3600, "groups": groups}

    def __str__(self):
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
        lines.append(f"wall time   {duration(self.wall_seconds)} on {_count(self.workers, 'worker')}")
        lines.append(f"disk        {size(self.bytes)} of {size(self.free)} free")
        return "\n".join(lines)


def estimate(plan, folder, workers, client=None, startup=0.0):
    """The cost of a plan: measured through `client`, or nominal without one."""
    kinds = _kinds(plan)
    measured = calibrate(plan, client, kinds) if client else None
    rows, work, programs = {}, BATCH_SECONDS * plan.batches, {}
    for g, group in enumerate(plan.groups):
        per_call, first = _price(g, group, kinds, measured)
        cost = per_call * _calls(group)
        label, runs, before = rows.get(group.label, (group.label, 0, 0.0))
        rows[group.label] = (label, runs + group.runs, before + cost)
        work += cost
        programs[group.program] = max(first, programs.get(group.program, 0.0))
    # The last batches do not end together: on average the workers wait for half of one.
    tail = max(
        _price(g, group, kinds, measured)[0] * -(-group.batch // group.lanes) for g, group in enumerate(plan.groups)
    )
    busy = min(workers, plan.batches)
    once = (measured.ready if measured else 0.0) + sum(programs.values())  # in every worker
    wall = startup * (1 + END_OVER_START) + once + max(work / busy, tail) + (tail / 2 if plan.batches > busy else 0)
    work += once * busy
    free = shutil.disk_usage(_existing(folder)).free
    return Estimate(
        plan.runs, plan.batches, workers, work, wall, estimated_bytes(plan), free,
        tuple(sorted(rows.values(), key=lambda row: -row[2])), measured is not None,
    )  # fmt: skip


def _count(number, word):
    return f"{number} {word}" if number == 1 else f"{number} {word}{'es' if word.endswith('ch') else 's'}"


def refuse_absurd(cost, max_core_hours):
    """A SpecError for a plan that cannot fit or that nobody meant."""
    if cost.bytes > 0.9 * cost.free:
        raise SpecError(
            f"the sweep needs about {size(cost.bytes)} and {size(cost.free)} are free: keep fewer series, save less often, "
            "choose another --out, or insist with --force."
        )
    if cost.core_seconds > 3600 * max_core_hours:
        raise SpecError(
            f"the sweep needs about {cost.core_seconds / 3600:.3g} core-hours, above the limit of {max_core_hours:g}: make it "
            "smaller, raise --max-core-hours, or insist with --force."
        )


def nominal_core_seconds(plan):
    """Without measuring anything."""
    return sum(group.nominal * group.lanes * _calls(group) for group in plan.groups)


def estimated_bytes(plan):
    """Parts and the consolidated copy."""
    total = 0
    for group in plan.groups:
        total += group.runs * (2 * ROW_BYTES + 2 * group.series_bytes * group.saves) + group.batches * PART_BYTES
    return int(total)


def _kinds(plan):
    """Groups to measure: one of each label, at most KINDS of them, spread over the sizes."""
    by_label = {}
    for g, group in enumerate(plan.groups):
        by_label.setdefault(group.label, g)
    chosen = sorted(by_label.values(), key=lambda g: plan.groups[g].nominal)
    if len(chosen) > KINDS:
        chosen = [chosen[round(i)] for i in np.linspace(0, len(chosen) - 1, KINDS)]
    return {g: plan.groups[g] for g in chosen}


def _price(g, group, kinds, measured):
    """Seconds of one lane-full of a group, and of compiling it."""
    nominal = group.nominal * group.lanes
    if measured is None:
        return nominal, 0.0
    near = min(kinds, key=lambda k: (kinds[k].label != group.label, abs(np.log(kinds[k].nominal / group.nominal))))
    seconds, first = measured.groups[near]
    return seconds * group.nominal / kinds[near].nominal, first


def _calls(group):
    """How many lane-fulls a group takes."""
    whole, rest = divmod(group.runs, group.batch)
    per_batch = -(-group.batch // group.lanes)
    return whole * per_batch + -(-rest // group.lanes)


def _existing(folder):
    from pathlib import Path

    folder = Path(folder).absolute()
    return next(path for path in (folder, *folder.parents) if path.exists())


def size(count):
    """Bytes for people."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


def duration(seconds):
    """Seconds for people."""
    for unit, length in (("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds:.2g} s"
