"""A flow and its neurons' switches on one time axis: losses above, a bar of off, on and sliding for each sample below."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..checks import one_of
from .run import draw_losses
from .style import GATES, RC, recorded, shade, time_axis, titled
from .style import figure as empty

if TYPE_CHECKING:
    from ..types import Figure, Recorded


def plot_events(run: Recorded, names: dict[str, str], *, head: str = "+") -> Figure:
    """A Figure of the losses and the gate of each atom of `names` (atom -> what to call it) in one head."""
    from matplotlib import rc_context
    from matplotlib.patches import Patch

    data = recorded(run).dataset
    names = titled("names", names, "what to call the atom")
    one_of("head", head, tuple(map(str, data["head"].values)))
    end = float(data.time[-1])
    with rc_context(RC):
        figure = empty(figsize=(7.2, 5.0))
        loss, gates = figure.subplots(2, sharex=True, height_ratios=(3, 2))
        draw_losses(loss, data)
        for level, atom in enumerate(names):
            for begin, finish, gate in intervals(run.events, head, atom, end):
                colour, hatch = GATES[gate]
                gates.barh(
                    level,
                    finish - begin,
                    left=begin,
                    height=0.62,
                    color=colour,
                    hatch=hatch,
                    edgecolor="#4d4d4d",
                    lw=0.4,
                )
        gates.set_yticks(range(len(names)), list(names.values()))
        gates.set_ylabel(f"samples, head {head}")
        keys = [Patch(facecolor=c, hatch=h, edgecolor="#4d4d4d", lw=0.4, label=g) for g, (c, h) in GATES.items()]
        gates.legend(handles=keys, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3)
        time_axis(gates, data.time.values)
        gates.set_xlabel("time of the flow")
        gates.set_xlim(1.0, end)
        shade(loss, run.stages, label=True)
        return figure


def intervals(events, head, atom, end):
    """(begin, end, gate) of one neuron from its events; a neuron without any is on throughout, as all are at the start."""
    begin, gate = 0.0, "on"
    for event in events:
        if event.head == head and event.atom == atom:
            yield begin, event.time, event.before
            begin, gate = event.time, event.after
    yield begin, end, gate
