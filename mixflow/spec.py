"""One codec for every specification: a class declares its fields once; checks, JSON, TOML, flags and their help follow.

    @dataclass(frozen=True)
    class Mixture(Spec, section="task", kind="mixture"):
        \"\"\"K classes.

        classes  K, from 1 to 100,000
        \"\"\"
        classes: int = setting(2, partial(whole, most=100_000))

A specification belongs to a section (task, transformer, method, …) and has a kind there; a table of the same form, from a
TOML file, from JSON or from flags, becomes the object by `build`, and `Spec.spec` writes the table again. A function that
makes a task is a kind, too (`recipe`). What a field means is read from the docstring, so that it is said once.
"""

import dataclasses
import inspect
import json
import math
import os
import re
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import MISSING
from importlib import import_module
from typing import Any, Self

from . import display
from .checks import nearest, one_of, shown
from .errors import SpecError, StoreError
from .sealed import regular, said

Check = Callable[[str, Any], Any]  # of (name, value): the value as it is kept, or a SpecError
Table = dict[str, Any]

SECTIONS = ("task", "transformer", "method")
DEFAULT_KIND = {"task": "mixture", "transformer": "transformer", "method": "descent", "until": "until"}
# The rooms whose classes and functions are the kinds of a section. They lie below this one, so they are imported on first use.
HOMES = {"task": "tasks", "transformer": "networks.specs", "method": "methods", "until": "methods"}
SIZE_LIMIT = 10**7  # bytes of a file that describes a run
DEEPEST = 16  # tables inside one another; each is built once for every one around it when a sweep is checked

_KINDS = {section: {} for section in HOMES}


def setting(default: Any = MISSING, check: Check | None = None, *, flag: bool = True, key: str | None = None) -> Any:
    """A field of a specification, for the body of a dataclass.

    default  its value if it is not given; None then also stands for "not given", and is not checked. A Spec may be one
    check    a function of (name, value) that returns the value as it is kept or raises SpecError, e.g. `whole`
    flag     whether it has a flag of its own on the command line
    key      its name in tables, where that is not the field's own
    """
    return dataclasses.field(default=default, metadata={"check": check, "flag": flag, "key": key})


def part(section: str, *chosen: str) -> Check:
    """A check for a field that holds a specification of the chosen kinds of a section: takes the object, or its table."""

    def check(name, value):
        made = build(section, value, name) if isinstance(value, dict) else value
        if isinstance(made, type) or kind_of(made) not in [(section, kind) for kind in chosen]:
            raise SpecError(f"{name} = {shown(value)}: expected a {section} of kind {' or '.join(chosen)}.")
        return made

    check.section = section
    return check


class Spec:
    """Base of a specification: `class Mixture(Spec, section="task", kind="mixture")`, a frozen dataclass of `setting`s.

    Building one checks every field and then `check()`, what must hold between them. Names listed in `recorded` are
    properties that a table carries for the reader; a checksum among them is compared when the table is read.
    """

    recorded = ()

    def _repr_html_(self):
        return display.spec(self)

    def __init_subclass__(cls, *, section, kind):
        register(section, kind, cls)

    def __post_init__(self):
        for field in dataclasses.fields(self):
            check, value = field.metadata.get("check"), getattr(self, field.name)
            if check is not None and not (value is None and field.default is None):
                self.settle(**{field.name: check(field.name, value)})
        self.check()

    def check(self):
        """What must hold between the fields; raises SpecError. To override."""

    def settle(self, **values):
        """Set fields of the frozen object while it is being built."""
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def spec(self) -> Table:
        """A JSON-ready description, a dictionary, from which `from_spec` builds an equal object."""
        own = {_key(field): plain(getattr(self, field.name)) for field in dataclasses.fields(self) if field.init}
        return {"kind": kind_of(self)[1], **own, **{name: plain(getattr(self, name)) for name in self.recorded}}

    @classmethod
    def from_spec(cls, spec: Table) -> Self:
        """The object that `spec()` described; raises SpecError, or StoreError where a checksum differs."""
        section, kind = kind_of(cls)
        return build(section, {**spec, "kind": kind})


def register(section: str, kind: str, maker: Callable[..., Any]) -> None:
    """Make a dataclass or a function a kind of a section."""
    _KINDS[section][kind] = maker


def recipe(function):
    """A decorator: the function of `mf.variants` is a kind of task under its own name, its arguments are the fields."""
    register("task", function.__name__, function)
    return function


def kinds(section: str) -> dict[str, Callable[..., Any]]:
    """{kind: class or function} of a section."""
    import_module(f".{HOMES[section]}", __package__)
    return _KINDS[section]


def kind_of(made: Any) -> tuple[str | None, str | None]:
    """(section, kind) of a specification or of its class; (None, None) of anything else."""
    maker = made if isinstance(made, type) else type(made)
    return next(
        ((section, kind) for section in _KINDS for kind, m in _KINDS[section].items() if m is maker), (None, None)
    )


