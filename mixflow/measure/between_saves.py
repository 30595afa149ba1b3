"""When something happened, read from saves alone: interpolated, because nothing is known between them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ..checks import array
from ..errors import SpecError

if TYPE_CHECKING:
    from ..types import Array


def switch_off(time: Array, z: Array) -> float | None:
    """When the first pre-activation falls to 0, between saves; None if none does, the first time if one starts there.

    z bends at the crossing (the neuron's own pull is gone), so it is extrapolated from the smooth side: a parabola
    through the three saves before, kept inside the interval. With two saves before, the line through them comes early
    and the line across the bend late, and their mean is taken; with one there is only the line across.
    """
    time, z = _over_time(time, "z", z)
    z = z.reshape(len(z), -1)
    if (z[0] <= 0).any():
        return float(time[0])
    hit = (z <= 0).any(axis=1)
    if not hit.any():
        return None
    i = int(np.argmax(hit)) - 1  # the last save with every neuron on
    return min(_crossing(time, z[:, j], i) for j in np.flatnonzero(z[i + 1] <= 0))


def _over_time(time, name, series):
    """Times (T,) and what was saved then (T, ...) as arrays, or a SpecError."""
    time, series = array("time", time, "a list of times"), array(name, series)
    if time.ndim != 1 or not len(time) or series.shape[:1] != time.shape or not series.size:
        raise SpecError(
            f"time has shape {time.shape} and {name} {series.shape}: expected an entry for each time, and a time."
        )
    return time, series


def _crossing(time, z, i):
    """The zero of z between saves i and i + 1."""
    left, right = time[i], time[i + 1]
    across = z[i] / (z[i] - z[i + 1])  # in units of the interval
    s, before = (time[max(i - 2, 0) : i + 1] - left) / (right - left), z[max(i - 2, 0) : i + 1]
    share = across
    if len(s) > 1:
        roots = np.roots(np.polyfit(s, before, len(s) - 1))
        inside = [root.real for root in roots if abs(root.imag) < 1e-12 and 0 <= root.real <= 1]
        share = min(inside, default=across)
    if len(s) == 2:
        share = (share + across) / 2
    return float(left + (right - left) * share)


def falls_to(time: Array, series: Array, level: float) -> float | None:
    """When the series falls to the level for good, interpolated in log(series); None if it ends above it."""
    time, series = _over_time(time, "series", series)
    level = array("level", level, "a number")
    if series.ndim != 1 or level.ndim:
        raise SpecError(
            f"series has shape {series.shape} and level {level.shape}: expected a number for each time, and one."
        )
    above = np.flatnonzero(series > level)
    if not len(above):
        return float(time[0])
    i = above[-1]
    if i + 1 >= len(time):
        return None
    if not level > 0:
        raise SpecError(
            f"level = {float(level):g}: expected a number above 0, since the series is followed by its logarithm."
        )
    high, low = math.log(series[i] / level), math.log(max(series[i + 1], 1e-300) / level)
    return float(time[i] + (time[i + 1] - time[i]) * high / (high - low))


def handed_over(time, stops, starts, i):
    """When, between saves i and i + 1, one parameter stopped and the other started.

    The way each went in this interval, divided by the speed it had in the neighbouring one, is the time it was moving;
    the speed is continued geometrically from two neighbours. The two answers are averaged.
    """

    def speed(path, j):
        return np.linalg.norm(path[j + 1] - path[j]) / (time[j + 1] - time[j])

    width, answers = time[i + 1] - time[i], []
    for path, near, far, sign in ((stops, i - 1, i - 2, 1), (starts, i + 1, i + 2, -1)):
        if not 0 <= near < len(time) - 1 or speed(path, near) == 0:
            continue
        expected = speed(path, near)
        if 0 <= far < len(time) - 1 and speed(path, far) > 0:
            expected *= np.clip(speed(path, near) / speed(path, far), 0.5, 2.0)
        share = min(np.linalg.norm(path[i + 1] - path[i]) / (expected * width), 1.0)
        answers.append(share if sign > 0 else 1 - share)
    return float(time[i] + width * (np.mean(answers) if answers else 0.5))
