"""A proof drawn: the enclosed loss and margins above, the radius of the tube and its residual below."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..checks import shown
from ..errors import SpecError
from .style import COLOURS, RC
from .style import figure as empty

if TYPE_CHECKING:
    from typing import Any

    from ..types import Figure


def plot_tube(proof: Any) -> Figure:
    """A Figure of a `Proof`: curves are enclosures, drawn as bands from their lower to their upper end."""
    from matplotlib import rc_context

    if isinstance(proof, type) or not all(hasattr(proof, each) for each in ("end", "loss", "margins", "tube")):
        raise SpecError(f"proof = {shown(proof)}: expected a Proof of one tube, as mf.prove gives.")
    times = np.linspace(0, proof.end, 200)
    loss = np.array([proof.loss(t) for t in times])
    margins = np.array([proof.margins(t) for t in times])  # (time, low or high, sample)
    tube = proof.tube
    with rc_context(RC):
        figure = empty(figsize=(7.2, 5.0))
        above, below = figure.subplots(2, sharex=True, height_ratios=(3, 2))
        above.fill_between(times, *loss.T, color=COLOURS["all"], lw=1.6, label="loss")
        for n in range(margins.shape[-1]):
            colour = COLOURS["hard"] if n < margins.shape[-1] / 2 else COLOURS["easy"]
            name = f"margin, {n} other signs agree"
            above.fill_between(times, margins[:, 0, n], margins[:, 1, n], color=colour, lw=1.2, label=name)
        for name, ends in (("first neuron silent", proof.switch_off), ("loss at its level", proof.time)):
            if ends:
                above.axvline(ends[1], color=COLOURS["rest"], lw=0.8, ls="--")
                above.text(
                    ends[1],
                    1,
                    name,
                    transform=above.get_xaxis_transform(),
                    rotation=90,
                    ha="right",
                    va="top",
                    fontsize=8,
                )
        above.legend(loc="center left")
        above.set_ylabel("proven enclosures")
        below.semilogy(tube.times[:, 1], tube.total, color=COLOURS["own"], label="radius of the tube")
        below.semilogy(tube.times.mean(1), tube.delta, color=COLOURS["query"], lw=1.0, label="residual δ")
        below.set_xlabel("time of the flow")
        below.set_xlim(0, proof.end)
        below.legend(loc="center right")
        return figure
