"""Figures of runs and sweeps, and the look they share; public functions that give matplotlib Figures.

figures   plot_run, plot_columns (runs side by side), plot_events (a flow's switches), plot_influence (of samples on
          the learning time), plot_scores, plot_sweep, plot_tube (a proof)
parts     draw_losses, draw_lines, neuron_lines, attention_lines, shade (the stages), time_axis
look      RC, COLOURS, SERIES, GATES, STAGES; save (svg, pdf, png)

What a figure cannot show raises SpecError, what cannot be written StoreError.

>>> import mixflow as mf
>>> run = mf.train(mf.Mixture(), mf.Transformer(), mf.GradientDescent(steps=300))
>>> figure = mf.plot.plot_columns({"one": run, "again": run})
>>> len(figure.axes)
6
"""

from typing import TYPE_CHECKING

from ..lazy import exports

# The public names and the module each lives in.
_HOME = {
    "COLOURS": "style",
    "GATES": "style",
    "RC": "style",
    "SERIES": "style",
    "STAGES": "style",
    "attention_lines": "run",
    "draw_lines": "run",
    "draw_losses": "run",
    "neuron_lines": "run",
    "plot_columns": "columns",
    "plot_events": "events",
    "plot_influence": "influence",
    "plot_run": "run",
    "plot_scores": "scores",
    "plot_sweep": "sweep",
    "plot_tube": "tube",
    "save": "style",
    "shade": "style",
    "time_axis": "style",
}
__all__ = list(_HOME)
__getattr__, __dir__ = exports(__name__, _HOME)

if TYPE_CHECKING:  # for editors and type checkers, which do not run the table above; a test compares the two
    from .columns import plot_columns as plot_columns
    from .events import plot_events as plot_events
    from .influence import plot_influence as plot_influence
    from .run import attention_lines as attention_lines
    from .run import draw_lines as draw_lines
    from .run import draw_losses as draw_losses
    from .run import neuron_lines as neuron_lines
    from .run import plot_run as plot_run
    from .scores import plot_scores as plot_scores
    from .style import COLOURS as COLOURS
    from .style import GATES as GATES
    from .style import RC as RC
    from .style import SERIES as SERIES
    from .style import STAGES as STAGES
    from .style import save as save
    from .style import shade as shade
    from .style import time_axis as time_axis
    from .sweep import plot_sweep as plot_sweep
    from .tube import plot_tube as plot_tube
