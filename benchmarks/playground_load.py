"""Do fifty pages at once get their runs, and does the server's memory stay flat? Also: how soon a lost page frees its job.

    python benchmarks/playground_load.py [--clients 50] [--seconds 60]

Every client asks for runs one after the other, some shared, some its own, some cancelled half-way. Ends by itself.
"""

import argparse
import asyncio
import json
import pathlib
import random
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "tests"))

import httpx
from pages import playground
from websockets.asyncio.client import connect

from mixflow.playground.frames import decode


def memory(process):
    """Resident MiB of the server."""
    status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) / 1024


async def client(address, number, end, seen):
    rng = random.Random(number)
    socket = address.replace("http", "ws") + "socket"
    async with connect(socket, origin=address.rstrip("/"), max_size=None) as page:
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


async def everyone(address, clients, seconds, seen):
    end = time.monotonic() + seconds
    await asyncio.gather(*(client(address, i, end, seen) for i in range(clients)))


async def orphan(address):
    """Seconds from a page's sudden death to its job's end."""
    async with connect(address.replace("http", "ws") + "socket", origin=address.rstrip("/"), max_size=None) as page:
        controls = {"steps": 500_000, "learning_rate": 0.001, "omega": 0.777}
        await page.send(json.dumps({"type": "run", "id": 1, "controls": controls}))
        while decode(await asyncio.wait_for(page.recv(), 60))[0]["kind"] != "chunk":
            pass
        page.transport.abort()
        began = time.monotonic()
        async with httpx.AsyncClient() as http:
            while (await http.get(f"{address}status.json")).json()["unfinished"] and time.monotonic() - began < 10:
                await asyncio.sleep(0.01)
    return time.monotonic() - began


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--json", action="store_true", help="print one JSON object on one line")
    options = parser.parse_args()
    seen, levels = {}, []
    with playground() as (address, process):
        asyncio.run(everyone(address, min(options.clients, 200), min(options.seconds, 600) / 3, seen))
        levels.append(memory(process))
        for _ in range(2):
            asyncio.run(everyone(address, min(options.clients, 200), min(options.seconds, 600) / 3, seen))
            levels.append(memory(process))
        freed = asyncio.run(orphan(address))
    waits = sorted(seen.pop("seconds", [0]))
    result = {
        "frames": seen,
        "wait_median_s": round(waits[len(waits) // 2], 3),
        "wait_longest_s": round(waits[-1], 3),
        "memory_mib_after_each_third": [round(level) for level in levels],
        "orphan_freed_s": round(freed, 3),
    }
    print(json.dumps(result, indent=None if options.json else 1))
    return 0 if not seen.get("failed") and not seen.get("refused") and freed < 1 else 1


if __name__ == "__main__":
    sys.exit(main())
