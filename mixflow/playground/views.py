"""What the page draws, as arrays: cut from datasets that the engine made, nothing computed here that mixflow does not compute."""

import numpy as np

from ..engines.forward import attention
from ..measure.floor import Samples
from ..measure.plane import separating_plane
from ..measure.separability import deciding
from ..plot.run import attention_lines
from ..tasks import FiniteTask
from ..tasks.symmetry import atom_types

SINGLE = np.float32  # what is only drawn; the numbers in the read-out stay in double precision
OFF, ON, SLIDING = 0, 1, 2
MOST_POINTS = 128  # hard samples drawn in the plane
MOST_EVENTS = 2000


def names(dataset):
    """The labels of every axis."""
    data = dataset
    atom = "atom" if "atom" in data.dims else "atom_type"
    return {
        "features": [str(x) for x in data.feature.values] if "feature" in data.coords else None,
        "atoms": [str(x) for x in data[atom].values],
        "listed": atom == "atom",
        "labels": data.label.values.astype(int).tolist(),
        "hard": data.hard.values.astype(bool).tolist(),
        "lines": [label.replace("$", "") for label in attention_lines(data)],
    }


def series(dataset):
    """Everything that has a value at each saved time."""
    data = dataset
    arrays = {name: data[name].values for name in ("time", "loss", "loss_easy", "loss_hard", "accuracy")}
    arrays["scores"] = np.stack([line for _, _, line in attention_lines(data).values()], axis=-1).astype(SINGLE)
    for name in ("w", "A", "A_sector", "margin"):
        if name in data:
            arrays[name] = data[name].values.astype(SINGLE)
    if "w" not in data:  # many classes: one c and one v stand for all, and head − is the reflection v → −v of head +
        w = data.w_sector.values
        arrays["w_kind"] = np.stack([w, w * [1, -1]], axis=1).astype(SINGLE)
    arrays["mode"] = np.where(data.z.values > 0, ON, OFF).astype(np.uint8)
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

    The symmetric model follows head + by atom type (label y, n positive signs among the others); head − is its
    reflection: z_−(y, n) = z_+(−y, K − 1 − n).
    """
    data = run.dataset
    heads, atom = ("+", "-"), "atom" if "atom" in data.dims else "atom_type"
    if data.attrs["model"] != "symmetric":
        return {(h, a): (heads[h], str(x)) for h in (0, 1) for a, x in enumerate(data[atom].values)}
    K = run.task.classes
    type_names, types_y, types_n, _ = atom_types(K)
    place = {(int(y), int(n)): name for name, y, n in zip(type_names, types_y, types_n)}
    if atom == "atom_type":
        y, n = types_y, types_n
    else:
        population = run.task.population()
        y = population.labels.astype(int)
        n = [sum(s > 0 for name, s in atom if name[0] == "v") - (label > 0) for atom, label in zip(population.atoms, y)]
    return {
        (h, a): ("+", place[(int(y[a]), int(n[a])) if h == 0 else (-int(y[a]), K - 1 - int(n[a]))])
        for h in (0, 1)
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


def sample(run, atom):
    """Attention of every query token to every key token of one sample (time, head, key, query), with the tokens' names.

    Equal tokens are told together, "+d1 ×2": a query gives each of them the same.
    """
    population = run.task.population()
    label, members = population.labels[atom], [population.atoms[atom]]
    alone = FiniteTask(
        features=population.features, atoms=members, labels=[label], gram=population.gram, loss=population.loss
    )
    P = attention(alone, run.dataset.A.values)[:, :, 0]  # (time, head, key, query) between token types
    kinds = zip(alone.token_feature, alone.token_coefficient, alone.count[0])
    bare = population.is_identifier
    written = [_token(alone.features[f], sign, int(number), bare[f]) for f, sign, number in kinds]
    return {"tokens": written, "label": int(label), "atom": atom}, {"attention": P.astype(SINGLE)}


def _token(name, sign, number, bare):
    signed = name if bare else f"{'+' if sign > 0 else '−'}{name}"
    return f"{signed} ×{number}" if number > 1 else signed


def geometry(run):
    """Hard samples in the separating plane (time, sample, 2)."""
    population = _likeliest(run.task.population())
    A = run.dataset.A.values
    asked = deciding(population)
    points, labels, margin = separating_plane(population, A, samples=asked)
    if asked == "all":  # the hard ones are drawn
        points, labels = points[:, population.hard], labels[population.hard]
    drawn = np.unique(np.linspace(0, len(labels) - 1, min(MOST_POINTS, len(labels))).astype(int))
    names = np.array(population.names)[population.hard][drawn].tolist()
    header = {"labels": labels[drawn].astype(int).tolist(), "atoms": names, "margin": margin}
    return header, {"points": points[:, drawn].astype(SINGLE)}


def _likeliest(task):
    """The task without samples that stand there again with a less likely label: no plane separates a sample from itself."""
    kept = np.flatnonzero(Samples(task).likeliest)
    if len(kept) == len(task.atoms):
        return task
    p = task.probabilities[kept]
    return FiniteTask(
        features=task.features, atoms=[task.atoms[i] for i in kept], labels=task.labels[kept], probabilities=p / p.sum(),
        gram=task.gram, hard=task.hard[kept], names=[task.names[i] for i in kept], loss=task.loss,
    )  # fmt: skip


def table(dataset):
    """The run as CSV text: one row for each saved time, one column for each number."""
    columns = {"time": dataset.time.values}
    if "step" in dataset.coords:
        columns["step"] = dataset.step.values
    for name, variable in dataset.data_vars.items():
        if variable.dims[:1] != ("time",):
            continue
        labels = [""]
        for dim in variable.dims[1:]:
            values = dataset[dim].values if dim in dataset.coords else range(dataset.sizes[dim])
            labels = [f"{label}{',' if label else ''}{value}" for label in labels for value in values]
        flat = variable.values.reshape(len(variable), -1)
        for label, column in zip(labels, flat.T):
            columns[f"{name}[{label}]" if label else name] = column
    quote = lambda text: f'"{text}"' if "," in text or '"' in text else text  # noqa: E731
    lines = [",".join(map(quote, columns))]
    lines += [",".join(repr(x) for x in row) for row in zip(*(column.tolist() for column in columns.values()))]
    return "\n".join(lines) + "\n"
