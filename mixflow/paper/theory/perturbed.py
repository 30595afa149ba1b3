"""Perturbations of finite size, by symmetry type: two flows a small distance apart, and networks of finite width (§11).

Both are independent of the linearised flow of `stability.py` and must agree with it while the perturbation is small.
"""

from dataclasses import replace

import numpy as np

import mixflow as mf

from .symmetry import TYPES, basis, project

SIZE = 1e-5  # of a perturbation relative to ω²: far above the solver's 1e-10 and far below 1


def two_flows(task, transformer, kind, coordinates, times, *, size=SIZE, rtol=1e-11):
    """The perturbation's coordinates (T, n) in `basis(K, kind)` at `times`, and the size (T,) of what lies outside the type.

    Both are of the difference of two flows whose starts differ by size · ω² · coordinates, divided by size · ω². Rows are
    NaN after the perturbed flow stopped, if it did (neurons that switch together in the symmetric flow may not untangle).
    """
    rows = basis(task.classes, kind)
    transformer = replace(transformer, width=float("inf"))
    full, small = mf.field(task, transformer, model="gram"), mf.field(task, transformer, model="symmetric")
    unit = size * transformer.omega**2
    method = mf.GradientFlow(until=float(times[-1]), rtol=rtol, save_at=tuple(map(float, times)))
    base = np.array([small.expand(y) for y in small.flow(method).states])
    try:
        there = full.flow(method, y0=full.y0 + unit * (np.asarray(coordinates, float) @ rows))
    except mf.ChatteringError as stopped:
        there = stopped.run
    delta = np.full(base.shape, np.nan)
    delta[: len(there.states)] = (there.states - base[: len(there.states)]) / unit
    inside = delta @ rows.T
    return inside, np.linalg.norm(delta - inside @ rows, axis=1)


def asymmetry(A, K):
    """{type: (…) root mean square of that type's part of the scores} of states A (…, 2, 2K, 2K)."""
    return {kind: np.sqrt((project({"A": A}, K, kind)["A"] ** 2).mean(axis=(-3, -2, -1))) for kind in TYPES}


def seed_growth(task, A):
    """{type: (run, time) asymmetry relative to its start} of finite-width runs with scores A (run, time, 2, 2K, 2K).

    "equal, mirror" is left out: the symmetric solution itself moves there. So are the types that do not exist for this K.
    """
    found = asymmetry(np.asarray(A), task.classes)
    kinds = [kind for kind in TYPES[1:] if len(basis(task.classes, kind))]
    return {kind: found[kind] / found[kind][:, :1] for kind in kinds}
