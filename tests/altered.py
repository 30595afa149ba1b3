"""Proofs altered in one place, each under a fresh checksum, for the checker to refuse (test_proofs.py, benchmarks/proofs.py)."""

import copy

from mixflow.proofs import checker
from mixflow.proofs.file import seal


def refused(content):
    """Why the checker refuses contents with a fresh checksum, or None."""
    try:
        checker.check({**content, "checksum": seal(content)}, lambda done, cells: None)
    except checker.Refused as error:
        return str(error)
    return None


def alter(content, rng):
    """One random alteration of one cell or piece, as (name, contents)."""
    new = copy.deepcopy(content)
    stage = new["stages"][rng.integers(len(new["stages"]))]
    cells, kind = stage["cells"], rng.integers(8)
    k, piece = rng.integers(len(cells["radius"])), stage["pieces"][rng.integers(len(stage["pieces"]))]
    if kind < 3:
        name, factor = (("radius", 0.5), ("mu", 0.99), ("delta", 0.5))[kind]
        cells[name][k] *= factor
    elif kind == 3:
        row, i = rng.integers(len(piece["x"])), rng.integers(34)
        name, value = "coefficient", piece["x"][row][i]
        piece["x"][row][i] = value + max(1, abs(value) // 10**6)
    elif kind == 4:
        name, i = "sign dropped", rng.integers(4)
        piece["gates"] = piece["gates"][:i] + piece["gates"][i + 1 :]
    elif kind == 5:
        name, i = "sign opened", rng.integers(4)
        other = "1" if piece["gates"][i] == "?" else "?"
        piece["gates"] = piece["gates"][:i] + other + piece["gates"][i + 1 :]
    elif kind == 6:
        name = "cell missing"
        for values in cells.values():
            del values[k]
    else:
        name, stage["first_radius"] = "first radius", stage["first_radius"] / 2
    return name, new
