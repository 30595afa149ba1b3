"""How long does the command line take, from the shell's point of view?

    python benchmarks/start_up.py

Times `mixflow --help`, `mixflow train` (the paper's K = 2 run, its program already in the cache, also as if Dask were not
installed, which xarray imports where it is) and `mixflow construct` for ten thousand classes as processes of their own, in turns
with `python -c pass`: the floor below which no Python program gets; at last `mixflow train` with an empty cache. Seconds are
wall time; multiples are of processor time, because other programs on the machine do not enter it.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time

from engine import ROOT, best_of, machine, versions

PAPER = "train --classes 2 --width inf --omega 0.3 --learning-rate 0.1 --steps 20000 --json"
WITHOUT_DASK = "import sys; sys.modules['dask'] = None; from mixflow.cli import main; sys.exit(main(sys.argv[1:]))"
COMMANDS = {
    "python -c pass": ["-c", "pass"],
    "mixflow --help": ["-m", "mixflow", "--help"],
    "mixflow train": ["-m", "mixflow", *PAPER.split()],
    "mixflow train, no Dask": ["-c", WITHOUT_DASK, *PAPER.split()],
    "mixflow construct": ["-m", "mixflow", "construct", "--classes", "10000"],
}
AIM = {"mixflow --help": 0.3, "mixflow train": 0.9, "mixflow train, no Dask": 0.9, "mixflow construct": 1.0}  # seconds


COLD_AIM = 2.0


def process_call(arguments, cache):
    """The command as a function; an exit code other than 0 ends the benchmark."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "MIXFLOW_CACHE": cache}

    def call():
        done = subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"start_up: {' '.join(arguments)} failed: {done.stderr.strip()}")

    return call


def _cold(clock):
    """`mixflow train` with a cache of its own."""
    with tempfile.TemporaryDirectory() as cache:
        return best_of(1, {"train": process_call(COMMANDS["mixflow train"], cache)}, clock)["train"]


def processor_time():
    """Seconds of all finished child processes, user and system."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--repeats", type=int, default=10, help="timed runs of each command, the best counts (default 10)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as cache:
        calls = {name: process_call(arguments, cache) for name, arguments in COMMANDS.items()}
        best_of(1, calls)  # compiles, and fills the cache that the timed runs read
        seconds = best_of(options.repeats, calls, time.perf_counter)
        processor = best_of(options.repeats, calls, processor_time)
    cold = {"seconds": time.perf_counter, "processor_seconds": processor_time}
    cold = {name: min(_cold(clock) for _ in range(3)) for name, clock in cold.items()}
    multiples = {name: time / processor["python -c pass"] for name, time in processor.items()}
    result = {"machine": machine(), **versions(), "seconds": seconds, "processor_seconds": processor}
    result |= {"multiples": multiples, "cold_train": cold}
    if options.json:
        print(json.dumps(result))
        return
    print(f"{result['machine']}, Python {sys.version.split()[0]}, jax {result['jax']}")
    for name in COMMANDS:
        aim = f"  (aim: under {AIM[name]} s)" if name in AIM else ""
        used = f"{processor[name]:.3f} s of processor time, {multiples[name]:.1f} times python -c pass"
        print(f"{name}: {seconds[name]:.3f} s{aim}; {used}")
    used = f"{cold['processor_seconds']:.3f} s of processor time"
    print(f"mixflow train, empty cache: {cold['seconds']:.2f} s  (aim: under {COLD_AIM} s); {used}")


if __name__ == "__main__":
    main()
