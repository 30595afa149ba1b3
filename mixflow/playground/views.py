"""What the page draws, as arrays: cut from datasets that the engine made, nothing computed here that mixflow does not compute."""

import numpy as np

from ..engines.orbits import Orbits
from ..plot.run import attention_lines
from ..tasks.floor import Samples
from ..tasks.symmetry import atom_types

OFF, ON, SLIDING = 0, 1, 2
MOST_EVENTS = 2000


def names(dataset, task):
    """The labels of every axis; where samples are listed, their tokens as [feature, sign]."""
    data = dataset
    atom = "atom" if "atom" in data.dims else "atom_type"
    listed = atom == "atom"
    features = [str(x) for x in data.feature.values] if "feature" in data.coords else None
    population = task.population() if listed else None
    place = {name: i for i, name in enumerate(features or ())}
    return {
        "features": features,
        "atoms": [str(x) for x in data[atom].values],
        "listed": listed,
        "labels": data.label.values.astype(int).tolist(),
        "hard": data.hard.values.astype(bool).tolist(),
        "weights": data.probability.values.tolist(),
        "tokens": [[[place[name], sign] for name, sign in tokens] for tokens in population.atoms] if listed else None,
        "least": float(Samples(population).least_loss @ population.probabilities) if listed else 0.0,
        "lines": [label.replace("$", "") for label in attention_lines(data)],
    }


def series(dataset):
    """Everything that has a value at each saved time."""
    data = dataset
    arrays = {name: data[name].values for name in ("time", "loss", "loss_easy", "loss_hard", "accuracy")}
    arrays["scores"] = np.stack([line for _, _, line in attention_lines(data).values()], axis=-1)
    for name in ("w", "A", "A_sector", "margin", "z"):
        if name in data:
            arrays[name] = data[name].values
    if "w" not in data:  # many classes: one c and one v stand for all, and head − is the reflection v → −v of head +
        w = data.w_sector.values
        arrays["w_kind"] = np.stack([w, w * [1, -1]], axis=1) if w.ndim == 2 else w
    return arrays


def modes(run):
    """Off, on or sliding of every neuron at every saved time (time, head, atom): a flow's events tell which ones slide."""
    data = run.dataset
    mode = np.where(data.z.values > 0, ON, OFF).astype(np.uint8)
    events = run.events
    if not events:
        return mode
    code, time = {"off": OFF, "on": ON, "sliding": SLIDING}, data.time.values
    history = {}
    for event in events:
        history.setdefault((event.head, event.atom), []).append((event.time, code[event.before], code[event.after]))
    for (h, a), name in _event_names(run).items():
        if name in history:
            switches = history[name]
            times = [t for t, _, _ in switches]
            states = np.array([switches[0][1], *(after for _, _, after in switches)], np.uint8)
            mode[:, h, a] = states[np.searchsorted(times, time, side="right")]
    return mode


def _event_names(run):
    """(head index, atom index) -> the (head, atom) under which the flow's events speak of that neuron.

    The symmetric model follows atom types (label y, n positive signs among the others); where head − is the reflection of
    head +, z_−(y, n) = z_+(−y, K − 1 − n), it follows head + alone.
    """
    data = run.dataset
    heads, atom = [str(name) for name in data["head"].values], "atom" if "atom" in data.dims else "atom_type"
    if data.attrs["model"] != "symmetric":
        return {(h, a): (head, str(x)) for h, head in enumerate(heads) for a, x in enumerate(data[atom].values)}
    K = run.task.classes
    type_names, types_y, types_n, _ = atom_types(K)
    place = {(int(y), int(n)): name for name, y, n in zip(type_names, types_y, types_n)}
    if atom == "atom_type":
        y, n = types_y, types_n
    else:
        population = run.task.population()
        y = population.labels.astype(int)
        n = [sum(s > 0 for name, s in atom if name[0] == "v") - (label > 0) for atom, label in zip(population.atoms, y)]
    if not Orbits.of(run.transformer).mirror:
        return {(h, a): (head, place[int(y[a]), int(n[a])]) for h, head in enumerate(heads) for a in range(len(y))}
    return {
        (h, a): (heads[0], place[(int(y[a]), int(n[a])) if h % 2 == 0 else (-int(y[a]), K - 1 - int(n[a]))])
        for h in range(len(heads))
        for a in range(len(y))
    }


def _events(run):
    """Each switch as [time, before, after, rows], rows = head·n + atom of the neurons that switch together."""
    events = run.events[:MOST_EVENTS]
    if not events:
        return []
    n, rows = len(run.dataset.label), {}
    for (h, a), name in _event_names(run).items():
        rows.setdefault(name, []).append(h * n + a)
    return [[e.time, e.before, e.after, rows.get((e.head, e.atom), [])] for e in events]


def facts(run):
    """What is known once a run is over, JSON-ready."""
    return {
        "stages": [stage.to_dict() for stage in run.stages] if run.dataset.sizes["time"] > 1 else [],
        "events": _events(run),
        "switches": run.switches,
        "certificate": run.certificate,
        "model": run.dataset.attrs["model"],
        "wall_time": run.dataset.attrs["wall_time"],
    }
