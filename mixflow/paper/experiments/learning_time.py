"""How long does learning take? Exact flow on the symmetric model for K up to 100 and beyond, over ω, and over b.

python -m mixflow.paper.experiments.learning_time --out results  full: K = 2 … 100 and three phase diagrams, half an hour
python -m mixflow.paper.experiments.learning_time --quick --out results  K = 2 … 14, a minute
"""

import argparse
import itertools
import math

import numpy as np

import mixflow as mf

from ..files import dump, make_folder, write

LEARNED = 0.1  # the loss at which the task counts as learned
CLASSES = (2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 17, 20, 24, 28, 34, 40, 48, 57, 68, 80, 100)
QUICK = (2, 3, 4, 5, 7, 10, 14)
OMEGAS, BIASES = (0.05, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0), (0.0, 0.1, 0.5, 1.0, 2.0, 4.0)
# Of the phase diagrams, about eight learning times at ω = 0.3, b = 1/2: what is not learned by then counts as not learned.
BOUNDS = {2: 2000.0, 3: 6000.0, 5: 17_000.0}


def point(classes, omega=0.3, bias=0.5, *, certificate=True, rtol=1e-9):
    """The time at which the loss falls to LEARNED, with the flow's certificate; None if it is not reached."""
    field = mf.field(mf.Mixture(classes=classes), mf.Transformer(omega=omega, bias=bias), model="symmetric")
    until = 1e4 * classes**4
    # Saved evenly in log t, so that the certificate compares states all the way to the stop, wherever that is.
    method = mf.GradientFlow(until=until, rtol=rtol, save_at=tuple(np.geomspace(1, until, 200)))
    result = field.flow(method, stop=lambda t, y: LEARNED - float(field.loss(y)))
    reached = result.ended == "stop"
    facts = {"classes": classes, "omega": omega, "bias": bias, "time": result.time if reached else None}
    if certificate:
        proof = field.certify(result)
        names = ("relative_difference", "relative_drift_tr_C2", "smallest_eigenvalue", "same_events", "evaluations")
        facts["certificate"] = {name: proof[name] for name in names}
    return facts


def agreement(classes, time, omega=0.3, bias=0.5):
    """The loss of the full system (model "gram") at the symmetric model's learning time, minus LEARNED; small K only."""
    field = mf.field(mf.Mixture(classes=classes), mf.Transformer(omega=omega, bias=bias), model="gram")
    result = field.flow(mf.GradientFlow(until=time, save_at=2))
    return float(field.loss(result.state)) - LEARNED


def law(points, least=2, level=0.95):
    """T = a K^p over the points with K ≥ `least`: exponent with its interval, prefactor, and every residual of log T.

    Least squares on the logarithms. The flow's own error is 1e-9, so the interval says how far a power law describes the
    points, not how well they are known.
    """
    from scipy.stats import t as student

    chosen = [p for p in points if p["time"] and p["classes"] >= least]
    K, T = (np.array([p[name] for p in chosen], float) for name in ("classes", "time"))
    x, y = np.log(K), np.log(T)
    slope, shift = np.polyfit(x, y, 1)
    residual = y - slope * x - shift
    n = len(x)
    error = math.sqrt((residual**2).sum() / max(n - 2, 1) / ((x - x.mean()) ** 2).sum())
    half = student.ppf((1 + level) / 2, n - 2) * error if n > 2 else math.nan
    return {
        "exponent": float(slope),
        "low": float(slope - half),
        "high": float(slope + half),
        "prefactor": float(np.exp(shift)),
        "classes": K.astype(int).tolist(),
        "residual": residual.tolist(),
        "least": least,
    }


def local_exponents(points):
    """d log T / d log K between neighbouring points: (K, exponent) pairs."""
    found = [p for p in points if p["time"]]
    return [
        (
            math.sqrt(a["classes"] * b["classes"]),
            math.log(b["time"] / a["time"]) / math.log(b["classes"] / a["classes"]),
        )
        for a, b in itertools.pairwise(found)
    ]


def phase(omega, bias, *, classes=2, until=None):
    """Which story a transformer tells: "three stages", "attention first", "two stages" or "not learned" within `until`."""
    until = BOUNDS[classes] if until is None else until
    run = mf.train(
        mf.Mixture(classes=classes), mf.Transformer(omega=omega, bias=bias), mf.GradientFlow(until=until, rtol=1e-7)
    )
    loss = run.dataset.loss.values
    below = np.flatnonzero(loss < LEARNED)
    neurons, attention, convergence = run.stages
    if not len(below):
        story = "not learned"
    elif neurons.found and attention.found and convergence.found:
        story = "three stages"
    elif "attention moved first" in neurons.evidence.get("reason", ""):
        story = "attention first"
    else:
        story = "two stages"
    reasons = {stage.name: stage.evidence["reason"] for stage in run.stages if not stage.found}
    time = float(run.dataset.time[below[0]]) if len(below) else None
    return {
        "classes": classes,
        "until": until,
        "omega": omega,
        "bias": bias,
        "story": story,
        "time": time,
        "loss": float(loss[-1]),
        "reasons": reasons,
    }


def phases(omegas=OMEGAS, biases=BIASES, **settings):
    """The phase diagram, row by row."""
    return [phase(omega, bias, **settings) for omega in omegas for bias in biases]


def main(arguments=None):
    """Compute, print, write the numbers and the figure."""
    from ..figures.theory import plot_learning_time

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few and small K, a coarse phase diagram")
    parser.add_argument("--out", default="results", help="folder for the figure and the numbers")
    options = parser.parse_args(arguments)
    folder = make_folder(options.out)
    points = []
    for K in QUICK if options.quick else CLASSES:
        points.append(point(K))
        time, proof = points[-1]["time"], points[-1]["certificate"]
        if (3 if options.quick else 6) >= K:
            points[-1]["gram_difference"] = agreement(K, time)
        print(
            f"K = {K:4d}   T = {time or math.nan:.8g}   error {proof['relative_difference']:.1e}"
            + (f"   gram: loss {points[-1]['gram_difference']:+.1e}" if "gram_difference" in points[-1] else ""),
            flush=True,
        )
    fits = [law(points), law(points, least=5 if options.quick else 20)]
    for fit in fits:
        print(f"K ≥ {fit['least']}: T ∝ K^{fit['exponent']:.3f}, 95 % interval {fit['low']:.3f} to {fit['high']:.3f}")
    few = {"omegas": (0.2, 1.0, 4.0), "biases": (0.0, 0.5, 2.0)} if options.quick else {}
    diagram = [p for K in ((2,) if options.quick else BOUNDS) for p in phases(**few, classes=K)]
    for p in diagram:
        print(
            f"K = {p['classes']}   ω = {p['omega']:<5g} b = {p['bias']:<5g} {p['story']:16} "
            f"T = {p['time'] or math.nan:.5g}   loss {p['loss']:.3g}"
        )
    result = {"points": points, "laws": fits, "local_exponents": local_exponents(points), "phases": diagram}
    write(folder / "learning_time.json", dump(result))
    written = mf.plot.save(plot_learning_time(result), folder / "learning_time")
    print("written: " + ", ".join(map(str, [folder / "learning_time.json", *written])))
    return result


if __name__ == "__main__":
    main()
