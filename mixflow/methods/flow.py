"""Gradient flow as a specification: until when, how exactly, what to save (docs/mathematics.md §7)."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..checks import real, whole
from ..errors import SpecError

SAVES = 500  # default number of saved times, besides the events


@dataclass(frozen=True)
class GradientFlow:
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

    until: float = 2000.0
    rtol: float = 1e-9
    atol: float | None = None
    save_at: int | Sequence[float] | None = None

    def __post_init__(self):
        put = lambda name, value: object.__setattr__(self, name, value)  # noqa: E731 (the dataclass is frozen)
        put("until", real("until", self.until, above=0, fix="it is the time at which the flow ends"))
        put("rtol", real("rtol", self.rtol, least=1e-11, most=1e-3, fix="1e-9 is a good choice"))
        atol = round_off(self.rtol * 1e-3) if self.atol is None else self.atol
        put("atol", real("atol", atol, least=1e-16, most=1e-3, fix="leave it out for rtol / 1000"))
        if self.save_at is not None:
            put("save_at", _check_save_at(self.save_at, self.until))

    def times(self, start=0.0):
        """The times to save in [start, until], without the events."""
        if isinstance(self.save_at, tuple):
            return np.array([t for t in self.save_at if t >= start])
        count = SAVES if self.save_at is None else self.save_at
        knee = (self.until - start) / 100  # evenly spaced before, logarithmically after
        times = start + knee * np.sinh(np.linspace(0, np.arcsinh(100), count))
        times[-1] = self.until
        return times

    def spec(self):
        """A JSON-ready description from which `from_spec` builds an equal method."""
        save_at = list(self.save_at) if isinstance(self.save_at, tuple) else self.save_at
        return {"kind": "flow", "until": self.until, "rtol": self.rtol, "atol": self.atol, "save_at": save_at}

    @classmethod
    def from_spec(cls, spec):
        return cls(**{key: value for key, value in spec.items() if key != "kind"})


def round_off(x):
    """x to 12 digits, so that a tolerance derived from another prints as it would be typed."""
    return float(f"{x:.12g}")


def _check_save_at(save_at, until):
    if isinstance(save_at, (int, np.integer)) or np.ndim(save_at) == 0:
        return whole("save_at", save_at, least=2, fix="or give a list of times")
    times = tuple(real(f"save_at[{i}]", t, least=0, most=until) for i, t in enumerate(save_at))
    if not times or any(a >= b for a, b in itertools.pairwise(times)):
        raise SpecError("save_at must list at least one time, in increasing order; sort it and drop repetitions.")
    return times
