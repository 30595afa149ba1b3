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

import numpy as np

from ..engines import choose
from ..errors import MixflowError
from ..jaxed import in_float64
from ..measure.seeds import BOUNDARIES
from ..measure.separability import deciding, feature_margin
from ..measure.stages import detect
from ..measure.trajectory import Trajectory
from ..progress import Progress
from ..runs.train import together
from ..spec import build
from ..tasks import FiniteTask
from ..tasks.floor import Samples, above_least

_seen = set()  # programs that this process has compiled
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
    rows, series = [], []
    for task, arrays in trajectories(job):
        rows.append(reduce(task, arrays, job["output"]))
        if job["output"]["series"]:
            series.append({name: arrays[name] for name in ("time", *job["output"]["series"]) if name in arrays})
    names = dict.fromkeys(name for row in rows for name in row)  # a run that broke off at once has fewer
    columns = {name: np.array([row.get(name, math.nan) for row in rows]) for name in names}
    content = pack({"run": np.array(job["runs"], np.int64), **columns, **_stacked(series)})
    return content, hashlib.sha256(content).digest(), time.perf_counter() - began, warm


def trajectories(job):
    """(task, {variable: array}) of every run in order, one lane-full in memory at a time; bit for bit those of `train_many`.

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
        outcomes, interrupted = together([engine] * len(lanes), lanes, method, Progress.of(False), rates)
        if interrupted:
            raise KeyboardInterrupt
        for network, outcome in zip(lanes, outcomes, strict=True):
            yield engine.task, _measured(engine, network, outcome)


def _measured(engine, network, outcome):
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


def reduce(task, arrays, output):
    """One run as a row of numbers; NaN where the run does not have them."""
    wanted, t = output["reductions"], arrays["time"]
    some = len(t) > 0
    row = {name: arrays[name] for name in ("model", "diverged_step", "error")}
    row["time"] = t[-1] if some else math.nan
    if "final" in wanted:
        for name in ("loss", "accuracy", "loss_easy", "loss_hard", "loss_test", "accuracy_test"):
            if name in arrays or not name.endswith("test"):
                row[name] = float(arrays[name][-1]) if some else math.nan
        row["smallest_margin"] = float(arrays["margin"][-1].min()) if some else math.nan
    if "stages" in wanted:
        row |= _stages(task, arrays)
    if "levels" in wanted:
        for level in output["levels"]:
            row[f"time_to_loss_{level}"] = _first_below(t, arrays["loss"], level) if some else math.nan
    if "separation" in wanted:
        row |= _separation(task, arrays, output["separation_margin"])
    return row


def _stages(task, arrays):
    row = {f"{name}_{side}": math.nan for name, side in BOUNDARIES} | {"converging": False}
    if len(arrays["time"]) < 2:
        return row
    series = {name: arrays[name] for name in ("time", "loss", "loss_easy", "loss_hard", "z", "margin")}
    if isinstance(task, FiniteTask) and (least := Samples(task).least_loss).any():
        series = above_least(series, least, task.probabilities, task.hard)
    if "A" in arrays:
        run = Trajectory(w=arrays["w"], A=arrays["A"], **series)
    else:
        A = arrays["A_sector"]
        run = Trajectory.from_sectors(
            classes=task.classes, common=A[:, 0], contrast=A[:, 1], w=arrays["w_sector"], **series
        )
    stages = {stage.name: stage for stage in detect(run)}
    for name, side in BOUNDARIES:
        stage = stages[name]
        if stage.found and (side == "start" or stage.complete):  # an end that is only the end of the run is no boundary
            row[f"{name}_{side}"] = getattr(stage, side)
    row["converging"] = stages["convergence"].complete
    return row


def _first_below(time, loss, level):
    """When the loss first falls below the level, interpolated in its logarithm between saves."""
    below = np.flatnonzero(loss < level)
    if not len(below):
        return math.nan
    i = below[0]
    if i == 0:
        return float(time[0])
    high, low = math.log(loss[i - 1] / level), math.log(max(loss[i], 1e-300) / level)
    return float(time[i - 1] + (time[i] - time[i - 1]) * (high / (high - low) if high > low else 1.0))


def _separation(task, arrays, threshold):
    """When the deciding samples' feature margin first reaches the threshold, and the margin at the end.

    The margin is looked at on SEARCH saves spread evenly in index, then bisected in the first bracket: a crossing that is
    undone between two looks is missed, which for these slowly growing margins does not happen.
    """
    row = {"separation_time": math.nan, "separation_margin": math.nan}
    if "A" not in arrays or not len(arrays["time"]):
        return row
    A, time = arrays["A"], arrays["time"]
    looks = np.unique(np.linspace(0, len(time) - 1, SEARCH).astype(int))
    asked = deciding(task)
    margins = np.atleast_1d(feature_margin(task, A[looks], samples=asked))
    row["separation_margin"] = float(margins[-1])
    reached = np.flatnonzero(margins >= threshold)
    if not len(reached):
        return row
    high = int(looks[reached[0]])
    low = int(looks[reached[0] - 1]) if reached[0] else high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if feature_margin(task, A[middle], samples=asked) >= threshold else (middle, high)
    return row | {"separation_time": float(time[high])}


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
