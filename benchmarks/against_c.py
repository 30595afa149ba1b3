"""How far is the engine from a hand-vectorised C kernel, on one core?

    python benchmarks/against_c.py

Compiles gram_k2.c (8 lanes, GCC vector extensions, its own exp) on the spot with -O3 -march=native, checks its result
against minimal.py and against the engine, and times both in this process, pinned to one core.
"""

import argparse
import ctypes
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

# One core for both sides, before anything starts a pool of threads.
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

import numpy as np
from engine import BIAS, LEARNING_RATE, best_of, engine_microseconds_per_step, machine, omegas, reference_state

LANES = 8
FLAGS = ["-O3", "-march=native", "-shared", "-fPIC"]


def compile_kernel(folder, compiler):
    """The kernel as a Python function (state, steps) -> state after so many steps."""
    library = Path(folder) / "gram_k2.so"
    source = Path(__file__).with_name("gram_k2.c")
    done = subprocess.run([compiler, *FLAGS, "-o", library, source], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"against_c: {compiler} could not compile {source.name}: {done.stderr.strip()}")
    descend = ctypes.CDLL(str(library)).descend
    pointer = np.ctypeslib.ndpointer(float, flags="C_CONTIGUOUS")
    descend.argtypes, descend.restype = [pointer, pointer, pointer, ctypes.c_long], None
    eta, bias = np.full(LANES, LEARNING_RATE), np.full(LANES, BIAS)

    def run(state, steps):
        state = np.ascontiguousarray(state).copy()
        descend(state, eta, bias, steps)
        return state

    return run


def start():
    """The mean-field start of each lane, (2, 52, LANES): w = 0, A = 0, G_K = G_Q = ω² I."""
    G = np.eye(4).reshape(16, 1) * omegas(LANES) ** 2
    return np.stack([np.concatenate([np.zeros((20, LANES)), G, G])] * 2)


def difference(a, b):
    return float(np.max(np.abs(a - b) / np.maximum(1, np.abs(b))))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=20_000, help="steps of each timed run (default 20000)")
    parser.add_argument("--compiler", default=os.environ.get("CC", "gcc"), help="C compiler (default $CC or gcc)")
    parser.add_argument("--without-engine", action="store_true", help="time and check the kernel alone")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    if not shutil.which(options.compiler):
        parser.error(f"no C compiler named {options.compiler!r}: install gcc or name one with --compiler")

    with tempfile.TemporaryDirectory() as folder:
        kernel = compile_kernel(folder, options.compiler)
        result = {"machine": machine(), "lanes": LANES, "steps": options.steps}
        checked = [0, LANES - 1]
        theirs = np.stack([reference_state(omegas(LANES)[lane], 3000) for lane in checked], axis=-1)
        result["kernel_error"] = difference(kernel(start(), 3000)[..., checked], theirs)
        seconds = best_of(5, lambda: kernel(start(), options.steps))
        result["kernel_us_per_step"] = seconds / options.steps * 1e6
        if not options.without_engine:
            try:
                result["engine_us_per_step"], state = engine_microseconds_per_step(LANES, options.steps)
            except NotImplementedError as error:
                parser.error(str(error))
            result["engine_error"] = difference(kernel(start(), options.steps), np.asarray(state))
            result["engine_over_kernel"] = result["engine_us_per_step"] / result["kernel_us_per_step"]

    if options.json:
        print(json.dumps(result))
    else:
        print(f"{result['machine']}, one core, K = 2, {LANES} lanes, {options.steps} steps")
        for side in ("kernel", "engine"):
            if f"{side}_us_per_step" in result:
                us = result[f"{side}_us_per_step"]
                print(f"{side}: {us:.3f} µs per step, {us / LANES:.3f} µs per trajectory-step")
        print(f"kernel against minimal.py after 3000 steps: {result['kernel_error']:.1e}")
        if "engine_over_kernel" in result:
            print(f"kernel against the engine after {options.steps} steps: {result['engine_error']:.1e}")
            print(f"engine / kernel: {result['engine_over_kernel']:.2f}  (aim: at most 3)")
    worst = max(result["kernel_error"], result.get("engine_error", 0))
    if not worst < 1e-9:
        sys.exit(f"against_c: results differ by {worst:.1e}, more than 1e-9, so the times are not comparable.")


if __name__ == "__main__":
    main()
