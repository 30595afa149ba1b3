"""The table of `mixflow bench`: a step, a flow, and how cost grows with K, width, seeds and time."""

import time

import numpy as np

from ..checks import real
from ..engines import choose
from ..methods import GradientDescent, GradientFlow
from ..networks.transformer import Transformer
from ..progress import Progress
from ..runs.train import train, train_many
from ..tasks import Mixture
from .clock import arithmetic, best, descent, peak

WIDTH, DIMENSION = 256, 100  # of the network whose every weight is trained
UNTIL = 2000.0  # of the flow, in units of time
LISTED, SYMMETRIC = (2, 3, 4), (100, 1000, 10_000)  # K, where samples are followed one by one and by type
WIDTHS, SEEDS, STEPS = (16, 256, 4096), (8, 64), (10_000, 100_000)


def bench(seconds=45.0, progress=False):
    """Time everything for about so many seconds; returns {section: [row, …]}, a row a dictionary with `what` and numbers.

    seconds   for all of it; what must be compiled comes on top
    progress  True draws a bar on stderr; or a function of (done, total)

    Raises SpecError for a time that is not positive.
    """
    seconds = real("seconds", seconds, above=0, most=3600)
    bar = Progress.of(progress, unit="table")
    parts = {"step": _step, "flow": _flow, "growth": _growth}
    found = {}
    try:
        for name, part in parts.items():
            found[name] = part(seconds / len(parts))
            bar(len(found), len(parts))
    finally:
        bar.close()
    return found


def _step(seconds):
    """A step of descent at K = 2: the reduction, alone and in a batch; every weight, as one would write it; the limit."""
    finite = Transformer(width=WIDTH, dimension=DIMENSION, seed=0)
    method = GradientDescent()
    engines = {name: choose(Mixture(2), finite, method, name) for name in ("gram", "full")}
    calls = {name: descent(engine, finite) for name, engine in engines.items()}
    took = best({name: call for name, (call, _) in calls.items()}, 0.7 * seconds)
    each = {name: took[name] / steps for name, (_, steps) in calls.items()}
    lanes = {name: engine.lanes for name, engine in engines.items()}
    limit = arithmetic(engines["gram"], finite) / peak(0.1 * seconds)
    alone, batch, full = each["gram"], each["gram"] / lanes["gram"], each["full"] / lanes["full"]
    return [
        {"what": "mixflow, one run", "microseconds": 1e6 * alone, "ratio": 1.0},
        {"what": f"mixflow, each of {lanes['gram']} runs at once", "microseconds": 1e6 * batch, "ratio": batch / alone},
        {
            "what": f"every weight by automatic differentiation (width {WIDTH}, {DIMENSION} dimensions), each of {lanes['full']}",
            "microseconds": 1e6 * full,
            "ratio": full / batch,
            "against": "each run at once",
        },
        {
            "what": f"limit: its arithmetic at the speed of a matrix product, {lanes['gram']} runs",
            "microseconds": 1e6 * limit,
            "ratio": alone / limit,
            "against": "the limit",
        },
    ]


def _flow(seconds):
    """True gradient flow through its kinks, and SciPy's LSODA on the raw field for as long as the section may take."""
    from scipy.integrate import LSODA

    from ..engines.field import field

    task, network, method = Mixture(2), Transformer(width=64, seed=0), GradientFlow(until=UNTIL, save_at=20)
    run = train(task, network, method)  # compiles
    took = best({"flow": lambda: train(task, network, method)}, 0.3 * seconds)["flow"]
    raw = field(task, network)

    def velocity(t, y):
        return raw.velocities(y[None], 1.0 * (raw.z(y[None]) > 0))[0]

    solver = LSODA(velocity, 0.0, raw.y0, UNTIL, rtol=1e-9, atol=1e-12)
    began = time.process_time()
    while solver.status == "running" and time.process_time() - began < 0.5 * seconds:
        solver.step()
    raw_seconds = time.process_time() - began
    how = "to the end" if solver.t >= UNTIL else f"stalled at t = {solver.t:.4g} of {UNTIL:g}"
    error = run.certificate["relative_difference"]
    return [
        {
            "what": f"mixflow's flow with its certificate, {len(run.events)} switches, error {error:.0e}",
            "seconds": took,
            "ratio": 1.0,
        },
        {"what": f"SciPy LSODA on the raw field: {how}", "seconds": raw_seconds, "ratio": raw_seconds / took},
    ]


def _growth(seconds):
    """How the time of a step, or of a batch, grows; the exponent is fitted over the values shown."""
    axes = {
        "K, all samples": {K: _timed(Mixture(K), Transformer(width=16)) for K in LISTED},
        "K, by symmetry": {K: _timed(Mixture(K), Transformer()) for K in SYMMETRIC},
        "width": {m: _timed(Mixture(2), Transformer(width=m)) for m in WIDTHS},
    }
    rows = []
    for name, calls in axes.items():
        took = best({x: call for x, (call, _) in calls.items()}, seconds / 6)
        rows.append(_exponent(name, "microseconds of a step", {x: 1e6 * took[x] / calls[x][1] for x in calls}))
    seeds = {n: _batch(n) for n in SEEDS}
    rows.append(_exponent("seeds", "seconds of 1,000 steps", best(seeds, seconds / 6)))
    times = {steps: _length(steps) for steps in STEPS}
    rows.append(_exponent("steps", "seconds", best(times, seconds / 6)))
    return rows


def _timed(task, network):
    return descent(choose(task, network, GradientDescent()), network)


def _batch(n):
    networks = [Transformer(width=16, seed=seed) for seed in range(n)]
    method = GradientDescent(steps=1000, save_every=1000)
    return lambda: train_many(Mixture(2), networks, method)


def _length(steps):
    method = GradientDescent(steps=steps, save_every=steps // 10)
    return lambda: train(Mixture(2), Transformer(width=16), method)


def _exponent(what, unit, took):
    x, y = np.log(np.array(list(took), float)), np.log(np.array(list(took.values())))
    return {
        "what": what,
        "unit": unit,
        "values": {str(k): v for k, v in took.items()},
        "exponent": float(np.polyfit(x, y, 1)[0]),
    }
