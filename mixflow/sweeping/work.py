"""One batch on one worker: train, reduce each run to a few numbers, pack them into the bytes of a part.

A part is an .npz of arrays with one row for each run, the same bytes whenever and wherever the batch is computed by the same
versions on the same kind of processor.
"""

import hashlib
import io
import math
import os
import sys
import time
from functools import partial

import numpy as np

from ..engines import choose
from ..errors import MixflowError
from ..jaxed import in_float64
from ..measure.seeds import BOUNDARIES
from ..measure.separability import deciding, feature_margin, no_margin
from ..measure.stages import detect
from ..measure.times import passes
from ..measure.trajectory import Trajectory
from ..progress import Progress
from ..runs.train import together
from ..spec import build

_seen: set[object] = set()  # programs that this process has compiled
SEARCH = 64  # saves at which the feature margin is looked at before its crossing is bracketed


def one_thread():
    """Keep this process to one compute thread; has an effect only before JAX starts."""
    if "jax" in sys.modules:
        return
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NPROC"):
        os.environ[name] = "1"
    flags = os.environ.get("XLA_FLAGS", "")
    if "xla_cpu_multi_thread_eigen" not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} --xla_cpu_multi_thread_eigen=false".strip()


def attempt(job):
    """What is sent to the workers: ("done", bytes, SHA-256, seconds, warm), or ("failed", message, whether to try again).

    Errors travel as text. An exception of a library may not survive the journey: one that cannot be unpickled would leave the
    client waiting for ever.
    """
    try:
        return ("done", *run_batch(job))
    except Exception as error:
        text = " ".join(str(error).split()) or "no message"
        return "failed", f"{type(error).__name__}: {text}"[:500], not isinstance(error, MixflowError)


@in_float64
def run_batch(job):
    """The bytes of a batch, their SHA-256, the seconds it took, and whether its program had run in this process before."""
    began, warm = time.perf_counter(), job["program"] in _seen
    _seen.add(job["program"])
    one_thread()
    pairs = [pair for _, pair in trajectories(job, partial(_reduced, job["output"]))]
    rows, series = [row for row, _ in pairs], [kept for _, kept in pairs if kept]
    names = dict.fromkeys(name for row in rows for name in row)  # a run that broke off at once has fewer
    columns = {name: np.array([row.get(name, math.nan) for row in rows]) for name in names}
    content = pack({"run": np.array(job["runs"], np.int64), **columns, **_stacked(series)})
    return content, hashlib.sha256(content).digest(), time.perf_counter() - began, warm


def _reduced(output, engine, network, outcome):
    """A run as a row of numbers, and the series that are kept of it."""
    arrays = measured(engine, network, outcome)
    run = None
    if len(arrays["time"]):  # a flow is read between its saves
        run = Trajectory.of_flow(engine, network, outcome) or Trajectory.measured(engine)(arrays)
    kept = {name: arrays[name] for name in ("time", *output["series"]) if name in arrays} if output["series"] else {}
    return reduce(engine.task, network, arrays, run, output), kept


def trajectories(job, read=None):
    """(task, {variable: array}) of every run in order, one lane-full in memory at a time; bit for bit those of `train_many`.

    read   what to take of each run instead of its arrays: read(engine, network, outcome)

    The arrays have time first and the names of the dataset's variables; besides them stand "time", "model" (the engine's
    name), "diverged_step" (-1 if the run did not diverge; the arrays then end before it) and "error", what stopped it before
    its end.
    """
    networks = [build("transformer", table) for table in job["transformers"]]
    task, method = build("task", job["task"]), build("method", job["method"])
    engine = choose(task, networks[0], method, job["model"])  # the plan puts runs of one program into a batch
    for i in range(0, len(networks), job["lanes"]):
        lanes, rates = networks[i : i + job["lanes"]], job["rates"][i : i + job["lanes"]]
        rates = None if None in rates else rates
        found, interrupted = together([engine] * len(lanes), lanes, method, Progress.of(False), read or measured, rates)
        if interrupted:
            raise KeyboardInterrupt
        for each in found:
            yield engine.task, each


def measured(engine, network, outcome):
    """What the engine measures of one run that has a value at every save, and how the run ended."""
    last, time = outcome.last, outcome.time
    error = "" if last.error is None else " ".join(str(last.error).split())
    stopped = 0 if last.ended == "diverged" else -1
    if last.diverged is not None:
        stopped, error = last.diverged, f"the run diverged at step {last.diverged}"
    found = {"time": time, "model": engine.name, "diverged_step": stopped, "error": error}
    if not len(time):
        return found
    seen = engine.measure(outcome.history, network)
    return found | {name: np.asarray(x) for name, (dims, x) in seen.items() if dims == "time" or dims[0] == "time"}


