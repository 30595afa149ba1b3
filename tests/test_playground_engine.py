"""The page's own engine in a real browser against the library: one more twin, written in another language."""

import numpy as np
import pytest
from pages import FLAGS, require_browser

import mixflow as mf
from mixflow.playground.bundle import bundle
from mixflow.playground.controls import CONTROLS
from mixflow.playground.requests import Request

EXACT = 1e-10
# Trains in the page and returns every series.
DRIVER = """
async (controls) => {
  const parts = [];
  let done = null;
  const tell = (kind, header, arrays) => { if (kind !== 'start') parts.push(arrays); if (kind === 'done') done = header; };
  await module_worker.train(controls, tell, async () => true);
  const series = {};
  for (const name of Object.keys(parts[0])) series[name] = parts.flatMap((part) => Array.from(part[name].data));
  return { series, stages: done.stages, warning: done.warning };
}
"""


@pytest.fixture(scope="module")
def engine():
    """engine(**controls) -> ({name: array with time first}, stages)."""
    path = require_browser()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=path, args=FLAGS)
        page = browser.new_page()
        page.add_script_tag(content=bundle("worker.js"))

        def run(**controls):
            asked = {name: controls.get(name, control.default) for name, control in CONTROLS.items()}
            found = page.evaluate(DRIVER, asked)
            assert found["warning"] is None
            count = len(found["series"]["time"])
            series = {name: np.array(x, float).reshape(count, -1) for name, x in found["series"].items()}
            return series | {"time": series["time"][:, 0]}, found["stages"]

        run.page = page
        yield run
        browser.close()


def library(**controls):
    """The same run by the library, with every save the page may have made."""
    task, transformer, method = Request.of(controls).spec()
    if isinstance(method, mf.GradientDescent):
        method = mf.GradientDescent(method.learning_rate, method.steps, save_every=32)
    return mf.train(task, transformer, method)


def compared(mine, run):
    """The largest difference of every series at the times that both have."""
    data = run.dataset
    ours = {float(t): i for i, t in enumerate(data.time.values)}
    rows = [(i, ours[t]) for i, t in enumerate(mine["time"].tolist()) if t in ours]
    assert len(rows) >= min(100, len(ours) // 3)
    assert rows[-1] == (len(mine["time"]) - 1, len(ours) - 1)
    here, there = map(list, zip(*rows))
    names = {"loss", "loss_easy", "loss_hard", "accuracy", "w", "A", "A_sector", "margin", "z"} & set(mine) & set(data)
    assert {"loss", "margin", "z"} <= names
    off = {}
    for name in names:
        x, y = mine[name][here], data[name].values[there].reshape(len(there), -1)
        off[name] = float(np.nanmax(np.abs(x - y)) / max(1.0, np.nanmax(np.abs(y))))
        assert np.array_equal(np.isnan(x), np.isnan(y)), name
    return off


def test_the_known_number(engine):
    """Loss before the last of 20,000 steps, K = 2, mean-field (docs/mathematics.md §3): by 22 numbers and by the reduction."""
    for task in ({"task": "plain"}, {"task": "unequal", "prior": 0.5}):
        series, _ = engine(steps=19_999, **task)
        assert series["loss"][-1, 0] == pytest.approx(0.0032966415169, abs=1e-12)


@pytest.mark.parametrize("seed", [0, 7, 9999])
def test_normal_numbers_are_numpys(engine, seed):
    mine = np.array(engine.page.evaluate(f"Array.from(module_normals.normals({seed}, 20000))"))
    assert mine == pytest.approx(np.random.default_rng(seed).standard_normal(20_000), rel=2e-14)


def random_settings(seeded):
    """Any of the tasks, networks, widths, sizes and methods that the page computes by itself."""
    rng = np.random.default_rng(seeded)
    task = str(rng.choice(["plain", "plain", "unequal", "coherent", "noisy", "longer"]))
    width = str(rng.choice(["inf", "inf", "4", "64", "1024"]))
    sizes = (
        [2] if task != "plain" else [2, 3, 5, 7] if width == "inf" else [2, 3]
    )  # each size of a list is compiled anew
    controls = {
        "task": task, "width": width, "classes": int(rng.choice(sizes)),
        "omega": round(float(rng.uniform(0.1, 0.8)), 3), "bias": round(float(rng.uniform(0.2, 1.0)), 3),
        "prior": round(float(rng.uniform(0.3, 0.8)), 3), "coherence": round(float(rng.uniform(-0.1, 0.7)), 3),
        "wrong": round(float(rng.uniform(0.05, 0.3)), 3), "distractors": 1,
        "seed": int(rng.integers(0, 9999)), "tie_values": bool(task == "plain" and rng.random() < 0.3), "learning_rate": 0.1,
    }  # fmt: skip
    if seeded % 5 == 4 and not controls["tie_values"]:  # a network in which something is missing
        controls |= {"network": ("shared", "direct", "linear")[seeded // 5 % 3], "classes": 2}
        if controls["network"] != "direct" and controls["width"] == "inf":
            controls["width"] = "64"  # at infinite width these two are trapped, and the library says so
    if rng.random() < 0.3:
        return controls | {"method": "three", "neurons": 30.0, "attention": 200.0, "converge": 50.0}
    return controls | {"method": "gd", "steps": 3000}


@pytest.mark.parametrize("seed", range(30))
def test_random_settings_equal_the_library(engine, seed):
    controls = random_settings(seed)
    series, _ = engine(**controls)
    off = compared(series, library(**controls))
    assert max(off.values()) < EXACT, (controls, off)


@pytest.mark.parametrize(
    "controls", [{}, {"width": "256", "seed": 3}, {"task": "coherent", "coherence": 0.4}, {"method": "three"}], ids=str
)
def test_twenty_thousand_steps_and_their_stages_equal_the_library(engine, controls):
    series, stages = engine(**controls)
    run = library(**controls)
    assert len(series["time"]) > 1000
    off = compared(series, run)
    assert max(off.values()) < EXACT, off
    found = [stage for stage in run.stages if stage.found]
    assert [stage["name"] for stage in stages] == [stage.name for stage in found]
    for mine, theirs in zip(stages, found):
        assert (mine["start"], mine["end"]) == pytest.approx(
            (theirs.start, theirs.end), rel=0.02
        )  # saves lie elsewhere
