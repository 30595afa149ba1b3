"""The flow under way: smooth modes joined at events (docs/mathematics.md §7).

Inside a mode every gate is off, on or sliding and the field is smooth, so an adaptive step of order 8 is exact to its
tolerance. The mode ends where a gate's z crosses 0 or a sliding gate λ leaves [0, 1]; the end is found on the dense
output, and there the gates of all gates at the surface are decided together (`gates.py`).
"""

import dataclasses
import time as clock
from collections.abc import Callable

import numpy as np

from ..errors import DivergedError
from . import dop853
from .field import Prepared
from .gates import EDGE, NAMES, OFF, ON, SLIDING, ChatteringError, decide, decide_any, solve
from .result import Event, Result

MOST_EVENTS = 100_000
# Each step is held to 1 % of the tolerance asked for: errors of many steps add up and events magnify them, while order 8
# makes a factor 100 cost only 1.6 times the steps. With it the whole trajectory keeps rtol (K = 2 to t = 2000: 1e-10 at 1e-9).
LOCAL = 0.01
FLOOR = 3e-14  # no step can be held to less in float64
QUARTERS = (0.25, 0.5, 0.75, 1.0)  # of a step, where a flow looks whether to stop
CALL_SECONDS = 0.05  # of a call to the solver, about; Ctrl-C and the progress bar wait that long
CHATTER = 50  # so many decisions within a relative time of 1e-9 are chattering


