"""The fields a sweep can set: every argument of task, transformer and method, by its dotted name."""

import dataclasses
import inspect
import json
import math

import numpy as np

from ..checks import nearest, one_of
from ..engines import MODELS
from ..errors import SpecError
from ..methods import GradientDescent, GradientFlow, Optimizer, ThreeStage, method_from_spec
from ..networks.specs import network_from_spec
from ..networks.transformer import Transformer
from ..networks.vanilla import Vanilla
from ..tasks import FiniteTask, Mixture, NoisyMixture, Sample, task_from_spec, variants

SECTIONS = ("task", "transformer", "method")
# Tasks named by the function of `mf.variants` that makes them, so that its arguments are fields.
RECIPES = {name: getattr(variants, name) for name in variants.__all__ if name != "NoisyMixture"}
KINDS = {
    "task": {"mixture": Mixture, "sample": Sample, "finite": FiniteTask, "noisy": NoisyMixture, **RECIPES},
    "transformer": {"transformer": Transformer, "vanilla": Vanilla},
    "method": {"descent": GradientDescent, "flow": GradientFlow, "three-stage": ThreeStage, "optimizer": Optimizer},
}
DEFAULT_KIND = {"task": "mixture", "transformer": "transformer", "method": "descent"}
STEPWISE = ("descent", "optimizer")  # methods whose runs share lanes, each with its own learning rate
NESTED = ("task", "method")  # a Sample holds a task, ThreeStage holds a method: "task.task.classes"
MISSING = dataclasses.MISSING
FROM_SPEC = {"task": task_from_spec, "transformer": network_from_spec, "method": method_from_spec}


def complete(section, given, moving=None, name=None):
    """The whole spec of a section, defaults written out, from a table of the file or from the object itself.

    moving  {dotted name: value} of what the axes set: a field without a default takes its value from there
    name    of a section inside another, "task.task"
    """
    moving, where = moving or {}, name or section
    if hasattr(given, "spec"):
        given = given.spec()
    given = {} if given is None else given
    if not isinstance(given, dict):
        raise SpecError(f"{where} = {given!r}: expected a table of fields.")
    given = {key: plain(value) for key, value in given.items() if key != "checksum"}
    kind = one_of(f"{where}.kind", given.pop("kind", DEFAULT_KIND[section]), tuple(KINDS[section]))
    given = {"kind": kind, **given}
    defaults = _defaults(KINDS[section][kind])
    for field in given:
        if field != "kind" and field not in defaults:
            names = ", ".join(defaults)
            raise SpecError(f"{where}.{field} is unknown: expected one of {names}{nearest(field, defaults)}.")
    for field, default in defaults.items():
        if field in NESTED:
            given[field] = complete(field, given.get(field), moving, f"{where}.{field}")
        elif field not in given:
            value = moving.get(f"{where}.{field}", default) if default is MISSING else default
            if value is MISSING:
                raise SpecError(f"{where}.{field} is missing: a {section} of kind {kind!r} needs it.")
            given[field] = plain(value)
    made = make(section, given)
    if kind in RECIPES:
        return given
    return {key: plain(value) for key, value in json.loads(json.dumps(made.spec())).items() if key != "checksum"}


def _defaults(maker):
    """{field: default, or MISSING} of a class or of a function of `mf.variants`."""
    if maker is Optimizer:  # "kind" tells the methods apart, so its spec has the rule under another name
        fields = {field.name: field.default for field in dataclasses.fields(Optimizer)}
        return {"rule": fields.pop("kind"), **fields}
    if dataclasses.is_dataclass(maker):
        return {field.name: _default(field) for field in dataclasses.fields(maker) if field.init}
    missing = inspect.Parameter.empty
    arguments = inspect.signature(maker).parameters.values()
    return {one.name: MISSING if one.default is missing else one.default for one in arguments}


def _default(field):
    value = field.default if field.default_factory is MISSING else field.default_factory()
    return value.spec() if hasattr(value, "spec") else value


def make(section, spec):
    """The object of a complete spec; errors name the section."""
    if section == "task" and "task" in spec:
        inner = make("task", spec["task"])
        if spec["kind"] == "sample" and not isinstance(inner, Mixture):
            raise SpecError(f"task.task of kind {spec['task']['kind']!r}: samples are drawn from a mixture only.")
        spec = {**spec, "task": inner if spec["kind"] in RECIPES else inner.spec()}
    try:
        if spec.get("kind") in RECIPES:
            return RECIPES[spec["kind"]](**{name: value for name, value in spec.items() if name != "kind"})
        return FROM_SPEC[section](spec)
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
