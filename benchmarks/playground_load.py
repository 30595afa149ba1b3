"""Do fifty pages at once get their runs, and does the server's memory stay flat? Also: how soon a lost page frees its job.

    python benchmarks/playground_load.py [--clients 50] [--seconds 60]

Every client asks for runs one after the other, some shared, some its own, some cancelled half-way. The server keeps finished
runs up to a limit; memory is compared from the moment that store is full (the same clients fill it before the clock starts),
and the growth is the slope of a line through the resident size, read twice a second. Ends by itself.
"""

import argparse
import asyncio
import json
import pathlib
import random
import sys
import threading
import time

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "tests"))

import httpx
from pages import cookie, get, playground
from websockets.asyncio.client import connect

from mixflow.playground.frames import decode


def memory(process):
    """Resident MiB of the server."""
    status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) / 1024


class Watch(threading.Thread):
    """Reads the server's memory twice a second."""

    def __init__(self, process):
        super().__init__(daemon=True)
        self.process, self.levels, self.over = process, [], threading.Event()

    def run(self):
        began = time.monotonic()
        while not self.over.wait(0.5):
            self.levels.append((time.monotonic() - began, memory(self.process)))

    def stop(self):
        """(first, last, highest) in MiB as means of a tenth of the time, and the line's growth from begin to end."""
        self.over.set()
        self.join()
        t, level = np.array(self.levels).T
        tenth = max(1, len(level) // 10)
        slope = np.polyfit(t, level, 1)[0]
        return level[:tenth].mean(), level[-tenth:].mean(), level.max(), slope * (t[-1] - t[0])


async def client(address, number, end, seen):
    rng = random.Random(number)
    socket = address.replace("http", "ws") + "socket"
    async with connect(socket, origin=address.rstrip("/"), additional_headers=cookie(address), max_size=None) as page:
        count = 0
        while time.monotonic() < end:
            count += 1
            steps = rng.choice([1000, 5000, 20_000])
            omega = round(rng.uniform(0.1, 1.0), rng.choice([1, 4]))  # one digit: asked for by others too
            await page.send(json.dumps({"type": "run", "id": count, "controls": {"steps": steps, "omega": omega}}))
            if rng.random() < 0.2:  # the slider moves on
                continue
            began = time.monotonic()
            while True:
                header, _ = decode(await asyncio.wait_for(page.recv(), 120))
                seen[header["kind"]] = seen.get(header["kind"], 0) + 1
                if header["kind"] in ("done", "refused", "failed"):
                    break
            seen.setdefault("seconds", []).append(time.monotonic() - began)
            await asyncio.sleep(rng.uniform(0, 0.5))


async def everyone(address, clients, seconds, seen, first=0):
    end = time.monotonic() + seconds
    await asyncio.gather(*(client(address, first + i, end, seen) for i in range(clients)))


def fill(address, clients, seconds):
    """Let the clients work until the store of finished runs is full, but not longer than `seconds`; returns its share."""
    end, turn, share = time.monotonic() + seconds, 0, 0.0
    while share < 0.95 and time.monotonic() < end:
        turn += 1
        asyncio.run(everyone(address, clients, 5, {}, first=1000 * turn))
        status = get(address, "status.json").json()
        share = status["kept_bytes"] / status["kept_bytes_limit"]
    return share


async def orphan(address):
    """Seconds from a page's sudden death to its job's end."""
    socket, known = address.replace("http", "ws") + "socket", cookie(address)
    async with connect(socket, origin=address.rstrip("/"), additional_headers=known, max_size=None) as page:
        controls = {"steps": 500_000, "learning_rate": 0.001, "omega": 0.777}
        await page.send(json.dumps({"type": "run", "id": 1, "controls": controls}))
        while decode(await asyncio.wait_for(page.recv(), 60))[0]["kind"] != "chunk":
            pass
        page.transport.abort()
        began = time.monotonic()
        async with httpx.AsyncClient(headers=known) as http:
            while (await http.get(f"{address}status.json")).json()["unfinished"] and time.monotonic() - began < 10:
                await asyncio.sleep(0.01)
    return time.monotonic() - began


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--json", action="store_true", help="print one JSON object on one line")
    options = parser.parse_args()
    seen, clients, seconds = {}, min(options.clients, 200), min(options.seconds, 600)
    with playground() as (address, process):
        share = fill(address, clients, 5 * seconds)
        watch = Watch(process)
        watch.start()
        asyncio.run(everyone(address, clients, seconds, seen))
        first, last, highest, growth = watch.stop()
        freed = asyncio.run(orphan(address))
    waits = sorted(seen.pop("seconds", [0]))
    result = {
        "frames": seen,
        "wait_median_s": round(waits[len(waits) // 2], 3),
        "wait_longest_s": round(waits[-1], 3),
        "store_filled_before": round(share, 2),
        "memory_mib": {"first_tenth": round(first), "last_tenth": round(last), "highest": round(highest)},
        "growth_mib": round(growth, 1),
        "growth_share": round(growth / first, 4),
        "orphan_freed_s": round(freed, 3),
    }
    print(json.dumps(result, indent=None if options.json else 1))
    flat = growth < 0.05 * first
    return 0 if flat and not seen.get("failed") and not seen.get("refused") and freed < 1 else 1


if __name__ == "__main__":
    sys.exit(main())
