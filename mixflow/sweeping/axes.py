"""Axes of a sweep: grid, list, random and seeds, read from the description and checked once."""

import hashlib
import json
import math
from dataclasses import dataclass

import numpy as np

from ..checks import flag, listed, nearest, one_of, real, shown, whole
from ..errors import SpecError
from ..spec import SECTIONS, plain

MOST_POINTS = 10**7  # along one axis: they are held in memory
LARGEST = 2**63 - 1  # whole number on an axis
LARGE = 1e300  # ends of a range: their difference is a number, too


@dataclass(frozen=True, eq=False)
class Column:
    """The values of one field along an axis, each different one held once: a million draws take no million objects.

    values  the different ones, an array if all are floats or all whole numbers, else a list
    codes   values[codes[i]] is the one at position i
    """

    values: np.ndarray | list
    codes: np.ndarray

    @classmethod
    def of(cls, values):
        """From an array, or from a list of values as JSON knows them."""
        for kind, dtype in ((float, np.float64), (int, np.int64)):
            if not isinstance(values, np.ndarray) and all(type(value) is kind for value in values):
                values = np.array(values, dtype)
        if isinstance(values, np.ndarray):
            return cls(*np.unique(values, return_inverse=True))
        place = {}
        codes = [place.setdefault(json.dumps(value, sort_keys=True), len(place)) for value in values]
        return cls([json.loads(text) for text in place], np.array(codes))

    def __len__(self):
        return len(self.codes)

    def __getitem__(self, i):
        return plain(self.values[self.codes[i]])

    def witnesses(self):
        """Positions at which the column is checked: the ends of a range stand for all in it."""
        if isinstance(self.values, np.ndarray):
            return {int(self.codes.argmin()), int(self.codes.argmax())}
        return set(np.unique(self.codes, return_index=True)[1].tolist())

    def labels(self):
        """The value at every position, as an array: numbers stay numbers (inf among them), the rest is written as JSON."""
        values = self.values
        if not isinstance(values, np.ndarray):
            values = [math.inf if value == "inf" else value for value in values]
            if any(isinstance(value, bool) or not isinstance(value, (int, float)) for value in values):
                values = [value if isinstance(value, str) else json.dumps(value) for value in self.values]
        return np.asarray(values)[self.codes]

    def __bytes__(self):
        """What tells two columns apart."""
        values = self.values.tobytes() if isinstance(self.values, np.ndarray) else json.dumps(self.values).encode()
        return values + self.codes.astype("<i8").tobytes()


@dataclass(frozen=True, eq=False)
class Axis:
    """Fields that move together, each with its column."""

    kind: str
    columns: dict

    @property
    def fields(self):
        return tuple(self.columns)

    def __len__(self):
        return len(next(iter(self.columns.values())))

    def at(self, i):
        """Setting number i: {field: value}."""
        return {field: column[i] for field, column in self.columns.items()}

    def distinct(self):
        """How many different settings there are."""
        codes = [column.codes for column in self.columns.values()]
        order = np.lexsort(codes)
        return 1 + int(np.any([np.diff(code[order]) != 0 for code in codes], axis=0).sum())


def read_axes(description):
    """The axes of a description, in the order grid, list, random, seeds."""
    for name, values in _flat(description.get("grid", {}), "grid"):
        yield Axis("grid", {name: Column.of(_grid_values(name, values))})
    if "list" in description:
        yield _list_axis(description["list"])
    if "random" in description:
        yield _random_axis(description["random"])
    for name, count in _flat(description.get("seeds", {}), "seeds"):
        first, count = _keys(name, count, {"first": 0, "count": None}) if isinstance(count, dict) else (0, count)
        count = whole(f"number of seeds of {name}", count, most=MOST_POINTS, fix="an axis needs at least one")
        first = whole(f"first seed of {name}", first, least=0, most=LARGEST - count)
        yield Axis("seeds", {name: Column.of(np.arange(first, first + count))})


def check_axes(axes, fields):
    """Refuse an axis over something that is no field, a field that two axes set, and an axis with a setting twice."""
    seen = set()
    for axis in axes:
        for name in axis.fields:
            if name not in fields:
                same = [field for field in fields if field.split(".")[-1] == name]
                hint = f"; did you mean {same[0]!r}" if same else nearest(name, fields)
                raise SpecError(
                    f"{shown(name)} is not a field of this sweep: expected one of {', '.join(fields)}{hint}."
                )
            if name in seen:
                raise SpecError(f"{name} is set by two axes: keep one of them.")
            seen.add(name)
        repeated = len(axis) - axis.distinct()
        if repeated:
            fix = "draw fewer, or from a wider range" if axis.kind == "random" else "remove the repeated values"
            over = f"the {axis.kind} axis over {', '.join(axis.fields)}"
            raise SpecError(f"{over} has duplicate runs: {repeated} of {len(axis)}; {fix}.")


def _flat(table, where):
    """(dotted name, value) of a table whose names may be quoted ("a.b" = …) or nested (a.b = …)."""
    if not isinstance(table, dict):
        raise SpecError(f"{where} = {shown(table)}: expected a table of fields.")
    for key, value in table.items():
        if isinstance(value, dict) and key in SECTIONS:
            yield from ((f"{key}.{name}", inner) for name, inner in _flat(value, where))
        else:
            yield key, value