def reduce(task, network, arrays, run, output):
    """One run as a row of numbers; NaN where the run does not have them.

    arrays   what was measured at the saves
    run      the Trajectory that times are read from, None for a run that broke off at once
    """
    wanted = output["reductions"]
    row = {name: arrays[name] for name in ("model", "diverged_step", "error")}
    row["time"] = arrays["time"][-1] if run else math.nan
    if "final" in wanted:
        for name in ("loss", "accuracy", "loss_easy", "loss_hard", "loss_test", "accuracy_test"):
            if name in arrays or not name.endswith("test"):
                row[name] = float(arrays[name][-1]) if run else math.nan
        row["smallest_margin"] = float(arrays["margin"][-1].min()) if run else math.nan
    if "stages" in wanted:
        row |= _stages(run)
    if "levels" in wanted:
        for level in output["levels"]:
            above = level - run.least.get("loss", 0.0) if run else 0.0
            time = passes(run, above) if above > 0 else None
            row[f"time_to_loss_{level}"] = math.nan if time is None else time
    if "separation" in wanted:
        row |= _separation(task, network, run if "A" in arrays else None, output["separation_margin"])
    return row


def _stages(run):
    row = {f"{name}_{side}": math.nan for name, side in BOUNDARIES} | {"converging": False}
    if run is None:
        return row
    stages = {stage.name: stage for stage in detect(run)}
    for name, side in BOUNDARIES:
        stage = stages[name]
        if stage.found and (side == "start" or stage.complete):  # an end that is only the end of the run is no boundary
            row[f"{name}_{side}"] = getattr(stage, side)
    row["converging"] = stages["convergence"].complete
    return row


def no_separation(task, network):
    """Why a network on a task has no separation time, or None."""
    if network.no_closure is not None:
        return f"a {type(network).__name__} does not offer it"
    if task.unlisted is not None:
        return "the atoms of the task are not listed one by one"
    population = task.population()
    return no_margin(population, len(network.heads_for(population)))


def _separation(task, network, run, threshold):
    """When the deciding samples' feature margin first reaches the threshold, and the margin at the end.

    The margin is looked at at SEARCH times spread evenly in index, then bisected in the first bracket: a crossing that is
    undone between two looks is missed, which for these slowly growing margins does not happen.
    """
    row = {"separation_time": math.nan, "separation_margin": math.nan}
    if run is None or no_separation(task, network):
        return row
    asked, F = deciding(task), len(task.population().features)

    def margins(part, chosen=slice(None)):
        A = part.A[chosen]
        return np.atleast_1d(feature_margin(task, A.reshape(len(A), -1, F, F), samples=asked, network=network))

    looks = np.unique(np.linspace(0, len(run.time) - 1, SEARCH).astype(int))
    seen = margins(run, looks)
    row["separation_margin"] = float(seen[-1])
    reached = np.flatnonzero(seen >= threshold)
    if not len(reached):
        return row
    high = int(looks[reached[0]])
    low = int(looks[reached[0] - 1]) if reached[0] else high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if margins(run, [middle])[0] >= threshold else (middle, high)
    if low == high:
        return row | {"separation_time": float(run.time[0])}
    time = run.crossing(lambda part: margins(part) - threshold, low)
    between = np.interp(threshold, margins(run, [low, high]), run.time[[low, high]])
    return row | {"separation_time": float(between) if time is None else time}


def _stacked(series):
    """Trajectories with runs first; times once if all runs share them, else every run's own, padded with NaN."""
    if not series:
        return {}
    times = [one["time"] for one in series]
    longest = max(len(t) for t in times)
    shared = all(np.array_equal(t, times[0]) for t in times)
    stacked = {"series_time": times[0] if shared else np.stack([_padded(t, longest) for t in times])}
    kept = {name: x for one in series for name, x in one.items() if name != "time"}
    for name, example in kept.items():
        none = np.zeros((0, *example.shape[1:]))  # of a run that broke off at once
        stacked[f"series_{name}"] = np.stack([_padded(one.get(name, none), longest) for one in series])
    return stacked


def _padded(x, length):
    full = np.full((length, *x.shape[1:]), np.nan)
    full[: len(x)] = x
    return full


def pack(arrays):
    """The bytes of an .npz; numpy dates its members 1980, so equal arrays give equal bytes."""
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def unpack(content):
    """The arrays of a part."""
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        return {name: file[name] for name in file.files}
