"""Numbers side by side as bars, with the numbers written beside them."""

import mixflow as mf


def plot_bars(groups, *, xlabels):
    """A Figure with a panel of horizontal bars for each of `groups` (title -> {name: number}); `xlabels` one for each."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    most = max(len(bars) for bars in groups.values())
    with rc_context(mf.plot.RC):
        figure = Figure(figsize=(4.4 * len(groups), 0.36 * most + 1.1))
        panels = figure.subplots(1, len(groups), squeeze=False)[0]
        for panel, (title, bars), xlabel in zip(panels, groups.items(), xlabels, strict=True):
            names, numbers = list(bars), list(bars.values())
            places = range(len(names))
            panel.barh(places, numbers, height=0.62, color=mf.plot.SERIES[0][0])
            panel.set_yticks(places, names)
            panel.invert_yaxis()
            panel.axvline(0, color="#767676", lw=0.8)
            for place, number in zip(places, numbers, strict=True):
                text = (f"{number:.0f}" if abs(number) >= 100 else f"{number:.3g}").replace("-", "−")
                side = (4, "left") if number >= 0 else (-4, "right")
                panel.annotate(text, (number, place), (side[0], 0), textcoords="offset points", ha=side[1], va="center")
            panel.margins(x=0.18)
            panel.set(title=title, xlabel=xlabel)
        return figure
