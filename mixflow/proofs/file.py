"""A proof as one JSON file: whole numbers, fractions and floats that read back exactly, sealed with a checksum.

Times are whole multiples of 2⁻³⁴, coefficients of 2⁻⁵⁶.
"""

import hashlib
import json
import pathlib
from fractions import Fraction

import numpy as np

from ..errors import SpecError, StoreError
from ..intervals import Interval
from ..sealed import write_whole
from .approximate import OPEN, QUANTUM_BITS, TICK, TICK_BITS, Piece
from .tube import Tube

FORMAT = "mixflow proof 1"
LETTERS = {0.0: "0", 1.0: "1", OPEN: "?"}


def seal(content):
    """The checksum of everything but itself."""
    bare = {name: value for name, value in content.items() if name != "checksum"}
    return hashlib.sha256(json.dumps(bare, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def contents(proof):
    """The proof as a dictionary, as it stands in the file."""
    tube = proof.tube
    content = {
        "format": FORMAT,
        "classes": proof.classes,
        "omega": [_pair(end) for end in proof.omega],
        "bias": [_pair(end) for end in proof.bias],
        "tick_bits": TICK_BITS,
        "quantum_bits": QUANTUM_BITS,
        "pieces": [_piece(piece) for piece in tube.pieces[: tube.owner[-1] + 1]],
        "cells": {
            "piece": tube.owner.tolist(),
            "begin": [_ticks(t) for t in tube.times[:, 0]],
            "end": [_ticks(t) for t in tube.times[:, 1]],
            "delta": tube.delta.tolist(),
            "mu": tube.mu.tolist(),
            "radius": tube.radius.tolist(),
        },
        "first_radius": tube.first,
        "claims": {
            "loss": None
            if proof.level is None
            else {"level": _pair(proof.level), "time": [_ticks(t) for t in proof.time]},
            "switch_off": proof.switch_off and [_ticks(t) for t in proof.switch_off],
            "right_from": None if proof.right_from is None else _ticks(proof.right_from),
            "wrong_at": None if proof.wrong_at is None else _ticks(proof.wrong_at),
        },
    }
    return {**content, "checksum": seal(content)}


def write(proof, path):
    """Write the file, all or nothing. Raises StoreError if that is impossible."""
    write_whole(path, json.dumps(contents(proof), separators=(",", ":")).encode())


def read(path):
    """The `Proof` in a file; z in the tubes is not stored and reads back as unknown. Raises StoreError if it is none."""
    from .proof import Proof

    fix = "give a file written by mixflow prove --out"
    try:
        content = json.loads(pathlib.Path(path).read_text())
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror}; {fix}.") from None
    except ValueError:
        raise StoreError(f"cannot read {path}: it is not JSON; {fix}.") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise StoreError(f"cannot read {path}: it is not a proof; {fix}.")
    if content.get("checksum") != seal(content):
        raise StoreError(f"{path} was altered after it was written: its checksum is another; prove it again.")
    return Proof(**_fields(content))


def verdict(path, report=None):
    """Why the independent checker refuses a file, or None if it accepts it. Raises SpecError without python-flint."""
    try:
        from . import checker
    except ImportError:
        raise SpecError(
            "python-flint is not installed, and the checker computes with it; install it with pip install 'mixflow[prove]'."
        ) from None
    try:
        checker.check(json.loads(pathlib.Path(path).read_text()), report or (lambda done, cells: None))
    except checker.Refused as error:
        return str(error)
    except (ArithmeticError, LookupError, StopIteration, TypeError, ValueError) as error:
        return f"it has not the form of a proof ({type(error).__name__}: {error})"
    return None


def _fields(content):
    pieces = [
        Piece(p["begin"] * TICK, p["end"] * TICK, np.array(p["x"], np.int64), np.array([_gate(g) for g in p["gates"]]))
        for p in content["pieces"]
    ]
    cells = {name: np.array(values) for name, values in content["cells"].items()}
    times = np.stack([cells["begin"], cells["end"]], 1) * TICK
    unknown = np.full((len(times), len(pieces[0].gates)), np.inf)
    tube = Tube(
        pieces,
        cells["piece"],
        times,
        cells["delta"],
        cells["mu"],
        cells["radius"],
        content["first_radius"],
        Interval(-unknown, unknown),
    )
    said, loss = content["claims"], content["claims"]["loss"]

    def time(name):
        return None if said[name] is None else said[name] * TICK

    return {
        "classes": content["classes"],
        "omega": tuple(Fraction(*end) for end in content["omega"]),
        "bias": tuple(Fraction(*end) for end in content["bias"]),
        "level": loss and Fraction(*loss["level"]),
        "time": loss and tuple(t * TICK for t in loss["time"]),
        "switch_off": said["switch_off"] and tuple(t * TICK for t in said["switch_off"]),
        "right_from": time("right_from"),
        "wrong_at": time("wrong_at"),
        "distance": 0.0,
        "tube": tube,
    }


def _gate(letter):
    return {letter: value for value, letter in LETTERS.items()}[letter]


def _piece(piece):
    gates = "".join(LETTERS[float(g)] for g in piece.gates)
    return {"begin": _ticks(piece.begin), "end": _ticks(piece.end), "gates": gates, "x": piece.coefficients.tolist()}


def _pair(fraction):
    return [fraction.numerator, fraction.denominator]


def _ticks(t):
    return round(t / TICK)
