"""Weights that somebody gives by name, as a start."""

import numpy as np

from ..checks import shown
from ..errors import SpecError


def given(blank, weights):
    """All weights of a network: those given, by name, and those of its own start, `blank`, for the others.

    A head's only value vector may come without an axis of its own, and tied values for both heads, as `Run.weights` has them.
    """
    found = dict(blank)
    for name, x in weights.items():
        if isinstance(x, dict | list) and isinstance(blank.get(name), dict | list):
            raise SpecError(f"start has {name}, which is many arrays in this network: give the run itself, start=run.")
        x, shape = _numbers(name, x), np.shape(blank.get(name))
        if name == "w" and x.ndim == len(shape) - 1:
            x = x[:, None]
        if name == "w" and x.ndim == len(shape) and len(x) == 2 * shape[0] and np.array_equal(x[0], -x[1]):
            x = x[:1]
        if name not in blank or x.shape != shape:
            expected = ", ".join(f"{key} {np.shape(value)}" for key, value in blank.items())
            raise SpecError(f"start has {name} of shape {np.shape(weights[name])}: expected {expected}.")
        if not np.isfinite(x).all():
            raise SpecError(
                f"start has {name} with {np.sum(~np.isfinite(x))} entries that are not finite: give finite numbers."
            )
        found[name] = x
    return found


def _numbers(name, x):
    try:
        return np.asarray(x, float)
    except (TypeError, ValueError):
        raise SpecError(f"start has {name} = {shown(x)}: expected an array of numbers.") from None
