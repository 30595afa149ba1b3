"""Does a sweep survive 20 kills at random moments, bit for bit?

    python benchmarks/sweep_kills.py [--kills 20] [--seeds 1200] [--seed 0]

An uninterrupted sweep is the reference. A second one is killed again and again with SIGKILL: first a worker each time, then
the client, then everything at once; each time the same command is given again. At the end every batch must equal the
reference's, and no batch may have been lost or run again after it was in the manifest.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

from mixflow.errors import StoreError
from mixflow.sweeping.manifest import Manifest

SPEC = """
transformer.width = 16
method = {{ steps = 40000, save_every = 4000 }}
output = {{ batch = 8 }}
[grid]
transformer.omega = {{ from = 0.1, to = 0.8, count = 8 }}
[seeds]
transformer.seed = {seeds}
"""


def start(spec, out):
    words = [sys.executable, "-m", "mixflow", "sweep", str(spec), "--out", str(out), "--workers", "2"]
    return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True)


def workers(client):
    try:
        children = psutil.Process(client.pid).children(recursive=True)
        return [child for child in children if "spawn_main" in " ".join(child.cmdline())]
    except psutil.Error:
        return []


def finished(out):
    """{batch: when it was finished}, from the manifest."""
    try:
        return {batch: at for batch, at, *_ in Manifest(out).times()}
    except StoreError:  # killed before it began
        return {}


def strike(client, out, what, rng):
    """Wait until a batch or two are done, then a random moment more, then kill."""
    before, goal = len(finished(out)), rng.choice((0, 0, 1, 2))
    while client.poll() is None and len(finished(out)) < before + goal:
        time.sleep(0.01)
    time.sleep(rng.uniform(0, 3))
    if client.poll() is not None:
        return False
    if what == "worker":
        found = workers(client)
        if found:
            rng.choice(found).kill()
        return bool(found)
    os.killpg(client.pid, signal.SIGKILL) if what == "everything" else client.kill()
    client.wait()
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20, help="how many (default 20)")
    parser.add_argument(
        "--seeds", type=int, default=1200, help="an eighth of the runs: enough for the kills (default 1200)"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the moments (default 0)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    rng = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as folder:
        spec, reference, out = (Path(folder) / name for name in ("spec.toml", "reference", "killed"))
        spec.write_text(SPEC.format(seeds=options.seeds))
        assert start(spec, reference).wait() == 0
        counts, client = dict.fromkeys(("worker", "client", "everything"), 0), None
        before, kept = {}, True
        while sum(counts.values()) < options.kills:
            share = sum(counts.values()) / options.kills
            what = "worker" if share < 0.5 else "client" if share < 0.8 else "everything"
            if client is None or client.poll() is not None:
                if (out / "results.nc").exists():
                    raise SystemExit("sweep_kills: the sweep was over before the kills were: make it longer")
                client = start(spec, out)
            counts[what] += strike(client, out, what, rng)
            now = finished(out)
            kept, before = kept and before.items() <= now.items(), now
        if client.poll() is not None:
            client = start(spec, out)
        code = client.wait()
        kept = kept and before.items() <= finished(out).items()
        parts = dict(Manifest(reference).parts())
        same = bool(parts) and None not in parts.values() and dict(Manifest(out).parts()) == parts
    result = {
        "kills": counts,
        "exit_code": code,
        "batches": len(parts),
        "bit_identical": same,
        "none_lost_or_repeated": kept,
    }
    print(json.dumps(result) if options.json else "\n".join(f"{name}: {value}" for name, value in result.items()))
    if code or not same or not kept:
        sys.exit("sweep_kills: a killed sweep did not end like the reference.")


if __name__ == "__main__":
    main()
