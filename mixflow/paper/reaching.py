"""When a series reaches a level: the one level crossing of the study."""

import numpy as np


def reaches(time, series, level):
    """When a series first crosses the level: on the cubic through the four saves around it; None if it does not.

    The cubic is that of its logarithm, where it has one. So save grids agree, to 1e-5 for a loss saved once in a unit of time.
    """
    from scipy.interpolate import BarycentricInterpolator
    from scipy.optimize import brentq

    series = np.asarray(series, float)
    beyond = series >= level if series[0] < level else series <= level
    if not beyond.any():
        return None
    i = int(np.argmax(beyond))
    if i == 0:
        return float(time[0])
    near = [j for j in range(max(i - 2, 0), min(i + 2, len(series))) if np.isfinite(series[j])]
    t, y = np.asarray(time, float)[near], series[near]
    far = np.log(y / level) if level > 0 and (y > 0).all() else y - level
    return float(brentq(BarycentricInterpolator(t, far), time[i - 1], time[i]))
