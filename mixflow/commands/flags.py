"""Flags from the fields of specifications: name, help and default come from the class itself."""

import tomllib
from dataclasses import MISSING

from ..spec import fields, plain


def flags(section, *chosen):
    """[(words, settings of argparse)] for the fields of these kinds; a flag that kinds share stands once."""
    found = {}
    for kind in chosen:
        for field in fields(section, kind).values():
            if field.flag and field.flag not in found:
                found[field.flag] = _flag(section, field)
    return [([flag], settings) for flag, settings in found.items()]


def _flag(section, field):
    known = field.default not in (None, MISSING, False) and not field.section
    meaning = field.help + (f" (default: {plain(field.default)})" if known else "")
    settings = {"dest": f"{section}.{field.key}", "default": None, "help": meaning.replace("%", "%%")}
    if isinstance(field.default, bool):
        return {**settings, "action": "store_const", "const": not field.default}
    return {**settings, "type": value, "metavar": field.key.split("_")[-1].upper()}


def value(text):
    """What the text of a flag stands for: a number, a list, a table as in TOML, or the text itself.

    >>> value("inf"), value("0.5,0.5"), value("[1, 2]"), value("loss:0.1"), value("true")
    (inf, [0.5, 0.5], [1, 2], 'loss:0.1', True)
    """
    try:
        return float(text.replace("∞", "inf")) if not text.lstrip("+-").isdigit() else int(text)
    except ValueError:
        pass
    try:
        read = tomllib.loads(f"value = {text}")
        if set(read) == {"value"}:
            return read["value"]
    except (ValueError, RecursionError):
        pass
    return [value(piece.strip()) for piece in text.split(",")] if "," in text else text
