"""Stage boundaries over seeds: a confidence interval for each."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..checks import array, listed, real
from ..errors import SpecError

if TYPE_CHECKING:
    from ..measure.stages import Stage
    from ..types import Array, Sequence

BOUNDARIES = (("neurons", "end"), ("attention", "start"), ("attention", "end"), ("convergence", "start"))


@dataclass(frozen=True)
class Boundary:
    """Mean of one boundary over the runs that have it, with its confidence interval.

    low and high are NaN with fewer than two such runs; `found` of `total` runs have the boundary.
    """

    mean: float
    low: float
    high: float
    found: int
    total: int


def stage_intervals(stage_lists: Sequence[Sequence[Stage]], level: float = 0.95) -> dict[tuple[str, str], Boundary]:
    """{(stage name, "start" or "end"): Boundary} over the stage lists of several runs (seeds).

    Student's t-interval of the mean, not a bootstrap: one compares 5 to 30 seeds, where resampling so few values covers
    too little, while the boundary times of different initial weights spread about evenly around their mean. Starts and
    ends of the run are no boundaries and are left out, as is the end of a stage that still runs.
    """
    level = real("level", level, above=0, below=1)
    stage_lists = [listed("stages", each, "what detect(run) gives") for each in listed("stage_lists", stage_lists)]
    if any(not hasattr(stage, "complete") for stages in stage_lists for stage in stages):
        raise SpecError("stage_lists holds what is no stage: pass detect(run) of each run.")
    if not stage_lists:
        raise SpecError("no stage lists: pass detect(run) of at least one run.")
    result = {}
    for name, side in BOUNDARIES:
        stages = [stage for stages in stage_lists for stage in stages if stage.name == name]
        x = np.array([getattr(stage, side) for stage in stages if stage.found and (side == "start" or stage.complete)])
        result[name, side] = Boundary(*mean_interval(x, level), len(x), len(stage_lists))
    return result


def mean_interval(values: Sequence[float] | Array, level: float = 0.95) -> tuple[float, float, float]:
    """(mean, low, high) of one number over seeds, by Student's t; NaN where there are too few values to tell."""
    from scipy.stats import t as student

    level = real("level", level, above=0, below=1)
    x = array("values", values, "a list of numbers")
    if x.ndim != 1:
        raise SpecError(f"values has shape {x.shape}: expected a list of numbers, one for each seed.")
    mean, half = float(x.mean()) if len(x) else math.nan, math.nan
    if len(x) > 1:
        half = float(student.ppf((1 + level) / 2, len(x) - 1) * x.std(ddof=1) / math.sqrt(len(x)))
    return mean, mean - half, mean + half
