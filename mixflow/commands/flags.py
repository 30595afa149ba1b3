"""Flags from the fields of specifications: name, help and default come from the class itself."""

import tomllib
from dataclasses import MISSING

from ..checks import shown
from ..errors import SpecError
from ..spec import SECTIONS, fields, filled, plain

SET = (
    ["--set"],
    {
        "action": "append",
        "default": [],
        "metavar": "NAME=VALUE",
        "help": "any field by its dotted name: task.kind=regression",
    },
)


def flags(chosen):
    """[(words, settings of argparse)] for the fields of {section: kinds}, and --set for all others.

    A flag that kinds share stands once; one that an earlier section has taken carries its section's name in front.
    """
    found, taken = [], set()
    for section, kinds in chosen.items():
        known = {}
        for kind in kinds:
            known |= {key: field for key, field in fields(section, kind).items() if key not in known}
        for field in known.values():
            if field.flag:
                word = f"--{field.key.replace('_', '-')}"
                word = f"--{section}-{word[2:]}" if word in taken else word
                taken.add(word)
                found.append(([word], _settings(section, field)))
    return [*found, SET]


def _settings(section, field):
    known = field.default not in (None, MISSING, False)
    meaning = field.help + (f" (default: {_shown(field.default)})" if known else "")
    settings = {"dest": f"{section}.{field.key}", "default": None, "help": meaning.replace("%", "%%")}
    if isinstance(field.default, bool):
        return {**settings, "action": "store_const", "const": not field.default}
    return {**settings, "type": value, "metavar": field.key.split("_")[-1].upper()}


def _shown(default):
    default = plain(default)
    return f"{default['quantity']}:{default['threshold']:g}" if isinstance(default, dict) else default


def given(options, base=None):
    """`base`, tables of a file, with what flags and --set say put in."""
    values = {name: x for name, x in vars(options).items() if "." in name and x is not None}
    for text in options.set:
        name, equals, word = text.partition("=")
        if not equals or ("." not in name and name not in SECTIONS):
            raise SpecError(f"--set {shown(text)}: expected NAME=VALUE with a dotted name, for example task.classes=3.")
        values[name] = value(word)
    for name in values:
        inside = base or {}
        for part in name.split(".")[:-1]:
            inside = inside.get(part) or {}
            if not isinstance(inside, dict):
                raise SpecError(f"{shown(name)}: {shown(part)} is no table that could have fields.")
    return filled(base or {}, values)


def value(text):
    """What the text of a flag stands for: a number, a list, a table as in TOML, or the text itself.

    >>> value("inf"), value("0.5,0.5"), value("[1, 2]"), value("loss:0.1"), value("true")
    (inf, [0.5, 0.5], [1, 2], 'loss:0.1', True)
    """
    for number in (int, float):
        try:
            return number(text.replace("∞", "inf"))
        except ValueError:
            pass
    try:
        read = tomllib.loads(f"value = {text}")
        if set(read) == {"value"}:
            return read["value"]
    except (ValueError, RecursionError):
        pass
    return [value(piece.strip()) for piece in text.split(",")] if "," in text else text
