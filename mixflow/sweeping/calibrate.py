"""How long things take on the workers: a lane-full of each kind of group, its first call, and what a worker needs to be ready.

One lane-full of each kind of group is run on every worker at once, so that the estimate sees what the sweep will see: the
same program, the same measurements, cores that share memory.
"""

import time
from dataclasses import dataclass

import numpy as np

from ..jaxed import in_float64, jax
from .fields import STEPWISE
from .work import one_thread, run_batch

PROBE_SECONDS = (
    0.6  # of arithmetic in the longest probe; the whole calibration takes a few seconds for each kind of group
)
SPREAD = 3  # runs measured where each takes its own time (flows, staged runs), spread over the group


@dataclass(frozen=True)
class Measured:
    """What the workers took.

    ready   seconds until a new worker has loaded its libraries
    groups  {group index: (seconds of one lane-full, seconds of the first call beyond that)}
    """

    ready: float
    groups: dict


def calibrate(plan, client, kinds):
    """Measure the groups in `kinds` on every worker of the client at once."""
    workers = list(client.nthreads())

    def everywhere(function, *arguments):
        futures = [client.submit(function, *arguments, workers=[w], pure=False) for w in workers]
        return client.gather(futures)

    began = time.perf_counter()
    everywhere(get_ready)
    ready = time.perf_counter() - began
    found = {}
    for g in kinds:
        nominal = plan.groups[g].nominal * plan.groups[g].lanes
        answers = [everywhere(probe, job, nominal) for job in _samples(plan, g)]
        seconds = np.mean([one[0] for each in answers for one in each])
        found[g] = float(seconds), float(np.mean([one[1] for one in answers[0]]))
    return Measured(ready, found)


@in_float64
def get_ready():
    """What a worker does before its first batch: load the libraries, start the compiler."""
    one_thread()
    jax().numpy.zeros(1).block_until_ready()


def _samples(plan, g):
    """Jobs of one lane-full: the group's first, or a few spread over it where runs share no lanes."""
    group = plan.groups[g]
    count = 1 if group.lanes > 1 else min(SPREAD, group.batches)
    for batch in np.unique(np.linspace(0, group.batches - 1, count).astype(int)):
        job = plan.job(plan.first[g] + int(batch))
        cut = {name: job[name][: group.lanes] for name in ("transformers", "runs", "rates")}
        yield {**job, **cut}


def probe(job, nominal):
    """Seconds one lane-full of this job takes at full length, extrapolated from short ones; and of the first call beyond."""
    if job["method"]["kind"] in STEPWISE:
        return _probe_descent(job, nominal / job["method"]["steps"])
    return _probe_adaptive(job)


def _probe_descent(job, step):
    """`step` is what a step nominally takes: long enough runs for a slope need not be searched for."""
    whole = job["method"]["steps"]
    shortest, n0 = _descent(job, 0)
    first, t0 = _first_and_again(shortest)
    n, t = n0, t0
    while n < whole and t - t0 < PROBE_SECONDS / 3:
        longer, n = _descent(job, n0 + int(2 * PROBE_SECONDS / step) if n == n0 else 4 * n)
        _timed(longer)  # another number of saves in a call may be another program
        t = _timed(longer)
    slope = max(t - t0, 0.0) / (n - n0) if n > n0 else 0.0
    return t + slope * (whole - n), first


def _descent(job, steps):
    """(job, steps) of so many steps or a little more, with as many saves as the whole has: measuring those costs the same."""
    method = job["method"]
    saves = max(1, method["steps"] // method["save_every"])
    every = max(1, -(-steps // saves))
    if every >= method["save_every"]:
        return job, method["steps"]
    return {**job, "method": {**method, "steps": every * saves, "save_every": every}}, every * saves


def _probe_adaptive(job):
    """Flows take large steps where little happens, so the whole is measured unless a tenth of it takes long already."""
    first, tenth = _first_and_again(_shortened(job, 0.1))
    if tenth > 5 * PROBE_SECONDS:
        return 10 * tenth, first
    once, again = _timed(job), _timed(job)  # the later part may need programs of its own
    return again, first + max(0.0, once - again)


def _shortened(job, share):
    """A share of a flow; staged runs end at events and are measured whole."""
    method = job["method"]
    if method["kind"] != "flow" or isinstance(method["save_at"], list):
        return job
    return {**job, "method": {**method, "until": method["until"] * share}}


@in_float64
def _first_and_again(job):
    """Seconds a first call takes beyond a later one, and the later one's.

    The call before compiles, and leaves the program in the cache on the disk; a worker of the sweep will trace it and load it
    from there.
    """
    _timed(job)
    jax().clear_caches()
    first, again = _timed(job), _timed(job)
    return max(0.0, first - again), again


def _timed(job):
    began = time.perf_counter()
    run_batch(job)
    return time.perf_counter() - began
