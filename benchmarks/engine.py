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
    from mixflow.dynamics.descent import descend
    from mixflow.models.gram import Gram
    from mixflow.models.transformer import Transformer
    from mixflow.tasks import Mixture

    engine = Gram(Mixture(classes=2).population())
    runs = [Transformer(omega=omega, bias=BIAS) for omega in omegas(lanes)]
    spare = [runs[0]] * (engine.lanes - lanes)  # a single run fills the other lanes with itself, as `train` does
    rate = np.full(engine.lanes, LEARNING_RATE)
    starts = [engine.start(run) for run in [*runs, *spare]]
    parameters = engine.parameters([*runs, *spare], rate, rate)
    results = []

    def call():
        results[:] = [descend(engine, starts, parameters, steps, save_every=steps)]

    call()
    seconds = best_of(repeats, call)
    last = [engine.unstack(results[0].saved, lane) for lane in range(lanes)]
    state = [np.concatenate([x[name][-1].reshape(2, -1) for name in ("w", "A", "G_K", "G_Q")], axis=1) for x in last]
    return seconds / steps * 1e6, np.stack(state, axis=-1)


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
