"""How long does the command line take, from the shell's point of view?

    python benchmarks/start_up.py

Times `mixflow --help`, `mixflow train` (the paper's K = 2 run, its program already in the compilation cache) and
`mixflow construct` for ten thousand classes as processes of their own, in turns with `python -c pass`: the floor below
which no Python program gets. Seconds are wall time; multiples are of processor time, because other programs on the machine
do not enter it.
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
COMMANDS = {
    "python -c pass": ["-c", "pass"],
    "mixflow --help": ["-m", "mixflow", "--help"],
    "mixflow train": ["-m", "mixflow", *PAPER.split()],
    "mixflow construct": ["-m", "mixflow", "construct", "--classes", "10000"],
}
AIM = {"mixflow --help": 0.3, "mixflow train": 3.0, "mixflow construct": 1.0}  # seconds


def process_call(arguments, cache):
    """The command as a function; an exit code other than 0 ends the benchmark."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "MIXFLOW_CACHE": cache}

    def call():
        done = subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"start_up: {' '.join(arguments)} failed: {done.stderr.strip()}")

    return call


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
        first = best_of(1, calls, time.perf_counter)  # compiles, and fills the cache that the timed runs read
        seconds = best_of(options.repeats, calls, time.perf_counter)
        processor = best_of(options.repeats, calls, processor_time)
    multiples = {name: time / processor["python -c pass"] for name, time in processor.items()}
    result = {"machine": machine(), **versions(), "seconds": seconds, "processor_seconds": processor}
    result |= {"multiples": multiples, "cold_train_seconds": first["mixflow train"]}
    if options.json:
        print(json.dumps(result))
        return
    print(f"{result['machine']}, Python {sys.version.split()[0]}, jax {result['jax']}")
    for name in COMMANDS:
        aim = f"  (aim: under {AIM[name]} s)" if name in AIM else ""
        used = f"{processor[name]:.3f} s of processor time, {multiples[name]:.1f} times python -c pass"
        print(f"{name}: {seconds[name]:.3f} s{aim}; {used}")
    print(f"mixflow train with an empty cache: {first['mixflow train']:.2f} s")


if __name__ == "__main__":
    main()
