"""When something happened in a run: a root on a flow's dense output, like an event; between the saves of a descent."""

import numpy as np

from .between_saves import falls_to, switch_off

TOUCH = 1e-12  # the z of a neuron that slides on its kink is 0 up to rounding


def rises(run, series, between):
    """When series(trajectory) -> (T,) first rises to 0; None if it never does.

    between  the time between saves i and i + 1, where the flow itself is not known: a function of i
    """
    reached = np.flatnonzero(series(run) >= 0)
    if not len(reached):
        return None
    i = int(reached[0])
    if i == 0:
        return float(run.time[0])
    exact = run.crossing(series, i - 1)
    return between(i - 1) if exact is None else exact


def neuron_off(run):
    """When the first neuron switches off; None for neurons that cannot."""
    if not run.gates:
        return None

    def beyond(r):
        return TOUCH - np.nanmin(r.z, axis=1)

    return switch_off(run.time, run.z) if run.at is None else rises(run, beyond, lambda i: float(run.time[i + 1]))


def falls(run, name, level):
    """When a series falls to the level for good; None if it ends above it."""
    above = np.flatnonzero(getattr(run, name) > level)
    exact = None
    if len(above) and above[-1] + 1 < len(run.time):
        exact = run.crossing(lambda r: level - getattr(r, name), int(above[-1]))
    return falls_to(run.time, getattr(run, name), level) if exact is None else exact


def passes(run, level):
    """When the loss first falls to the level; None if it stays above it."""

    def between(i):  # descent may flicker at kinks; the record low is what a level crossing sees
        return falls_to(run.time, np.minimum.accumulate(run.loss), level)

    return rises(run, lambda r: level - r.loss, between)


def highest(run, name, start):
    """The largest value of a series from `start` on."""
    series, after = getattr(run, name), run.time >= start
    top = float(series[after].max()) if after.any() else float(series[-1])
    if not run.exact(start):
        return top
    from scipy.optimize import minimize_scalar

    i = int(np.argmax(np.where(after, series, -np.inf)))
    bounds = max(start, run.time[max(i - 1, 0)]), run.time[min(i + 1, len(series) - 1)]

    def value(t):
        return run.value(lambda r: getattr(r, name), t)

    inside = (
        -minimize_scalar(lambda t: -value(t), bounds=bounds, method="bounded").fun if bounds[0] < bounds[1] else top
    )
    return max(top, value(start), float(inside))
