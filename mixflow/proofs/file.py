"""A proof as one JSON file: whole numbers, fractions and floats that read back exactly, sealed with a checksum.

Times are whole multiples of 2⁻³⁴, coefficients of 2⁻⁵⁶.
"""

import hashlib
import json
from fractions import Fraction

import numpy as np

from ..errors import SpecError, StoreError
from ..intervals import Interval
from ..methods.until import Until, is_event
from ..sealed import plain, said, write_whole
from . import form
from .approximate import OPEN, QUANTUM_BITS, TICK, TICK_BITS, Piece
from .stages import Ended, exact
from .tube import Tube

LETTERS = {0.0: "0", 1.0: "1", OPEN: "?"}
LARGEST = 2**26  # bytes; proofs to a loss of 0.1 have 240,000 at K = 2, 510,000 at K = 3


def seal(content):
    """The checksum of everything but itself."""
    bare = {name: value for name, value in content.items() if name != "checksum"}
    return hashlib.sha256(json.dumps(bare, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def contents(proof):
    """The proof as a dictionary, as it stands in the file. "separated" is left out for K > 2: the checker cannot read it."""
    told = {name: proof.found[name] for name in ("silent", "right", "separated")}
    if proof.classes > 2:
        told["separated"] = None
    content = {
        "format": form.FORMAT,
        "classes": proof.classes,
        "omega": [_pair(end) for end in proof.omega],
        "bias": [_pair(end) for end in proof.bias],
        "tick_bits": TICK_BITS,
        "quantum_bits": QUANTUM_BITS,
        "stages": [_stage(proof.tube, number, ended) for number, ended in enumerate(proof.ended)],
        "claims": {name: _both(time) for name, time in told.items()},
    }
    return {**content, "checksum": seal(content)}


def _stage(tube, number, ended):
    begin, end = [*tube.begins, len(tube.times)][number : number + 2]
    cells, first, last = slice(begin, end), tube.owner[begin], tube.owner[end - 1]
    return {
        "name": ended.name,
        "moves": ended.moves,
        "end": {"quantity": ended.end.quantity, "level": _pair(exact(ended.end.threshold))}
        if is_event(ended.end)
        else {"duration": _pair(ended.end)},
        "time": _both(ended.time),
        "first_radius": float(tube.first[number]),
        "held": float(tube.held[begin]),
        "pieces": [_piece(piece) for piece in tube.pieces[first : last + 1]],
        "cells": {
            "piece": (tube.owner[cells] - first).tolist(),
            "begin": [_ticks(t) for t in tube.times[cells, 0]],
            "end": [_ticks(t) for t in tube.times[cells, 1]],
            "delta": tube.delta[cells].tolist(),
            "mu": tube.mu[cells].tolist(),
            "radius": tube.radius[cells].tolist(),
        },
    }


def write(proof, path):
    """Write the file, all or nothing. Raises StoreError if that is impossible."""
    write_whole(path, json.dumps(contents(proof), separators=(",", ":")).encode())


def read(path):
    """The `Proof` in a file; z in the tubes is not stored and reads back as unknown. Raises StoreError if it is none."""
    from .proof import Proof

    return Proof(**_fields(_opened(path)))


def _opened(path):
    """The table in a file: its checksum is right and every field can be read. Raises StoreError in one sentence."""
    fix, raw = "give a file written by mixflow prove --out", plain(path, LARGEST)
    try:
        content = json.loads(raw.decode(), parse_constant=_refuse)
        sealed = seal(content) if isinstance(content, dict) else None
    except (ValueError, RecursionError):  # not of this encoding, no JSON, too many digits, or nested without end
        raise StoreError(f"cannot read {said(path)}: it is not JSON; {fix}.") from None
    if sealed is None or content.get("format") != form.FORMAT:
        raise StoreError(f"cannot read {said(path)}: it is not a proof; {fix}.")
    if content.get("checksum") != sealed:
        raise StoreError(f"{said(path)} was altered after it was written: its checksum is another; prove it again.")
    try:
        form.check(content)
    except StoreError as error:
        raise StoreError(f"{said(path)} has not the form of a proof: {str(error)[:-1]}; {fix}.") from None
    return content


def _refuse(name):
    raise ValueError(f"{name} is no JSON")


def verdict(path, report=None):
    """Why the independent checker refuses a file, or None if it accepts it.

    Raises StoreError if there is nothing to check, SpecError without python-flint.
    """
    try:
        from . import checker
    except ImportError:
        raise SpecError(
            "python-flint is not installed, and the checker computes with it; install it with pip install 'mixflow[prove]'."
        ) from None
    try:
        checker.check(_opened(path), report or (lambda done, cells: None))
    except checker.Refused as error:  # and nothing else: whatever else goes wrong is the checker's own fault
        return str(error)
    return None


def _fields(content):
    stages = content["stages"]
    tubes = [_tube(stage) for stage in stages]
    return {
        "classes": content["classes"],
        "omega": tuple(Fraction(*end) for end in content["omega"]),
        "bias": tuple(Fraction(*end) for end in content["bias"]),
        "ended": tuple(
            Ended(stage["name"], stage["moves"], _end(stage["end"]), _times(stage["time"])) for stage in stages
        ),
        "found": {name: _times(ticks) for name, ticks in content["claims"].items()} | {"half": None},
        "distance": 0.0,
        "tube": tubes[0] if len(tubes) == 1 else Tube.joined(tubes),
    }


def _tube(stage):
    pieces = [
        Piece(p["begin"] * TICK, p["end"] * TICK, np.array(p["x"], np.int64), np.array([_gate(g) for g in p["gates"]]))
        for p in stage["pieces"]
    ]
    whole = ("piece", "begin", "end")
    cells = {name: np.array(values, int if name in whole else float) for name, values in stage["cells"].items()}
    unknown = np.full((len(cells["begin"]), len(pieces[0].gates)), np.inf)
    return Tube(
        pieces=pieces,
        owner=cells["piece"],
        times=np.stack([cells["begin"], cells["end"]], 1) * TICK,
        held=np.full(len(unknown), stage["held"]),
        first=np.array([stage["first_radius"]]),
        begins=np.array([0]),
        z=Interval(-unknown, unknown),
        loose=cells["radius"],
        **{name: cells[name] for name in ("delta", "mu", "radius")},
    )


def _end(end):
    return Fraction(*end["duration"]) if "duration" in end else Until(end["quantity"], float(Fraction(*end["level"])))


def _times(ticks):
    return ticks and tuple(None if t is None else t * TICK for t in ticks)


def _both(time):
    return time and [None if t is None else _ticks(t) for t in time]


def _gate(letter):
    return {letter: value for value, letter in LETTERS.items()}[letter]


def _piece(piece):
    gates = "".join(LETTERS[float(g)] for g in piece.gates)
    return {"begin": _ticks(piece.begin), "end": _ticks(piece.end), "gates": gates, "x": piece.coefficients.tolist()}


def _pair(fraction):
    return [fraction.numerator, fraction.denominator]


def _ticks(t):
    return round(t / TICK)
