"""The series the figures show, as small datasets with a meaning on every variable; nothing in them depends on the clock."""

import numpy as np

import mixflow as mf

# The four attention scores of head +, averaged over classes, in the order plot.run draws them.
SCORES = ("A_c_own", "A_c_other", "A_query_own", "A_query_other")
LOSSES = {
    "loss": "population loss",
    "loss_easy": "loss of the easy samples",
    "loss_hard": "loss of the hard samples",
    "accuracy": "share of samples classified rightly",
}


def curves(run):
    """Losses, accuracy, neuron alignment, attention scores and the smallest margin of a run, over time."""
    import xarray

    data = run.dataset
    found = {name: ("time", data[name].values, {"long_name": meaning}) for name, meaning in LOSSES.items()}
    for name, (label, (_, _, values)) in zip(("w_c", "w_v"), mf.plot.neuron_lines(data).items()):
        found[name] = ("time", values, {"long_name": f"head +, mean over classes of {plain(label)}"})
    for name, (label, (_, _, values)) in zip(SCORES, mf.plot.attention_lines(data).items()):
        found[name] = ("time", values, {"long_name": f"head +, mean over classes of {plain(label)}"})
    margin = data.margin.transpose("time", ...).values
    found["smallest_margin"] = ("time", margin.min(axis=1), {"long_name": "smallest y·F over all samples"})
    coords = {"time": ("time", data.time.values, {"long_name": "learning rate × step, or time of the flow"})}
    return xarray.Dataset(found, coords=coords, attrs={"spec": data.attrs["spec"]})


def plain(label):
    """A figure's label without its mathematical markup."""
    return " ".join(label.replace("$", "").replace("\\cdot ", "·").replace("\\", "").split())


def first_below(time, series, level):
    """The first saved time at which the series is below the level; NaN if there is none."""
    hit = np.flatnonzero(np.asarray(series) < level)
    return float(time[hit[0]]) if len(hit) else float("nan")
