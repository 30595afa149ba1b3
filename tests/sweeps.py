"""Small sweeps for the tests: planned, and finished in this process."""

import hashlib

import mixflow as mf
from mixflow.sweeping.manifest import Manifest
from mixflow.sweeping.plan import Plan
from mixflow.sweeping.run import write_header
from mixflow.sweeping.spec import Sweep
from mixflow.sweeping.work import run_batch

TINY = {"task": {"classes": 1}, "method": {"steps": 40, "save_every": 10}}


def planned(**description):
    return Plan(Sweep({**TINY, **description}))


def finished(folder, **description):
    """A sweep whose batches are computed in this process."""
    described = Sweep({**TINY, **description})
    plan = Plan(described)
    write_header(folder, described, plan)
    manifest = Manifest.writing(folder)
    for batch in range(plan.batches):
        manifest.finish(batch, *run_batch(plan.job(batch)))
    manifest.close()
    return mf.sweep(described, folder)  # nothing is left to compute: it writes results.nc


def digest(content):
    return hashlib.sha256(content).digest()
