"""The fields a sweep can set: every argument of task, transformer and method, by its dotted name."""

import dataclasses
import json
import math

import numpy as np

from ..checks import nearest, one_of
from ..dynamics import GradientDescent, GradientFlow, ThreeStage, method_from_spec
from ..errors import SpecError
from ..models.transformer import Transformer
from ..running import MODELS
from ..tasks import FiniteTask, Mixture, Sample, task_from_spec

SECTIONS = ("task", "transformer", "method")
KINDS = {
    "task": {"mixture": Mixture, "sample": Sample, "finite": FiniteTask},
    "transformer": {None: Transformer},
    "method": {"descent": GradientDescent, "flow": GradientFlow, "three-stage": ThreeStage},
}
DEFAULTS = {"task": {"kind": "mixture"}, "transformer": {}, "method": {"kind": "descent"}}
NESTED = ("task", "method")  # a Sample holds a task, ThreeStage holds a method: "task.task.classes"


def complete(section, given):
    """The whole spec of a section, defaults written out, from a table of the file or from the object itself."""
    if hasattr(given, "spec"):
        given = given.spec()
    given = {} if given is None else given
    if not isinstance(given, dict):
        raise SpecError(f"{section} = {given!r}: expected a table of fields.")
    given = {**DEFAULTS[section], **{key: plain(value) for key, value in given.items() if key != "checksum"}}
    kinds = KINDS[section]
    cls = kinds[None] if None in kinds else kinds[one_of(f"{section}.kind", given["kind"], tuple(kinds))]
    known = [field for field in dataclasses.fields(cls) if field.init]
    names = [field.name for field in known]
    for name in given:
        if name != "kind" and name not in names:
            raise SpecError(f"{section}.{name} is unknown: expected one of {', '.join(names)}{nearest(name, names)}.")
    for field in known:
        if field.name in NESTED:
            given[field.name] = complete(field.name, given.get(field.name))
        elif field.name not in given:
            if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
                raise SpecError(f"{section}.{field.name} is missing: a {section} of kind {given['kind']!r} needs it.")
            default = field.default
            given[field.name] = plain(default.spec() if hasattr(default, "spec") else default)
    made = make(section, given)
    return {key: plain(value) for key, value in json.loads(json.dumps(made.spec())).items() if key != "checksum"}


def make(section, spec):
    """The object of a complete spec; errors name the section."""
    from_spec = {"task": task_from_spec, "transformer": Transformer.from_spec, "method": method_from_spec}[section]
    try:
        return from_spec(spec)
    except SpecError as error:
        raise SpecError(f"{section}: {error}") from None
    except (KeyError, TypeError, AttributeError) as error:
        raise SpecError(f"{section}: the fields do not fit together ({type(error).__name__}: {error}).") from None


def build(settings):
    """The task, transformer, method and model of one run's settings."""
    return (*(make(section, settings[section]) for section in SECTIONS), one_of("model", settings["model"], MODELS))


def leaves(spec, prefix):
    """Dotted names of the fields in a complete spec."""
    for name, value in spec.items():
        if name in NESTED and isinstance(value, dict):
            yield from leaves(value, f"{prefix}.{name}")
        elif name != "kind":
            yield f"{prefix}.{name}"


def filled(base, values):
    """`base` with {dotted name: value} put in; parts that do not change are shared, not copied."""
    result = dict(base)
    for name, value in values.items():
        *way, last = name.split(".")
        place = result
        for part in way:
            place[part] = dict(place[part])
            place = place[part]
        place[last] = value
    return result


def plain(value):
    """A value as JSON knows it; infinity as "inf", which every reader of a spec understands."""
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, float) and math.isinf(value):
        return "inf"
    return [plain(x) for x in value] if isinstance(value, (list, tuple)) else value
