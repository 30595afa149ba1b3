"""Do derivatives of the learning time agree with differences of flows, and what do they cost?

    python benchmarks/sensitivity.py [--settings 60] [--json]

Each setting is a random network on K = 2, 3 or 4 classes, of finite or infinite width, and a loss that it must reach. Its
learning time is differentiated with respect to ω, the bias and, at finite width, the probability of one sample: by
`run.sensitivity`, and by differences of order 4 of flows at rtol 1e-11. Reported are the largest relative deviation, how
many settings slide and cross before they get there, and the cost of all derivatives of the K = 2 run (ω, b, 8 samples) in
plain flows.
"""

import argparse
import json
import math
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
RTOL, LIMIT = 1e-11, 1e5
NEAR = {"omega": 1e-3, "bias": 1e-3, "probabilities": 1e-3}  # relative steps of the differences
WEIGHTS = {-2: 1 / 12, -1: -8 / 12, 1: 8 / 12, 2: -1 / 12}


def settings(count):
    """Random problems: a third of infinite width, all of those with K = 4 among them."""
    rng = np.random.default_rng(0)
    for i in range(count):
        K = int(rng.choice([2, 2, 3, 4]))
        finite = i % 3 > 0 and K < 4
        yield {
            "classes": K,
            "width": int(rng.choice([16, 32, 64, 128])) if finite else math.inf,
            "omega": float(rng.uniform(0.25, 0.6)),
            "bias": float(rng.uniform(0.3, 0.8)),
            "seed": int(rng.integers(1000)),
            "loss": float(rng.choice([0.1, 0.05, 0.03])),
            "atom": int(rng.integers(K * 2**K)) if finite else None,
        }


def learned(setting, name=None, change=0.0):
    """The flow to its loss, with one parameter changed."""
    import mixflow as mf

    task, level = mf.Mixture(classes=setting["classes"]), setting["loss"]
    network = {key: setting[key] for key in ("omega", "bias", "width", "seed")}
    if name == "probabilities":
        population = task.population()
        p = population.probabilities
        task = replace(population, probabilities=(p + change * np.eye(len(p))[setting["atom"]]) / (1 + change))
    elif name is not None:
        network[name] += change
    field = mf.field(task, mf.Transformer(**network), "symmetric" if setting["atom"] is None else "gram")
    method = mf.GradientFlow(until=LIMIT, rtol=RTOL, save_at=2)
    return field.flow(method, stop=lambda t, y: level - float(field.loss(y)))


def compare(setting):
    """The largest relative deviation of a setting's derivatives, and what happened on the way."""
    import mixflow as mf

    base = learned(setting)
    names = ("omega", "bias") + (() if setting["atom"] is None else ("probabilities",))
    network = mf.Transformer(**{key: setting[key] for key in ("omega", "bias", "width", "seed")})
    method = mf.GradientFlow(until=1.01 * base.time, rtol=RTOL, save_at=2)
    run = mf.train(mf.Mixture(classes=setting["classes"]), network, method)
    found = run.sensitivity(mf.Until("loss", setting["loss"]), to=names)
    deviation = {}
    for name in names:
        got = found[f"time_by_{name}"]
        got = float(got if name != "probabilities" else got[setting["atom"]])
        size = NEAR[name] * (setting[name] if name in setting else 1 / (setting["classes"] * 2 ** setting["classes"]))
        expected = sum(w * learned(setting, name, k * size).time for k, w in WEIGHTS.items()) / size
        deviation[name] = abs(got - expected) / max(abs(expected), 1e-3 * base.time)
    kinds = [{event.before, event.after} for event in base.events]
    return {
        **setting,
        "time": base.time,
        "deviation": deviation,
        "slides": sum("sliding" in kind for kind in kinds),
        "crossings": sum(kind == {"on", "off"} for kind in kinds),
    }


def cost():
    """All derivatives of the K = 2 run in plain flows of the same field, by the clock, best of five."""
    import mixflow as mf

    target = mf.Until("loss", 0.1)
    run = mf.train(mf.Mixture(), mf.Transformer(omega=0.3), mf.GradientFlow(until=300.0), model="gram")
    setting = {"classes": 2, "omega": 0.3, "bias": 0.5, "width": math.inf, "seed": 0, "loss": 0.1, "atom": 0}

    def best(function):
        function()
        times = []
        for _ in range(5):
            begin = time.perf_counter()
            function()
            times.append(time.perf_counter() - begin)
        return min(times)

    names = ("omega", "bias", "probabilities")
    return best(lambda: run.sensitivity(target, to=names)) / best(lambda: learned(setting))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--settings", type=int, default=60, metavar="N", help="random settings (default 60)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    if options.settings < 1:
        parser.error(f"--settings {options.settings}: expected at least 1")
    sys.path.insert(0, str(ROOT))
    rows = []
    for setting in settings(options.settings):
        rows.append(compare(setting))
        if not options.json:
            r = rows[-1]
            worst = max(r["deviation"].values())
            print(
                f"{len(rows):3}  K = {r['classes']}, width {r['width']:g}, ω = {r['omega']:.3f}, b = {r['bias']:.3f}: loss "
                f"{r['loss']:g} at t = {r['time']:.6g}, {r['slides']} slides, {r['crossings']} crossings, deviation {worst:.1e}",
                flush=True,
            )
    worst = max(max(row["deviation"].values()) for row in rows)
    summary = {
        "settings": len(rows),
        "slide": sum(row["slides"] > 0 for row in rows),
        "cross": sum(row["crossings"] > 0 for row in rows),
        "worst": worst,
        "cost": cost(),
    }
    print(json.dumps({"summary": summary, "rows": rows}) if options.json else summary)


if __name__ == "__main__":
    main()