@dataclasses.dataclass(eq=False, kw_only=True)
class Walk:
    """The state of a running flow; `advance` makes a few accepted steps or one event.

    grid         the times to save; None saves the end of every step
    keep_events  whether the times of events are saved besides those of the grid
    dense        whether the steps themselves are kept
    """

    field: object  # a Field
    ready: Prepared
    until: float
    rtol: float
    atol: float
    t: float
    y: np.ndarray
    grid: np.ndarray | None = None
    keep_events: bool = False
    dense: bool = True
    stop: Callable | None = None
    on_save: Callable | None = None
    ended: str = ""
    h: float | None = None
    mode: np.ndarray | None = None  # (g,) OFF, ON or SLIDING
    times: list = dataclasses.field(default_factory=list)
    states: list = dataclasses.field(default_factory=list)
    events: list = dataclasses.field(default_factory=list)
    decisions: list = dataclasses.field(default_factory=list)  # their times
    modes: list = dataclasses.field(default_factory=list)  # (time, mode) wherever a mode begins
    pieces: list = dataclasses.field(default_factory=list)  # the steps, if dense
    counts: dict = dataclasses.field(default_factory=lambda: {"evaluations": 0, "steps": 0, "rejected": 0})
    surface_error: float = 0.0
    most: int = 1  # steps in the next call
    smooth: dop853.Mode | None = None  # the mode as the solver wants it

    def begin(self):
        # |z| within rounding of the surface; symmetric twins differ by less
        self.touch = max(1e-11, self.rtol / 10)
        self.start, self.origin, self.saved = self.t, self.y.copy(), 0
        self._check_finite()
        z = self._z()
        # At a start exactly on the surface a self-exciting gate could stay off for ever or wake up; it wakes.
        guess = np.where(z > -self.touch, ON, OFF)
        self.mode = guess if self.mode is None else np.where(self.mode == SLIDING, SLIDING, guess)
        if self.grid is None or (len(self.grid) and self.grid[0] == self.t):
            self._keep(np.array([self.t]), self.y[None])
        self._decide(z, record=False)
        if self.stop is not None and self.stop(self.t, self.y) >= 0:
            self.ended = "stop"

    def advance(self):
        steps = self._steps()
        x, cause = self._first_end(steps)
        last = steps.t[-1], steps.h[-1]
        after = steps.time if x == 1 else last[0] + x * last[1]
        end = steps.inside_last(x) if x < 1 else steps.end
        if self.dense:
            self.pieces.append((steps.t, steps.h, np.asarray(steps.path)[: len(steps.t)]))
        if self.grid is None:
            self._keep(np.append(steps.t[1:], after), np.concatenate([steps.y[1:], end[None]]))
        else:
            inside = self.grid[self.saved : np.searchsorted(self.grid, after, side="right")]
            if len(inside):
                self._keep(inside, steps.at(inside))
        self.h = steps.next_size
        self.t, self.y, self.slope = after, end, steps.slope
        if cause is None:
            return self._finish_if_due()
        self._keep_event()
        if cause == "stop":
            self.ended = "stop"
        else:
            self._decide(self._z())
            self._finish_if_due()

    def result(self):
        return Result(
            field=self.field,
            start=float(self.start),
            origin=self.origin,
            rtol=self.rtol,
            atol=self.atol,
            times=np.array(self.times),
            states=np.array(self.states).reshape(-1, len(self.y)),
            events=tuple(self.events),
            time=float(self.t),
            state=self.y.copy(),
            gates=() if self.mode is None else tuple(NAMES[m] for m in self.mode),
            ended=self.ended,
            counts={**self.counts, "events": len(self.events)},
            surface_error=self.surface_error,
            modes=tuple(self.modes),
            pieces=tuple(self.pieces),
            next_size=self.h,
        )

    def _z(self):
        return dop853.look(self.ready, self.y, np.zeros(self.ready.n_gates), ()).z

    # --- inside a mode -------------------------------------------------------------------------------------------------

    def _steps(self):
        """The next accepted steps of the mode, none beyond what is left, only the last with a possible end of the mode."""
        if self.h is None:
            self.slope = dop853.look(self.ready, self.y, self.smooth.gates, self.smooth.sliding).dy
            self.h = dop853.first_size(self.ready, self.smooth, self.y, self.slope)
            self.counts["evaluations"] += 2
        while True:
            left = self.until - self.t
            if (self.h < dop853.SMALLEST * self.t and self.h < left) or not np.isfinite(self.h):
                raise DivergedError(
                    f"the flow left the range of float64 at t = {self.t:.6g} (no step is small enough): "
                    "expected a velocity and surfaces that stay finite; start elsewhere or loosen rtol."
                )
            began = clock.perf_counter()
            state = (self.t, self.y, self.slope, self.h, self.slack)
            steps = dop853.advance(self.ready, self.smooth, *state, self.until, self.most)
            if (kept := self._until_stop(steps)) < len(
                steps.t
            ):  # once more, so that nothing depends on what lies beyond
                steps = dop853.advance(self.ready, self.smooth, *state, self.until, kept)
            # How many steps a call makes changes nothing but how often Ctrl-C and the progress bar get a turn.
            quick = clock.perf_counter() - began < CALL_SECONDS
            self.most = min(2 * self.most, dop853.STEPS) if quick else max(self.most // 2, 1)
            self.counts["evaluations"] += steps.evaluations
            self.counts["steps"] += len(steps.t)
            self.counts["rejected"] += steps.rejected
            if len(steps.t):
                self.surface_error = max(self.surface_error, steps.surface)
                return steps
            self.h = steps.next_size

    def _until_stop(self, steps):
        """How many of the steps there are up to the first in which the flow stops; the last one is for `_first_end`."""
        early = len(steps.t) - 1
        if self.stop is None or early < 1:
            return len(steps.t)
        times = (steps.t[:early, None] + steps.h[:early, None] * np.array(QUARTERS)).ravel()
        states = steps.at(times)
        hit = next((i for i in range(len(times)) if self.stop(times[i], states[i]) >= 0), len(times))
        return hit // len(QUARTERS) + 1

    def _first_end(self, steps):
        """The fraction x of the last step where the mode or the flow first ends, and why: None, "gate" or "stop"."""
        x, cause = 1.0, None
        self.slack = steps.slack
        if steps.over:
            x, cause = self._locate(steps), "gate"
        if self.stop is not None:

            def stop(u):
                return self.stop(steps.t[-1] + u * steps.h[-1], steps.inside_last(u))

            for a, b in zip((0, *QUARTERS[:-1]), QUARTERS, strict=True):
                if min(b, x) > a and stop(min(b, x)) >= 0:
                    return root(stop, a, min(b, x)), "stop"
        return x, cause

    def _locate(self, steps):
        """The end of the mode inside the last step."""
        # How far each gate is beyond the end of its mode at each sample: z of the wrong sign, or λ outside [0, 1].
        sliding = self.smooth.sliding
        beyond = self.smooth.side * steps.z
        if len(sliding):
            beyond[:, sliding] = -dop853.SHARE_SLACK / 2  # neither beyond nor clear
            beyond[1::2, sliding] = np.maximum(-steps.share, steps.share - 1)  # λ was sampled at every second point
        # A gate's slack ends once it was seen clear of its surface, or of the ends of [0, 1]; slacks[j] holds before sample j.
        clear = beyond < -np.where(self.mode == SLIDING, dop853.SHARE_SLACK, self.touch)
        cleared = np.logical_or.accumulate(np.concatenate([np.zeros_like(clear[:1]), clear]))
        slacks = np.where(cleared, 0.0, self.slack)
        j = np.flatnonzero((beyond > slacks[:-1]).any(axis=1))[0]
        self.slack = slacks[j]
        points = (0.0, *dop853.Z_SAMPLES)

        def end(i):
            x, evaluations = dop853.locate(self.ready, self.smooth, steps, slacks[i], points[i], points[i + 1])
            self.counts["evaluations"] += evaluations
            return x

        if len(sliding) and j % 2 == 1:  # λ was not sampled at the point before, and may have left just before it
            x = end(j - 1)
            if x < points[j]:
                return x
        return end(j)

    # --- at an event -----------------------------------------------------------------------------------------------------

    def _decide(self, z, record=True):
        """Set the mode of every gate at the surface, together, and record the switches."""
        before = self.mode.copy()
        touching = np.flatnonzero((before == SLIDING) | (np.abs(z) <= 2 * self.touch))
        if len(touching):
            others = np.where(before == ON, 1.0, 0.0)
            others[touching] = 0.0
            seen = dop853.look(self.ready, self.y, others, touching)
            self.counts["evaluations"] += 1
            guess = _leaving(seen.v, seen.N, seen.r, before[touching]) if record else before[touching]
            self.mode[touching] = self._choice(seen, guess, others, touching)
        if record:
            for i in np.flatnonzero(before != self.mode):
                name, a, b = self.field.gates[i], NAMES[before[i]], NAMES[self.mode[i]]
                self.events.append(Event(float(self.t), int(i), name, a, b))
            self._guard()
        self._enter_mode(z)

    def _choice(self, seen, guess, others, touching):
        if self.ready.gradient:
            return decide(seen.v, seen.N, seen.r, guess)[0]

        def motion(gates):
            full = others.copy()
            full[touching] = gates
            return dop853.look(self.ready, self.y, full, ()).dy

        return decide_any(seen.v, -seen.N, guess, motion)[0]

    def _enter_mode(self, z):
        side = np.where(self.mode == OFF, 1.0, np.where(self.mode == ON, -1.0, 0.0))
        gates, sliding = (self.mode == ON).astype(float), np.flatnonzero(self.mode == SLIDING)
        rtol, atol = max(LOCAL * self.rtol, FLOOR), max(LOCAL * self.atol, FLOOR * 1e-3)
        self.smooth = dop853.Mode(gates, sliding, side, rtol, atol, self.touch)
        self.modes.append((float(self.t), self.mode.copy()))
        self.slope = None
        # A gate that has only just switched is at the surface up to rounding, on either side; it must move away from
        # where it is by more than rounding before that counts as another event.
        beyond = np.where(self.mode == OFF, z, -z)
        self.slack = np.where(beyond < -self.touch, 0.0, np.maximum(beyond, 0) + self.touch)
        self.slack[sliding] = dop853.SHARE_SLACK

    def _guard(self):
        self.decisions.append(self.t)
        recent = self.decisions[-CHATTER:]
        if len(self.decisions) > MOST_EVENTS or (
            len(recent) == CHATTER and recent[-1] - recent[0] < 1e-9 * max(1.0, self.t)
        ):
            raise ChatteringError(
                f"gates at z = 0 switch without end at t = {self.t:.9g} ({len(self.decisions)} events so far): "
                "tighten rtol, or perturb the start or a constant slightly.",
                time=self.t,
            )

    # --- saving ----------------------------------------------------------------------------------------------------------

    def _keep(self, times, states):
        self.times.extend(times)
        self.states.extend(states)
        self.saved += len(times)
        self._show(times, states)

    def _keep_event(self):
        if self.keep_events and (not self.times or self.times[-1] != self.t):
            self.times.append(self.t)
            self.states.append(self.y.copy())
            self._show([self.t], self.y[None])

    def _show(self, times, states):
        if self.on_save is not None and len(times):
            self.on_save(np.array(times), np.array(states))

    def _finish_if_due(self):
        self._check_finite()
        if self.t >= self.until:
            self.ended = "until"

    def _check_finite(self):
        if not np.all(np.isfinite(self.y)):
            raise DivergedError(
                f"the state at t = {self.t:.6g} is not finite: expected float64 numbers; start elsewhere."
            )


def _leaving(v, N, r, before):
    """The states before an event, a sliding gate whose λ has reached 0 or 1 on the side where it leaves."""
    guess, free = before.copy(), before == SLIDING
    if free.any():
        push = v[free] - N[np.ix_(free, before == ON)] @ r[before == ON]
        share = solve(N[np.ix_(free, free)], push) / r[free]
        guess[free] = np.where(share <= EDGE, OFF, np.where(share >= 1 - EDGE, ON, SLIDING))
    return guess


def root(function, a, b):
    """The root in [a, b] of a function that is ≤ 0 at a and ≥ 0 at b; a itself if it is already positive there."""
    from scipy.optimize import brentq

    if function(a) >= 0:
        return a
    if function(b) <= 0:  # by a rounding error; the caller saw it positive
        return b
    return brentq(function, a, b, xtol=1e-15, rtol=1e-14)
