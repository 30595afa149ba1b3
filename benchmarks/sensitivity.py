"""Do derivatives of the learning time agree with differences of flows, and what do they cost?

    python benchmarks/sensitivity.py [--settings 60] [--json]

Each setting is a random network on K = 2, 3 or 4 classes, of finite or infinite width, and a loss that it must reach. Its
learning time is differentiated with respect to ω, the bias and, at finite width, the probability of one sample: by
`run.sensitivity`, and by differences of order 4 of flows at rtol 1e-11, so near that no two events change their order.
Reported are the largest relative deviation, how many settings slide and cross before they get there, and the cost of all
derivatives of the K = 2 run (ω, b, 8 samples) in plain flows.
"""

import argparse
import json
import math
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy.optimize import brentq

ROOT = Path(__file__).parents[1]
RTOL = 1e-11
NEAR = (1e-4, 1e-5, 1e-6)  # relative steps of the differences
WEIGHTS = {-2: 1 / 12, -1: -8 / 12, 1: 8 / 12, 2: -1 / 12}


def settings(count):
    """Random problems: K = 2, 3 of finite and infinite width, K = 4 of infinite width and, one in twenty, of finite width."""
    rng = np.random.default_rng(0)
    for i in range(count):
        K = 4 if i % 20 == 7 else int(rng.choice([2, 2, 3, 4]))
        finite = i % 20 == 7 or (i % 3 > 0 and K < 4)
        yield {
            "classes": K,
            "width": int(rng.choice([16, 32, 64, 128])) if finite else math.inf,
            "omega": float(rng.uniform(0.25, 0.6)),
            "bias": float(rng.uniform(0.3, 0.8)),
            "seed": int(rng.integers(1000)),
            "loss": float(rng.choice([0.1, 0.05, 0.03])),
            "atom": int(rng.integers(K * 2**K)) if finite and K < 4 else None,
        }


def posed(setting, name=None, change=0.0):
    """The task and the network of a setting, with one parameter changed."""
    import mixflow as mf

    task = mf.Mixture(classes=setting["classes"])
    network = {key: setting[key] for key in ("omega", "bias", "width", "seed")}
    if name == "probabilities":
        population = task.population()
        p = population.probabilities
        task = replace(population, probabilities=(p + change * np.eye(len(p))[setting["atom"]]) / (1 + change))
    elif name is not None:
        network[name] += change
    return task, mf.Transformer(**network)


def learned(setting, until, name=None, change=0.0, rtol=RTOL):
    """When the flow has the setting's loss: a root on its dense output; and the events before."""
    import mixflow as mf

    task, network = posed(setting, name, change)
    field = mf.field(task, network, "symmetric" if math.isinf(setting["width"]) else "gram")
    result = field.flow(mf.GradientFlow(until=until, rtol=rtol, save_at=2))

    def excess(t):
        return setting["loss"] - float(field.loss(result(t)))

    starts = result.steps[0]
    i, j = 0, len(starts)  # the loss of a flow falls: halve the steps, then look inside one
    while j - i > 1:
        middle = (i + j) // 2
        i, j = (i, middle) if excess(starts[middle]) >= 0 else (middle, j)
    low, high = starts[i], starts[j] if j < len(starts) else result.time
    time = brentq(excess, low, high, xtol=1e-13, rtol=1e-15)
    return time, [event for event in result.events if event.time < time]


def difference(setting, until, name, events):
    """The derivative by four neighbours, as near as it takes for them to have the same events in the same order."""
    scale = setting[name] if name in setting else 1 / (setting["classes"] * 2 ** setting["classes"])
    for near in NEAR:
        around = {k: learned(setting, until, name, k * near * scale) for k in WEIGHTS}
        if all([event[1:] for event in seen] == events for _, seen in around.values()):
            break
    return sum(weight * around[k][0] for k, weight in WEIGHTS.items()) / (near * scale)


def compare(setting):
    """The largest relative deviation of a setting's derivatives, and what happened on the way."""
    import mixflow as mf

    task, network = posed(setting)
    target = mf.Until("loss", setting["loss"])
    run = mf.train(task, network, mf.GradientFlow(until=target, rtol=1e-9, save_at=2))
    run = mf.train(task, network, mf.GradientFlow(until=1.05 * float(run.dataset.time[-1]), rtol=RTOL, save_at=2))
    names = ("omega", "bias") + (() if setting["atom"] is None else ("probabilities",))
    found = run.sensitivity(target, to=names)
    until = float(run.dataset.time[-1])
    time, events = learned(setting, until)
    deviation = {"time": abs(float(found.time) - time) / time}
    for name in names:
        got = found[f"time_by_{name}"]
        got = float(got if name != "probabilities" else got[setting["atom"]])
        expected = difference(setting, until, name, [event[1:] for event in events])
        deviation[name] = abs(got - expected) / max(abs(expected), 1e-3 * time)
    kinds = [{event.before, event.after} for event in events]
    return {
        **setting,
        "time": time,
        "deviation": deviation,
        "slides": sum("sliding" in kind for kind in kinds),
        "crossings": sum(kind == {"on", "off"} for kind in kinds),
    }


def cost():
    """All derivatives of the K = 2 run in plain flows of the same field, in processor time, best of five."""
    import mixflow as mf

    target = mf.Until("loss", 0.1)
    run = mf.train(mf.Mixture(), mf.Transformer(omega=0.3), mf.GradientFlow(until=300.0), model="gram")
    field = mf.field(mf.Mixture(), mf.Transformer(omega=0.3), "gram")

    def best(function):
        function()
        times = []
        for _ in range(5):
            begin = time.process_time()
            function()
            times.append(time.process_time() - begin)
        return min(times)

    names = ("omega", "bias", "probabilities")
    plain = best(lambda: field.flow(mf.GradientFlow(until=250.0, save_at=2)))
    return best(lambda: run.sensitivity(target, to=names)) / plain


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
