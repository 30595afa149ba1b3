"""The description of a sweep: fixed fields, and grid, list, random and seeds axes over any of them (docs/sweeps.md)."""

import hashlib
import json
import math
import pathlib
import tomllib
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..checks import nearest, one_of, real, whole
from ..errors import SpecError
from .fields import SECTIONS, build, complete, filled, leaves, plain

AXES = ("grid", "list", "random", "seeds")
REDUCTIONS = ("final", "stages", "levels", "separation")
OUTPUT = {
    "reductions": ["final", "stages", "levels"],  # "separation" solves a quadratic programme at many saves: on request
    "levels": [0.5, 0.3, 0.1, 0.01],  # losses whose first crossing is timed
    "separation_margin": 0.1,  # hard samples count as separated from this feature margin on
    "series": [],  # trajectories to keep, e.g. ["loss", "w"]
    "batch": None,  # runs in a batch; chosen from the cost of a run if not given
}


@dataclass(frozen=True)
class Axis:
    """Fields that move together; `columns` holds one sequence of values for each field."""

    kind: str
    fields: tuple
    columns: tuple

    def __len__(self):
        return len(self.columns[0])

    def at(self, i):
        """Setting number i: {field: value}."""
        return {field: plain(column[i]) for field, column in zip(self.fields, self.columns)}


class Sweep:
    """A checked description, from a dictionary of the form of the TOML file; `Sweep.read` takes the file itself.

    >>> sweep = Sweep({"grid": {"transformer.omega": [0.1, 0.2]}, "seeds": {"transformer.seed": 3}})
    >>> sweep.shape
    (2, 3)
    """

    def __init__(self, description):
        if not isinstance(description, dict):
            raise SpecError(f"a sweep is a table or the path of a TOML file, not {type(description).__name__}.")
        known = ("name", "model", *SECTIONS, *AXES, "output")
        for key in description:
            if key not in known:
                raise SpecError(f"the sweep has no entry {key!r}: expected {', '.join(known)}{nearest(key, known)}.")
        self.name = str(description.get("name", ""))
        self.base = {section: complete(section, description.get(section)) for section in SECTIONS}
        self.base["model"] = description.get("model", "auto")
        build(self.base)
        self.output = _output(description.get("output", {}))
        fields = ["model", *(name for section in SECTIONS for name in leaves(self.base[section], section))]
        self.axes = tuple(_axes(description, fields))
        _check_set_once(self.axes)
        for axis in self.axes:
            self._check_values(axis)

    @classmethod
    def read(cls, path):
        """The sweep described by a TOML file."""
        path = pathlib.Path(path)
        try:
            return cls(tomllib.loads(path.read_text(encoding="utf-8")))
        except OSError as error:
            raise SpecError(f"cannot read the sweep {path}: {error.strerror}; give the path of a TOML file.") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise SpecError(f"{path} is not valid TOML: {error}.") from None

    @classmethod
    def of(cls, description):
        """From a Sweep, a dictionary or a path."""
        if isinstance(description, cls):
            return description
        return cls.read(description) if isinstance(description, (str, pathlib.Path)) else cls(description)

    @property
    def shape(self):
        """The length of every axis."""
        return tuple(len(axis) for axis in self.axes)

    def settings(self, indices):
        """Complete specs of the run at these positions along the axes."""
        values = {}
        for axis, i in zip(self.axes, indices):
            values |= axis.at(i)
        return filled(self.base, values)

    def describe(self):
        """JSON-ready, with every default and every value written out; `Sweep.rebuild` gives an equal sweep."""
        axes = [
            {"kind": axis.kind, "fields": list(axis.fields), "columns": [[plain(x) for x in c] for c in axis.columns]}
            for axis in self.axes
        ]
        return {"name": self.name, "base": self.base, "axes": axes, "output": self.output}

    @classmethod
    def rebuild(cls, described):
        """The sweep that `describe` wrote; its values were checked then."""
        self = cls.__new__(cls)
        self.name, self.base, self.output = described["name"], described["base"], described["output"]
        self.axes = tuple(
            Axis(axis["kind"], tuple(axis["fields"]), tuple(_column(values) for values in axis["columns"]))
            for axis in described["axes"]
        )
        return self

    @cached_property
    def fingerprint(self):
        """SHA-256 of everything that decides the results."""
        digest = hashlib.sha256(json.dumps({"base": self.base, "output": self.output}, sort_keys=True).encode())
        for axis in self.axes:
            digest.update(json.dumps([axis.fields, len(axis)]).encode())
            for column in axis.columns:  # by bytes where possible: a million values need no text
                array = isinstance(column, np.ndarray)
                digest.update(column.tobytes() if array else json.dumps([plain(x) for x in column]).encode())
        return digest.hexdigest()

    def _check_values(self, axis):
        """Build the objects with every value of the axis, so that a bad one is found before anything runs.

        Fields of a task or method that fit only together with another axis' (priors with classes) are left to the plan,
        which builds every combination of tasks and methods.
        """
        sections = {name.split(".")[0] for name in axis.fields} - {"transformer"}
        others = {name.split(".")[0] for other in self.axes if other is not axis for name in other.fields}
        if sections & others:
            return
        drawn = isinstance(axis.columns[0], np.ndarray)  # the ends of the range stand for all values in it
        indices = range(len(axis))
        if drawn:
            indices = {int(f(column)) for column in axis.columns for f in (np.argmin, np.argmax)}
        for i in sorted(indices):
            build(filled(self.base, axis.at(i)))


