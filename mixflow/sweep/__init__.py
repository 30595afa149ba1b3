"""Many runs from one description: axes -> groups -> batches -> processes -> one labelled dataset.

spec.py      the description: fields, grid, list, random and seeds axes, checked once
plan.py      runs grouped by compiled shape and cut into batches, a pure function of the description
cost.py      what the plan will cost, calibrated on this machine, and when that is absurd
work.py      one batch on one worker: train, reduce, pack
cluster.py   local processes by default, or a Dask cluster at an address
manifest.py  what is finished: an append-only list of checksums, and the lock
run.py       the loop over unfinished batches
results.py   finished batches as one dataset, opened lazily
"""

from .results import open_sweep
from .run import sweep

__all__ = ["open_sweep", "sweep"]
