"""The description of a sweep: fixed fields, and grid, list, random and seeds axes over any of them (docs/sweeps.md)."""

import hashlib
import json
import math
import pathlib
from functools import cached_property

from ..checks import listed, nearest, one_of, real, shown, whole, word
from ..engines import MODELS
from ..errors import SpecError
from ..spec import SECTIONS, build, complete, filled, leaves, parsed, plain
from .axes import check_axes, read_axes

MOST_POINTS = 10**9  # of all axes together
AXES = ("grid", "list", "random", "seeds")
REDUCTIONS = ("final", "stages", "levels", "separation")
OUTPUT = {
    "reductions": ["final", "stages", "levels"],  # "separation" solves a quadratic programme at many saves: on request
    "levels": [0.5, 0.3, 0.1, 0.01],  # losses whose first crossing is timed
    "separation_margin": 0.1,  # the deciding samples count as separated from this feature margin on
    "series": [],  # trajectories to keep, e.g. ["loss", "w"]
    "batch": None,  # runs in a batch; chosen from the cost of a run if not given
}


class Sweep:
    """A checked description, from a dictionary of the form of the TOML file; `Sweep.read` takes the file itself.

    >>> sweep = Sweep({"grid": {"transformer.omega": [0.1, 0.2]}, "seeds": {"transformer.seed": 3}})
    >>> sweep.shape
    (2, 3)
    """

    def __init__(self, description):
        if not isinstance(description, dict):
            raise SpecError(f"a sweep is a table or the path of a TOML file, not {shown(description)}.")
        known = ("name", "model", *SECTIONS, *AXES, "output")
        for key in description:
            if key not in known:
                raise SpecError(
                    f"the sweep has no entry {shown(key)}: expected {', '.join(known)}{nearest(key, known)}."
                )
        name = description.get("name", "")
        self.name = name if isinstance(name, str) and not name else word("name", name)
        self.output = _output(description.get("output", {}))
        self.axes = tuple(read_axes(description))
        self.tables = {kind: plain(description[kind]) for kind in AXES if kind in description}
        moving = {name: value for axis in self.axes for name, value in axis.at(0).items()}
        self.base = {section: complete(section, description.get(section), moving) for section in SECTIONS}
        self.base["model"] = description.get("model", "auto")
        objects(self.base)
        check_axes(self.axes, ["model", *(name for part in SECTIONS for name in leaves(self.base[part], part))])
        points = math.prod(self.shape)
        if points > MOST_POINTS:
            raise SpecError(
                f"the axes have {points:.3g} points together: expected at most {MOST_POINTS:g}; shorten the longest of them."
            )
        for axis in self.axes:
            self._check_values(axis)

    @classmethod
    def read(cls, path):
        """The sweep described by a TOML file."""
        return cls(parsed(path))

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
        """The description as JSON, with every default written out; an equal sweep follows from it."""
        return {"name": self.name, **self.base, **self.tables, "output": self.output}

    @cached_property
    def fingerprint(self):
        """SHA-256 of everything that decides the results."""
        digest = hashlib.sha256(json.dumps({"base": self.base, "output": self.output}, sort_keys=True).encode())
        for axis in self.axes:
            digest.update(json.dumps([axis.fields, len(axis)]).encode())
            for column in axis.columns.values():
                digest.update(bytes(column))
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
        if axis.kind == "list":
            indices = range(len(axis))
        else:  # single fields, and joint draws: each field's values alone, the ends of a range standing for all in it
            indices = {i for column in axis.columns.values() for i in column.witnesses()}
        for i in sorted(indices):
            objects(filled(self.base, axis.at(i)))


def objects(settings):
    """The task, network, method and model of one run's settings."""
    return (*(build(section, settings[section]) for section in SECTIONS), one_of("model", settings["model"], MODELS))


def _output(given):
    if not isinstance(given, dict):
        raise SpecError(f"output = {shown(given)}: expected a table of {', '.join(OUTPUT)}.")
    for key in given:
        if key not in OUTPUT:
            raise SpecError(
                f"output.{shown(key)} is unknown: expected one of {', '.join(OUTPUT)}{nearest(key, OUTPUT)}."
            )
    output = {**OUTPUT, **given}
    asked = listed("output.reductions", output["reductions"], f"a list of {', '.join(REDUCTIONS)}")
    output["reductions"] = [one_of("output.reductions", name, REDUCTIONS) for name in asked]
    levels = listed("output.levels", output["levels"], "a list of losses", most=1000)
    output["levels"] = sorted({real("output.levels", level, above=0) for level in levels}, reverse=True)
    output["separation_margin"] = real("output.separation_margin", output["separation_margin"], above=0)
    series = listed("output.series", output["series"], "a list of variables, e.g. ['loss', 'w']")
    output["series"] = [word("output.series", name) for name in series]
    if output["batch"] is not None:
        output["batch"] = whole("output.batch", output["batch"], most=10**6)
    return output
