"""One look for every figure: colour-blind-safe colours, one colour per idea, stages shaded the same way everywhere."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

from ..checks import array, listed, one_of, shown
from ..errors import SpecError

if TYPE_CHECKING:
    from ..measure.stages import Stage
    from ..types import Array, Axes, Figure, Path, PathLike, Sequence

# Okabe and Ito's palette, which stays distinct under the common colour-vision deficiencies; lines also differ in dash.
COLOURS = {
    "all": "#000000",
    "easy": "#0072B2",
    "hard": "#D55E00",
    "c": "#009E73",
    "v": "#CC79A7",
    "own": "#0072B2",
    "other": "#D55E00",
    "query": "#009E73",
    "rest": "#999999",
}
# Further series, when no idea of the table above is meant; markers differ too.
SERIES = [("#0072B2", "o"), ("#D55E00", "s"), ("#009E73", "^"), ("#CC79A7", "D"), ("#999999", "v")]
GATES = {"on": ("#0072B2", ""), "sliding": ("#E69F00", "////"), "off": ("#ffffff", "")}  # colour and hatch
STAGES = {"neurons": "#F0E442", "attention": "#56B4E9", "convergence": "#B9E3B4"}

KINDS = ("svg", "pdf", "png")
MOST = 64  # panels or rows of a figure

RC = {
    "figure.constrained_layout.use": True,
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "lines.linewidth": 1.6,
    "svg.hashsalt": "mixflow",  # the same figure gives the same bytes
    "svg.fonttype": "none",
}


def figure(**settings):
    """An empty matplotlib Figure that a notebook shows by itself, whether or not pyplot is in use."""
    return _shown()(**settings)


@functools.cache
def _shown():
    import io

    from matplotlib import rc_context
    from matplotlib.figure import Figure

    class Shown(Figure):
        def _repr_png_(self):
            content = io.BytesIO()
            with rc_context(RC):
                self.savefig(content, format="png", dpi=100)
            return content.getvalue()

    return Shown


def recorded(run):
    """`run` if it has what figures show, or a SpecError."""
    if isinstance(run, type) or not all(hasattr(run, each) for each in ("dataset", "stages")):
        raise SpecError(f"run = {shown(run)}: expected a Run, as mf.train and mf.load give.")
    return run


def titled(name, given, what, most=MOST):
    """`given` if it is a dictionary of title -> what, with at least one and at most so many entries, or a SpecError."""
    if not isinstance(given, dict) or not 1 <= len(given) <= most or not all(isinstance(title, str) for title in given):
        raise SpecError(f"{name} = {shown(given)}: expected a dictionary of 1 to {most} entries, title -> {what}.")
    return given


def time_axis(axes: Axes, time: Array, scale: str = "log") -> None:
    """Label the time axis and set its range: logarithmic shows the early stages, linear the proportions."""
    one_of("scale", scale, ("log", "linear"))
    time = array("time", time, "a list of times")
    if time.ndim != 1 or not len(time):
        raise SpecError(f"time has shape {time.shape}: expected a list of times.")
    axes.set_xlabel("time  (learning rate × step)")
    if scale == "log" and len(time) > 2:
        axes.set_xscale("log")
        axes.set_xlim(max(time[1], time[-1] * 1e-4), time[-1])
    else:
        axes.set_xlim(0, max(time[-1], 1e-12))


def shade(axes: Axes, stages: Sequence[Stage], label: bool = False) -> None:
    """Shade the stages that exist behind the curves; name them once, at the top, if `label`."""
    edge = -math.inf  # where the name before ends; one that would run into it moves up a line
    for stage in listed("stages", stages, "the stages of a run, run.stages"):
        if not all(hasattr(stage, each) for each in ("name", "start", "end")):
            raise SpecError(f"stages holds {shown(stage)}: expected the stages of a run, run.stages.")
        if stage.start is None or stage.end is None or not stage.end > stage.start:
            continue
        axes.axvspan(stage.start, stage.end, color=STAGES[stage.name], alpha=0.25, lw=0, zorder=0)
        if label:
            low, high = axes.get_xlim()
            centre = _middle(axes, max(stage.start, low), min(stage.end, high))
            at, half = axes.transData.transform((centre, 1))[0], 0.3 * 8 * len(stage.name) * axes.figure.dpi / 72
            above = at - half < edge
            edge = at + half
            axes.annotate(
                stage.name,
                (centre, 1),
                (0, 11 if above else 2),
                xycoords=axes.get_xaxis_transform(),
                textcoords="offset points",
                ha="center",
                va="bottom",
                fontsize=8,
                annotation_clip=False,
            )


def _middle(axes, low, high):
    """The middle of an interval as the eye sees it on this axis."""
    forward = axes.transData.transform
    pixels = (forward((low, 1))[0] + forward((high, 1))[0]) / 2
    return axes.transData.inverted().transform((pixels, 0))[0]


def save(figure: Figure, path: PathLike, kinds: Sequence[str] = ("svg", "pdf", "png")) -> list[Path]:
    """Write the figure as path.svg, path.pdf and path.png, whole or not at all; returns the paths.

    Laid out once, for the first: the layout is half of the time, and the same figure looks the same in every format.
    """
    import io

    from matplotlib import rc_context

    from ..sealed import as_path, write_whole

    if not hasattr(figure, "savefig") or isinstance(figure, type):
        raise SpecError(f"figure = {shown(figure)}: expected a Figure, as mf.plot_run gives.")
    kinds = [one_of("kinds", kind, KINDS) for kind in listed("kinds", kinds, f"a list of {', '.join(KINDS)}")]
    path = as_path(path)
    written, layout = [], figure.get_layout_engine()
    for kind in kinds:
        content = io.BytesIO()
        # No date inside, so that the same figure gives the same bytes.
        metadata = {"svg": dict.fromkeys(("Date", "Creator", "Format", "Type")), "pdf": {"CreationDate": None}}.get(
            kind
        )
        with rc_context(RC):  # fonts and ids are decided when the file is written
            figure.savefig(content, format=kind, dpi=150, metadata=metadata)
        written.append(write_whole(f"{path}.{kind}", content.getvalue()))
        figure.set_layout_engine("none")
    figure.set_layout_engine(layout)
    return written
