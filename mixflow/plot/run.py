"""One run at a glance: losses, neuron alignment, attention scores, with the stages shaded."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from ..checks import one_of
from ..errors import SpecError
from .style import COLOURS, RC, recorded, shade, time_axis
from .style import figure as empty

if TYPE_CHECKING:
    from ..types import Axes, Figure, Lines, Recorded, xarray


def plot_run(run: Recorded, *, scale: str = "log") -> Figure:
    """A Figure of three panels over a shared time axis: loss, w·c and w·v, attention scores (head +).

    run    a Run
    scale  "log" shows the early stages, "linear" the proportions

    Returns a matplotlib Figure; `.savefig(path)` writes it. Raises SpecError for another scale.

    >>> import mixflow as mf
    >>> run = mf.train(mf.Mixture(), mf.Transformer(), mf.GradientDescent(steps=300))
    >>> [axes.get_ylabel() for axes in mf.plot_run(run).axes]
    ['population loss', 'neuron alignment, head +', 'attention score, head +']
    """
    one_of("scale", scale, ("log", "linear"))
    recorded(run)
    from matplotlib import rc_context

    if "w" in run.dataset and "feature" not in run.dataset.coords:
        raise SpecError(
            "the run's w lies along no named features, so it cannot be shown by them: plot run.dataset.w yourself."
        )
    with rc_context(RC):
        figure = empty(figsize=(7.2, 7.0))
        loss, neurons, attention = figure.subplots(3, sharex=True)
        draw_losses(loss, run.dataset)
        standard = "pair" in run.dataset.dims  # a standard transformer has no head +
        names = (
            ("read-out of a feature", "mean attention")
            if standard
            else ("neuron alignment, head +", "attention score, head +")
        )
        draw_lines(neurons, run.dataset, neuron_lines(run.dataset), names[0])
        draw_lines(attention, run.dataset, attention_lines(run.dataset), names[1])
        time_axis(attention, run.dataset.time.values, scale)
        for panel in (loss, neurons, attention):
            shade(panel, run.stages, label=panel is loss)
        return figure


def draw_losses(axes: Axes, data: xarray.Dataset, legend: bool = True) -> None:
    """Population loss of all, easy and hard samples."""
    for name, key, dash in (("all", "loss", "-"), ("easy", "loss_easy", "--"), ("hard", "loss_hard", "-.")):
        if not np.all(np.isnan(data[key])):
            axes.plot(data.time, data[key], dash, color=COLOURS[name], label=f"{name} samples")
    axes.set_yscale("log")
    axes.set_ylabel("population loss")
    if legend:
        axes.legend(loc="lower left")


def draw_lines(axes: Axes, data: xarray.Dataset, lines: Lines, ylabel: str, legend: str | None = "upper left") -> None:
    """Lines as `neuron_lines` and `attention_lines` give them: label -> (colour, dash, series); `legend` is its place or None."""
    for label, (colour, dash, value) in lines.items():
        axes.plot(data.time, value, dash, color=COLOURS[colour], label=label)
    axes.axhline(0, color="#bbbbbb", lw=0.6, zorder=0)
    axes.set_ylabel(ylabel)
    if legend:
        axes.legend(loc=legend)


def neuron_lines(data: xarray.Dataset) -> Lines:
    """w·c and w·v of head +, averaged over the classes: label -> (colour, dash, series); other tasks: each feature."""
    if not _of_pairs(data):
        w = _plus(data.w)
        return _largest({f"$w\\cdot$ {name}": w.sel(feature=name).values for name in data.feature.values})
    if "w" in data:
        w = _plus(data.w)
        kind = np.array([name[0] for name in data.feature.values])
        mean = {k: w.isel(feature=kind == k).mean("feature") for k in ("c", "v") if np.any(kind == k)}
    else:
        mean = {k: _plus(data.w_sector).sel(kind=k) for k in ("c", "v")}
    labels = {"c": ("$w\\cdot c_k$  identifiers", "c", "--"), "v": ("$w\\cdot v_k$  signals", "v", "-")}
    return {labels[k][0]: (labels[k][1], labels[k][2], series.values) for k, series in mean.items()}


def attention_lines(data: xarray.Dataset) -> Lines:
    """The identifier as key and as query, own signal and others, averaged over the classes; other tasks: the largest scores.

    A standard transformer's scores are between tokens of its atoms, so its attention itself is shown, averaged over layers
    and heads.
    """
    if "pair" in data.dims:
        mean = data.attention.mean(("layer", "head"))
        looks = (("own → identifier", "own", "-"), ("other → identifier", "other", "--"))
        looks += (("identifier → own", "query", "-."), ("identifier → other", "rest", ":"))
        return {pair: (colour, dash, mean.sel(pair=pair).values) for pair, colour, dash in looks}
    if not _of_pairs(data):
        A = _plus(data.A)
        names = data.feature.values
        return _largest({f"$A$[{k}, {q}]": A.sel(key=k, query=q).values for k in names for q in names})
    own, other = _cross_scores(data)
    return {
        "$A[c_k, v_k]$  identifier as key, own signal": ("own", "-", own["cv"]),
        "$A[c_k, v_j]$  identifier as key, other signals": ("other", "--", other["cv"]),
        "$A[v_k, c_k]$  identifier as query, own signal": ("query", "-.", own["vc"]),
        "$A[v_j, c_k]$  identifier as query, other signals": ("rest", ":", other["vc"]),
    }


def _plus(array):
    """Head +, or the first where heads stand for classes; where a network has several + heads, or values in each, their mean."""
    if "class" in array.dims:  # of a standard transformer, which has one read-out for each
        return array.isel({"class": 0})
    if "head" not in array.dims:
        return array
    plus = [str(name).startswith("+") for name in array["head"].values]
    picked = array.isel(head=plus if any(plus) else [0])
    return picked.mean([dim for dim in ("head", "value") if dim in picked.dims])


def _of_pairs(data):
    """Whether every identifier c_k has one signal v_k, so that "own signal" means something; distractors d_j do not matter."""
    if "w" not in data:
        return True
    found = [re.fullmatch(r"([cvd])(\w+)", str(name)) for name in data.feature.values]
    if not all(found):
        return False
    c, v = ([match[2] for match in found if match[1] == kind] for kind in "cv")
    return len(c) > 0 and c == v


def _largest(series, most=4):
    """The series that moved furthest, each with a look of its own: label -> (colour, dash, series)."""
    furthest = sorted(series, key=lambda label: -np.abs(series[label] - series[label][0]).max())[:most]
    looks = zip(("own", "other", "query", "v"), ("-", "--", "-.", ":"))
    return {label: (*look, series[label]) for label, look in zip(furthest, looks)}


def _cross_scores(data):
    """Mean A[c_k, v_k], A[c_k, v_j] and their transposes of head + along time, as {"cv": …, "vc": …} twice."""
    if "A" not in data:
        A, K = _plus(data.A_sector), data.sizes["atom_type"] // 2
        pick = {"cv": ("c", "v"), "vc": ("v", "c")}
        found = {x: A.sel(key_kind=k, query_kind=q) for x, (k, q) in pick.items()}
        other = {x: (s.sel(sector="common") - s.sel(sector="contrast")).values / K for x, s in found.items()}
        return {x: found[x].sel(sector="contrast").values + other[x] for x in found}, other
    names = [str(name) for name in data.feature.values]
    c, v = ([i for i, name in enumerate(names) if name[0] == k] for k in "cv")
    A = _plus(data.A).values
    blocks = {"cv": A[:, c][:, :, v], "vc": A[:, v][:, :, c]}
    K = len(c)
    own = {x: np.einsum("tkk->t", block) / K for x, block in blocks.items()}
    other = {x: (block.sum((1, 2)) - K * own[x]) / max(K * (K - 1), 1) for x, block in blocks.items()}
    return own, other
