"""Checks made once, when a spec object is built; each raises `SpecError` in one sentence."""

import math
import numbers

from .errors import SpecError


def whole(name, value, *, least=1, most=None, fix=""):
    """`value` as an int within [least, most], or a SpecError."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        if isinstance(value, numbers.Real) and float(value).is_integer() and not isinstance(value, bool):
            value = int(value)
        else:
            raise SpecError(f"{name} = {value!r}: expected a whole number{_range(least, most)}{_fix(fix)}.")
    value = int(value)
    if value < least or (most is not None and value > most):
        raise SpecError(f"{name} = {value}: expected a whole number{_range(least, most)}{_fix(fix)}.")
    return value


def real(name, value, *, above=None, least=None, below=None, most=None, fix=""):
    """`value` as a finite float within the open (`above`, `below`) or closed (`least`, `most`) bounds, or a SpecError."""
    bounds = [
        (above, "above", lambda x: x > above),
        (least, "at least", lambda x: x >= least),
        (below, "below", lambda x: x < below),
        (most, "at most", lambda x: x <= most),
    ]
    wanted = " and ".join(f"{word} {bound:g}" for bound, word, _ in bounds if bound is not None)
    expected = f"expected a finite number{' ' + wanted if wanted else ''}{_fix(fix)}."
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not math.isfinite(value):
        raise SpecError(f"{name} = {value!r}: {expected}")
    value = float(value)
    if not all(holds(value) for bound, _, holds in bounds if bound is not None):
        raise SpecError(f"{name} = {value!r}: {expected}")
    return value


def flag(name, value):
    """`value` if it is a bool, or a SpecError."""
    if not isinstance(value, bool):
        raise SpecError(f"{name} = {value!r}: expected True or False.")
    return value


def one_of(name, value, choices):
    """`value` if it is among `choices`, or a SpecError that suggests the nearest one."""
    if value not in choices:
        raise SpecError(
            f"{name} = {value!r}: expected one of {', '.join(map(repr, choices))}{nearest(value, choices)}."
        )
    return value


def nearest(value, choices):
    """ ", did you mean 'x'" for the choice nearest to a misspelt `value`, or nothing."""
    import difflib

    close = difflib.get_close_matches(str(value), [str(choice) for choice in choices], n=1)
    return f"; did you mean {close[0]!r}" if close else ""


def _range(least, most):
    return f" from {least} to {most}" if most is not None else f" of at least {least}"


def _fix(fix):
    return f"; {fix}" if fix else ""
