"""The words of annotations that belong to no room: arrays and what is made of them, paths, progress, figures.

Type checkers and editors read it; a program never imports it, so it costs no start-up.
"""

from __future__ import annotations

import os
from collections.abc import Callable as Callable
from collections.abc import Sequence as Sequence
from pathlib import Path as Path
from typing import Any, Protocol, TypeAlias

import numpy as np
import xarray as xarray
from matplotlib.axes import Axes as Axes
from matplotlib.figure import Figure as Figure

Array: TypeAlias = np.ndarray  # float64 where the dynamics is concerned; docstrings give the shape
Weights: TypeAlias = dict[str, Array]  # every trained array by name
State: TypeAlias = dict[str, Array]  # what a run carries from step to step
History: TypeAlias = dict[str, Array]  # what its saves record, time first
Variables: TypeAlias = dict[str, tuple[Sequence[str] | str, Array]]  # {variable: (dimensions, values)}

Shown: TypeAlias = bool | Callable[[float, float], object]  # progress: a bar, silence, or a function of (done, total)
PathLike: TypeAlias = str | os.PathLike[str]
Lines: TypeAlias = dict[str, tuple[str, Any, Array]]  # of a chart: label -> (colour, dash, series)


class Recorded(Protocol):
    """What a figure reads of a run."""

    @property
    def dataset(self) -> xarray.Dataset: ...

    @property
    def stages(self) -> list[Any]: ...

    @property
    def events(self) -> list[Any]: ...
