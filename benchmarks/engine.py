"""The engine's side of every comparison: one function, so that each benchmark times the same thing.

The lanes are K = 2 mean-field runs that differ in ω, so no lane's work can be shared with another's.
"""

import sys
import time
from pathlib import Path

import numpy as np

BIAS, LEARNING_RATE = 0.5, 0.1
ROOT = Path(__file__).parents[1]


def omegas(lanes):
    """ω of each lane; the first is the paper's run."""
    return 0.30 + 0.01 * np.arange(lanes)


def engine_microseconds_per_step(lanes, steps=20_000, repeats=5):
    """Best time of one descent step of all `lanes` together, compilation excluded, and the state after `steps` steps.

    The state has shape (2 heads, 52, lanes); the 52 numbers are w (4), A (16), G_K (16), G_Q (16), rows first.
    """
    # To be wired to mixflow.models.gram.Gram and mixflow.dynamics.descent.advance: build the K = 2 start of each ω,
    # call `advance` once for compilation, then return best_of(repeats, call) / steps * 1e6 and the final state.
    raise NotImplementedError("the engine is not wired into benchmarks/engine.py yet; run with --without-engine.")


def reference_state(omega, steps):
    """The same run by minimal.py, an independent program, in the layout above without the lane axis."""
    sys.path.insert(0, str(ROOT))
    import minimal

    minimal.OMEGA = omega
    state = minimal.mean_field()
    for _ in range(steps):
        state, *_ = minimal.gram_step(*state)
    return np.concatenate([part.reshape(2, -1) for part in state], axis=1)


def best_of(repeats, call):
    """The least wall time of `repeats` calls, in seconds: on a shared machine noise only adds."""
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return min(times)


def machine():
    """The processor's name, for the record."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        import platform

        return platform.processor() or platform.machine()
