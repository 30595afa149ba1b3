"""How long from letting a slider go to the first redrawn curve, and to the finished run? In the browser, warm.

    python benchmarks/playground_latency.py [--times 30]

Every measured movement asks for a setting that was never asked for before (the key of its run is new), so none is answered
from the server's store. Before each movement the engine alone computes a run of the same kind in this process, after the same
pause and while the page rests, so that both see the machine in the same mood. Prints medians and 90th percentiles of both and
the ratio of the two. Needs Chromium and the test extra.
"""

import argparse
import json
import pathlib
import sys
import time

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "tests"))

from pages import FLAGS, find_browser, playground

from mixflow.playground.requests import Request
from mixflow.training import train

WARM_UP = 5  # movements before the measured ones: they warm up the program, the page and the charts
PAUSE = 150  # ms of rest before each measurement

# The slider is let go at a tick; resolves when the last curve is drawn, with the name of the run that was drawn.
MOVE = """async (tick) => {
  const slider = document.getElementById("control-omega");
  performance.clearMarks();
  slider.value = tick;
  const began = performance.now();
  for (const kind of ["input", "change"]) slider.dispatchEvent(new Event(kind));
  const mark = (name) => performance.getEntriesByName(name)[0]?.startTime;
  while (performance.now() - began < 20000) {
    await new Promise((done) => setTimeout(done, 2));
    const last = mark("mixflow:drawn-finished");
    const key = document.documentElement.dataset.drawn;
    if (last) return { first: (mark("mixflow:drawn") ?? last) - began, finished: last - began, key };
  }
  return null;
}"""


def measure(times):
    from playwright.sync_api import sync_playwright

    found, seen = [], set()
    with playground() as (address, _), sync_playwright() as play:
        browser = play.chromium.launch(executable_path=find_browser(), args=FLAGS)
        page = browser.new_page(viewport={"width": 1300, "height": 900})
        page.goto(address)
        page.locator("#status[data-state=done]").wait_for(timeout=120_000)
        page.wait_for_timeout(15_000)  # until the programs compiled ahead are there: they would take a core
        seen.add(page.evaluate("document.documentElement.dataset.drawn"))
        # Ticks two apart: ω is rounded to hundredths, 400 ticks span 0.01 … 3, so neighbours may be the same setting.
        for i, tick in enumerate(range(2, 2 + 2 * (times + WARM_UP), 2)):
            page.wait_for_timeout(PAUSE)
            alone = engine(0.3 + i / 1000)
            page.wait_for_timeout(PAUSE)
            moved = page.evaluate(MOVE, tick)
            if moved is None:
                raise SystemExit(f"movement {i}: no finished curve within 20 s.")
            if moved["key"] in seen:
                raise SystemExit(f"movement {i} asked for a run that was there already: the measurement is void.")
            seen.add(moved["key"])
            if i >= WARM_UP:
                found.append({**moved, "engine": alone})
        browser.close()
    return found


def engine(omega):
    """Milliseconds of `train` alone."""
    spec = Request.of({"omega": omega}).spec()
    began = time.perf_counter()
    train(*spec)
    return 1e3 * (time.perf_counter() - began)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=30, help="slider movements to measure, 3 to 150")
    parser.add_argument("--json", action="store_true", help="print one JSON object on one line")
    options = parser.parse_args()
    times = max(3, min(options.times, 150))
    found = measure(times)
    result = {"movements": len(found), "different_runs": len({move["key"] for move in found})}
    for name in ("engine", "first", "finished"):
        values = [move[name] for move in found]
        result[f"{name}_median_ms"] = round(float(np.median(values)), 1)
        result[f"{name}_p90_ms"] = round(float(np.quantile(values, 0.9)), 1)
    for share in ("median", "p90"):
        ratio = result[f"finished_{share}_ms"] / result[f"engine_{share}_ms"]
        result[f"finished_over_engine_{share}"] = round(ratio, 2)
    print(json.dumps(result, indent=None if options.json else 1))
    quick = result["first_median_ms"] < 150 and result["finished_median_ms"] < 400
    return 0 if quick and result["finished_over_engine_median"] < 2 else 1


if __name__ == "__main__":
    sys.exit(main())
