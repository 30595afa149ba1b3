"""Linear systems that bound the growth of the critical sub-system, and a prediction made without it (docs/mathematics.md §12).

`sandwich`  bounds h on each of a few windows by constants and integrates the two comparison systems; by Müller's theorem they
            enclose every entry of B.
`predict`   uses nothing of the critical system: it follows the large system with the contrast's c–v scores held at 0 and
            integrates B' = H B + B H with the h of that background.
"""

import itertools
import math

import numpy as np

import mixflow as mf

from ..reaching import reaches
from .critical import CONTRAST, CV, C, V, along, critical, gates_at
from .enclosure import Interval, product

LEVEL = 1.0  # A_cv counts as learned: own signals look at the identifier e times more than others do
LIMIT = 1e5
STEP = 1e-3  # of the comparison systems, in units of their time scale
ROUNDS = 20  # attempts at a step; the first almost always holds
TRUST = 10  # how many times the certificate's difference the saved states may be off


def sandwich(system, windows=60):
    """Lower and upper bounds (T, 4, 4) of B by comparison systems with constant coefficients on each of some windows.

    On a window h stays between constants: those of `system.between`, proven for every time, or without it the extreme values at
    the saves, widened by the largest change between neighbours. A class average's residual is bounded alike. With every B_ij in
    [L_ij, U_ij],
        U_ij' = Σ_k max(H_ik B_kj) + max(B_ik H_kj) + max R_ij        L_ij' the same with the least,
    the maximum over the ends of both intervals (Müller). While no bound changes its sign, both systems are linear.
    """
    windows = mf.checks.whole("windows", windows)
    T = len(system.time)
    edges = np.unique(np.linspace(0, T - 1, min(windows, T - 1) + 1).astype(int))
    bounds = np.empty((T, 2, 4, 4))
    bounds[0] = system.B[0]
    nothing = Interval(np.zeros((4, 4)), np.zeros((4, 4)))
    for a, b in itertools.pairwise(edges):
        if system.between is not None and system.between.proven[a:b].all():
            part = system.between.h[a:b]
            H, rest = _blocks(Interval(part.lo.min(axis=0), part.hi.max(axis=0))), nothing
        else:
            H, rest = _widened(system.H[a : b + 1]), _widened(system.residual[a : b + 1])
        for i in range(a, b):
            bounds[i + 1] = _advance(bounds[i], H, rest, system.time[i + 1] - system.time[i])
    return bounds[:, 0], bounds[:, 1]


def _blocks(h):
    zero = np.zeros((2, 2))
    return Interval(*(np.block([[zero, end], [end.T, zero]]) for end in (h.lo, h.hi)))


def _widened(values):
    """Extreme values at the saves, widened by the largest change between neighbours; not proven for the times between."""
    jump = np.abs(np.diff(values, axis=0)).max(axis=0)
    return Interval(values.min(axis=0) - jump, values.max(axis=0) + jump)


def _advance(bounds, H, rest, duration):
    """The comparison system over one interval, rounded outwards: each step moves with the steepest slope anywhere on it."""
    steps = max(1, math.ceil(duration * H.size.sum(axis=-1).max() / STEP))
    h = duration / steps
    box = Interval(*bounds)
    for _ in range(steps):
        slope = _slope(box, H, rest)
        for _ in range(ROUNDS):
            # If a step with the slopes of `reach` stays within `reach`, so does the solution.
            room = 0.01 * h * slope.size + 2**-46 * box.size.max()
            reach = box.hull(Interval(box.lo + h * slope.lo - room, box.hi + h * slope.hi + room))
            slope = _slope(reach, H, rest)
            after = box + slope * h
            if after.inside(reach).all():
                break
        else:
            raise ArithmeticError(f"no step of the comparison system holds at h = {h:.3g}: the bounds left float64.")
        box = after
    return np.stack([box.lo, box.hi])


