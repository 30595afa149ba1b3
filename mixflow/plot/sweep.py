"""A sweep at a glance: curves with bands, heat maps, threshold curves, from the table of its runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..checks import nearest, one_of, real, shown
from ..errors import SpecError
from .style import COLOURS, RC
from .style import figure as empty

if TYPE_CHECKING:
    from ..types import Figure, xarray

BAND = (0.1, 0.9)  # quantiles of the shaded band; the line is the median
CYCLE = ("easy", "hard", "c", "v", "all", "rest")
DASHES = ("-", "--", "-.", ":")


def plot_sweep(
    data: xarray.Dataset,
    kind: str = "curves",
    *,
    x: str | None = None,
    y: str = "loss",
    by: str | None = None,
    level: float | None = None,
) -> Figure:
    """A Figure of the runs in `data` (dimension `run`).

    kind   "curves": median of y against x with a band over all other fields, one line for each value of `by`
           "heat": median of y over the plane of x and `by`
           "threshold": share of the runs whose y is below `level` (default: half way, in ratio), against x
    """
    from matplotlib import rc_context

    if not all(hasattr(type(data), each) for each in ("coords", "data_vars", "sizes")):
        raise SpecError(f"data = {shown(data)}: expected the dataset of a sweep, as mf.open_sweep gives.")
    one_of("kind", kind, tuple(PANELS))
    level = None if level is None else real("level", level)
    axes_found = swept(data)
    x = _name(data, next(iter(axes_found), None) if x is None else x, axes_found, "x")
    y = _name(data, y, [name for name in data.data_vars if data[name].dims == ("run",)], "y")
    if by is None and kind == "heat":
        by = next((name for name in axes_found if name != x), None)
    by = None if by is None and kind != "heat" else _name(data, by, axes_found, "by")
    with rc_context(RC):
        figure = empty(figsize=(6.0, 4.0))
        axes = figure.subplots()
        PANELS[kind](figure, axes, data, x, y, by, level)
        axes.set_xlabel(x)
        return figure


def swept(data):
    """Names of the numeric fields that vary over the runs, in order; axes of seeds last."""
    names = [n for n in data.coords if data[n].dims == ("run",) and n != "run" and data[n].dtype.kind in "fiu"]
    varying = [name for name in names if len(np.unique(data[name].values)) > 1]
    return sorted(varying, key=lambda name: name.endswith("seed"))


def _name(data, name, choices, what):
    if not isinstance(name, str) or name not in choices:
        known = ", ".join(map(str, choices)) or "none varies in this sweep"
        raise SpecError(f"{what} = {shown(name)}: expected one of {known}{nearest(name, choices)}.")
    return name


def _curves(figure, axes, data, x, y, by, level):
    lines = [None] if by is None else np.unique(data[by].values)
    for i, value in enumerate(lines):
        rows = np.full(data.sizes["run"], True) if value is None else data[by].values == value
        at, values = data[x].values[rows], data[y].values[rows].astype(float)
        place = np.unique(at)
        samples = [values[(at == p) & np.isfinite(values)] for p in place]
        kept = np.array([len(s) > 0 for s in samples])
        quantiles = np.array([np.quantile(s, [BAND[0], 0.5, BAND[1]]) for s in samples if len(s)]).reshape(-1, 3)
        colour = COLOURS[CYCLE[i % len(CYCLE)]]
        label = None if value is None else f"{by} = {value:g}"
        axes.plot(place[kept], quantiles[:, 1], DASHES[i % 4], marker="o", ms=3, color=colour, label=label)
        axes.fill_between(place[kept], quantiles[:, 0], quantiles[:, 2], color=colour, alpha=0.2, lw=0)
    _scales(axes, data, x, y)
    axes.set_ylabel(y)
    axes.set_title(f"median, band {BAND[0]:.0%} to {BAND[1]:.0%} of the runs")
    if by is not None:
        axes.legend()


def _heat(figure, axes, data, x, y, by, level):
    columns, rows = np.unique(data[x].values), np.unique(data[by].values)
    values = data[y].values.astype(float)
    cells = np.full((len(rows), len(columns)), np.nan)
    i, j = np.searchsorted(rows, data[by].values), np.searchsorted(columns, data[x].values)
    for cell in np.unique(i * len(columns) + j):
        inside = values[(i * len(columns) + j == cell) & np.isfinite(values)]
        cells[divmod(cell, len(columns))] = np.median(inside) if len(inside) else np.nan
    positive = np.isfinite(cells).any() and np.nanmin(cells) > 0
    wide = positive and np.nanmax(cells) > 30 * np.nanmin(cells)
    norm = "log" if wide else "linear"
    image = axes.imshow(cells, aspect="auto", origin="lower", cmap="cividis", norm=norm, interpolation="nearest")
    for ticks, labels, values in (
        (axes.set_xticks, axes.set_xticklabels, columns),
        (axes.set_yticks, axes.set_yticklabels, rows),
    ):
        shown = np.unique(np.linspace(0, len(values) - 1, 8).astype(int))
        ticks(shown)
        labels([f"{values[k]:.3g}" for k in shown])
    axes.set_ylabel(by)
    figure.colorbar(image, ax=axes, label=f"median {y}")


def _threshold(figure, axes, data, x, y, by, level):
    values = data[y].values.astype(float)
    good = values[np.isfinite(values)]
    if level is None:
        if not len(good):
            raise SpecError(f"y = {y!r} is NaN in every run: choose another variable.")
        level = float(np.sqrt(good.min() * good.max())) if good.min() > 0 else float((good.min() + good.max()) / 2)
    lines = [None] if by is None else np.unique(data[by].values)
    for i, value in enumerate(lines):
        rows = np.full(len(values), True) if value is None else data[by].values == value
        at = data[x].values[rows]
        place = np.unique(at)
        share = [np.mean(values[rows][at == p] < level) for p in place]  # NaN compares false: not reached
        label = None if value is None else f"{by} = {value:g}"
        colour = COLOURS[CYCLE[i % len(CYCLE)]]
        axes.plot(place, share, DASHES[i % 4], marker="o", ms=3, color=colour, label=label)
    _scales(axes, data, x, None)
    axes.set_ylim(-0.03, 1.03)
    axes.set_ylabel(f"share of runs with {y} < {level:.3g}")
    if by is not None:
        axes.legend()


def _scales(axes, data, x, y):
    """Logarithmic where the values span more than a factor of 30."""
    for name, scale in ((x, axes.set_xscale), (y, axes.set_yscale)):
        if name is None:
            continue
        values = data[name].values.astype(float)
        values = values[np.isfinite(values)]
        if len(values) and values.min() > 0 and values.max() > 30 * values.min():
            scale("log")


PANELS = {"curves": _curves, "heat": _heat, "threshold": _threshold}
