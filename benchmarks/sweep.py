"""How fast are sweeps, how do they grow, and are their estimates true?

    python benchmarks/sweep.py torch    [--torch-python PATH] [--seconds 40]   against the obvious PyTorch loop, and core use
    python benchmarks/sweep.py growth   [--most 10000]                         time against number of runs
    python benchmarks/sweep.py estimate [--only WORDS]                         estimate against truth on ten sweeps
    python benchmarks/sweep.py million                                         plan, manifest and resume at 1,000,000 runs

`torch` runs a slice of a sweep of 10,000 mean-field and finite-width descents (K = 2, 20,000 steps) on every core, long enough
that starting does not dominate, and some hundred steps of the PyTorch program of against_torch.py, and compares the time of
10,000 runs. `growth` and `estimate` say each line as it is measured. All times are from one run.
"""

import argparse
import hashlib
import json
import os
import resource
import sys
import tempfile
import threading
import time
from array import array
from pathlib import Path

import numpy as np
import psutil

from mixflow.sweeping.cluster import Place
from mixflow.sweeping.manifest import DONE, Manifest
from mixflow.sweeping.plan import Plan
from mixflow.sweeping.run import price, sweep
from mixflow.sweeping.spec import Sweep

WHOLE, STEPS = 10_000, 20_000


def say(text):
    print(text, file=sys.stderr, flush=True)


def slice_of_the_sweep(runs, steps=STEPS):
    """Half finite width, half mean-field, as the whole has them."""
    draws = {"transformer.omega": {"low": 0.1, "high": 0.8}, "transformer.bias": {"low": 0.3, "high": 0.7}}
    widths = {"transformer.width": {"choose": [64, 256, 1024, "inf", "inf", "inf"]}}
    return {"method": {"steps": steps, "save_every": 100}, "random": {"count": runs, **draws, **widths}}


class Cores(threading.Thread):
    """Processor time (user + system) of this process and its children, read several times a second."""

    def __init__(self):
        super().__init__(daemon=True)
        self.over, self.seen, self.used = threading.Event(), [], {}

    def run(self):
        me = psutil.Process()
        while not self.over.wait(0.25):
            for process in [me, *me.children(recursive=True)]:
                try:
                    times = process.cpu_times()
                except psutil.Error:
                    continue
                self.used[process.pid] = times.user + times.system
            self.seen.append((time.time(), sum(self.used.values())))

    def between(self, begin, end):
        """Seconds used between two times of the clock."""
        at, used = np.array(self.seen).T
        return float(np.interp(end, at, used) - np.interp(begin, at, used))


def timed(description, **more):
    """Run a sweep in a fresh folder: its wall time, and the part of it in which every worker has its program."""
    with tempfile.TemporaryDirectory() as folder:
        cores = Cores()
        cores.start()
        began, clock = time.time(), time.perf_counter()
        result = sweep(description, folder, force=True, **more)
        wall = time.perf_counter() - clock
        time.sleep(0.3)
        cores.over.set()
        cores.join()
        plan, workers = result.plan, Place().cores
        rows = result.manifest.times()
    # Each worker's first batch waits for libraries and programs: those are the ones that began first.
    firsts = sorted(rows, key=lambda row: row[1] - row[2])[:workers]
    ready, end = max(at for _, at, *_ in firsts), rows[-1][1]
    later = [batch for batch, at, *_ in rows if at > ready]
    found = {"runs": plan.runs, "wall": wall, "workers": workers, "steady": end - ready}
    found["steady_runs"] = sum(plan.size(batch) for batch in later)
    found["core_share"] = cores.between(began, began + wall) / (wall * workers)
    found["steady_core_share"] = cores.between(ready, end) / ((end - ready) * workers) if later else None
    return found


