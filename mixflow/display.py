"""How results show themselves in a notebook: compact tables and small pictures, readable on light and on dark paper.

Every function takes an object and returns HTML; the classes call them from `_repr_html_`. Colours are the reader's own
(`currentColor`), so nothing is decided here about the paper.
"""

import html
import math

TABLE = 'style="border-collapse:collapse;font-size:0.92em;margin:0.3em 0"'
CELL = 'style="text-align:left;padding:0.15em 0.9em 0.15em 0;border-bottom:1px solid rgba(128,128,128,0.35)"'
SHOWN = 12  # rows of a long list before the rest is counted


def run(run):
    """A Run: what was trained on what, where it ended, its loss as a small picture, its stages."""
    data, spec = run.dataset, run.spec
    network, method = spec["transformer"], spec["method"]
    facts = {
        "task": _words(spec["task"]),
        "network": _words(network),
        "method": _words(method),
        "engine": data.attrs["model"],
        "saved": f"{data.sizes['time']} times to t = {_number(data.time[-1])}",
        "loss": f"{_number(data.loss[0])} → {_number(data.loss[-1])}",
        "accuracy": _number(data.accuracy[-1]),
    }
    picture = curve(data.time.values, data.loss.values, "loss over time, both logarithmic")
    return _titled("mixflow run", _beside(pairs(facts), picture), _stages_of(run))


def runs(runs):
    """Runs: how many, and for each of the first the seed, the width and the last loss."""
    rows, spec = [], runs.spec
    for i, each in enumerate(runs):
        if i == SHOWN:
            rows.append((f"… {len(runs) - SHOWN} more", "", "", ""))
            break
        network = each.spec["transformer"]
        loss = each.dataset.loss.values
        rows.append(
            (i, _short(network.get("width", "")), network.get("seed", ""), _number(loss[-1]) if len(loss) else "–")
        )
    head = f"{len(runs)} mixflow runs: {html.escape(str(spec['task']['kind']))}, {html.escape(str(spec['method']['kind']))}"
    return _titled(head, table(("run", "width", "seed", "last loss"), rows))


def stages(stages):
    """Stages: name, start, end and the evidence in one phrase."""
    rows = [(stage.name, _number(stage.start), _number(stage.end), stage.because) for stage in stages]
    return table(("stage", "from t", "to t", "because"), rows)


def events(events):
    """Events of a flow: the first of them, and how many there are."""
    rows = [(_number(e.time), e.head, e.atom, f"{e.before} → {e.after}") for e in events[:SHOWN]]
    if len(events) > SHOWN:
        rows.append((f"… {len(events) - SHOWN} more", "", "", ""))
    return table(("t", "head", "sample", "neuron"), rows)


def construction(network):
    """A Construction: its numbers, and the margin it has on every sample."""
    facts = {"classes": network.classes, "width": network.width, "β": network.beta, "B": network.B, "C": network.C}
    return _titled("transformer in closed form", pairs({**facts, "margin of every sample": _number(network.margin)}))


def proof(proof):
    """A Proof: the theorem in words, and the radius of its tube as a small picture."""
    tube = proof.tube
    picture = curve(tube.times[:, 1], tube.total, "radius of the tube over time, both logarithmic")
    facts = {"cells": proof.cells, "largest radius": _number(proof.radius)}
    words = "".join(f"<p>{html.escape(line)}</p>" for line in proof.statement().split("\n") if line.strip())
    return _titled("mixflow proof", words, _beside(pairs(facts), picture))


def spec(spec):
    """A task, network or method: its settings, and a task's first samples where they can be listed."""
    table = dict(spec.spec())
    kind = table.pop("kind", type(spec).__name__)
    given = {name: _short(value) for name, value in table.items() if value is not None}
    return _titled(html.escape(str(kind)), pairs(given), _samples(spec) if hasattr(spec, "population") else "")


def sweep(result):
    """A sweep's results: how far it is, its axes, and the first rows of its table."""
    facts = {name.replace("_", " "): _short(value) for name, value in result.status().items()}
    return _titled(f"mixflow sweep in {html.escape(str(result.folder))}", pairs(facts))


