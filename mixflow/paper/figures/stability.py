"""How perturbations of the class-symmetric solution grow, by symmetry type, beside networks of finite width."""

import numpy as np

import mixflow as mf

COLOURS = {"equal": "#999999", "unequal": "#D55E00", "pairs": "#0072B2", "cycles": "#009E73"}
DASHES = {"mirror": "-", "apart": (0, (4, 2))}
MARKS = ("o", "^", "s")


def plot_stability(results):
    """A Figure with one panel for each K: lines of the linearised flow, marks of the seeds' mean at each width."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    columns = min(len(results) + 1, 3)  # the legend has a place of its own
    rows = -(-(len(results) + 1) // columns)
    with rc_context(mf.plot.RC):
        figure = Figure(figsize=(3.3 * columns, 2.8 * rows + 0.2))
        panels = np.ravel(figure.subplots(rows, columns))
        for axes, result in zip(panels, results, strict=False):
            _panel(axes, result)
        for axes in panels[len(results) :]:
            axes.set_axis_off()
        panels[len(results)].legend(handles=_legend(results), loc="center")
        return figure


def _panel(axes, result):
    time = np.array(result["time"])
    for kind, one in result["linear"].items():
        classes, heads = kind.split(", ")
        axes.plot(time, one["growth"], color=COLOURS[classes], ls=DASHES[heads], lw=1.2)
    seeds = result["seeds"]
    for mark, width in zip(MARKS, [name for name in seeds if name != "time"], strict=False):
        for kind, paths in seeds[width].items():
            classes, heads = kind.split(", ")
            if heads == "mirror":  # the other half lies on top of it
                mean = np.mean(paths, axis=0)
                axes.plot(seeds["time"], mean, mark, color=COLOURS[classes], ms=2.5, mfc="none", mew=0.6)
    axes.axvline(result["learned"], color="#bbbbbb", lw=0.8)
    axes.set_yscale("log")
    axes.set_xlim(0, result["until"])
    axes.set_title(f"K = {result['classes']}")
    axes.set_xlabel("time")
    axes.set_ylabel("asymmetry / its start")


def _legend(results):
    from matplotlib.lines import Line2D

    kinds = {kind for result in results for kind in result["linear"]}
    handles = [
        Line2D([], [], color=COLOURS[classes], ls=DASHES[heads], lw=1.2, label=f"{classes}, {heads}")
        for classes in COLOURS
        for heads in DASHES
        if f"{classes}, {heads}" in kinds
    ]
    widths = list(dict.fromkeys(name for result in results for name in result["seeds"] if name != "time"))
    handles += [
        Line2D(
            [], [], ls="", marker=mark, color="#222222", ms=3.5, mfc="none", label=f"descent, width {width} (mirror)"
        )
        for mark, width in zip(MARKS, widths, strict=False)
    ]
    return [*handles, Line2D([], [], color="#bbbbbb", lw=0.8, label="loss 0.1")]