def _slope(box, H, rest):
    half = product(H, box)  # B H is the transpose of H B
    return half + half.swap() + rest


def enclosed(system, windows=60, tolerance=1e-9):
    """Whether the bounds hold at every saved time, up to rounding relative to the largest entry of B; and the bounds."""
    lower, upper = sandwich(system, windows)
    room = tolerance * np.abs(system.B).max(axis=(1, 2), keepdims=True)
    outside = (lower > system.B + room) | (upper < system.B - room)
    return not outside.any(), lower, upper


# prediction ----------------------------------------------------------------------------------------------------------


KNOWN = np.ones((2, 2, 2))  # 0 on the contrast sector's c–v scores
KNOWN[CONTRAST, C, V] = KNOWN[CONTRAST, V, C] = 0.0


def predict(task, transformer, until, *, level=LEVEL, saves=400):
    """When the linear theory expects A_cv of the contrast sector to reach `level`; None if not before `until`.

    Its background is the flow of the large system with the contrast's c–v scores held at 0, which it then never sees.
    """
    full = mf.field(task, transformer, model="symmetric")
    background = full.masked(KNOWN)
    result = background.flow(mf.GradientFlow(until=until, rtol=1e-7, save_at=saves))
    gates = np.array([gates_at(background, y) for y in result.states])
    system = along(full, result.times, result.states, gates)
    path = grown(system.time, system.H, system.B[0], 100 * level)
    return reaches(system.time[: len(path)], path, level)


def grown(time, H, B, most=math.inf):
    """A_cv along B' = H B + B H from B, at the times (T,) of H (T, 4, 4) until it is above `most`; midpoint rule."""
    from scipy.linalg import expm

    path = [B[CV]]
    for i, duration in enumerate(np.diff(time)):
        turn = expm((H[i] + H[i + 1]) / 2 * duration)
        B = turn @ B @ turn
        path.append(B[CV])
        if path[-1] > most:
            break
    return np.array(path)


def until_score(field, level):
    """The flow until A_cv of the contrast sector reaches the level."""

    def beyond(t, y):
        return float(field.unpack(y)["A"][CONTRAST, C, V]) - level

    return field.flow(mf.GradientFlow(until=LIMIT, save_at=2), stop=beyond)


def separation(classes, omega, bias, *, windows=60, saves=3000):
    """One (ω, b): the time at which A_cv reaches LEVEL, its bounds and its prediction; None where it is not reached."""
    task, transformer = mf.Mixture(classes=classes), mf.Transformer(omega=omega, bias=bias)
    field = mf.field(task, transformer, model="symmetric")
    found = until_score(field, 2 * LEVEL)
    facts = {"classes": classes, "omega": omega, "bias": bias}
    if found.ended != "stop":
        return facts | {"actual": None, "lower": None, "upper": None, "predicted": None, "holds": None, "proven": None}
    method = mf.GradientFlow(until=found.time, save_at=tuple(np.linspace(0, found.time, saves)))
    run = field.flow(method)
    error = TRUST * field.certify(run)["difference"]
    system = critical(field, run.times, run.states, error=error)
    holds, lower, upper = enclosed(system, windows)
    actual = reaches(system.time, system.B[:, *CV], LEVEL)
    early, late = (np.flatnonzero(path[:, *CV] >= LEVEL) for path in (upper, lower))
    return facts | {
        "actual": actual,
        # The faster comparison system is early: not before the save before it, not after the save at which the slower one is.
        "lower": float(system.time[max(early[0] - 1, 0)]),
        "upper": float(system.time[late[0]]) if len(late) else None,
        "predicted": predict(task, transformer, 3 * found.time, level=LEVEL),
        "holds": holds,
        "proven": bool(system.between.proven.all()),
        "error": error,
        "defect": float(system.defect.max()),
        "driven": float(np.interp(actual, system.time, system.driven)) / LEVEL,
    }