def _grid_values(name, values):
    """A list as it stands, or {from, to, count} spaced evenly, or by equal ratios with scale = "log"."""
    if not isinstance(values, dict):
        values = listed(f"the axis {name}", values, "a list of values or {from, to, count}", most=MOST_POINTS)
        if not values:
            raise SpecError(f"the axis {name} is empty: give at least one value, or leave the axis out.")
        return _written(name, values)
    low, high, count, scale = _keys(name, values, {"from": None, "to": None, "count": None, "scale": "linear"})
    low, high = real(f"{name}.from", low, least=-LARGE, most=LARGE), real(f"{name}.to", high, least=-LARGE, most=LARGE)
    count = whole(f"{name}.count", count, most=MOST_POINTS)
    if one_of(f"{name}.scale", scale, ("linear", "log")) == "linear":
        return np.linspace(low, high, count)
    if low <= 0 or high <= 0:
        raise SpecError(f"the axis {name} runs from {low:g} to {high:g}: scale = 'log' needs both above 0.")
    return np.geomspace(low, high, count)


def _list_axis(rows):
    rows = [dict(_flat(row, "list")) for row in listed("list", rows, "[[list]] tables of fields", most=MOST_POINTS)]
    if not rows or not rows[0]:
        raise SpecError("list is empty: give at least one [[list]] table of fields, or leave it out.")
    for i, row in enumerate(rows):
        if set(row) != set(rows[0]):
            given, wanted = (", ".join(map(str, names)) for names in (row, rows[0]))
            raise SpecError(f"list entry {i + 1} sets {given}: expected the fields of the first, {wanted}.")
    return Axis("list", {name: Column.of(_written(name, [row[name] for row in rows])) for name in rows[0]})


def _random_axis(table):
    """`count` joint draws: {low, high, scale, whole} or {choose = […]} for each field, from one seed."""
    table = dict(_flat(table, "random"))
    count = whole("random.count", table.pop("count", None), most=MOST_POINTS, fix="the number of random settings")
    seed = whole("random.seed", table.pop("seed", 0), least=0)
    if not table:
        raise SpecError("random sets no field: add for example 'transformer.omega' = {low = 0.1, high = 0.9}.")
    columns = {}
    for name, rule in table.items():
        # A stream for each field, named by it: adding a field leaves the draws of the others as they were.
        rng = np.random.default_rng([seed, int.from_bytes(hashlib.sha256(str(name).encode()).digest()[:8], "little")])
        columns[name] = _draw(name, rule, count, rng)
    return Axis("random", columns)


def _draw(name, rule, count, rng):
    if not isinstance(rule, dict):
        raise SpecError(f"random {name} = {shown(rule)}: expected {{low, high}} or {{choose = [...]}}.")
    if "choose" in rule:
        (choices,) = _keys(name, rule, {"choose": None})
        choices = listed(f"random {name}.choose", choices)
        if not choices:
            raise SpecError(f"random {name} chooses from []: expected a list with at least one value.")
        column = Column.of(_written(name, choices))  # a value listed twice is drawn twice as often
        return Column(column.values, column.codes[rng.integers(len(choices), size=count)])
    low, high, scale, integers = _keys(name, rule, {"low": None, "high": None, "scale": "linear", "whole": False})
    low = real(f"{name}.low", low, least=-LARGE)
    high = real(f"{name}.high", high, above=low, most=LARGE)
    if one_of(f"{name}.scale", scale, ("linear", "log")) == "log" and low <= 0:
        raise SpecError(f"random {name} runs from {low:g}: scale = 'log' needs low above 0.")
    if flag(f"{name}.whole", integers) and not -LARGEST < math.ceil(low) <= math.floor(high) < LARGEST:
        raise SpecError(
            f"random {name} runs from {low:g} to {high:g}: expected whole numbers between them, below 2^63."
        )
    if integers and scale == "linear":
        return Column.of(rng.integers(math.ceil(low), math.floor(high), size=count, endpoint=True))
    drawn = (
        rng.uniform(low, high, count) if scale == "linear" else np.exp(rng.uniform(np.log(low), np.log(high), count))
    )
    drawn = np.clip(drawn, low, high)  # exp(log(x)) may step outside by one rounding
    return Column.of(np.round(drawn).astype(np.int64) if integers else drawn)


def _keys(name, table, defaults):
    for key in table:
        if key not in defaults:
            names = ", ".join(defaults)
            raise SpecError(f"{name}.{shown(key)} is unknown: expected one of {names}{nearest(key, defaults)}.")
    return [table.get(key, default) for key, default in defaults.items()]


def _written(name, values):
    """Values as JSON writes them, or a SpecError that shows the first that it cannot (a date, an object, a huge number)."""
    values = [plain(value) for value in values]
    for value in values:
        try:
            json.dumps(value)
            if isinstance(value, int) and abs(value) > LARGEST:
                raise ValueError
        except (TypeError, ValueError, RecursionError):
            raise SpecError(
                f"the axis {name} has the value {shown(value)}: expected numbers below 2^63, text, booleans or lists of them."
            ) from None
    return values
