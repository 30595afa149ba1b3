"""How fast are sweeps, how do they grow, and are their estimates true?

    python benchmarks/sweep.py torch    [--torch-python PATH] [--runs 512]   against the obvious PyTorch loop
    python benchmarks/sweep.py growth   [--most 10000]                        time against number of runs
    python benchmarks/sweep.py estimate                                      estimate against truth on ten sweeps
    python benchmarks/sweep.py million                                       plan, manifest and resume at 1,000,000 runs

`torch` runs a slice of a sweep of 10,000 mean-field and finite-width descents (K = 2, 20,000 steps) on every core, and some
hundred steps of the PyTorch program of against_torch.py, and compares the time of 10,000 runs. All times are from one run.
"""

import argparse
import hashlib
import json
import os
import resource
import sys
import tempfile
import time
from array import array
from pathlib import Path

import numpy as np

from mixflow.sweeping.cluster import Place
from mixflow.sweeping.manifest import DONE, Manifest, part_path
from mixflow.sweeping.plan import Plan
from mixflow.sweeping.run import price, sweep
from mixflow.sweeping.spec import Sweep

WHOLE, STEPS = 10_000, 20_000


def slice_of_the_sweep(runs, steps=STEPS):
    """Half finite width, half mean-field, as the whole has them."""
    draws = {"transformer.omega": {"low": 0.1, "high": 0.8}, "transformer.bias": {"low": 0.3, "high": 0.7}}
    widths = {"transformer.width": {"choose": [64, 256, 1024, "inf", "inf", "inf"]}}
    return {"method": {"steps": steps, "save_every": 100}, "random": {"count": runs, **draws, **widths}}


def timed(description, **more):
    """Run a sweep in a fresh folder; wall time, time after the first batch, CPU time of the workers, share of time at work."""
    with tempfile.TemporaryDirectory() as folder:
        before = _cpu()
        began = time.perf_counter()
        result = sweep(description, folder, force=True, **more)
        wall = time.perf_counter() - began
        used = _cpu() - before
        manifest, plan = result.manifest, result.plan
        lines = [json.loads(line) for line in (Path(folder) / "manifest.jsonl").read_text().splitlines()]
        workers = Place().cores
        lines = lines[workers:]  # the first batch of each worker waits for compilation
        steady = lines[-1]["at"] - lines[0]["at"]
        return {
            "runs": plan.runs, "wall": wall, "steady": steady,
            "steady_runs": sum(plan.size(line["batch"]) for line in lines[1:]),
            "cpu": used,
            "at_work": sum(line["seconds"] for line in lines[1:]) / (workers * steady),
            "core_seconds": float(manifest.seconds.sum()), "workers": workers,
        }  # fmt: skip


def _cpu():
    """Processor time of this process and of its finished children."""
    each = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in each)


def against_torch(options):
    import against_torch as other

    ours = timed(slice_of_the_sweep(options.runs))
    rate = ours["steady_runs"] / ours["steady"]
    startup = ours["wall"] - ours["steady"]
    rng = np.random.default_rng(0)
    W = other.OMEGA / np.sqrt(other.M) * rng.standard_normal((2, 2, other.M, other.D))
    with tempfile.TemporaryDirectory() as folder:
        weights = Path(folder) / "weights"
        weights.write_bytes(array("d", W.ravel().tolist()).tobytes())
        settings = [("float64", 1), ("float32", 1), ("float32", os.cpu_count())]
        theirs = {
            f"{d}, {t} threads": other.run_torch(options.torch_python, weights, d, t, 500)["us"] for d, t in settings
        }
    step = min(theirs.values())
    return {
        "torch_us_per_step": theirs, "torch_hours": WHOLE * STEPS * step / 3.6e9, "sweep_runs_per_second": rate,
        "sweep_seconds": startup + WHOLE / rate, "ratio": WHOLE * STEPS * step / 1e6 / (startup + WHOLE / rate),
        "workers_at_work": ours["at_work"], "cpu_per_wall_and_core": ours["cpu"] / ours["wall"] / ours["workers"],
        "cpu_seconds_per_run": ours["cpu"] / ours["runs"],
    }  # fmt: skip


