"""Claims at a glance: a mark and a word for each, never colour alone."""

import mixflow as mf

MARKS = {"holds": ("o", "#0072b2"), "fails": ("X", "#d55e00"), "does not apply": ("_", "#767676")}


def plot_claims(verdicts):
    """A Figure of (claim, verdict) pairs in two columns."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    rows = (len(verdicts) + 1) // 2
    with rc_context(mf.plot.RC):
        figure = Figure(figsize=(7.2, 0.3 * rows + 0.4))
        axes = figure.subplots()
        for i, (name, verdict) in enumerate(verdicts):
            x, y = divmod(i, rows)
            marker, colour = MARKS[verdict]
            axes.plot(x, -y, marker, color=colour, ms=8, mew=2 if marker == "_" else 0)
            axes.text(x + 0.04, -y, f"{name}: {verdict}", va="center")
        axes.set(xlim=(-0.05, 2), ylim=(-rows + 0.4, 0.6))
        axes.set_axis_off()
        return figure
