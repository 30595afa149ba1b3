"""A run to look at and to play, inside a notebook's cell or as one file: the playground's page with the run in it."""

from __future__ import annotations

import base64
import html
from typing import TYPE_CHECKING

import numpy as np

from ..checks import listed
from ..checks import shown as said
from ..errors import SpecError
from ..sealed import write_whole
from . import views
from .frames import encode
from .page import exported

if TYPE_CHECKING:
    from ..runs.run import Run
    from ..types import Sequence

SAVES = 600  # kept of a run: more than a cell has columns
SHOWN = ("network", "samples", "loss", "scores")
HEIGHT = 1150  # of the frame in a cell: the network of three tokens, its samples and two charts below each other


class View:
    """What `view` gives: a notebook shows it by itself, `save` writes it down. No server, no network access."""

    def __init__(self, page, run):
        self._page, self._run = page, run

    def __repr__(self):
        return f"<mixflow view of {self._run!r}: shown in a notebook; view.save('run.html') writes it to a file>"

    def _repr_html_(self):
        # A frame of its own: styles and scripts of the page must not meet the notebook's.
        return (
            f'<iframe title="mixflow run" sandbox="allow-scripts" style="width:100%;height:{HEIGHT}px;border:0" '
            f'srcdoc="{html.escape(self._page)}"></iframe>'
        )

    def save(self, path):
        """Write the page to one HTML file, whole or not at all; returns the path. Raises StoreError if it cannot."""
        return write_whole(path, self._page.encode())


def view(run: Run, shown: Sequence[str] = SHOWN) -> View:
    """A run to play: the network on one sample, moved by a time cursor, beside its samples and charts.

    run    a Run of the paper's network (two heads, labels + and −), at any width, from any start and by any method
    shown  any of "network", "samples", "loss", "scores"

    Returns a View. Raises SpecError for another network, for labels that are no signs, and for an unknown part.

    >>> import mixflow as mf
    >>> mf.view(mf.train(mf.Mixture(), mf.Transformer(), mf.GradientDescent(steps=20)))  # doctest: +ELLIPSIS
    <mixflow view of <mixflow run: mixture, width inf, ...
    """
    shown = listed("shown", shown, f"a list of {', '.join(SHOWN)}")
    if unknown := [part for part in shown if not isinstance(part, str) or part not in SHOWN]:
        raise SpecError(f"shown has {said(unknown[0])}: expected any of {', '.join(SHOWN)}.")
    if not hasattr(run, "transformer"):
        raise SpecError(f"run = {said(run)}: expected a Run, as mf.train and mf.load give.")
    why = _objection(run)
    if why is not None:
        raise SpecError(f"{why}, but the page draws the paper's network with labels + and −; use run.plot().")
    data = run.dataset.isel(time=_kept(run.dataset.sizes["time"]))
    thin = type(run)(data)
    arrays = views.series(data)
    arrays = {name: x if x.ndim == 1 else x.astype(np.float32) for name, x in arrays.items()}  # curves keep every digit
    if run.events:
        arrays["all_modes"] = views.modes(thin)
    header = {"names": views.names(data, run.task), "until": float(data.time[-1]), "warning": None, "seconds": 0.0}
    frame = encode("done", {**header, **views.facts(run), "replace": True}, arrays)
    settings = {"figure": list(shown), "state": {"bias": run.transformer.bias}}
    return View(exported(given=base64.b64encode(frame).decode(), **settings), run)


def _objection(run):
    if changed := [name for name in run.transformer.altered if name != "value_scale"]:  # which moves the start alone
        return f"the run trained another network ({', '.join(changed)})"
    population = None if run.task.unlisted else run.task.population()
    if population is not None and population.loss in ("squared", "softmax"):
        return f"the task has loss = {population.loss!r}"
    if hasattr(run.task, "tokens"):
        return "every token of the task is a vector of its own"
    return None


def _kept(saves):
    """Indices of at most SAVES saves: half of them even, half early, for a logarithmic axis."""
    even = np.linspace(0, saves - 1, SAVES // 2)
    early = np.geomspace(1, saves, SAVES // 2) - 1
    return np.unique(np.concatenate([even, early]).round().astype(int))
