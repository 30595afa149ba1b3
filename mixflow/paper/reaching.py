"""When a series reaches a level: the one level crossing of the study."""

import math

import numpy as np


def reaches(time, series, level):
    """When a series first crosses the level, between saves, straight in its logarithm (or in itself); None if it does not."""
    series = np.asarray(series, float)
    beyond = series >= level if series[0] < level else series <= level
    if not beyond.any():
        return None
    i = int(np.argmax(beyond))
    if i == 0:
        return float(time[0])
    low, high = series[i - 1], series[i]
    if low > 0 and high > 0 and level > 0:
        low, high, level = math.log(low), math.log(high), math.log(level)
    return float(time[i - 1] + (time[i] - time[i - 1]) * (level - low) / (high - low))
