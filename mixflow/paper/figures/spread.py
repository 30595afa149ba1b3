"""One number for every seed against a setting, with the limit it should approach."""

import mixflow as mf


def plot_spread(values, limit, *, xlabel, ylabel, name="mean-field limit"):
    """A Figure of `values` (setting, seed) as points on a logarithmic setting axis, and a dashed line at `limit`."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    x = values[values.dims[0]].values
    with rc_context(mf.plot.RC):
        figure = Figure(figsize=(5.6, 3.4))
        axes = figure.subplots()
        for j in range(values.shape[1]):
            # seeds side by side, so that equal values do not hide one another
            beside = x * 2.0 ** (0.5 * ((j + 0.5) / values.shape[1] - 0.5))
            axes.plot(
                beside,
                values.values[:, j],
                mf.plot.SERIES[0][1],
                ls="none",
                ms=3,
                color=mf.plot.SERIES[0][0],
                label=None if j else "a seed",
            )
        axes.axhline(limit, ls="--", lw=1, color="#767676", zorder=0, label=name)
        axes.set(xscale="log", xlabel=xlabel, ylabel=ylabel)
        axes.set_xticks(x[:: max(1, len(x) // 5)], [f"{tick:g}" for tick in x[:: max(1, len(x) // 5)]])
        axes.xaxis.minorticks_off()
        axes.legend()
        return figure
