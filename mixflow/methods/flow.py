"""Gradient flow as a specification: until when, how exactly, what to save (docs/mathematics.md §7)."""

import itertools
import numbers
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from ..checks import listed, real, whole
from ..errors import SpecError
from ..spec import Spec, setting

SAVE_LIMIT = 10**6
SAVES = 500  # default number of saved times, besides the events


def _save_at(name, value):
    if isinstance(value, numbers.Real):
        return whole(name, value, least=2, most=SAVE_LIMIT, fix="or give a list of times")
    entries = listed(name, value, "a number of times, or a list of them", most=SAVE_LIMIT)
    times = tuple(real(f"{name}[{i}]", t, least=0) for i, t in enumerate(entries))
    if not times or any(a >= b for a, b in itertools.pairwise(times)):
        raise SpecError(f"{name} must list at least one time, in increasing order; sort it and drop repetitions.")
    return times


@dataclass(frozen=True)
class GradientFlow(Spec, section="method", kind="flow"):
    """True gradient flow, the limit of descent as its learning rate goes to 0.

    until    the end time
    rtol     relative accuracy of the trajectory, 1e-11 to 1e-3; the certificate measures what was reached
    atol     absolute accuracy of small entries; rtol / 1000 if not given
    save_at  None: about 500 times, evenly early and logarithmically late, plus every event; a number: that many such times;
             a list: exactly those times

    Raises SpecError for an end or tolerances out of range and for times that do not increase.

    >>> GradientFlow(until=100).atol
    1e-12
    """

    until: float = setting(2000.0, partial(real, above=0, fix="it is the time at which the flow ends"))
    rtol: float = setting(1e-9, partial(real, least=1e-11, most=1e-3, fix="1e-9 is a good choice"))
    atol: float | None = setting(None, partial(real, least=1e-16, most=1e-3, fix="leave it out for rtol / 1000"))
    save_at: int | Sequence[float] | None = setting(None, _save_at)

    def check(self):
        if self.atol is None:
            self.settle(atol=round_off(self.rtol * 1e-3))
        if isinstance(self.save_at, tuple) and self.save_at[-1] > self.until:
            raise SpecError(f"save_at ends at {self.save_at[-1]:g}: expected times up to until = {self.until:g}.")

    def times(self, start=0.0):
        """The times to save in [start, until], without the events."""
        if isinstance(self.save_at, tuple):
            return np.array([t for t in self.save_at if t >= start])
        count = SAVES if self.save_at is None else self.save_at
        knee = (self.until - start) / 100  # evenly spaced before, logarithmically after
        times = start + knee * np.sinh(np.linspace(0, np.arcsinh(100), count))
        times[-1] = self.until
        return times


def round_off(x):
    """x to 12 digits, so that a tolerance derived from another prints as it would be typed."""
    return float(f"{x:.12g}")