@dataclasses.dataclass(frozen=True)
class Field:
    """One field of a kind: its name in tables and in Python, default (or MISSING), help, flag, and the section it holds."""

    key: str
    name: str
    default: object
    help: str = ""
    flag: bool = True
    section: str | None = None


def fields(section: str, kind: str) -> dict[str, Field]:
    """{key: Field} of a kind, in order.

    >>> fields("task", "mixture")["classes"].default
    2
    """
    maker = kinds(section)[kind]
    text = _meanings(maker)
    if dataclasses.is_dataclass(maker):
        return {_key(field): _field(field, text) for field in dataclasses.fields(maker) if field.init}
    made = {}
    for name, one in inspect.signature(maker).parameters.items():
        default = MISSING if one.default is inspect.Parameter.empty else one.default
        made[name] = Field(name, name, default, text.get(name, ""), section="task" if name == "task" else None)
    return made


def _key(field):
    return field.metadata.get("key") or field.name


def _field(field, text):
    default = field.default if field.default_factory is MISSING else field.default_factory()
    flag, check = field.metadata.get("flag", True), field.metadata.get("check")
    return Field(_key(field), field.name, default, text.get(field.name, ""), flag, getattr(check, "section", None))


def _meanings(maker):
    """{field: what it means} from the table in a docstring: lines of the name, two blanks and the words, then deeper lines."""
    found, name = {}, None
    for line in inspect.cleandoc(maker.__doc__ or "").splitlines():
        match = re.match(r"(\w+)  +(\S.*)", line)
        if match:
            name = match[1]
            found[name] = match[2]
        elif name and line.startswith("  "):
            found[name] += f" {line.strip()}"
        else:
            name = None
    return found


def build(section: str, given: Any, where: str | None = None) -> Any:
    """The object that a table describes; an object is returned as it is. Errors call the table `where`.

    >>> build("task", {"kind": "sample", "task": {"classes": 3}, "n": 10, "seed": 0}).task
    Mixture(classes=3, priors=None, gram=None, loss='logistic')
    """
    where = where or section
    if hasattr(type(given), "spec"):
        if kind_of(given)[0] not in (section, None):  # a network of the user's own is no kind
            raise SpecError(f"{where} = {shown(given)}: expected a {section}, or a table of its fields.")
        return given
    kind, values = _opened(section, given, where)
    maker, known = kinds(section)[kind], fields(section, kind)
    recorded = {name: values.pop(name) for name in getattr(maker, "recorded", ()) if name in values}
    _check_known(where, values, known)
    for key, field in known.items():
        if field.section and (key in values or field.default is MISSING):
            values[key] = build(field.section, values.get(key), f"{where}.{key}")
        elif field.default is MISSING and key not in values:
            raise SpecError(f"{where}.{key} is missing: a {section} of kind {kind!r} needs it.")
    try:
        made = maker(**{known[key].name: _unplain(value) for key, value in values.items()})
    except SpecError as error:
        raise SpecError(f"{where}: {error}") from None
    if recorded.get("checksum") not in (None, getattr(made, "checksum", None)):
        raise StoreError(
            f"{where} has the checksum {made.checksum}: the run was trained on {recorded['checksum']!r:.80}; use the data it "
            "was trained on."
        )
    return made


def complete(section: str, given: Any, moving: Table | None = None, where: str | None = None) -> Table:
    """The whole table of a section, defaults written out and checked, from a table or from the object itself.

    moving  {dotted name: value} of what is set later, e.g. by a sweep's axis; a field without a default takes it from there
    """
    moving, where = moving or {}, where or section
    kind, values = _opened(section, given.spec() if hasattr(type(given), "spec") else given, where)
    maker, known = kinds(section)[kind], fields(section, kind)
    values = {key: value for key, value in values.items() if key not in getattr(maker, "recorded", ())}
    _check_known(where, values, known)
    values = {key: value if known[key].section else plain(value) for key, value in values.items()}
    for key, field in known.items():
        name = f"{where}.{key}"
        if field.section:
            default = None if field.default is MISSING else field.default
            values[key] = complete(field.section, values.get(key, default), moving, name)
        elif key not in values:
            values[key] = plain(moving.get(name, MISSING) if field.default is MISSING else field.default)
            if values[key] is MISSING:
                raise SpecError(f"{name} is missing: a {section} of kind {kind!r} needs it.")
    made = build(section, {"kind": kind, **values}, where)
    if type(made) is maker:  # numbers as they are kept, 20000 for 2e4; parts stay tables, which may be recipes
        kept = made.spec()
        values = {key: values[key] if field.section else kept[key] for key, field in known.items()}
    return {"kind": kind, **values}


def _opened(section, given, where):
    """(kind, a copy of the other fields) of a table."""
    if where.count(".") > DEEPEST:
        raise SpecError(
            f"{where.split('.')[0]} holds tables inside one another more than {DEEPEST} deep, perhaps without an end: expected "
            "a task of a task a few times."
        )
    if given is not None and not isinstance(given, dict):
        raise SpecError(f"{where} = {shown(given)}: expected a {section}, or a table of its fields.")
    values = dict(given or {})
    kind = one_of(f"{where}.kind", values.pop("kind", DEFAULT_KIND[section]), tuple(kinds(section)))
    return kind, values


