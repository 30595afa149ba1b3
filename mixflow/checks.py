"""Checks made once, when a spec object is built; each raises `SpecError` in one sentence.

They serve your own tasks and networks too:

>>> import mixflow as mf
>>> mf.checks.whole("heads", 2.0, most=8)
2
>>> mf.checks.one_of("pooling", "maen", ("mean", "sum"))
Traceback (most recent call last):
mixflow.errors.SpecError: pooling = 'maen': expected one of 'mean', 'sum'; did you mean 'mean'.
"""

import itertools
import math
import numbers
from collections.abc import Collection, Iterable
from typing import Any

from .errors import SpecError

__all__ = ["flag", "nearest", "one_of", "real", "whole"]

LIST_LIMIT = 10**6  # entries of a list that are read; more is a mistake, or an iterator without an end
TEXT_LIMIT = 60  # characters of a value that are shown


def shown(value: Any) -> str:
    """`value` for a message: its repr in one line, cut if it is long; never an error."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # an int of more than 4,300 digits, or somebody's own __repr__
        text = f"a {type(value).__name__} that cannot be shown"
    return text if len(text) <= TEXT_LIMIT else f"{text[:TEXT_LIMIT]}…"


def whole(name: str, value: Any, *, least: int = 1, most: int | None = None, fix: str = "") -> int:
    """`value` as an int within [least, most], or a SpecError."""
    number = _number(value)
    fits = number is not None and math.isfinite(number) and int(number) == number
    if not fits or number < least or (most is not None and number > most):
        raise SpecError(f"{name} = {shown(value)}: expected a whole number{_range(least, most)}{_fix(fix)}.")
    return int(number)


def real(
    name: str,
    value: Any,
    *,
    above: float | None = None,
    least: float | None = None,
    below: float | None = None,
    most: float | None = None,
    fix: str = "",
) -> float:
    """`value` as a finite float within the open (`above`, `below`) or closed (`least`, `most`) bounds, or a SpecError."""
    number = _number(value)
    fits = number is not None and math.isfinite(number)
    number = float(number) if fits else math.nan
    bounds = [
        ("above", above, above is None or number > above),
        ("at least", least, least is None or number >= least),
        ("below", below, below is None or number < below),
        ("at most", most, most is None or number <= most),
    ]
    if not fits or not all(holds for _, _, holds in bounds):
        wanted = " and ".join(
            f"{word} {str(bound).removesuffix('.0')}" for word, bound, _ in bounds if bound is not None
        )
        value = shown(number if fits else value)
        raise SpecError(f"{name} = {value}: expected a finite number{' ' + wanted if wanted else ''}{_fix(fix)}.")
    return number


def seed(name: str, value: Any) -> int:
    """`value` as the seed of a random number generator, from 0 to what a file's 64 bits hold, or a SpecError."""
    return whole(name, value, least=0, most=2**63 - 1)


def flag(name: str, value: Any) -> bool:
    """`value` as a bool if it is one, or a SpecError."""
    if type(value).__name__ in ("bool", "bool_"):  # Python's and NumPy's
        return bool(value)
    raise SpecError(f"{name} = {shown(value)}: expected True or False.")


def one_of(name: str, value: Any, choices: Collection[str]) -> str:
    """`value` if it is among `choices`, all of them strings, or a SpecError that suggests the nearest one."""
    if not isinstance(value, str) or value not in choices:
        listed = ", ".join(map(repr, choices))
        raise SpecError(f"{name} = {shown(value)}: expected one of {listed}{nearest(value, choices)}.")
    return value


def word(name: str, value: Any) -> str:
    """`value` as a name that files and messages can carry, or a SpecError."""
    if not isinstance(value, str) or not value or not value.isprintable():
        raise SpecError(f"{name} = {shown(value)}: expected a name, a string of at least one printable character.")
    return str(value)


def listed(name: str, value: Any, expected: str = "a list", *, most: int = LIST_LIMIT) -> tuple:
    """The entries of a list, a tuple, an array or another iterable, as a tuple, or a SpecError.

    Strings and tables can be iterated over, too, but never mean a list of their letters or keys.
    """
    try:
        if isinstance(value, (str, bytes, dict, set, frozenset)):
            raise TypeError
        entries = tuple(itertools.islice(iter(value), most + 1))
    except Exception:  # iterating is the caller's code: whatever it raises, it is no list
        raise SpecError(f"{name} = {shown(value)}: expected {expected}.") from None
    if len(entries) > most:
        raise SpecError(f"{name} has more than {most} entries: expected {expected} of at most that many.")
    return entries


def array(name: str, value: Any, expected: str = "an array of numbers", *, ends: tuple[int, ...] = ()) -> Any:
    """`value` as an array of float64, with the sizes `ends` of its last axes, or a SpecError."""
    import numpy as np

    if not (isinstance(value, np.ndarray) and value.dtype == float):  # most are: this is asked at every measurement
        value = _floats(name, value, expected)
    if len(ends) > value.ndim or value.shape[value.ndim - len(ends) :] != ends:
        wanted = ", ".join(map(str, ("...", *ends)))
        raise SpecError(f"{name} has shape {value.shape}: expected ({wanted}), {expected}.")
    return value


def _floats(name, value, expected):
    import numpy as np

    try:
        if isinstance(value, (str, bytes, dict)) or (
            isinstance(value, (list, tuple, range)) and len(value) > LIST_LIMIT
        ):
            raise TypeError
        found = np.asarray(value)
        if found.dtype.kind not in "biufO" or (found.dtype.kind == "O" and any(x is None for x in found.flat)):
            raise TypeError
        return found.astype(float)
    except Exception:  # asking for an array is the caller's code, too: whatever it raises, it is none
        raise SpecError(f"{name} = {shown(value)}: expected {expected}.") from None


def function(name: str, value: Any, expected: str) -> Any:
    """`value` if it can be called or is None, or a SpecError."""
    if value is not None and not callable(value):
        raise SpecError(f"{name} = {shown(value)}: expected {expected}, or None.")
    return value


def a_run(value: Any) -> Any:
    """`value` if it is a Run, or a SpecError."""
    if isinstance(value, type) or not all(hasattr(value, each) for each in ("dataset", "method", "transformer")):
        raise SpecError(f"run = {shown(value)}: expected a Run, as mf.train and mf.load give.")
    return value


def nearest(value: Any, choices: Iterable[str]) -> str:
    """ "; did you mean 'x'" for the choice nearest to a misspelt `value`, or nothing."""
    import difflib

    if not isinstance(value, str):
        return ""
    close = difflib.get_close_matches(value[:TEXT_LIMIT], [str(choice) for choice in choices], n=1)
    return f"; did you mean {close[0]!r}" if close else ""


def _number(value):
    """`value` as an int or a float, or None where it is neither or, as 10**400, too large for a float."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return None
    try:
        number = float(value)
        return int(value) if isinstance(value, numbers.Integral) else number
    except (OverflowError, ValueError, TypeError):
        return None


def _range(least, most):
    return f" from {least} to {most}" if most is not None else f" of at least {least}"


def _fix(fix):
    return f"; {fix}" if fix else ""
