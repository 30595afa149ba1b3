"""A variant against its strength: who learns, and when."""

import math

import numpy as np

import mixflow as mf


def plot_variant(rows, name, bounds=None):
    """A Figure of two panels from a dataset of (row, seed): hard accuracy of every seed, relative T2 with its range.

    bounds  (holds, breaks): the strengths between which the picture breaks, shaded; NaN where it never does
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    x, ticks = _places(rows.strength.values)
    colour, marker = mf.plot.SERIES[0]
    # Thirty figures of one shape: margins of their own for all, where to find them for each takes two thirds of the time.
    with rc_context(mf.plot.RC | {"figure.constrained_layout.use": False}):
        figure = Figure(figsize=(6.8, 2.6))
        figure.subplots_adjust(left=0.085, right=0.97, bottom=0.18, top=0.96, wspace=0.28)
        accuracy, time = figure.subplots(1, 2)
        n = rows.sizes["seed"]
        width = (x.max() - x.min() or 1.0) / max(len(x) - 1, 1)
        beside = 0.2 * width * (np.arange(n) - (n - 1) / 2) / max(n - 1, 1)  # equal values do not hide one another
        for i, at in enumerate(x):
            accuracy.plot(at + beside, rows.hard_accuracy.values[i], marker, ls="none", ms=3, color=colour)
        accuracy.axhline(0.99, ls=":", lw=1, color="#767676", zorder=0)
        accuracy.set(ylim=(-0.05, 1.05), ylabel="hard accuracy")
        shown = "relative" if np.isfinite(rows.relative).any() else "separation"
        for at, values in zip(x, rows[shown].values):
            found = values[np.isfinite(values)]
            if not len(found):
                time.annotate("never", (at, 0.06), xycoords=time.get_xaxis_transform(), ha="center", fontsize=8)
                continue
            time.plot([at], [found.mean()], marker, ms=5, color=colour)
            time.vlines(at, found.min(), found.max(), color=colour, lw=1.2)
        time.set(ylabel="T2 / base" if shown == "relative" else "T2")
        if shown == "relative":
            time.axhline(1.0, ls="--", lw=1, color="#767676", zorder=0)
            time.set_ylim(bottom=0)
        for axes in (accuracy, time):
            axes.set(xlabel=name, xlim=(x.min() - 0.6 * width, x.max() + 0.6 * width))
            if ticks is not None:
                axes.set_xticks(x, ticks)
            if bounds and math.isfinite(bounds[1]):
                axes.axvspan(*bounds, color="#D55E00", alpha=0.25, lw=0, zorder=0)
                axes.set_xlim(right=max(axes.get_xlim()[1], bounds[1] + 0.1 * width))
        return figure


def _places(strengths):
    """Where the rows stand: at their number, or side by side with their words."""
    try:
        return np.array([float(s) for s in strengths]), None
    except ValueError:
        return np.arange(len(strengths), dtype=float), [str(s) for s in strengths]
