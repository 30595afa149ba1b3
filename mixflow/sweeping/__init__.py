"""Many runs from one description: axes -> groups -> batches -> processes -> one labelled dataset.

The files, in the order in which a sweep passes through them: `spec` (the description, fields of `mixflow.spec`), `axes` (over
them), `plan` (groups and batches, a pure function of the description), `cluster` (where it runs), `cost` (what it will cost, told
by its first batches), `work` (one batch on one worker), `manifest` (what is finished), `run` (the loop), `results` (what is
there, in one file once it is `consolidated`).
"""

from .results import open_sweep
from .run import sweep

__all__ = ["open_sweep", "sweep"]
