"""How long from letting a slider go to the finished run on screen, how soon is the first sight, how smooth is playing?

    python benchmarks/playground_latency.py [--times 30]

The exported page, opened from disk with the network off, in Chromium. Every measured movement asks for a run that was never asked
for before: K = 2, 20,000 steps at infinite width. Prints one JSON object; exit code 1 if the median is above 300 ms, the first
sight later than 500 ms or playing below 50 frames a second. Needs Chromium and the test extra, and an idle core.
"""

import argparse
import json
import pathlib
import sys
import tempfile

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "tests"))

from pages import FLAGS, find_browser

from mixflow.playground.page import exported

WARM_UP = 5  # movements before the measured ones
PAUSE = 150  # ms of rest before each measurement

# The slider is let go at a tick; resolves when the finished run is drawn, with its name and the milliseconds it took.
MOVE = """async (tick) => {
  const slider = document.getElementById("control-omega");
  const page = document.documentElement.dataset;
  const before = page.drawn;
  slider.value = tick;
  const began = performance.now();
  for (const kind of ["input", "change"]) slider.dispatchEvent(new Event(kind));
  while (performance.now() - began < 20000) {
    await new Promise((done) => setTimeout(done, 2));
    if (page.drawn !== before && page.drawn !== "partial" && page.painting === "no") {
      return { finished: performance.now() - began, key: page.drawn };
    }
  }
  return null;
}"""

# Frames a second while the clock plays, over two seconds.
FRAMES = """async () => {
  document.getElementById("play").click();
  let frames = 0;
  const began = performance.now();
  while (performance.now() - began < 2000) {
    await new Promise((done) => requestAnimationFrame(done));
    frames += 1;
  }
  document.getElementById("play").click();
  return (1000 * frames) / (performance.now() - began);
}"""

# When the network was first on screen, in milliseconds after the navigation began.
FIRST = """async () => {
  while (!document.querySelector("#network .look")) await new Promise((done) => requestAnimationFrame(done));
  return performance.now();
}"""


def measure(times):
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as play:
        path = pathlib.Path(folder) / "page.html"
        path.write_text(exported(), encoding="utf-8")
        browser = play.chromium.launch(executable_path=find_browser(), args=FLAGS)
        page = browser.new_context(viewport={"width": 1440, "height": 900}, offline=True).new_page()
        sights = []
        for _ in range(6):
            page.goto(path.as_uri())
            sights.append(page.evaluate(FIRST))
        page.locator("#status[data-state=done]").wait_for(timeout=60_000)
        page.click("#play")
        found, seen, busy = [], set(), []
        meter = page.context.new_cdp_session(page)
        meter.send("Performance.enable", {"timeDomain": "threadTicks"})
        # Ticks two apart: ω is rounded to hundredths, 400 ticks span 0.01 … 3, so neighbours may be the same setting.
        for i, tick in enumerate(range(2, 2 + 2 * (times + WARM_UP), 2)):
            page.wait_for_timeout(PAUSE)
            before = _processor(meter)
            moved = page.evaluate(MOVE, tick)
            if moved is None or moved["key"] in seen:
                raise SystemExit(f"movement {i}: no new finished run within 20 s, the measurement is void.")
            seen.add(moved["key"])
            if i >= WARM_UP:
                found.append(moved["finished"])
                busy.append(1e3 * (_processor(meter) - before))
        frames = page.evaluate(FRAMES)
        browser.close()
    return found, busy, sights[1:], frames, len(exported().encode())


def _processor(meter):
    """Seconds of processor time the page's own thread has used; the engine has a thread of its own."""
    return {row["name"]: row["value"] for row in meter.send("Performance.getMetrics")["metrics"]}["TaskDuration"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=30, help="slider movements to measure, 3 to 150")
    parser.add_argument("--json", action="store_true", help="print one JSON object on one line")
    options = parser.parse_args()
    found, busy, sights, frames, size = measure(max(3, min(options.times, 150)))
    result = {
        "movements": len(found),
        "finished_median_ms": round(float(np.median(found)), 1),
        "finished_p90_ms": round(float(np.quantile(found, 0.9)), 1),
        "drawing_processor_median_ms": round(float(np.median(busy)), 1),
        "first_sight_median_ms": round(float(np.median(sights)), 1),
        "frames_per_second": round(frames, 1),
        "page_bytes": size,
    }
    print(json.dumps(result, indent=None if options.json else 1))
    quick = result["finished_median_ms"] < 300 and result["first_sight_median_ms"] < 500
    return 0 if quick and frames > 50 else 1


if __name__ == "__main__":
    sys.exit(main())
