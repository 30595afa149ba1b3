"""Which samples make it learn sooner: the influence of each on the learning time, as bars."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..errors import SpecError
from .style import COLOURS, RC

if TYPE_CHECKING:
    from ..types import Figure, xarray


def plot_influence(found: xarray.Dataset) -> Figure:
    """A Figure of `time_by_probabilities` of a dataset that `Run.sensitivity` returned.

    A bar is the derivative of the learning time by the probability of a sample; to the left it learns sooner.
    Raises SpecError for a dataset without it.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    if not hasattr(type(found), "coords") or "time_by_probabilities" not in found:
        raise SpecError(
            'found is no dataset with time_by_probabilities: ask for sensitivity(of=Until(…), to="probabilities").'
        )
    change = found.time_by_probabilities
    order = np.argsort(change.values, kind="stable")
    colours = [COLOURS["hard" if hard else "easy"] for hard in change.hard.values[order]]
    with rc_context(RC):
        figure = Figure(figsize=(6.0, 1.2 + 0.22 * len(order)))
        axes = figure.subplots()
        axes.barh(np.arange(len(order)), change.values[order], color=colours, height=0.7)
        axes.set_yticks(np.arange(len(order)), change.atom.values[order])
        axes.invert_yaxis()
        axes.axvline(0, color="#4d4d4d", lw=0.8)
        axes.set_xlabel(f"change of the learning time (t = {float(found.time):.4g}) by a sample's probability")
        keys = [Patch(color=COLOURS[kind], label=f"{kind} samples") for kind in ("easy", "hard")]
        axes.legend(handles=keys, loc="upper right")
        return figure
