"""The flow under way: smooth modes joined at events (docs/mathematics.md §7).

Inside a mode every neuron is off, on or sliding and the field is smooth, so an adaptive step of order 8 is exact to its
tolerance. The mode ends where a neuron's z crosses 0 or a sliding gate λ leaves [0, 1]; the end is found on the dense
output, and there the gates of all neurons at the surface are decided together (`gates.py`).
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ..errors import DivergedError
from . import dop853
from .gates import EDGE, NAMES, OFF, ON, SLIDING, ChatteringError, decide

MOST_EVENTS = 100_000
# Each step is held to 1 % of the tolerance asked for: errors of many steps add up and events magnify them, while order 8
# makes a factor 100 cost only 1.6 times the steps. With it the whole trajectory keeps rtol (K = 2 to t = 2000: 1e-10 at 1e-9).
LOCAL = 0.01
FLOOR = 3e-14  # no step can be held to less in float64
CHATTER = 50  # so many decisions within a relative time of 1e-9 are chattering


class Event(NamedTuple):
    """A neuron's switch at `time`: `before` and `after` are "off", "on" or "sliding"."""

    time: float
    gate: int
    head: str
    atom: str
    before: str
    after: str


@dataclass(frozen=True, eq=False, kw_only=True)
class FlowResult:
    """What a flow computed.

    times, states   saved times (k,) and flat states (k, size); `field.unpack(states)` names their parts
    events          every neuron switch, in order
    time, state     where the flow ended
    gates           (2n,) "off", "on" or "sliding" there
    ended           "until" (the time limit), "stop" (the stop function reached 0) or "interrupted"
    counts          evaluations of the field, steps, rejected steps, events
    surface_error   the largest |z| of a sliding neuron at the end of a step
    """

    times: np.ndarray
    states: np.ndarray
    events: tuple
    time: float
    state: np.ndarray
    gates: tuple
    ended: str
    counts: dict
    surface_error: float


