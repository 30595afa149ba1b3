"""A run in numbers: one JSON-ready object, or a table for people."""

import json
import math

from .spec import DEFAULT_KIND, SECTIONS, fields, kinds, plain

# What the headline says in its own words, or leaves to the line of times; seeds and saves change no network and no rule.
TOLD = {
    "transformer": ("width", "omega", "bias", "seed", "dimension"),
    "vanilla": ("width", "layers", "heads", "seed"),
    "method": ("learning_rate", "steps", "save_every", "batch_seed", "until", "rtol", "atol", "save_at"),
}


def summary(run, *, provenance=False):
    """The end of the run as plain values: loss, accuracy, time, stages, w and A of every head, the spec."""
    data = run.dataset

    def end(name):  # by values: where Dask is installed, indexing a labelled array imports it, for a third of a second
        return _number(data[name].values[-1])

    def named(name):
        array = data[name] if name in data else data[f"{name}_sector"]
        return _named(array.values[-1], *(data[dim].values for dim in array.dims[1:]))

    found = {
        **{name: end(name) for name in ("loss", "accuracy", "loss_easy", "loss_hard", "time")},
        "stages": [stage.to_dict() for stage in run.stages],
        "w": named("w"),
        "A": named("A"),
        "model": data.attrs["model"],
        "spec": run.spec,
        "wall_time": _number(data.attrs["wall_time"]),
    }
    if "step" in data.coords:
        found["step"] = int(data.step.values[-1])
    if "loss_test" in data:
        found |= {name: end(name) for name in ("loss_test", "accuracy_test")}
    if provenance:
        found["dimensions"] = {str(name): size for name, size in data.sizes.items()}
        found["variables"] = sorted(map(str, data.data_vars))
        found["provenance"] = {key: _decoded(value) for key, value in data.attrs.items() if key != "spec"}
    return found


def table(run, *, provenance=False):
    """The same for people: a header, the stages, the weights of head +."""
    facts = summary(run, provenance=provenance)
    task, transformer, method = (facts["spec"][section] for section in SECTIONS)
    K = task.get("classes") or task.get("task", {}).get("classes")
    what = f"{K}-mixture" if K else f"task with {len(task['atoms'])} atoms"
    loss = task.get("loss") or task.get("task", {}).get("loss") or "logistic"
    asked = [what, *([] if loss == "logistic" else [f"{loss} loss"]), _dials(transformer), *_besides("method", method)]
    lines = [
        f"{', '.join(asked)}, model {facts['model']}",
        f"t = {facts['time']:g}   loss {facts['loss']:.10g}   accuracy {facts['accuracy']:.4g}"
        + (f"   held-out accuracy {facts['accuracy_test']:.4g}" if "accuracy_test" in facts else ""),
        "",
        stage_table(run.stages),
        "",
        _weights(run, facts),
    ]
    if provenance:
        lines += ["", *(f"{key:14} {_short(value)}" for key, value in facts["provenance"].items())]
        lines += [f"{'dimensions':14} " + ", ".join(f"{name} {size}" for name, size in facts["dimensions"].items())]
    return "\n".join(lines)


def stage_table(stages):
    """One line for each stage: name, start, end, evidence."""
    lines = [f"{'stage':12} {'start':>10} {'end':>10}   evidence"]
    for stage in stages:
        start, end = ("–" if x is None else f"{x:.4g}" for x in (stage.start, stage.end))
        lines.append(f"{stage.name:12} {start:>10} {end:>10}   {stage.because}")
    return "\n".join(lines)


def _dials(transformer):
    if transformer.get("kind") == "own":
        return f"network {transformer['name']}"
    if transformer.get("kind") == "read-out":
        return f"read-out {transformer['answer'].partition(':')[2]}, {_dials(transformer['transformer'])}"
    if transformer.get("kind") == "vanilla":
        found = f"width {transformer['width']}, {transformer['layers']} layers of {transformer['heads']} heads"
    else:
        found = f"width {transformer['width']}, ω = {transformer['omega']:g}, b = {transformer['bias']:g}"
    return ", ".join([found, *_besides("transformer", transformer)])


def _besides(section, table):
    """What a table says besides the paper's network trained by plain descent, and besides how long and how exactly."""
    kind, found = table.get("kind", DEFAULT_KIND[section]), []
    if kind not in kinds(section):  # a network that was written down has no method
        return found
    if section == "method" and kind != "descent":
        found.append(kind)
    for key, field in fields(section, kind).items():
        value = table.get(key)
        if field.section and isinstance(value, dict):
            found += _besides(field.section, value)
        elif key not in TOLD.get(kind, TOLD[section]) and value != plain(field.default) and value is not None:
            found.append(key if value is True else f"{key} {_brief(value)}")
    return found


def _brief(value):
    if isinstance(value, dict):  # an Until
        return f"{value['quantity']}:{value['threshold']:g}"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _weights(run, facts):
    from .plot.run import attention_lines, neuron_lines

    if "feature" not in run.dataset.coords and "w_sector" not in run.dataset:
        return "weights along dimensions without names: see the dataset"
    ends = {**neuron_lines(run.dataset), **attention_lines(run.dataset)}
    plain = {
        label.split("  ")[0].replace("$", "").replace("\\cdot ", "·"): series[-1]
        for label, (_, _, series) in ends.items()
    }
    where = "mean over layers and heads" if "pair" in run.dataset.dims else "head +, mean over classes"
    return f"{where}:  " + "   ".join(f"{label} {value:.4f}" for label, value in plain.items())


def _named(array, *labels):
    """An array as nested dictionaries, by the labels along each of its axes."""
    if not labels:
        return _number(array)
    return {str(label): _named(part, *labels[1:]) for label, part in zip(labels[0], array, strict=True)}


def _number(value):
    value = float(value)
    return value if math.isfinite(value) else None  # JSON has no NaN


def _decoded(value):
    if isinstance(value, str) and value[:1] in "{[":
        return json.loads(value)
    return value.item() if hasattr(value, "item") else value


def _short(value):
    return ", ".join(f"{k} {v}" for k, v in value.items()) if isinstance(value, dict) else value
