"""Several runs side by side, one column each: losses, neurons, attention, on shared axes with the stages shaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..checks import one_of
from .run import attention_lines, draw_lines, draw_losses, neuron_lines
from .style import RC, recorded, shade, time_axis, titled
from .style import figure as empty

if TYPE_CHECKING:
    from ..types import Figure, Recorded


def plot_columns(runs: dict[str, Recorded], *, scale: str = "log") -> Figure:
    """A Figure with a column for each run of `runs` (title -> Run) and the three panels of `plot_run` as rows."""
    from matplotlib import rc_context

    one_of("scale", scale, ("log", "linear"))
    for run in titled("runs", runs, "a Run").values():
        recorded(run)
    with rc_context(RC):
        figure = empty(figsize=(3.9 * len(runs) + 0.4, 7.4))
        panels = figure.subplots(3, len(runs), sharex="col", sharey="row", squeeze=False)
        for column, (title, run) in enumerate(runs.items()):
            loss, neurons, attention = panels[:, column]
            first = column == 0
            draw_losses(loss, run.dataset, legend=first)
            draw_lines(
                neurons,
                run.dataset,
                neuron_lines(run.dataset),
                "neuron alignment, head +",
                legend="upper left" if first else None,
            )
            draw_lines(
                attention,
                run.dataset,
                attention_lines(run.dataset),
                "attention score, head +",
                legend=None,
            )
            loss.set_title(title, pad=26)
            time_axis(attention, run.dataset.time.values, scale)
            for panel in panels[:, column]:
                shade(panel, run.stages, label=panel is loss)
                if not first:
                    panel.set_ylabel("")
        # Below the panels: four long labels would cover some curve wherever they stood in a narrow one.
        figure.legend(*panels[2, 0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
        return figure