@dataclass(eq=False, kw_only=True)
class Walk:
    """The state of a running flow; `advance` makes one accepted step or one event."""

    field: object
    method: object  # a GradientFlow
    t: float
    y: np.ndarray
    stop: object = None
    on_save: object = None
    tighten: float = 1.0
    ended: str = ""
    h: float | None = None
    mode: np.ndarray = None  # (2n,) OFF, ON or SLIDING
    times: list = field(default_factory=list)
    states: list = field(default_factory=list)
    events: list = field(default_factory=list)
    decisions: list = field(default_factory=list)  # their times
    counts: dict = field(default_factory=lambda: {"evaluations": 0, "steps": 0, "rejected": 0})
    surface_error: float = 0.0

    def begin(self):
        # |z| within rounding of the surface; symmetric twins differ by less
        self.touch = max(1e-11, self.tighten * self.method.rtol / 10)
        self.rtol = max(LOCAL * self.tighten * self.method.rtol, FLOOR)
        self.atol = max(LOCAL * self.tighten * self.method.atol, FLOOR * 1e-3)
        self.grid = self.method.times(self.t)
        self.saved = 0
        self._check_finite()
        z = self.field.z(self.y)
        # At a start exactly on the surface (bias 0) a self-exciting neuron could stay silent for ever or wake up; it wakes.
        self.mode = np.where(z > -self.touch, ON, OFF)
        if len(self.grid) and self.grid[0] == self.t:
            self._keep(self.grid[:1], self.y[None])
        self._decide(z, record=False)
        if self.stop is not None and self.stop(self.t, self.y) >= 0:
            self.ended = "stop"

    def advance(self):
        step = self._step()
        x, cause = self._first_end(step)
        after = step.t + x * step.h
        if x == 1 and step.h == self.method.until - step.t:
            after = self.method.until  # exactly, whatever the sum rounds to
        inside = self.grid[self.saved : np.searchsorted(self.grid, after, side="right")]
        self._keep(inside, step.at((inside - step.t) / step.h))
        self.h = step.next_size()
        self.t, self.y, self.slope = after, step.at(x) if x < 1 else step.end, step.slope
        if cause is None:
            return self._finish_if_due()
        self._keep_event()
        if cause == "stop":
            self.ended = "stop"
        else:
            self._decide(self.field.z(self.y))
            self._finish_if_due()

    def result(self):
        return FlowResult(
            times=np.array(self.times),
            states=np.array(self.states).reshape(-1, len(self.y)),
            events=tuple(self.events),
            time=float(self.t),
            state=self.y.copy(),
            gates=() if self.mode is None else tuple(NAMES[m] for m in self.mode),
            ended=self.ended,
            counts={**self.counts, "events": len(self.events)},
            surface_error=self.surface_error,
        )

    # --- inside a mode -------------------------------------------------------------------------------------------------

    def _step(self):
        """The next accepted step of the mode, no longer than what is left."""
        rtol, atol = self.rtol, self.atol
        mode = (self.device_gates, self.sliding)
        if self.slope is None:
            self.slope = dop853.look(self.field, self.y, *mode)[0]
            self.counts["evaluations"] += 1
        if self.h is None:
            self.h = dop853.first_size(self.field, self.y, self.slope, *mode, rtol, atol)
            self.counts["evaluations"] += 1
        while True:
            left = self.method.until - self.t
            h = min(self.h, left)
            if (h < 10 * np.spacing(self.t) and h < left) or not np.isfinite(h):
                raise DivergedError(
                    f"the flow left the range of float64 at t = {self.t:.6g} (no step is small enough): "
                    "expected a finite field; lower omega or loosen rtol."
                )
            step = dop853.attempt(self.field, self.t, self.y, self.slope, h, *mode, rtol, atol)
            self.counts["evaluations"] += step.evaluations
            if step.error < 1:
                self.counts["steps"] += 1
                if len(self.sliding):
                    self.surface_error = max(self.surface_error, float(np.abs(step.z[-1, self.sliding]).max()))
                return step
            self.counts["rejected"] += 1
            self.h = step.next_size()

    def _first_end(self, step):
        """The fraction x of the step where the mode or the flow first ends, and why: None, "gate" or "stop"."""
        # How far each neuron is beyond the end of its mode at each sample: z of the wrong sign, or λ outside [0, 1].
        beyond = np.where(self.mode == OFF, step.z, -step.z)
        if len(self.sliding):
            beyond[:, self.sliding] = -0.5
            beyond[1::2, self.sliding] = np.maximum(-step.share, step.share - 1)  # λ was sampled at every second point
        # A neuron's slack ends once it was seen clear of its surface; slacks[j] is in force before sample j.
        clear = (beyond < -self.touch) & (self.mode != SLIDING)
        cleared = np.logical_or.accumulate(np.concatenate([np.zeros_like(clear[:1]), clear]))
        slacks = np.where(cleared, 0.0, self.slack)
        x, cause = 1.0, None
        ends = np.flatnonzero((beyond > slacks[:-1]).any(axis=1))
        if len(ends):
            x, cause = self._locate(step, ends[0], slacks), "gate"
        self.slack = slacks[ends[0] if len(ends) else -1]
        if self.stop is not None:
            stop = lambda u: self.stop(step.t + u * step.h, step.at(u))  # noqa: E731
            for a, b in zip((0, 0.25, 0.5, 0.75), (0.25, 0.5, 0.75, 1.0), strict=True):
                if min(b, x) > a and stop(min(b, x)) >= 0:
                    return _root(stop, a, min(b, x)), "stop"
        return x, cause

    def _locate(self, step, j, slacks):
        """The end of the mode before sample j."""
        points = (0.0, *dop853.Z_SAMPLES)
        side = np.where(self.mode == OFF, 1.0, np.where(self.mode == ON, -1.0, 0.0))

        def end(i):
            mode = (self.device_gates, self.sliding, side, slacks[i])
            x, evaluations = dop853.locate(self.field, step, *mode, points[i], points[i + 1])
            self.counts["evaluations"] += evaluations
            return x

        if len(self.sliding) and j % 2 == 1:  # λ was not sampled at the point before, and may have left just before it
            x = end(j - 1)
            if x < points[j]:
                return x
        return end(j)

    # --- at an event -----------------------------------------------------------------------------------------------------

    def _decide(self, z, record=True):
        """Set the mode of every neuron at the surface, together, and record the switches."""
        before = self.mode.copy()
        touching = (before == SLIDING) | (np.abs(z) <= 2 * self.touch)
        guess = before.copy()
        if record and len(self.sliding):
            share = dop853.look(self.field, self.y, self.device_gates, self.sliding)[1]
            self.counts["evaluations"] += 1
            guess[self.sliding[share <= EDGE]] = OFF
            guess[self.sliding[share >= 1 - EDGE]] = ON
        fixed = self.field.put((before == ON) & ~touching)
        for head in self.field.heads:  # the gates of one head do not enter the other head's velocities
            ours = head[touching[head]]
            if len(ours):
                _, _, v, N, r = dop853.look(self.field, self.y, fixed, ours)
                self.counts["evaluations"] += 1
                self.mode[ours], _ = decide(v, N, r, guess[ours])
        if record:
            for i in np.flatnonzero(before != self.mode):
                head, atom = self.field.gate_names[i]
                self.events.append(Event(float(self.t), int(i), head, atom, NAMES[before[i]], NAMES[self.mode[i]]))
            self._guard()
        self._enter_mode(z)

    def _enter_mode(self, z):
        self.sliding = np.flatnonzero(self.mode == SLIDING)
        self.device_gates = self.field.put((self.mode == ON).astype(float))
        self.slope = None
        # A neuron that has only just switched is at the surface up to rounding, on either side; it must move away from
        # where it is by more than rounding before that counts as another event.
        beyond = np.where(self.mode == OFF, z, -z)
        self.slack = np.where(beyond < -self.touch, 0.0, np.maximum(beyond, 0) + self.touch)
        self.slack[self.sliding] = EDGE / 10

    def _guard(self):
        self.decisions.append(self.t)
        recent = self.decisions[-CHATTER:]
        if len(self.decisions) > MOST_EVENTS or (
            len(recent) == CHATTER and recent[-1] - recent[0] < 1e-9 * max(1.0, self.t)
        ):
            raise ChatteringError(
                f"neurons at z = 0 switch without end at t = {self.t:.9g} ({len(self.decisions)} events so far): "
                "tighten rtol, or perturb omega or the seed slightly.",
                time=self.t,
            )

    # --- saving ----------------------------------------------------------------------------------------------------------

    def _keep(self, times, states):
        self.times.extend(times)
        self.states.extend(states)
        self.saved += len(times)
        self._show(times, states)

    def _keep_event(self):
        if self.method.save_at is None and (not self.times or self.times[-1] != self.t):
            self.times.append(self.t)
            self.states.append(self.y.copy())
            self._show([self.t], self.y[None])

    def _show(self, times, states):
        if self.on_save is not None and len(times):
            self.on_save(np.array(times), np.array(states))

    def _finish_if_due(self):
        self._check_finite()
        if self.t >= self.method.until:
            self.ended = "until"

    def _check_finite(self):
        if not np.all(np.isfinite(self.y)):
            raise DivergedError(f"the state at t = {self.t:.6g} is not finite: expected float64 numbers; lower omega.")


def _root(function, a, b):
    """The root in [a, b] of a function that is ≤ 0 at a and ≥ 0 at b; a itself if it is already positive there."""
    from scipy.optimize import brentq

    if function(a) >= 0:
        return a
    if function(b) <= 0:  # by a rounding error; the caller saw it positive
        return b
    return brentq(function, a, b, xtol=1e-15, rtol=1e-14)