def against_torch(options):
    import against_torch as other

    trial = timed(slice_of_the_sweep(512))
    rate = trial["runs"] / trial["wall"] if not trial["steady_runs"] else trial["steady_runs"] / trial["steady"]
    runs = int(min(max(options.seconds * rate, 512), 100 * WHOLE))
    say(f"a slice of {runs} runs, about {runs / rate:.0f} s …")
    ours = timed(slice_of_the_sweep(runs))
    rate = ours["steady_runs"] / ours["steady"]
    startup = ours["wall"] - ours["steady"]
    say(f"sweep: {rate:.1f} runs/s, {startup:.1f} s to start and end, cores used {ours['core_share']:.1%}")
    rng = np.random.default_rng(0)
    W = other.OMEGA / np.sqrt(other.M) * rng.standard_normal((2, 2, other.M, other.D))
    theirs = {}
    with tempfile.TemporaryDirectory() as folder:
        weights = Path(folder) / "weights"
        weights.write_bytes(array("d", W.ravel().tolist()).tobytes())
        for dtype, threads in [("float64", 1), ("float32", 1), ("float32", os.cpu_count())]:
            found = other.run_torch(options.torch_python, weights, dtype, threads, 500)["us"]
            theirs[f"{dtype}, {threads} threads"] = found
            say(f"PyTorch {dtype}, {threads} threads: {found:.1f} µs per step")
    step = min(theirs.values())
    return {
        "torch_us_per_step": theirs, "torch_hours": WHOLE * STEPS * step / 3.6e9, "sweep_runs_per_second": rate,
        "sweep_seconds": startup + WHOLE / rate, "ratio": WHOLE * STEPS * step / 1e6 / (startup + WHOLE / rate),
        "slice_wall": ours["wall"], "core_share": ours["core_share"], "steady_core_share": ours["steady_core_share"],
    }  # fmt: skip


def growth(options):
    """Time beyond each worker's first batch, against runs: the slope of a line through the logarithms."""
    from scipy.stats import linregress, t

    counts = [n for n in (100, 316, 1000, 3162, 10_000) if n <= options.most]
    if len(counts) < 2:
        raise SystemExit(f"--most {options.most}: growth needs two sizes at least, 100 and 316 runs.")
    one_program = {"transformer": {"width": 64}, "method": {"steps": 30_000, "save_every": 300}, "output": {"batch": 8}}
    rows = []
    for n in counts:
        repeats = 3 if n < 1000 else 1  # a second of work says little by itself
        for _ in range(3 * repeats):
            row = timed(one_program | {"seeds": {"transformer.seed": n}})
            if row["steady_runs"] > 0 and row["steady"] > 0:
                rows.append(row)
                say(
                    f"{n:6} runs: {row['wall']:6.1f} s; beyond the first batches {row['steady_runs']} in {row['steady']:.2f} s"
                )
            if sum(found["runs"] == n for found in rows) >= repeats:
                break
    x, y = (np.log([row[name] for row in rows]) for name in ("steady_runs", "steady"))
    line = linregress(x, y)
    spread = float(t.ppf(0.975, len(rows) - 2) * line.stderr) if len(rows) > 2 else float("inf")
    say(f"exponent {line.slope:.3f} ± {spread:.3f} (95 %)")
    return {
        "runs": [row["runs"] for row in rows], "wall": [row["wall"] for row in rows],
        "steady_runs": [row["steady_runs"] for row in rows], "steady": [row["steady"] for row in rows],
        "exponent": float(line.slope), "exponent_95": spread, "core_share_of_the_largest": rows[-1]["core_share"],
    }  # fmt: skip


