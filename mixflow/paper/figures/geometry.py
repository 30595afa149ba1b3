"""The attention features as pictures: every sample in the neuron's own plane, and the margins over time."""

import numpy as np

import mixflow as mf


def plot_plane(series, run, times):
    """A Figure of the samples at `times` (title -> t): attention on the identifier against the weighted vote, head +."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(mf.plot.RC):
        figure = Figure(figsize=(7.6, 5.9))
        panels = figure.subplots(2, 2, sharex=True, sharey=True)
        for panel, (title, t) in zip(panels.flat, times.items()):
            at = series.sel(time=t, method="nearest")
            _samples(panel, at)
            _switch_line(panel, run, float(at.time))
            panel.set_title(f"{title}, t = {float(at.time):.4g}")
        for panel in panels[1]:
            panel.set_xlabel("attention on the identifier")
        for panel in panels[:, 0]:
            panel.set_ylabel("weighted sum of signs")
        panels[0, 0].set(xlim=(-0.06, 1.08), ylim=(-1.0, 1.0))
        handles, labels = panels[0, 0].get_legend_handles_labels()
        handles += panels[1, 1].get_legend_handles_labels()[0][len(labels) :]
        labels += panels[1, 1].get_legend_handles_labels()[1][len(labels) :]
        figure.legend(handles, labels, loc="outside lower center", ncols=3)
        return figure


def _samples(panel, at):
    """Label + points up and label − down, the second smaller, so that both show where they coincide; easy ones are hollow."""
    for kind, hard in (("easy", False), ("hard", True)):
        for label, marker in ((1, "^"), (-1, "v")):
            chosen = (at.hard.values == hard) & (at.label.values == label)
            colour = mf.plot.COLOURS[kind]
            panel.plot(
                at.identifier.values[chosen],
                at.vote.values[chosen],
                marker,
                ls="none",
                ms=11 if label > 0 else 7,
                color=colour,
                mfc=colour if hard else "none",
                mec="#ffffff" if hard else colour,
                mew=0.9 if hard else 1.3,
                label=f"{kind}, label {'+' if label > 0 else '−'}",
            )


def _switch_line(panel, run, t):
    """Where head +'s pre-activation is zero: b + w_c x + w_v y = 0, exact at the mean-field start's symmetry."""
    w = run.dataset.w.sel(time=t, method="nearest").sel(head="+").values
    K = len(w) // 2
    w_c, w_v = w[:K].mean(), w[K:].mean()
    if w_v > 1e-9:
        x = np.array([-0.06, 1.08])
        panel.plot(
            x,
            -(run.transformer.bias + w_c * x) / w_v,
            "--",
            color="#767676",
            lw=1,
            label="neuron of head + switches on",
        )


def plot_margins(series, stages):
    """A Figure of the smallest output margins and of the maximum feature margins over time."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(mf.plot.RC):
        figure = Figure(figsize=(7.2, 4.9))
        output, feature = figure.subplots(2, sharex=True)
        for kind, dash in (("easy", "--"), ("hard", "-.")):
            output.plot(
                series.time, series[f"output_{kind}"], dash, color=mf.plot.COLOURS[kind], label=f"{kind} samples"
            )
        feature.plot(series.time, series.margin_all, color=mf.plot.COLOURS["all"], label="all samples")
        feature.plot(series.time, series.margin_hard, "-.", color=mf.plot.COLOURS["hard"], label="hard samples")
        output.set_ylabel("smallest $y\\cdot F$")
        feature.set_ylabel("maximum feature margin")
        mf.plot.time_axis(feature, series.time.values)
        for panel in (output, feature):
            panel.axhline(0, color="#bbbbbb", lw=0.6, zorder=0)
            panel.legend(loc="upper left")
            mf.plot.shade(panel, stages, label=panel is output)
        return figure
