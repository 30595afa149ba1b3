"""How far is the engine from a hand-vectorised C kernel, on one core?

    python benchmarks/against_c.py [--classes 3]

Compiles gram.c (8 lanes, GCC vector extensions, its own exp) on the spot with -O3 -march=native, checks its result
against the engine and, at K = 2, against minimal.py, and times both in this process, pinned to one core, in turns. Where the
processor has AVX-512 the kernel is also built without it, as it would be on the many machines that lack it; the engine
is timed once, as users run it.
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
from engine import BIAS, LANES, LEARNING_RATE, best_of, engine_call, machine, omegas, reference_state, versions

FLAGS = ["-O3", "-march=native", "-shared", "-fPIC", "-Wno-psabi"]
NARROW = ["-mno-avx512f"]  # 256-bit vectors and 16 registers
AIM = 1.6


def compile_kernel(folder, compiler, classes, *extra):
    """The kernel as a Python function (state, steps) -> state after so many steps."""
    library = Path(folder) / f"gram{''.join(extra)}.so"
    source = Path(__file__).with_name("gram.c")
    done = subprocess.run(
        [compiler, *FLAGS, *extra, f"-DK={classes}", "-o", library, source], capture_output=True, text=True
    )
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


def start(classes):
    """The mean-field start of each lane, (2, F + 3 F², LANES): w = 0, A = 0, G_K = G_Q = ω² I."""
    F = 2 * classes
    G = np.eye(F).reshape(F * F, 1) * omegas(LANES) ** 2
    return np.stack([np.concatenate([np.zeros((F + F * F, LANES)), G, G])] * 2)


def difference(a, b):
    return float(np.max(np.abs(a - b) / np.maximum(1, np.abs(b))))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--classes", type=int, default=2, help="classes of the mixture, 2 to 4 (default 2)")
    parser.add_argument("--steps", type=int, default=20_000, help="steps of each timed run (default 20000)")
    parser.add_argument("--repeats", type=int, default=30, help="timed runs of each side, the best counts (default 30)")
    parser.add_argument("--compiler", default=os.environ.get("CC", "gcc"), help="C compiler (default $CC or gcc)")
    parser.add_argument("--without-engine", action="store_true", help="time and check the kernel alone")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    if not shutil.which(options.compiler):
        parser.error(f"no C compiler named {options.compiler!r}: install gcc or name one with --compiler")

    with tempfile.TemporaryDirectory() as folder:
        result = compare(options, folder)
    print(json.dumps(result)) if options.json else report(result)
    worst = max(result.get("kernel_error", 0), result.get("engine_error", 0))
    if not worst < 1e-9:
        sys.exit(f"against_c: results differ by {worst:.1e}, more than 1e-9, so the times are not comparable.")


def compare(options, folder):
    """Errors of every program against the others, and the best time of each, taken in turns."""
    K = options.classes
    kernels = {"kernel": compile_kernel(folder, options.compiler, K)}
    if wide_vectors():
        kernels["kernel_avx2"] = compile_kernel(folder, options.compiler, K, *NARROW)
    result = {"machine": machine(), **versions(options.compiler), "classes": K, "lanes": LANES, "steps": options.steps}
    first, checked = start(K), [0, LANES - 1]
    if K == 2:
        theirs = np.stack([reference_state(omegas(LANES)[lane], 3000) for lane in checked], axis=-1)
        errors = [difference(kernel(first, 3000)[..., checked], theirs) for kernel in kernels.values()]
        result["kernel_error"] = max(errors)
    calls = {name: (lambda kernel=kernel: kernel(first, options.steps)) for name, kernel in kernels.items()}
    if not options.without_engine:
        calls["engine"], state = engine_call(LANES, options.steps, K)
        result["engine_error"] = difference(kernels["kernel"](first, options.steps), state())
    for name, seconds in best_of(options.repeats, calls).items():
        result[f"{name}_us_per_step"] = seconds / options.steps * 1e6
    for name in kernels if "engine" in calls else ():
        result[f"engine_over_{name}"] = result["engine_us_per_step"] / result[f"{name}_us_per_step"]
    return result


def wide_vectors():
    """Whether this processor has AVX-512; where that cannot be told, one build is enough."""
    try:
        return " avx512f " in Path("/proc/cpuinfo").read_text()
    except OSError:
        return False


def report(result):
    names = ("jax", "jaxlib", "llvmlite", "numpy", "compiler")
    print(f"{result['machine']}, one core, K = {result['classes']}, {result['lanes']} lanes, {result['steps']} steps")
    print(", ".join(f"{name} {result[name]}" for name in names if name in result))
    for side, name in (("kernel", "kernel"), ("kernel_avx2", "kernel without AVX-512"), ("engine", "engine")):
        if f"{side}_us_per_step" in result:
            us = result[f"{side}_us_per_step"]
            print(f"{name}: {us:.3f} µs per step, {us / result['lanes']:.3f} µs per trajectory-step")
    if "kernel_error" in result:
        print(f"kernel against minimal.py after 3000 steps: {result['kernel_error']:.1e}")
    if "engine_error" in result:
        print(f"kernel against the engine after {result['steps']} steps: {result['engine_error']:.1e}")
        print(f"engine / kernel: {result['engine_over_kernel']:.2f}  (aim: at most {AIM})")
    if "engine_over_kernel_avx2" in result:
        print(f"engine / kernel without AVX-512: {result['engine_over_kernel_avx2']:.2f}")


if __name__ == "__main__":
    main()
