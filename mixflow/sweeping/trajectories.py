"""Trajectories of a batch as plain arrays, one lane-full in memory at a time.

The numbers are those of `train_many`, bit for bit, without its labelled datasets: a sweep keeps a few numbers of each run.
"""

import numpy as np

from ..engines import choose
from ..runs.train import together
from .fields import make


def trajectories(job):
    """(task, network, {variable: array}) of every run in order.

    The arrays have time first and the names of the dataset's variables; besides them stand "time", "engine" (the model's
    name), "diverged_step" (-1 if the run did not diverge; the arrays then end before it) and "error", what stopped it before
    its end.
    """
    networks = [make("transformer", spec) for spec in job["transformers"]]
    task, method = make("task", job["task"]), make("method", job["method"])
    engine = choose(task, networks[0], method, job["model"])
    for i in range(0, len(networks), job["lanes"]):
        lanes, rates = networks[i : i + job["lanes"]], job["rates"][i : i + job["lanes"]]
        rates = None if rates[0] is None else rates
        outcomes, interrupted = together([engine] * len(lanes), lanes, method, _silent, rates)
        if interrupted:
            raise KeyboardInterrupt
        for network, outcome in zip(lanes, outcomes, strict=True):
            yield task, network, _measured(engine, network, outcome)


def _silent(done, total):
    pass


def _measured(engine, network, outcome):
    """What the engine measures of one run that has a value at every save, and how the run ended."""
    last, time = outcome.last, outcome.time
    error = "" if last.error is None else " ".join(str(last.error).split())
    stopped = -1
    if last.diverged is not None:
        stopped, error = last.diverged, f"the run diverged at step {last.diverged}"
    elif last.ended == "diverged":
        stopped = 0
    found = {"time": time, "engine": engine.name, "diverged_step": stopped, "error": error}
    if not len(time):
        return found
    seen = engine.measure(outcome.history, network)
    return found | {name: np.asarray(x) for name, (dims, x) in seen.items() if dims == "time" or dims[0] == "time"}