def growth(options):
    counts = [n for n in (1000, 4000, 10_000) if n <= options.most]
    one_program = {"transformer": {"width": 64}, "method": {"steps": 300, "save_every": 30}, "output": {"batch": 64}}
    rows = [timed(one_program | {"seeds": {"transformer.seed": n}}) for n in counts]
    # Differences leave out what every sweep pays once (starting processes, loading programs). On a machine that others use,
    # processor time is the steadier measure; wall time is what the user waits for.
    more = np.diff([row["runs"] for row in rows])
    exponent = lambda name: float(np.polyfit(np.log(more), np.log(np.diff([row[name] for row in rows])), 1)[0])  # noqa: E731
    return {
        "runs": counts, "wall": [row["wall"] for row in rows], "cpu": [row["cpu"] for row in rows],
        "exponent_of_wall": exponent("wall"), "exponent_of_cpu": exponent("cpu"),
    }  # fmt: skip


def ten_sweeps():
    """Different models, sizes, methods and measurements; each takes some seconds to a minute."""
    finite = {"transformer": {"width": 64}}
    seeds = lambda n: {"seeds": {"transformer.seed": n}}  # noqa: E731
    omegas = lambda n: {"grid": {"transformer.omega": {"from": 0.2, "to": 0.6, "count": n}}}  # noqa: E731
    descent = lambda steps, every: {"method": {"steps": steps, "save_every": every}}  # noqa: E731
    rates = {"grid": {"method.learning_rate": {"from": 0.05, "to": 0.2, "count": 16}}}
    return {
        "gram, K = 2": finite | seeds(256) | descent(20_000, 100),
        "gram, K = 2, many saves": finite | seeds(64) | descent(20_000, 10),
        "gram, K = 3": finite | {"task": {"classes": 3}} | seeds(64) | descent(10_000, 100),
        "symmetric, K = 2": omegas(64) | descent(50_000, 500),
        "symmetric, K = 12": {"task": {"classes": 12}} | omegas(64) | descent(20_000, 500),
        "separation": finite | seeds(48) | descent(5000, 50) | {"output": {"reductions": ["final", "separation"]}},
        "series": finite | seeds(128) | descent(10_000, 100) | {"output": {"series": ["loss", "w", "A"]}},
        "flow, K = 2": omegas(24) | {"method": {"kind": "flow", "until": 300}},
        "learning rates": finite | rates | seeds(8) | descent(20_000, 100),
        "full, width 32": {"model": "full", "transformer": {"width": 32}} | seeds(16) | descent(3000, 100),
    }


def estimates(options):
    rows = []
    for name, description in ten_sweeps().items():
        if options.only not in name:
            continue
        guess = price(Plan(Sweep(description)), ".", Place())
        truth = timed(description)
        # Batches' own seconds include compiling once in each worker; the estimate keeps that apart.
        row = {"sweep": name, "estimated_wall": guess.wall_seconds, "wall": truth["wall"]}
        row["factor"] = max(row["wall"] / row["estimated_wall"], row["estimated_wall"] / row["wall"])
        rows.append(row)
        print(
            f"{name:26} estimated {row['estimated_wall']:7.1f} s   took {row['wall']:7.1f} s",
            file=sys.stderr,
            flush=True,
        )
    return {"sweeps": rows, "worst_factor": max(row["factor"] for row in rows)}


def million(options):
    began = time.perf_counter()
    plan = Plan(Sweep(slice_of_the_sweep(10**6, steps=100) | {"output": {"batch": options.batch}}))
    planned = time.perf_counter() - began
    content = b"x" * 2000  # a simulated part
    digest = hashlib.sha256(content).hexdigest()
    with tempfile.TemporaryDirectory() as folder:
        line = '{"batch": %d, "sha256": "' + digest + '", "bytes": 2000, "seconds": 0.1, "at": 1.0}\n'
        with open(Path(folder) / "manifest.jsonl", "w") as file:
            file.writelines(line % batch for batch in range(plan.batches))
        for batch in range(plan.batches):
            path = part_path(folder, batch)
            if batch % 1000 == 0:
                path.parent.mkdir(parents=True)
            path.write_bytes(content)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        began = time.perf_counter()
        manifest = Manifest(folder, plan.batches).scan()
        damaged = manifest.verify()
        scanned = time.perf_counter() - began
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert not damaged
    assert (manifest.state == DONE).all()
    return {
        "runs": plan.runs, "batches": plan.batches, "plan_seconds": planned, "scan_and_verify_seconds": scanned,
        "peak_memory_mb": (before + grown) / 1e3, "memory_of_the_scan_mb": grown / 1e3,
    }  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("question", choices=["torch", "growth", "estimate", "million"])
    parser.add_argument("--torch-python", default=sys.executable, metavar="PATH", help="an interpreter with PyTorch")
    parser.add_argument("--runs", type=int, default=512, help="runs of the slice (default 512)")
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