def ten_sweeps():
    """Different models, sizes, methods and measurements; each some 16 core-seconds of work."""
    finite = {"transformer": {"width": 64}}
    seeds = lambda n: {"seeds": {"transformer.seed": n}}  # noqa: E731
    omegas = lambda n: {"grid": {"transformer.omega": {"from": 0.2, "to": 0.6, "count": n}}}  # noqa: E731
    descent = lambda steps, every: {"method": {"steps": steps, "save_every": every}}  # noqa: E731
    rates = {"grid": {"method.learning_rate": {"from": 0.05, "to": 0.2, "count": 16}}}
    lengths = {"grid": {"method.steps": [2500, 5000, 10_000, 20_000]}}
    return {
        "gram, K = 2": finite | seeds(1280) | descent(20_000, 100),
        "gram, K = 2, many saves": finite | seeds(448) | descent(20_000, 10),
        "gram, K = 3": finite | {"task": {"classes": 3}} | seeds(768) | descent(10_000, 100),
        "symmetric, K = 2": omegas(768) | descent(50_000, 500),
        "symmetric, K = 12": {"task": {"classes": 12}} | omegas(400) | descent(20_000, 500),
        "separation": finite | seeds(1600) | descent(5000, 50) | {"output": {"reductions": ["final", "separation"]}},
        "series": finite | seeds(1024) | descent(10_000, 100) | {"output": {"series": ["loss", "w", "A"]}},
        "flow, K = 2": omegas(400) | {"method": {"kind": "flow", "until": 2000}},
        "rates and lengths": finite | {"grid": rates["grid"] | lengths["grid"]} | seeds(32) | descent(20_000, 100),
        "full, width 32": {"model": "full", "transformer": {"width": 32}} | seeds(200) | descent(3000, 100),
    }


def estimates(options):
    rows = []
    for name, description in ten_sweeps().items():
        if options.only not in name:
            continue
        began = time.perf_counter()
        guess = price(Plan(Sweep(description)), ".", Place())
        measuring = time.perf_counter() - began
        truth = timed(description)
        row = {"sweep": name, "estimated": guess.wall_seconds, "took": truth["wall"], "measuring": measuring}
        row["factor"] = max(row["took"] / row["estimated"], row["estimated"] / row["took"])
        rows.append(row | {"core_share": truth["core_share"]})
        say(
            f"{name:26} estimated {row['estimated']:6.1f} s in {measuring:4.1f} s   took {row['took']:6.1f} s   "
            f"factor {row['factor']:.2f}   cores used {truth['core_share']:.0%}"
        )
    if not rows:
        raise SystemExit(f"no sweep has {options.only!r} in its name: expected one of {', '.join(ten_sweeps())}.")
    worst = max(rows, key=lambda row: row["factor"])
    say(f"worst factor {worst['factor']:.2f}: {worst['sweep']}")
    return {"sweeps": rows, "worst_factor": worst["factor"]}


def million(options):
    began = time.perf_counter()
    plan = Plan(Sweep(slice_of_the_sweep(10**6, steps=100) | {"output": {"batch": options.batch}}))
    planned = time.perf_counter() - began
    content = b"x" * 2000  # a simulated part
    digest = hashlib.sha256(content).digest()
    with tempfile.TemporaryDirectory() as folder:
        manifest = Manifest.create(folder, {})
        began = time.perf_counter()
        for batch in range(plan.batches):
            manifest.finish(batch, content, digest, 0.1, True)
        written = time.perf_counter() - began
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        began = time.perf_counter()
        state, damaged = manifest.state(plan.batches), manifest.verify()
        scanned = time.perf_counter() - began
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        manifest.close()
    assert not damaged
    assert (state == DONE).all()
    return {
        "runs": plan.runs, "batches": plan.batches, "plan_seconds": planned, "write_seconds": written,
        "scan_and_verify_seconds": scanned,
        "peak_memory_mb": (before + grown) / 1e3, "memory_of_the_scan_mb": grown / 1e3,
    }  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("question", choices=["torch", "growth", "estimate", "million"])
    parser.add_argument("--torch-python", default=sys.executable, metavar="PATH", help="an interpreter with PyTorch")
    parser.add_argument("--seconds", type=float, default=40, help="torch: length of the slice (default 40)")
    parser.add_argument("--most", type=int, default=10_000, help="runs of the largest sweep of growth (default 10000)")
    parser.add_argument("--only", default="", metavar="WORDS", help="estimate: the sweeps whose name contains this")
    parser.add_argument("--batch", type=int, default=64, help="million: runs in a batch (default 64)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    answer = {"torch": against_torch, "growth": growth, "estimate": estimates, "million": million}[options.question](
        options
    )
    print(json.dumps(answer) if options.json else json.dumps(answer, indent=1))


if __name__ == "__main__":
    main()
