"""How does the time of a gradient step of the `symmetric` model grow with the number of mixtures K?

    python benchmarks/symmetric_scaling.py

Times descent at ten K between 100 and 10,000 on one core, in turns, and fits time ∝ K^p. The work is O(K), but arrays
are padded, four sizes to an octave, so that runs of different K can share a program: the times form steps, and a fit over many K
says more than a ratio of two.
"""

import argparse
import json
import os

if hasattr(os, "sched_setaffinity"):  # one core, before anything starts a pool of threads
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

import numpy as np
from engine import LANES, best_of, machine, versions

from mixflow.engines.symmetric import Symmetric
from mixflow.jaxed import in_float64
from mixflow.methods import GradientDescent
from mixflow.methods.chunks import descend
from mixflow.networks.transformer import Transformer
from mixflow.tasks import Mixture

AIM = 1.05


def descent_call(K, steps):
    """Descent of one run, filling every lane with itself as `train` does, compiled."""
    transformer = Transformer(omega=0.3)
    engine = Symmetric(Mixture(classes=K), transformer, GradientDescent())
    rate = np.full(LANES, 0.1)
    parameters = engine.parameters([transformer] * LANES, rate, rate)
    starts = [engine.start(transformer)] * LANES

    @in_float64
    def call():
        descend(engine, starts, parameters, steps, save_every=steps)

    call()
    return call


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200, help="steps of each timed run (default 200)")
    parser.add_argument("--repeats", type=int, default=10, help="timed runs of each K, the best counts (default 10)")
    parser.add_argument("--points", type=int, default=10, help="how many K, evenly spaced in log K (default 10)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    if options.points < 2:
        parser.error(f"--points {options.points}: expected at least 2, to fit a slope")
    classes = np.unique(np.geomspace(100, 10_000, options.points).round().astype(int)).tolist()
    best = best_of(options.repeats, {K: descent_call(K, options.steps) for K in classes})
    us = [best[K] / options.steps * 1e6 for K in classes]
    exponent = float(np.polyfit(np.log(classes), np.log(us), 1)[0])
    result = {"machine": machine(), **versions(), "classes": classes, "us_per_step": us, "exponent": exponent}
    if options.json:
        print(json.dumps(result))
        return
    print(f"{result['machine']}, one core, jax {result['jax']}, {LANES} lanes, {options.steps} steps")
    for K, time in zip(classes, us):
        print(f"K = {K:5d}: {time:7.1f} µs per step")
    print(f"time grows like K^{exponent:.2f} from K = 100 to 10,000  (aim: at most {AIM})")


if __name__ == "__main__":
    main()
