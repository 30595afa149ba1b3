"""Steps of the Dormand-Prince 8(5,3) pair with dense output, compiled whole (tableau and error norm: SciPy's DOP853).

A field this small costs a few microseconds, less than one call from Python, so neither a stage nor a step at a time will
do: one call makes up to STEPS accepted steps, with step size control, dense output and the samples of z and λ that the
event search needs, and comes back where the mode may have ended. The numbers are those of scipy.integrate.DOP853 (Hairer,
Nørsett, Wanner, *Solving Ordinary Differential Equations I*, II.10), tested so.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ..jaxed import jax as configured
from .dop853_program import (
    ADVANCE,
    LOOK,
    SEEK,
    SHARE_SAMPLES,
    SHARE_SLACK,
    SMALLEST,
    STEPS,
    TOTAL,
    Z_SAMPLES,
    dense_row,
    layout_of,
    places,
    program,
)
from .field import Evaluation, padded

OF_GATES = ("gates", "side", "slack", "z")  # what has an entry for each gate

__all__ = ["SHARE_SLACK", "SMALLEST", "STEPS", "Z_SAMPLES", "Mode", "Steps", "advance", "first_size", "locate", "look"]


@dataclass(frozen=True, eq=False)
class Mode:
    """One smooth piece of a flow: which gates are on, off or sliding, and how exactly it is to be followed.

    gates    (g,) 1 where the gate is on, else 0
    sliding  indices of the sliding gates
    side     (g,) +1 where the gate is off, −1 where it is on, 0 where it slides: side · z > 0 ends the mode
    """

    gates: np.ndarray
    sliding: np.ndarray
    side: np.ndarray
    rtol: float
    atol: float
    touch: float  # |z| within which a gate counts as at its surface


@dataclass(frozen=True, eq=False)
class Steps:
    """Consecutive accepted steps of one mode; only in the last one the mode may have ended.

    t, h      (k,) where each began, and its size
    path      (STEPS, 1 + TOTAL, size), on the device: the state there, and y' at every point of the step
    time, end, slope   after the last step: t, y and y'
    next_size the size the controller suggests next
    over      whether a gate was seen beyond the end of the mode in the last step
    slack     (g,) how far each gate may be beyond its end, 0 once it was seen clear of it; before the last step if it
              was seen beyond, else after it
    z         (8, g) in the last step at Z_SAMPLES
    share     (4, s) λ in the last step at SHARE_SAMPLES; empty where nothing slides
    surface   the largest |z| of a sliding gate at the end of any of the steps
    """

    t: np.ndarray
    h: np.ndarray
    path: object
    time: float
    end: np.ndarray
    slope: np.ndarray
    next_size: float
    over: bool
    slack: np.ndarray
    z: np.ndarray
    share: np.ndarray
    surface: float
    rejected: int
    evaluations: int

    @property
    def y(self):
        """(k, size) the state at the beginning of each step."""
        return np.asarray(self.path)[: len(self.t), 0]

    @property
    def K(self):
        """(k, TOTAL, size) y' at every point of each step."""
        return np.asarray(self.path)[: len(self.t), 1:]

    def at(self, times):
        """The states (k, size) at times (k,) inside the steps."""
        i = np.maximum(np.searchsorted(self.t, times, side="right") - 1, 0)
        row = dense_row((times - self.t[i]) / self.h[i])
        return self.y[i] + self.h[i, None] * (row[:, None] @ self.K[i])[:, 0]

    def inside_last(self, x):
        """The state (size,) at the fraction x of the last step."""
        return self.y[-1] + self.h[-1] * (dense_row(np.asarray(x, float)) @ self.K[-1])


def look(field, y, gates, chosen):
    """One `Evaluation` at y, with the gates `chosen` sliding."""
    found, s = _call(field, LOOK, y, gates, chosen)[1], len(chosen)
    z = found("z")[-1]
    return Evaluation(found("slope"), found("share")[:s], z, found("v")[:s], found("N")[:s, :s], found("r")[:s])


