"""Power laws: points on logarithmic axes beside a line of the predicted slope."""

import numpy as np

import mixflow as mf


def plot_slopes(lines, *, slope, xlabel, ylabel, spread=None, ticks=None):
    """A Figure of `lines` (label -> (x, y)) with a dashed line of the given slope through the first one's middle.

    spread  label -> (low, high) arrays drawn as bars around y
    ticks   x positions to label as they are, instead of powers of ten
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator

    with rc_context(mf.plot.RC):
        figure = Figure(figsize=(5.6, 3.8))
        axes = figure.subplots()
        for (colour, marker), (label, (x, y)) in zip(mf.plot.SERIES, lines.items()):
            axes.plot(x, y, marker, ls="none", ms=5, color=colour, label=label)
            if spread and label in spread:
                low, high = spread[label]
                axes.vlines(x, low, high, color=colour, lw=1)
        x, y = (np.asarray(values, float) for values in next(iter(lines.values())))
        guide = np.exp(np.log(y).mean()) * (x / np.exp(np.log(x).mean())) ** slope
        axes.plot(x, guide, "--", color="#767676", lw=1, zorder=0, label=f"slope {slope:g}".replace("-", "−"))
        axes.set(xscale="log", yscale="log", xlabel=xlabel, ylabel=ylabel)
        if ticks is not None:
            axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
            axes.xaxis.minorticks_off()
        if y.max() < 50 * y.min() and len(lines) == 1:  # too few powers of ten to label nothing but them
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.yaxis.set_major_formatter("{x:g}")
            axes.yaxis.minorticks_off()
        axes.legend()
        return figure


def plot_curves(lines, *, xlabel, ylabel):
    """A Figure of `lines` (label -> (x, y)) with markers on plain axes."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(mf.plot.RC):
        figure = Figure(figsize=(5.6, 3.4))
        axes = figure.subplots()
        for i, (label, (x, y)) in enumerate(lines.items()):
            colour, marker = mf.plot.SERIES[i % len(mf.plot.SERIES)]
            dash = "-" if i < len(mf.plot.SERIES) else "--"
            axes.plot(x, y, dash, marker=marker, ms=4, lw=1, color=colour, label=label)
        axes.set(xlabel=xlabel, ylabel=ylabel)
        axes.legend()
        return figure
