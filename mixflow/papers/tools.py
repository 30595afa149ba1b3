"""What several papers use: power laws, runs joined, a dataset for a figure, a row of axes in the look of the laboratory."""

import contextlib

import numpy as np

import mixflow as mf


def power(t, y):
    """The p of |y| ∝ t^p by least squares, equal stretches of ln t counted alike; t (k,) positive, y (k,) not zero.

    >>> import numpy as np
    >>> t = np.arange(3, 31)
    >>> round(power(t, -5 * t**2), 9)
    2.0
    """
    return growth(t, np.log(np.abs(y)))


def growth(t, y):
    """How much y grows when ln t grows by 1, by the same least squares; t (k,) positive, y (k,)."""
    return float(np.polyfit(np.log(t), y, 1, w=np.asarray(t, float) ** -0.5)[0])


def joined(runs, *names):
    """The steps (k,), and the named variables with time first, of runs each of which began where the one before ended."""
    steps, first = [], 0
    for run in runs:
        steps.append(first + run.dataset.step.values[bool(first) :])
        first = steps[-1][-1]
    parts = ([run.dataset[name].values[i > 0 :] for i, run in enumerate(runs)] for name in names)
    return [np.concatenate(each) for each in (steps, *parts)]


def labelled(dim, places, values):
    """A dataset along one dimension from {variable: (what it is, numbers)}."""
    import xarray

    variables = {name: (dim, np.asarray(x), {"long_name": says}) for name, (says, x) in values.items()}
    return xarray.Dataset(variables, coords={dim: np.asarray(places)})


@contextlib.contextmanager
def panels(count):
    """(figure, axes): a matplotlib Figure of `count` axes side by side, to draw on inside the `with`; each gets its legend."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(mf.plot.RC):
        figure = Figure(figsize=(3.9 * count, 3.3))
        row = figure.subplots(1, count, squeeze=False)[0]
        yield figure, row
        for axes in row:
            axes.legend()
