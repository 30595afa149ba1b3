"""Attention scores as tables of coloured cells, key by query, the numbers written in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..checks import array, listed, word
from ..errors import SpecError
from .style import MOST, RC, titled
from .style import figure as empty

if TYPE_CHECKING:
    from ..types import Array, Figure, Sequence


def plot_scores(matrices: dict[str, Array], names: Sequence[str]) -> Figure:
    """A Figure with one table for each of `matrices` (title -> (F, F) scores), features named by `names`."""
    from matplotlib import colormaps, rc_context

    matrices = {
        title: array(f"matrices[{title!r:.40}]", A) for title, A in titled("matrices", matrices, "scores").items()
    }
    names = [word("names", name) for name in listed("names", names, "names of the features", most=MOST)]
    for title, A in matrices.items():
        if A.shape != (len(names), len(names)) or not A.size:
            raise SpecError(
                f"matrices[{title!r:.40}] has shape {A.shape}: expected {(len(names),) * 2}, a row for each name."
            )
    most = max(float(np.abs(A).max()) for A in matrices.values())
    shades = colormaps["PuOr"]  # orange negative, purple positive: distinct under the common colour-vision deficiencies
    with rc_context(RC):
        figure = empty(figsize=(3.6 * len(matrices), 3.5))
        panels = figure.subplots(1, len(matrices), squeeze=False)[0]
        for panel, (title, A) in zip(panels, matrices.items()):
            panel.pcolormesh(A, cmap=shades, vmin=-1.25 * most, vmax=1.25 * most, edgecolors="#ffffff", lw=1)
            for (i, j), score in np.ndenumerate(A):
                ink = (
                    "#fffffe" if abs(score) > 0.62 * most else "#1a1a1a"
                )  # not pure black or white: cells keep their colour
                panel.text(j + 0.5, i + 0.5, f"{score:.1f}".replace("-", "−"), ha="center", va="center", color=ink)
            ticks = np.arange(len(names)) + 0.5
            panel.set_xticks(ticks, names)
            panel.set_yticks(ticks, names)
            panel.invert_yaxis()
            panel.set(title=title, xlabel="query", aspect="equal")
            panel.tick_params(length=0)
        panels[0].set_ylabel("key")
        return figure
