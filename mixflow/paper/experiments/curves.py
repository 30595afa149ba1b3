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
ORDER = ["neurons", "attention", "convergence"]


def curves(run):
    """Losses, accuracy, neuron alignment, attention scores and the smallest margin of a run, over time."""
    import xarray

    data = run.dataset
    found = {name: ("time", data[name].values, {"long_name": meaning}) for name, meaning in LOSSES.items()}
    for names, lines in (
        (("w_c", "w_v"), mf.plot.neuron_lines(data)),
        (SCORES, mf.plot.attention_lines(data)),
    ):
        for name, (label, (_, _, values)) in zip(names, lines.items()):
            found[name] = ("time", values, {"long_name": f"head +, mean over classes of {without_markup(label)}"})
    margin = data.margin.transpose("time", ...).values
    found["smallest_margin"] = ("time", margin.min(axis=1), {"long_name": "smallest y·F over all samples"})
    coords = {"time": ("time", data.time.values, {"long_name": "learning rate × step, or time of the flow"})}
    return xarray.Dataset(found, coords=coords, attrs={"spec": data.attrs["spec"]})


def without_markup(label):
    """A figure's label as plain text."""
    return " ".join(label.replace("$", "").replace("\\cdot ", "·").replace("\\", "").split())


def in_order(stages):
    """The names of the stages that exist, by their start."""
    found = [stage for stage in stages if stage.found]
    return ", ".join(stage.name for stage in sorted(found, key=lambda stage: stage.start))


def right(accuracy):
    """How many of the accuracies (runs,) are 1; the weights of the samples add up to 1 only within rounding."""
    return int((np.asarray(accuracy) > 1 - 1e-9).sum())
