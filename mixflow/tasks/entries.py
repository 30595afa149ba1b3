"""Checks for what tasks are made of: lists of names, tokens and numbers, and matrices."""

import math

import numpy as np

from ..checks import flag, listed, real, shown, word
from ..errors import SpecError

SIZE_LIMIT = 8192  # rows of a matrix


def words(name, value):
    """Different words, at least one, or a SpecError."""
    made = tuple(word(f"{name}[{i}]", x) for i, x in enumerate(listed(name, value, "a list of names")))
    if not made or len(set(made)) != len(made):
        raise SpecError(f"{name} = {shown(list(made))}: expected at least one name, each once.")
    return made


def token(name, value):
    """(feature, coefficient), or a SpecError."""
    if _settled(value):
        return value
    pair = listed(name, value, "a token (feature, coefficient), for example ('v1', -1)", most=16)
    if len(pair) != 2:
        raise SpecError(f"{name} = {shown(pair)}: expected a token (feature, coefficient), for example ('v1', -1).")
    return word(f"the feature of {name}", pair[0]), real(f"the coefficient of {shown(pair[0])} in {name}", pair[1])


def _settled(value):
    """Whether this is a token as it is kept: those of a task made from another one are, and there may be many."""
    return (
        type(value) is tuple
        and len(value) == 2
        and (type(value[0]), type(value[1])) == (str, float)
        and value[0] != ""
        and value[0].isprintable()
        and math.isfinite(value[1])
    )


def atoms(name, value):
    """Tuples of tokens, or a SpecError."""
    made = []
    for a, atom in enumerate(listed(name, value, "a list of atoms")):
        where = f"{name}[{a}]"
        inside = tuple(token(where, x) for x in listed(where, atom, "a list of (feature, coefficient) tokens"))
        if not inside:
            raise SpecError(f"{where} is empty: each atom needs at least one (feature, coefficient) token.")
        made.append(inside)
    if not made:
        raise SpecError(f"{name} is empty: a task needs at least one atom.")
    return tuple(made)


def tokens(name, value):
    """A token for each atom, or a SpecError."""
    return tuple(
        token(f"{name}[{a}]", x) for a, x in enumerate(listed(name, value, "a list of tokens, one for each atom"))
    )


def numbers(name, value):
    """Finite numbers as an array (n,), or a SpecError."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "fiu" and value.ndim == 1 and np.isfinite(value).all():
        return value.astype(float)
    return np.array([real(f"{name}[{i}]", x) for i, x in enumerate(listed(name, value, "a list of numbers"))])


def flags(name, value):
    """Truth values as an array (n,), or a SpecError."""
    return np.array(
        [flag(f"{name}[{i}]", x) for i, x in enumerate(listed(name, value, "a list of True and False"))], bool
    )


def matrix(name, value):
    """Finite numbers as an array of two dimensions, or a SpecError."""
    rows = [numbers(f"{name}[{i}]", row) for i, row in enumerate(listed(name, value, "a matrix", most=SIZE_LIMIT))]
    if not rows or len({len(row) for row in rows}) != 1:
        raise SpecError(f"{name} = {shown(value)}: expected a matrix, rows of equal length.")
    return np.array(rows)