def _samples(task):
    try:
        population = task.population()
    except Exception:  # a task whose samples cannot be listed, or are not here; its settings are shown
        return ""
    rows = [
        (name, _number(label), _number(probability))
        for name, label, probability in zip(population.atoms, population.labels, population.probabilities)
    ][: SHOWN + 1]
    more = len(population.atoms) - SHOWN
    rows = [*rows[:SHOWN], (f"… {more} more", "", "")] if more > 0 else rows
    return table(("sample", "label", "probability"), rows)


def _stages_of(run):
    try:
        found = [stage for stage in run.stages if stage.start is not None]
    except Exception:  # a run of a network whose stages are not defined; the rest of it is shown
        return ""
    return stages(found) if found else ""


# --- pieces ------------------------------------------------------------------------------------------------------------------


def table(head, rows):
    """An HTML table of texts and numbers.

    >>> "<th" in table(("t",), [(1,)])
    True
    """

    def line(cells, kind):
        return "<tr>" + "".join(f"<{kind} {CELL}>{html.escape(str(cell))}</{kind}>" for cell in cells) + "</tr>"

    return f"<table {TABLE}>{line(head, 'th')}{''.join(line(row, 'td') for row in rows)}</table>"


def pairs(facts):
    """A table of two columns, names and values."""

    def line(name, value):
        return f"<tr><th {CELL}>{html.escape(str(name))}</th><td {CELL}>{html.escape(str(value))}</td></tr>"

    return f"<table {TABLE}>{''.join(line(*fact) for fact in facts.items())}</table>"


def curve(x, y, title, width=260, height=110):
    """A small picture of y over x, logarithmic where all values are positive, as SVG in the text's own colour."""
    points = [(a, b) for a, b in zip(map(float, x), map(float, y)) if math.isfinite(a) and math.isfinite(b) and a > 0]
    if len(points) < 2:
        return ""
    if len(points) > width:
        points = [points[round(i * (len(points) - 1) / (width - 1))] for i in range(width)]
    logarithmic = all(b > 0 for _, b in points)
    across = [math.log(a) for a, _ in points]
    up = [math.log(b) if logarithmic else b for _, b in points]

    def placed(values, low, high):
        least, span = min(values), (max(values) - min(values)) or 1.0
        return [low + (v - least) / span * (high - low) for v in values]

    path = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(placed(across, 4, width - 4), placed(up, height - 6, 6)))
    name, line = html.escape(title), 'fill="none" stroke="currentColor"'
    return (
        f'<svg width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img" aria-label="{name}">'
        f'<title>{name}</title><rect x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" {line} opacity="0.25"/>'
        f'<polyline points="{path}" {line} stroke-width="1.6"/></svg>'
    )


def _titled(title, *parts):
    return f"<div><strong>{title}</strong>{''.join(parts)}</div>"


def _beside(left, right):
    return f'<div style="display:flex;gap:1.2em;align-items:center;flex-wrap:wrap">{left}<div>{right}</div></div>'


def _words(spec):
    """A specification in one line: its kind, and the settings that are given."""
    given = [f"{name} {_short(value)}" for name, value in spec.items() if name != "kind" and value not in (None, False)]
    return ", ".join([str(spec.get("kind", "transformer")), *given])


def _number(value):
    return "–" if value is None else f"{float(value):.6g}"


def _short(value):
    if isinstance(value, float):
        return _number(value)
    text = str(value)
    return text if len(text) <= 60 else text[:57] + "…"


class Rows(list):
    """A list that a notebook shows as a table.

    >>> Rows([1, 2], lambda items: table(("n",), [(n,) for n in items]))
    [1, 2]
    """

    def __init__(self, items, show):
        super().__init__(items)
        self._show = show

    def _repr_html_(self):
        return self._show(self)


class Facts(dict):
    """A dictionary of numbers by name that a notebook shows as a table."""

    def _repr_html_(self):
        return pairs({str(name).replace("_", " "): _short(value) for name, value in self.items()})


def facts(value):
    """A dictionary, or a list of them, or None, with tables for notebooks: a certificate.

    >>> facts({"steps": 3}), facts(None)
    ({'steps': 3}, None)
    """
    if isinstance(value, list):
        return Rows(map(Facts, value), lambda parts: "".join(part._repr_html_() for part in parts))
    return None if value is None else Facts(value)
