"""What the file of a proof holds, field by field: `check` names the first one that is other, so that readers need not doubt.

A form is a table of forms, a list [form] of at least one entry, a tuple with a form for each entry, or a `Leaf`. Anybody can
put a right checksum on a file; here it is asked whether it can be taken apart and shown, never whether its proof holds.
"""

from typing import Any, NamedTuple

from ..checks import shown
from ..errors import StoreError
from ..methods.until import QUANTITIES
from .approximate import QUANTUM_BITS, TICK_BITS
from .proof import MOST_CLASSES

FORMAT = "mixflow proof 2"
LETTERS = "01?"  # of gates
COORDINATES = 34
LARGE = 10**300  # of numbers: far beyond those of a proof, well within floats
LONG = 10**400  # of the whole numbers in a fraction: decimals of floats have fewer digits
# By their number: the name of each stage of training and what moves in it.
STAGES = {1: [(None, "all")], 3: [("neurons", "w"), ("attention", "attention"), ("convergence", "w")]}


class Leaf(NamedTuple):
    """A value that is looked at as a whole."""

    fits: Any
    expected: str


def check(content):
    """Raise a StoreError that names the first field of a table which `mixflow prove --out` would not have written."""
    _demand("the file", content, HEAD)
    count = len(content["stages"])
    if count not in STAGES:
        raise StoreError(f"stages has {count} entries: expected {' or '.join(map(str, STAGES))}.")
    for number, (stage, named) in enumerate(zip(content["stages"], STAGES[count]), 1):
        _check_stage(f"stages[{number - 1}]", stage, named, content["classes"], number == count)


def _check_stage(where, stage, named, classes, last):
    piece = {"begin": TICKS, "end": TICKS, "gates": _gates(2 * classes), "x": [(COEFFICIENT,) * COORDINATES]}
    known = {"name": _one_of(named[0]), "moves": _one_of(named[1]), "pieces": [piece], "cells": CELLS}
    _demand(where, stage, known | {"end": ANY, "time": ANY, "first_radius": REAL, "held": REAL})
    pieces, cells, end = stage["pieces"], stage["cells"], stage["end"]
    lasts = isinstance(end, dict) and "duration" in end
    _demand(f"{where}.end", end, {"duration": FRACTION} if lasts else EVENT)
    # When a last stage of a given duration ends needs no telling.
    _demand(f"{where}.time", stage["time"], _one_of(None) if lasts and last else (TICKS, TICKS))
    rows = dict.fromkeys(CELLS, ANY) | {"piece": _whole(0, len(pieces) - 1)}
    _demand(f"{where}.cells", cells, {name: (leaf,) * len(cells["begin"]) for name, leaf in rows.items()})


def _demand(where, value, form):
    """Raise a StoreError unless the value has the form."""
    if isinstance(form, Leaf):
        if not form.fits(value):
            raise StoreError(f"{where} = {shown(value)}: expected {form.expected}.")
    elif isinstance(form, dict):
        _demand_table(where, value, form)
        for name, part in form.items():
            _demand(name if form is HEAD else f"{where}.{name}", value[name], part)
    else:
        many = isinstance(form, list)
        if not isinstance(value, list) or (not value if many else len(value) != len(form)):
            count = "of at least one entry" if many else f"of {len(form)} entries"
            raise StoreError(f"{where} = {shown(value)}: expected a list {count}.")
        for place, part in enumerate(value):
            _demand(f"{where}[{place}]", part, form[0 if many else place])


def _demand_table(where, value, form):
    """The names of a table are those of its form, no more and no less."""
    if not isinstance(value, dict):
        why = f"= {shown(value)}"
    elif missing := [name for name in form if name not in value]:
        why = f"is without {missing[0]}"
    elif more := [name for name in value if name not in form]:
        why = f"has {shown(more[0])} too"
    else:
        return
    raise StoreError(f"{where} {why}: expected a table with {', '.join(form)}.")


def _one_of(*choices):
    words = " or ".join("null" if each is None else repr(each) for each in choices)
    return Leaf(lambda value: any(type(value) is type(each) and value == each for each in choices), words)


def _whole(least, most):
    return Leaf(lambda value: type(value) is int and least <= value <= most, f"a whole number from {least} to {most}")


def _gates(count):
    def fits(value):
        return isinstance(value, str) and len(value) == count and set(value) <= set(LETTERS)

    return Leaf(fits, f"{count} of the letters {LETTERS}")


def _is_real(value):
    return type(value) in (int, float) and -LARGE <= value <= LARGE


def _is_fraction(value):
    if not isinstance(value, list) or [type(each) for each in value] != [int, int]:
        return False
    above, below = value
    return abs(above) <= LONG and 0 < below <= LONG and abs(above) <= LARGE * below


ANY = Leaf(lambda value: True, "anything")
REAL = Leaf(_is_real, "a finite number")
TICKS, COEFFICIENT = _whole(0, 2**63 - 1), _whole(-(2**63), 2**63 - 1)
FRACTION = Leaf(_is_fraction, "a fraction, a list of a whole number and a positive one")
LEVEL = Leaf(
    lambda value: _is_fraction(value) and value[0] * LARGE >= value[1],
    "a positive fraction, a list of two positive whole numbers",
)
EVENT = {"quantity": _one_of(*QUANTITIES), "level": LEVEL}
CELLS: dict[str, Any] = {
    "piece": [ANY],
    "begin": [TICKS],
    "end": [TICKS],
    "delta": [REAL],
    "mu": [REAL],
    "radius": [REAL],
}


def _span(low):
    """The form of null or [low, high], two times."""

    def fits(value):
        return value is None or (
            isinstance(value, list) and len(value) == 2 and low.fits(value[0]) and TICKS.fits(value[1])
        )

    return Leaf(fits, "null or a list of two times")


HEAD = {
    "format": _one_of(FORMAT),
    "checksum": ANY,
    "classes": _whole(2, MOST_CLASSES),
    "omega": (FRACTION, FRACTION),
    "bias": (FRACTION, FRACTION),
    # The checker computes with these two, the words of a proof with our own: other ones would be checked but not told.
    "tick_bits": _one_of(TICK_BITS),
    "quantum_bits": _one_of(QUANTUM_BITS),
    "stages": [ANY],
    "claims": {
        "silent": _span(TICKS),
        "right": _span(Leaf(lambda t: t is None or TICKS.fits(t), "")),
        "separated": _span(TICKS),
    },
}