def _check_known(where, values, known):
    for key in values:
        if key not in known:
            names = ", ".join(known)
            raise SpecError(f"{where}.{shown(key)} is unknown: expected one of {names}{nearest(key, known)}.")


def read(given: Table | str | os.PathLike) -> tuple[Any, Any, Any]:
    """(task, network, method) of a dictionary of tables, or of the TOML or JSON file at a path; defaults where one is missing.

    Raises SpecError for anything that describes no run, StoreError for a file that cannot be read.

    >>> read({"task": {"classes": 3}, "method": {"kind": "flow", "until": 10}})[0].classes
    3
    """
    table = tables(given)
    try:
        return tuple(build(section, table.get(section)) for section in SECTIONS)
    except RecursionError:
        raise SpecError("the tables hold one another without an end: expected a task of a task a few times.") from None


def tables(given: Table | str | os.PathLike) -> Table:
    """The dictionary of tables itself: task, transformer, method, and "model" and "name" if they are given."""
    if not isinstance(given, dict):
        given = parsed(given)
    known = ("name", "model", *SECTIONS)
    for key in given:
        if key in ("grid", "list", "random", "seeds", "output"):
            raise SpecError(f"[{key}] belongs to a sweep: `mixflow sweep` takes this file, one run has none of it.")
        if key not in known:
            raise SpecError(f"the entry {shown(key)} is unknown: expected {', '.join(known)}{nearest(key, known)}.")
    return given


def parsed(path: str | os.PathLike) -> Table:
    """The tables in the TOML or JSON file at a path; SpecError or StoreError, in one sentence, for anything else."""
    path = regular(path)
    try:
        with open(path, "rb") as file:
            content = file.read(SIZE_LIMIT + 1)
    except OSError as error:
        raise StoreError(f"cannot read {said(path)}: {error.strerror}; give the path of a TOML file.") from None
    if len(content) > SIZE_LIMIT:
        raise SpecError(f"{said(path)} has more than {SIZE_LIMIT} bytes: it describes no run and no sweep.")
    form = "JSON" if path.suffix == ".json" else "TOML"
    try:
        given = (json.loads if form == "JSON" else tomllib.loads)(content.decode())
    except (ValueError, RecursionError) as error:
        why = " ".join(str(error).split()) or type(error).__name__
        raise SpecError(f"{said(path)} is not valid {form}: {why}.") from None
    if not isinstance(given, dict):
        raise SpecError(f"{said(path)} holds {shown(given)}: expected tables, for example [task].")
    return given


def toml(tables: Table) -> str:
    """The text of a TOML file with these tables, e.g. {"task": task.spec(), …}; fields that are None are left out.

    >>> print(toml({"method": {"kind": "flow", "until": 10.0, "save_at": [1.0, "inf"]}}))
    [method]
    kind = "flow"
    until = 10.0
    save_at = [1.0, "inf"]
    """
    lines = []
    for name, table in tables.items():
        if not isinstance(table, dict):
            lines.append(f"{name} = {_toml(table)}")
            continue
        lines += ["", f"[{name}]", *(f"{key} = {_toml(value)}" for key, value in table.items() if value is not None)]
    return "\n".join(lines).strip()


def _toml(value):
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(x)}" for key, x in value.items() if x is not None) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def leaves(table: Table, prefix: str) -> Iterator[str]:
    """Dotted names of the fields in a complete table, those of the specifications inside it included."""
    for key, inside in table.items():
        if isinstance(inside, dict) and key in SECTIONS:
            yield from leaves(inside, f"{prefix}.{key}")
        elif key != "kind":
            yield f"{prefix}.{key}"


def filled(base: Table, values: Table) -> Table:
    """`base` with {dotted name: value} put in; parts that do not change are shared, not copied."""
    result = dict(base)
    for name, inside in values.items():
        *way, last = name.split(".")
        place = result
        for step in way:
            place[step] = dict(place.get(step) or {})
            place = place[step]
        place[last] = inside
    return result


def plain(value: Any) -> Any:
    """A value as JSON and TOML know it; infinity as "inf", an array as lists, a specification as its table."""
    if hasattr(type(value), "spec"):
        return value.spec()
    if hasattr(type(value), "tolist"):  # NumPy's arrays and numbers
        value = value.tolist()
    if isinstance(value, float) and math.isinf(value):
        return "inf" if value > 0 else "-inf"
    if isinstance(value, dict):
        return {key: plain(inside) for key, inside in value.items()}
    return [plain(x) for x in value] if isinstance(value, (list, tuple)) else value


def _unplain(value):
    return {"inf": math.inf, "-inf": -math.inf}.get(value, value) if isinstance(value, str) else value