def _output(given):
    for key in given:
        if key not in OUTPUT:
            raise SpecError(f"output.{key} is unknown: expected one of {', '.join(OUTPUT)}{nearest(key, OUTPUT)}.")
    output = {**OUTPUT, **given}
    for name in output["reductions"]:
        one_of("output.reductions", name, REDUCTIONS)
    levels = [real("output.levels", level, above=0) for level in output["levels"]]
    output["levels"] = sorted(levels, reverse=True)
    output["separation_margin"] = real("output.separation_margin", output["separation_margin"], above=0)
    if not isinstance(output["series"], (list, tuple)) or not all(isinstance(name, str) for name in output["series"]):
        raise SpecError(f"output.series = {output['series']!r}: expected a list of variables, e.g. ['loss', 'w'].")
    output["series"] = list(output["series"])
    if output["batch"] is not None:
        output["batch"] = whole("output.batch", output["batch"])
    return output


def _axes(description, fields):
    for name, values in _flat(description.get("grid", {}), "grid"):
        _known(name, fields)
        yield Axis("grid", (name,), (_column(_grid_values(name, values)),))
    if "list" in description:
        yield _list_axis(description["list"], fields)
    if "random" in description:
        yield _random_axis(description["random"], fields)
    for name, count in _flat(description.get("seeds", {}), "seeds"):
        _known(name, fields)
        first, count = (0, count) if not isinstance(count, dict) else (count.get("first", 0), count.get("count"))
        first = whole(f"first seed of {name}", first, least=0)
        count = whole(f"number of seeds of {name}", count, fix="an axis needs at least one")
        yield Axis("seeds", (name,), (np.arange(first, first + count),))


def _flat(table, where):
    """(dotted name, value) of a table whose names may be quoted ("a.b" = …) or nested (a.b = …)."""
    if not isinstance(table, dict):
        raise SpecError(f"{where} = {table!r}: expected a table of fields.")
    for key, value in table.items():
        if isinstance(value, dict) and key in SECTIONS:
            yield from ((f"{key}.{name}", inner) for name, inner in _nested(value))
        else:
            yield key, value


def _nested(table):
    for key, value in table.items():
        if isinstance(value, dict) and key in SECTIONS:
            yield from ((f"{key}.{name}", inner) for name, inner in _nested(value))
        else:
            yield key, value


def _known(name, fields):
    if name in fields:
        return
    same = [field for field in fields if field.split(".")[-1] == name]
    hint = f"; did you mean {same[0]!r}" if same else nearest(name, fields)
    raise SpecError(f"{name!r} is not a field of this sweep: expected one of {', '.join(fields)}{hint}.")


def _grid_values(name, values):
    """A list as it stands, or {from, to, count} spaced evenly, or by equal ratios with scale = "log"."""
    if not isinstance(values, dict):
        if not isinstance(values, (list, tuple, np.ndarray)):
            raise SpecError(f"the axis {name} is {values!r}: expected a list of values or {{from, to, count}}.")
        values = [plain(value) for value in values]
        if not values:
            raise SpecError(f"the axis {name} is empty: give at least one value, or leave the axis out.")
        return values
    low, high, count, scale = _keys(name, values, {"from": None, "to": None, "count": None, "scale": "linear"})
    low, high, count = real(f"{name}.from", low), real(f"{name}.to", high), whole(f"{name}.count", count)
    if one_of(f"{name}.scale", scale, ("linear", "log")) == "linear":
        return np.linspace(low, high, count)
    if low <= 0 or high <= 0:
        raise SpecError(f"the axis {name} runs from {low:g} to {high:g}: scale = 'log' needs both above 0.")
    return np.geomspace(low, high, count)