def advance(field, mode, t, y, slope, h, slack, until, most=STEPS):
    """Up to `most` accepted steps, the first of size h, none beyond `until`; `slope` is y' at y, or None if not known."""
    given = {"t": t, "until": until, "h": h, "rtol": mode.rtol, "atol": mode.atol, "touch": mode.touch}
    given |= {"side": mode.side, "slack": slack, "most": most, "known": slope is not None}
    path, found = _call(field, ADVANCE, y, mode.gates, mode.sliding, slope=0.0 if slope is None else slope, **given)
    k, tried = int(found("steps")), int(found("tried"))
    return Steps(
        t=found("ts")[:k],
        h=found("hs")[:k],
        path=path,
        time=float(found("t")),
        end=found("y"),
        slope=found("slope"),
        next_size=float(found("h")),
        over=bool(found("over")),
        slack=found("slack"),
        z=found("z"),
        share=found("shares")[:, : len(mode.sliding)],
        surface=float(found("surface")),
        rejected=tried - k,
        evaluations=tried * (_count(len(mode.sliding)) - 1) + (slope is None),
    )


def _count(sliding):
    """How many evaluations a step makes, with the one that it takes over from the step before."""
    return TOTAL + (len(SHARE_SAMPLES) if sliding else 0)


def first_size(field, mode, y, slope):
    """A starting step size from the growth of y' over one Euler step (Hairer, Nørsett, Wanner, II.4), as in SciPy."""
    scale = mode.atol + np.abs(y) * mode.rtol

    def norm(x):
        return np.sqrt(np.mean((x / scale) ** 2))

    d0, d1 = norm(y), norm(slope)
    h0 = 1e-6 if d0 < 1e-5 or d1 < 1e-5 else 0.01 * d0 / d1
    d2 = norm(look(field, y + h0 * slope, mode.gates, mode.sliding).dy - slope) / h0
    h1 = max(1e-6, h0 * 1e-3) if max(d1, d2) <= 1e-15 else (0.01 / max(d1, d2)) ** (1 / 8)
    return min(100 * h0, h1)


def locate(field, mode, steps, slack, a, b):
    """The fraction of the last step in [a, b] where the mode ends, and the evaluations spent; it must still hold at a.

    slack  (g,) how far each gate may be beyond its end
    """
    given = {"h": steps.h[-1], "a": a, "b": b, "side": mode.side, "slack": slack, "steps": len(steps.t) - 1}
    found = _call(field, SEEK, steps.y[-1], mode.gates, mode.sliding, path=steps.path, **given)[1]
    return float(found("x")), int(found("rounds")) if len(mode.sliding) else 0


def _call(field, kind, y, gates, chosen, *, path=None, **given):
    """The compiled program on named numbers: `path` (STEPS, 1 + TOTAL, size) with y and K of every step, and found(name).

    Handing an array to the device and back costs more than an evaluation, so all numbers go and come in one.
    """
    index, real = padded(tuple(int(i) for i in chosen))
    constants, gates_and_spare = field.steps
    shape = len(y), gates_and_spare, len(index)
    count = {SEEK: 0, LOOK: 1, ADVANCE: _count(len(chosen))}[kind]
    asked = {"again": 1, "kind": kind, "count": count, "rtol": 1.0, "atol": 1.0, "y": y, "gates": gates, **given}
    at = places(*shape)
    flat = np.zeros(at["r"].stop)
    for name, value in asked.items():  # gates to spare stay on side 0, where nothing ends a mode
        flat[at[name]][: field.n_gates if name in OF_GATES else None] = value
    path = _no_path(len(y)) if path is None else path
    path, flat = program(field.surface, field.evaluate)(constants, path, flat, index, real)
    flat, layout = np.asarray(flat), layout_of(*shape)

    def found(name):
        part = flat[at[name]].reshape(layout[name])
        return part[..., : field.n_gates] if name in OF_GATES else part

    return path, found


@lru_cache(maxsize=64)
def _no_path(size):
    return configured().numpy.zeros((STEPS, 1 + TOTAL, size))
