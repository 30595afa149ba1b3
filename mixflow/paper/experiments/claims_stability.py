"""Do the classes stay equal? Growth of perturbations by symmetry type for K = 2 … 6, and the asymmetry of finite-width seeds.

python -m mixflow.paper.experiments.claims_stability --out results                         K = 2 … 6, ten minutes
python -m mixflow.paper.experiments.claims_stability 2 3 --widths 4096 --out results       half a minute
"""

import argparse
import math
from dataclasses import replace

import numpy as np

import mixflow as mf

from ..batch import train_batch
from ..files import dump, make_folder, write
from ..theory.perturbed import seed_growth, two_flows
from ..theory.stability import linearised
from .learning_time import point

NETWORK = mf.Transformer(omega=0.3, bias=0.5)
CLASSES, WIDTHS = (2, 3, 4, 5, 6), (4096, 2**20)
TRAINED = 4  # networks beside the flow up to here: at K = 5 descent takes another branch, at K = 6 it takes an hour
RATE = 0.1
SAVES = 40


def growth(classes, *, network=NETWORK, factor=1.2, points=200, widths=WIDTHS, seeds=16):
    """Growth of the scores' asymmetry to `factor` times the learning time, by type.

    linear  the linearised flow: growth and the worst start's growth over time, and how good the linearisation is
    seeds   {width: {type: (run, time)}} of networks trained by descent, whose start is a perturbation of size 1/√width
    """
    task = mf.Mixture(classes=classes)
    learned = point(classes, network.omega, network.bias, certificate=False)["time"]
    until = factor * learned
    found = linearised(task, network, until, points=points)
    linear = {
        ", ".join(kind): {
            "growth": one.growth.tolist(),
            "most": one.most.tolist(),
            "coupling": one.coupling,
            "slack": one.slack,
        }
        for kind, one in found.items()
    }
    result = {"classes": classes, "learned": learned, "until": until, "time": found["equal", "mirror"].time.tolist()}
    return result | {"linear": linear, "seeds": measured(task, network, until, widths, seeds)}


def measured(task, network, until, widths, seeds):
    """The growth in networks like `network` of each width, by descent; all in one batch."""
    if not widths:
        return {}
    steps = int(until / RATE)
    networks = [replace(network, width=width, seed=seed) for width in widths for seed in range(seeds)]
    batch = train_batch(task, networks, mf.GradientDescent(RATE, steps, max(1, steps // SAVES)))
    ratio = seed_growth(task, batch.A.values)
    parts = {width: slice(i * seeds, (i + 1) * seeds) for i, width in enumerate(widths)}
    return {
        "time": batch.time.values.tolist(),
        **{str(w): {", ".join(kind): x[part].tolist() for kind, x in ratio.items()} for w, part in parts.items()},
    }


def agreement(classes, until, *, network=NETWORK, points=150, moments=8, size=1e-6):
    """{type: (moments,) |difference| of two flows from the linearised flow, relative to the perturbation}; one random start."""
    task, found = mf.Mixture(classes=classes), {}
    for kind, one in linearised(task, network, until, points=points).items():
        at = np.linspace(0, len(one.time) - 1, moments + 1).astype(int)[1:]
        start = np.random.default_rng(0).standard_normal(len(one.spread)) * one.spread
        there, _ = two_flows(task, network, kind, start, one.time[at], size=size)
        expected = one.map[at] @ start
        far = np.linalg.norm(there - expected, axis=1) / np.linalg.norm(expected, axis=1)
        found[", ".join(kind)] = {"time": one.time[at].tolist(), "difference": far.tolist()}
    return found


def table(result):
    """One line for each type: at the end, the linearised flow and the seeds' mean with its interval."""
    widths = [name for name in result["seeds"] if name != "time"]
    lines = [
        f"K = {result['classes']}, t = {result['until']:.5g}",
        f"  {'type':18} linear    worst   coupling  slack   " + "   ".join(f"width {w}".ljust(26) for w in widths),
    ]
    for kind, one in result["linear"].items():
        seeds = []
        for width in widths:
            if kind in result["seeds"][width]:
                mean, low, high = mf.measure.mean_interval([path[-1] for path in result["seeds"][width][kind]])
                seeds.append(f"{mean:8.1f} [{low:.1f}, {high:.1f}]".ljust(26) if math.isfinite(low) else f"{mean:8.1f}")
        numbers = f"{one['growth'][-1]:8.2f} {one['most'][-1]:8.2f}   {one['coupling']:6.2f}   {one['slack']:.0e}   "
        lines.append(f"  {kind:18} {numbers}" + "   ".join(seeds))
    return "\n".join(lines)


def main(arguments=None):
    """Compute, print, write the numbers and the figure."""
    from ..figures.stability import plot_stability

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("classes", nargs="*", type=int, metavar="K", help="numbers of classes (default: 2 3 4 5 6)")
    shown = f"of the networks beside it (default: {WIDTHS} up to K = {TRAINED}, none beyond)"
    parser.add_argument("--widths", nargs="*", type=int, help=shown)
    parser.add_argument("--seeds", type=int, default=16, help="networks for each width")
    parser.add_argument("--points", type=int, default=200, help="of the linearised flow's time grid")
    parser.add_argument("--agreement", action="store_true", help="also two flows beside the linearised one, by type")
    parser.add_argument("--out", default="results", help="folder for the figure and the numbers")
    options = parser.parse_args(arguments)
    try:
        make_folder(options.out)
        classes = [
            mf.checks.whole("K", K, least=2, most=8, fix="atoms are listed one by one")
            for K in options.classes or CLASSES
        ]
    except mf.MixflowError as error:
        parser.error(str(error))
    results = []
    for K in classes:
        usual = WIDTHS if K <= TRAINED else ()
        widths = usual if options.widths is None else options.widths
        results.append(growth(K, widths=widths, seeds=options.seeds, points=options.points))
        print(table(results[-1]), flush=True)
        if options.agreement:
            results[-1]["agreement"] = agreement(K, results[-1]["until"])
            for kind, one in results[-1]["agreement"].items():
                far = " ".join(f"{t:.0f}: {x:.0e}" for t, x in zip(one["time"], one["difference"], strict=True))
                print(f"  two flows, {kind:18} {far}", flush=True)
        write(f"{options.out}/stability.json", dump(results))
    written = mf.plot.save(plot_stability(results), f"{options.out}/stability")
    print("written: " + ", ".join(map(str, [f"{options.out}/stability.json", *written])))
    return results


if __name__ == "__main__":
    main()
