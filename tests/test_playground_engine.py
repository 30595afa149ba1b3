"""The page's own engine in a real browser against the library: one more twin, written in another language."""

from dataclasses import replace

import numpy as np
import pytest
from pages import FLAGS, require_browser

import mixflow as mf
from mixflow.engines.minibatch import Minibatches
from mixflow.jaxed import jax
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
            found = page.evaluate(DRIVER, whole(controls))
            assert found["warning"] is None
            count = len(found["series"]["time"])
            series = {name: np.array(x, float).reshape(count, -1) for name, x in found["series"].items()}
            return series | {"time": series["time"][:, 0]}, found["stages"]

        run.page = page
        yield run
        browser.close()


def whole(controls):
    """With the defaults of all others."""
    return {name: controls.get(name, control.default) for name, control in CONTROLS.items()}


def library(every=32, **controls):
    """The same run by the library, saved on a grid that the page's saves share."""
    task, transformer, method = Request.of(controls).spec()
    if isinstance(method, mf.GradientDescent):
        method = replace(method, save_every=every)
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


@pytest.mark.parametrize(("task", "size", "seed"), [("plain", 4, 0), ("unequal", 64, 9999), ("longer", 1, 3)])
def test_minibatches_are_those_the_library_draws(engine, task, size, seed):
    draw = """(asked) => {
      const { system, draw } = module_worker.start(asked);
      return Array.from({ length: 300 }, (_, i) => { draw(1000 * i, system.weight); return Array.from(system.weight); });
    }"""
    asked = {"task": task, "classes": 2, "prior": 0.83, "distractors": 2, "batch": str(size), "batch_seed": seed}
    mine = np.array(engine.page.evaluate(draw, whole(asked)))
    task, network, method = Request.of(asked).spec()
    batches = Minibatches(task.population().probabilities, method)
    parameters = batches.parameters([network])
    drawn = jax().jit(lambda i: batches.weights(i, parameters)[:, 0])
    assert np.array_equal(mine, np.stack([drawn(1000 * i) for i in range(300)]))
    assert mine.std(axis=0).min() > 0


# What a run is compiled for: few of them, because each is compiled by the library once and costs more than its training.
STRUCTURES = [
    {"classes": 2},
    {"classes": 7, "method": "three"},
    {"classes": 3, "width": "1024"},
    {"task": "unequal", "tie_values": True},
    {"task": "coherent", "width": "64", "method": "three"},
    {"task": "noisy", "width": "4"},
    {"task": "longer", "distractors": 1},
    {
        "network": "shared",
        "width": "64",
    },  # at infinite width this and the linear one are trapped, and the library says so
    {"network": "linear", "width": "64", "task": "coherent"},
    {"network": "direct", "batch": "16"},
    {"network": "sum", "task": "noisy", "loss": "exponential", "learning_rate": 0.05},
]


def random_settings(seeded):
    """Each of the tasks, networks, widths, sizes and methods that the page computes by itself, at least twice."""
    rng = np.random.default_rng(seeded)
    controls = {
        "omega": round(float(rng.uniform(0.1, 0.8)), 3), "bias": round(float(rng.uniform(0.2, 1.0)), 3),
        "prior": round(float(rng.uniform(0.3, 0.8)), 3), "coherence": round(float(rng.uniform(-0.1, 0.7)), 3),
        "wrong": round(float(rng.uniform(0.05, 0.3)), 3), "learning_rate": round(float(rng.uniform(0.05, 0.2)), 3),
        "seed": int(rng.integers(0, 9999)), "batch_seed": int(rng.integers(0, 9999)),
        "steps": 3000, "neurons": 30.0, "attention": 200.0, "converge": 50.0,
    }  # fmt: skip
    return controls | STRUCTURES[seeded % len(STRUCTURES)]


@pytest.mark.parametrize("seed", range(30))
def test_random_settings_equal_the_library(engine, seed):
    controls = random_settings(seed)
    series, _ = engine(**controls)
    off = compared(series, library(**controls))
    assert max(off.values()) < EXACT, (controls, off)


@pytest.mark.parametrize(
    "controls",
    [
        {},
        {"width": "256", "seed": 3, "task": "noisy", "loss": "exponential"},
        {"task": "coherent", "coherence": 0.4},
        {"method": "three"},
        {"batch": "4", "batch_seed": 7},
    ],
    ids=str,
)
def test_twenty_thousand_steps_and_their_stages_equal_the_library(engine, controls):
    series, stages = engine(**controls)
    run = library(**controls, every=1 if "batch" in controls else 32)  # noise between saves moves stages
    assert len(series["time"]) > 1000
    off = compared(series, run)
    assert max(off.values()) < EXACT, off
    found = [stage for stage in run.stages if stage.found]
    assert [stage["name"] for stage in stages] == [stage.name for stage in found]
    for mine, theirs in zip(stages, found):
        assert (mine["start"], mine["end"]) == pytest.approx(
            (theirs.start, theirs.end), rel=0.02
        )  # saves lie elsewhere
