"""What a flow computed: saved states, events, and the state at any time in between."""

from __future__ import annotations

import dataclasses
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..checks import shown
from ..errors import SpecError
from .dop853_program import dense_row

if TYPE_CHECKING:
    from ..types import Array


class Event(NamedTuple):
    """A gate's switch at `time`: `before` and `after` are "off", "on" or "sliding", `name` is the field's name for the gate."""

    time: float
    gate: int
    name: Any
    before: str
    after: str


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Result:
    """What `solve` returns; `result(t)` is the state at any time of the flow, (size,), or (k, size) for k times.

    times, states   saved times (k,) and states (k, size)
    events          every switch of a gate, in order
    time, state     where the flow ended
    gates           (g,) "off", "on" or "sliding" there
    ended           "until" (the time limit), "stop" (the stop function reached 0) or "interrupted"
    counts          evaluations of the field, steps, rejected steps, events
    surface_error   the largest |z| of a sliding gate at the end of a step
    start, origin   the time and the state (size,) at which the flow began
    rtol, atol      the accuracy asked for, relative and absolute
    field, modes, pieces, next_size   what `solve`, `certify` and `sensitivity` need to go on from here

    Raises SpecError for a time outside the flow, or if the flow was solved with dense=False.

    >>> import mixflow as mf
    >>> relay = mf.filippov.Field(velocity=lambda c, y, gates: 1 - 2 * gates, surface=lambda c, y: y, gates=("relay",))
    >>> result = mf.filippov.solve(relay, [-1.0], 3.0)
    >>> bool(abs(result([0.25, 2.0]).ravel() - [-0.75, 0.0]).max() < 1e-12)
    True
    """

    field: Any = dataclasses.field(repr=False)
    start: float
    origin: np.ndarray = dataclasses.field(repr=False)
    rtol: float
    atol: float
    times: np.ndarray = dataclasses.field(repr=False)
    states: np.ndarray = dataclasses.field(repr=False)
    events: tuple
    time: float
    state: np.ndarray
    gates: tuple
    ended: str
    counts: dict
    surface_error: float
    modes: tuple = dataclasses.field(repr=False)
    pieces: tuple = dataclasses.field(repr=False)
    next_size: float | None = dataclasses.field(repr=False)

    @cached_property
    def steps(self) -> tuple[Array, Array, Array, Array]:
        """Every accepted step: where it began (k,), its size (k,), the state there (k, size) and the slopes (k, 16, size)."""
        if not self.pieces:
            raise SpecError("the flow kept no steps: expected at least one and dense=True; solve it with dense=True.")
        t, h, path = (np.concatenate(part) for part in zip(*self.pieces, strict=True))
        return t, h, path[:, 0], path[:, 1:]

    def __call__(self, time):
        asked = np.asarray(time, float)
        if asked.size and not (self.start <= asked.min() and asked.max() <= self.time):
            raise SpecError(
                f"time = {shown(time)}: expected times from {self.start:g} to {self.time:g}, where the flow ended."
            )
        t, h, y, K = self.steps
        flat = asked.ravel()
        i = np.maximum(np.searchsorted(t, flat, side="right") - 1, 0)
        row = dense_row((flat - t[i]) / h[i])
        states = y[i] + h[i, None] * (row[:, None] @ K[i])[:, 0]
        return states.reshape(*asked.shape, -1)