def _list_axis(rows, fields):
    if not isinstance(rows, list) or not rows:
        raise SpecError("list is empty: give at least one [[list]] table of fields, or leave it out.")
    rows = [dict(_flat(row, "list")) for row in rows]
    names = tuple(rows[0])
    for i, row in enumerate(rows):
        for name in row:
            _known(name, fields)
        if set(row) != set(names):
            raise SpecError(
                f"list entry {i + 1} sets {', '.join(row)}: expected the fields of the first, {', '.join(names)}."
            )
    return Axis("list", names, tuple(_column([plain(row[name]) for row in rows]) for name in names))


def _random_axis(table, fields):
    """`count` joint draws: {low, high, scale, whole} or {choose = […]} for each field, from one seed."""
    table = dict(_flat(table, "random"))
    count = whole("random.count", table.pop("count", None), fix="the number of random settings")
    seed = whole("random.seed", table.pop("seed", 0), least=0)
    if not table:
        raise SpecError("random sets no field: add for example 'transformer.omega' = {low = 0.1, high = 0.9}.")
    columns = []
    for name, rule in table.items():
        _known(name, fields)
        # A stream for each field, named by it: adding a field leaves the draws of the others as they were.
        rng = np.random.default_rng([seed, int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little")])
        columns.append(_draw(name, rule, count, rng))
    return Axis("random", tuple(table), tuple(columns))


def _draw(name, rule, count, rng):
    if not isinstance(rule, dict):
        raise SpecError(f"random {name} = {rule!r}: expected {{low, high}} or {{choose = [...]}}.")
    if "choose" in rule:
        (choices,) = _keys(name, rule, {"choose": None})
        if not isinstance(choices, list) or not choices:
            raise SpecError(f"random {name} chooses from {choices!r}: expected a list with at least one value.")
        return _column([plain(choices[i]) for i in rng.integers(len(choices), size=count)])
    low, high, scale, integers = _keys(name, rule, {"low": None, "high": None, "scale": "linear", "whole": False})
    low, high = real(f"{name}.low", low), real(f"{name}.high", high, above=low)
    if one_of(f"{name}.scale", scale, ("linear", "log")) == "log" and low <= 0:
        raise SpecError(f"random {name} runs from {low:g}: scale = 'log' needs low above 0.")
    if integers and scale == "linear":
        return rng.integers(math.ceil(low), math.floor(high), size=count, endpoint=True)
    drawn = (
        rng.uniform(low, high, count) if scale == "linear" else np.exp(rng.uniform(np.log(low), np.log(high), count))
    )
    drawn = np.clip(drawn, low, high)  # exp(log(x)) may step outside by one rounding
    return np.round(drawn).astype(np.int64) if integers else drawn


def _keys(name, table, defaults):
    for key in table:
        if key not in defaults:
            raise SpecError(f"{name}.{key} is unknown: expected one of {', '.join(defaults)}{nearest(key, defaults)}.")
    return [table.get(key, default) for key, default in defaults.items()]


def _column(values):
    """An array where all values are floats or all whole numbers, so that large axes stay small; a list otherwise."""
    values = values.tolist() if isinstance(values, np.ndarray) else list(values)
    for kind, dtype in ((float, np.float64), (int, np.int64)):
        if all(type(value) is kind for value in values):
            return np.array(values, dtype)
    return values


def _check_set_once(axes):
    seen = set()
    for axis in axes:
        for name in axis.fields:
            if name in seen:
                raise SpecError(f"{name} is set by two axes: keep one of them.")
            seen.add(name)
        rows = _distinct(axis)
        if rows < len(axis):
            fix = "draw fewer, or from a wider range" if axis.kind == "random" else "remove the repeated values"
            over = f"the {axis.kind} axis over {', '.join(axis.fields)}"
            raise SpecError(f"{over} has duplicate runs: {len(axis) - rows} of {len(axis)}; {fix}.")


def _distinct(axis):
    if all(isinstance(column, np.ndarray) for column in axis.columns):  # a million draws: sort, do not hash text
        order = np.lexsort(axis.columns)
        return 1 + int(np.any([np.diff(column[order]) != 0 for column in axis.columns], axis=0).sum())
    return len({json.dumps(axis.at(i), sort_keys=True) for i in range(len(axis))})
