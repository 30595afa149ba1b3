"""Figures of the theory: learning time against K with residuals, phase diagram, growth bounds, stability."""

import numpy as np

import mixflow as mf

STORIES = {
    "three stages": "#4477aa",
    "attention first": "#ee6677",
    "two stages": "#ccbb44",
    "not learned": "#bbbbbb",
}


def plot_learning_time(result):
    """A Figure: T against K with its laws, their residuals, and for each K of the phases a diagram in ω and b."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(mf.plot.RC):
        diagrams = sorted({p["classes"] for p in result["phases"]})
        figure = Figure(figsize=(7.2, 5.0 + 2.8 * len(diagrams)))
        grid = figure.add_gridspec(2 + len(diagrams), 1, height_ratios=[3, 1.4] + [2.6] * len(diagrams))
        times, residuals, *phases = (figure.add_subplot(cell) for cell in grid)
        reached = [p for p in result["points"] if p["time"]]
        K, T = (np.array([p[name] for p in reached], float) for name in ("classes", "time"))
        times.loglog(K, T, "o", color="#222222", ms=4, label="exact flow, loss = 0.1")
        residuals.axhline(0, color="#bbbbbb", lw=0.6)
        for fit, colour in zip(result["laws"], ("#4477aa", "#ee6677"), strict=False):
            k = np.array([fit["classes"][0], fit["classes"][-1]], float)
            label = f"K ≥ {fit['least']}: exponent {fit['exponent']:.2f} [{fit['low']:.2f}, {fit['high']:.2f}]"
            times.loglog(k, fit["prefactor"] * k ** fit["exponent"], color=colour, label=label)
            residuals.semilogx(fit["classes"], fit["residual"], "o-", color=colour, ms=3, lw=0.8)
        times.set_ylabel("learning time")
        times.legend(loc="upper left")
        residuals.set_ylabel("residual of log T")
        residuals.set_xlabel("classes K")
        for axes, K in zip(phases, diagrams, strict=True):
            _phases(axes, [p for p in result["phases"] if p["classes"] == K])
        return figure


def _phases(axes, points):
    omegas, biases = sorted({p["omega"] for p in points}), sorted({p["bias"] for p in points})
    for p in points:
        x, y = omegas.index(p["omega"]), biases.index(p["bias"])
        axes.plot(x, y, "s", ms=22, color=STORIES[p["story"]])
        if p["time"]:
            axes.text(
                x, y, f"{p['time']:.0f}", ha="center", va="center", fontsize=7 if p["time"] < 9999 else 6, color="white"
            )
    for story in sorted({p["story"] for p in points}):
        axes.plot([], [], "s", color=STORIES[story], label=story)
    axes.set_xticks(range(len(omegas)), [f"{x:g}" for x in omegas])
    axes.set_yticks(range(len(biases)), [f"{x:g}" for x in biases])
    axes.set_xlim(-0.6, len(omegas) + 1.4)
    axes.set_ylim(-0.6, len(biases) - 0.4)
    axes.set_xlabel("initial scale ω")
    axes.set_ylabel("bias b")
    axes.set_title(f"K = {points[0]['classes']}: what happens until t = {points[0]['until']:g}, and when it is learned")
    axes.legend(loc="center right")


def plot_critical(points):
    """Predicted against actual time to separation over the (ω, b) grid, with the comparison systems' interval."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(mf.plot.RC):
        figure = Figure(figsize=(7.2, 3.6))
        left, right = figure.subplots(1, 2)
        reached = [p for p in points if p["actual"]]
        actual, predicted, low, high = (
            np.array([p[name] if p[name] else np.nan for p in reached], float)
            for name in ("actual", "predicted", "lower", "upper")
        )
        left.loglog(actual, predicted, "o", ms=4)
        left.loglog([actual.min(), actual.max()], [actual.min(), actual.max()], color="#bbbbbb", lw=0.8)
        left.set_xlabel("actual time to separation")
        left.set_ylabel("predicted by the linear theory")
        order = np.argsort(actual)
        right.fill_between(range(len(order)), (low / actual - 1)[order], (high / actual - 1)[order], alpha=0.3)
        right.plot((predicted / actual - 1)[order], "o", ms=3)
        right.axhline(0, color="#bbbbbb", lw=0.6)
        right.set_xlabel("grid point, by actual time")
        right.set_ylabel("relative error; band: comparison systems")
        return figure
