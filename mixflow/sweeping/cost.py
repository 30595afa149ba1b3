"""What a plan will cost, before it runs: runs, core-hours, wall time, bytes; calibrated on the workers themselves.

One lane-full of each kind of group is run on every worker at once, so that the estimate sees what the sweep will see: the
same program, the same measurements, cores that share memory. Short runs of growing length give a + b·length.
"""

import shutil
import time
from dataclasses import dataclass

import numpy as np

from ..errors import SpecError
from ..jaxed import jax
from .work import run_batch

PROBE_SECONDS = 0.6  # of the longest probe; the whole calibration takes a few seconds for each kind of group
KINDS = 8  # kinds of groups measured; others take the factor between measured and nominal time of the nearest in size
ROW_BYTES, PART_BYTES = 230, 4600  # of one run's reductions, and of a part's own headers (an .npz of twenty arrays)
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
        lines = [f"{'group':38} {'runs':>10} {'core-hours':>11}"]
        for label, runs, seconds in self.groups[:20]:
            lines.append(f"{label[:38]:38} {runs:>10} {seconds / 3600:>11.3g}")
        if len(self.groups) > 20:
            lines.append(f"… and {len(self.groups) - 20} more groups")
        lines.append("")
        lines.append(f"runs        {self.runs} in {len(self.groups)} groups and {self.batches} batches")
        lines.append(f"core-hours  {self.core_seconds / 3600:.3g}")
        lines.append(f"wall time   {duration(self.wall_seconds)} on {self.workers} worker{'s' * (self.workers != 1)}")
        lines.append(f"disk        {size(self.bytes)} of {size(self.free)} free")
        return "\n".join(lines)


def estimate(plan, folder, workers, client=None, startup=0.0):
    """The cost of a plan: measured through `client`, or nominal without one."""
    kinds = _kinds(plan)
    measured = calibrate(plan, client, kinds) if client else None
    rows, work, first = {}, 0.0, 0.0
    for g, group in enumerate(plan.groups):
        per_call, compile_once = _price(g, group, kinds, measured)
        cost = per_call * _calls(group)
        label, runs, before = rows.get(group.label, (group.label, 0, 0.0))
        rows[group.label] = (label, runs + group.runs, before + cost)
        work += cost
        first = max(first, compile_once)
    # The last batches do not end together: on average the workers wait for half of one.
    tail = max(
        _price(g, group, kinds, measured)[0] * -(-group.batch // group.lanes) for g, group in enumerate(plan.groups)
    )
    busy = min(workers, plan.batches)
    wall = startup + first + max(work / busy, tail) + (tail / 2 if plan.batches > busy else 0)
    free = shutil.disk_usage(_existing(folder)).free
    return Estimate(
        plan.runs, plan.batches, workers, work, wall, estimated_bytes(plan), free,
        tuple(sorted(rows.values(), key=lambda row: -row[2])), measured is not None,
    )  # fmt: skip


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


def calibrate(plan, client, kinds):
    """{group index: (seconds of one lane-full, seconds of the first call beyond that)} for the groups in `kinds`."""
    workers = list(client.nthreads())
    found = {}
    for g in kinds:
        job = plan.job(plan.first[g])
        lanes = plan.groups[g].lanes
        job = {**job, "transformers": job["transformers"][:lanes], "runs": job["runs"][:lanes]}
        futures = [client.submit(probe, job, workers=[w], pure=False, allow_other_workers=False) for w in workers]
        answers = client.gather(futures)
        found[g] = tuple(float(x) for x in np.mean(answers, axis=0))
    return found


def probe(job):
    """Seconds one lane-full of this job takes at full length, extrapolated from short ones; and of the first call."""
    length, name = _length(job["method"])
    if length is None:
        return _timed(job), 0.0
    shorter = lambda n: {**job, "method": {**job["method"], name: type(length)(n)}}  # noqa: E731
    shortest = shorter(max(length / 1000, 1))
    _timed(shortest)  # compiles, and leaves the program in the cache on the disk
    jax().clear_caches()
    first = _timed(shortest)  # what a worker of the sweep will pay: tracing, and loading the program from that cache
    points, share = [], 1 / 1000
    while True:
        n = max(1, length * share) if isinstance(length, int) else length * share
        points.append((n, min(_timed(shorter(n)), _timed(shorter(n)))))
        seconds = points[-1][1]
        if share >= 1:
            return seconds, max(0.0, first - points[0][1])
        if seconds > PROBE_SECONDS:
            break
        share = min(1.0, share * (10 if seconds < PROBE_SECONDS / 10 else 3))
        if seconds * 4 > 2 * PROBE_SECONDS and len(points) > 1:
            break
    (n1, t1), (n2, t2) = points[-2] if len(points) > 1 else (0, 0.0), points[-1]
    slope = max((t2 - t1) / (n2 - n1), 0.0)
    return t2 + slope * (length - n2), max(0.0, first - points[0][1])


def _timed(job):
    began = time.perf_counter()
    run_batch(job)
    return time.perf_counter() - began


def _length(method):
    """The number that says how long a run is, and its name; staged runs end at events and are measured whole."""
    if method["kind"] == "descent":
        return method["steps"], "steps"
    if method["kind"] == "flow" and not isinstance(method["save_at"], list):
        return method["until"], "until"
    return None, None


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
    seconds, first = measured[near]
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
