"""The engine's side of every comparison: one function, so that each benchmark times the same thing.

The lanes are mean-field runs that differ in ω, so no lane's work can be shared with another's.
"""

import importlib.metadata
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # time the package beside this folder, installed or not

from mixflow.engines.lanes import LANES  # noqa: E402 (after the path)

BIAS, LEARNING_RATE = 0.5, 0.1


def omegas(lanes):
    """ω of each lane; the first is the paper's run."""
    return 0.30 + 0.01 * np.arange(lanes)


def engine_call(lanes, steps, classes=2):
    """A run of `steps` steps of `lanes` ≤ LANES trajectories, compiled: (call, state), state() after the last call.

    The state has shape (2 heads, F + 3 F², lanes); the numbers are w (F), A, G_K, G_Q (F²), rows first.
    """
    from mixflow.engines.gram import Gram
    from mixflow.jaxed import in_float64
    from mixflow.methods import GradientDescent
    from mixflow.methods.chunks import descend
    from mixflow.networks.transformer import Transformer
    from mixflow.tasks import Mixture

    runs = [Transformer(omega=omega, bias=BIAS) for omega in omegas(lanes)]
    runs += [runs[0]] * (LANES - lanes)  # a single run fills the other lanes with itself, as `train` does
    engine = Gram(Mixture(classes=classes), runs[0], GradientDescent())
    rate = np.full(LANES, LEARNING_RATE)
    starts = [engine.start(run) for run in runs]
    parameters = engine.parameters(runs, rate, rate)
    results = []

    @in_float64
    def call():
        results[:] = [descend(engine, starts, parameters, steps, save_every=steps)]

    def state():
        last = [engine.unstack(results[0].saved, lane) for lane in range(lanes)]
        parts = ("w", "A", "G_K", "G_Q")
        return np.stack([np.concatenate([x[p][-1].reshape(2, -1) for p in parts], axis=1) for x in last], axis=-1)

    call()
    return call, state


def reference_state(omega, steps):
    """The same run by minimal.py, an independent program, in the layout above without the lane axis."""
    import minimal

    minimal.OMEGA = omega
    state = minimal.mean_field()
    for _ in range(steps):
        state, *_ = minimal.gram_step(*state)
    return np.concatenate([part.reshape(2, -1) for part in state], axis=1)


def best_of(repeats, calls, clock=time.process_time):
    """The least time of `repeats` calls of each, in seconds: noise only adds. They take turns, to see the same machine.

    The clock counts the processor time of this process, which on one core is its wall time less what other programs
    took: on a busy machine wall time favours whichever side has the shorter run.
    """
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(repeats):
        for name, call in calls.items():
            begin = clock()
            call()
            best[name] = min(best[name], clock() - begin)
    return best


def versions(compiler=None):
    """Versions of what is timed, for the record."""
    found = {name: importlib.metadata.version(name) for name in ("jax", "jaxlib", "llvmlite", "numpy")}
    if compiler:
        done = subprocess.run([compiler, "--version"], capture_output=True, text=True)
        found["compiler"] = done.stdout.splitlines()[0] if done.stdout else compiler
    return found


def machine():
    """The processor's name, for the record."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        import platform

        return platform.processor() or platform.machine()
