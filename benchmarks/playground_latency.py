"""How long from letting a slider go to the first redrawn curve, and to the finished run? In the browser, warm.

    python benchmarks/playground_latency.py [--times 30]

Prints medians, 90th percentiles, and the ratio of the finished run to the engine's own time for the same run, measured in
this process. Needs Chromium and the test extra.
"""

import argparse
import json
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "tests"))

from pages import FLAGS, find_browser, playground

from mixflow.playground.requests import Request
from mixflow.training import train

# The slider is set to a tick it had not before, so nothing comes from the cache; resolves when the last curve is drawn.
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
    if (last) return { first: (mark("mixflow:drawn") ?? last) - began, finished: last - began };
  }
  return null;
}"""


def measure(times):
    from playwright.sync_api import sync_playwright

    found = []
    with playground() as (address, _), sync_playwright() as play:
        browser = play.chromium.launch(executable_path=find_browser(), args=FLAGS)
        page = browser.new_page(viewport={"width": 1300, "height": 900})
        page.goto(address)
        page.locator("#status[data-state=done]").wait_for(timeout=120_000)
        for i in range(times + 5):
            moved = page.evaluate(MOVE, 60 + 3 * i)
            if moved and i >= 5:  # the first few warm up the program, the page and the chart
                found.append(moved)
            page.wait_for_timeout(150)
        browser.close()
    return found


def engine(times):
    seconds = []
    for i in range(times + 2):
        spec = Request.of({"omega": 0.3 + i / 1000}).spec()
        began = time.perf_counter()
        train(*spec)
        seconds.append(time.perf_counter() - began)
    return seconds[2:]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=30, help="slider movements to measure, at most 100")
    parser.add_argument("--json", action="store_true", help="print one JSON object on one line")
    options = parser.parse_args()
    times = max(3, min(options.times, 100))
    alone = statistics.median(engine(times)) * 1e3
    found = measure(times)
    result = {"engine_ms": round(alone, 1), "movements": len(found)}
    for name in ("first", "finished"):
        values = sorted(move[name] for move in found)
        result[f"{name}_median_ms"] = round(statistics.median(values), 1)
        result[f"{name}_p90_ms"] = round(values[int(0.9 * (len(values) - 1))], 1)
    result["finished_over_engine"] = round(result["finished_median_ms"] / alone, 2)
    print(json.dumps(result, indent=None if options.json else 1))
    return 0 if result["first_median_ms"] < 150 and result["finished_median_ms"] < 400 else 1


if __name__ == "__main__":
    sys.exit(main())
