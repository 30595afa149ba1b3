"""Gradient flow as a specification: until when, how exactly, what to save (docs/mathematics.md §7)."""

from __future__ import annotations

import itertools
import numbers
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from ..checks import listed, real, whole
from ..errors import DivergedError, SpecError
from ..filippov import ChatteringError, certify, solve
from ..spec import Spec, setting
from .stage import Leg, Member, Part, Stage
from .until import Until, is_event, limit, stage_end

if TYPE_CHECKING:
    from typing import Any

    from ..engines.base import Engine
    from ..networks import AnyNetwork
    from ..types import Array

SAVE_LIMIT = 10**6
SAVES = 500  # default number of saved times, besides the events
CLOSE = 1e-9  # of a stage's length: nothing can be told about what happens between times so close


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

    until    the end time, or an Until: the flow ends where a quantity reaches its threshold, located like a neuron's switch
    rtol     relative accuracy of the trajectory, 1e-11 to 1e-3; the certificate measures what was reached
    atol     absolute accuracy of small entries; rtol / 1000 if not given
    save_at  None: about 500 times, evenly early and logarithmically late, plus every event; a number: that many such times;
             a list: exactly those times

    Raises SpecError for an end or tolerances out of range and for times that do not increase.

    >>> GradientFlow(until=100).atol
    1e-12
    """

    until: float | Until = setting(2000.0, stage_end)
    rtol: float = setting(1e-9, partial(real, least=1e-11, most=1e-3, fix="1e-9 is a good choice"))
    atol: float | None = setting(None, partial(real, least=1e-16, most=1e-3, fix="leave it out for rtol / 1000"))
    save_at: int | Sequence[float] | None = setting(None, _save_at)

    flows, staged = True, False

    @property
    def no_closure(self) -> str | None:
        """Why training by it does not close on inner products: it does, so None."""
        return None

    def check(self) -> None:
        if self.atol is None:
            self.settle(atol=round_off(self.rtol * 1e-3))
        if isinstance(self.save_at, tuple) and self.save_at[-1] > limit(self.until):
            raise SpecError(
                f"save_at ends at {self.save_at[-1]:g}: expected times up to until = {limit(self.until):g}."
            )

    def times(self, start: float = 0.0, end: float | None = None) -> Array:
        """The times to save in [start, end], without the events; `end` is `until` if not given."""
        end = limit(self.until) if end is None else end
        if isinstance(self.save_at, tuple):
            return np.array([t for t in self.save_at if start <= t <= end])
        count = self.saves()
        knee = (end - start) / 100  # evenly spaced before, logarithmically after
        times = start + knee * np.sinh(np.linspace(0, np.arcsinh(100), count))
        times[-1] = end
        return times

    def saves(self, stage: Stage | None = None) -> int:
        """How many times a stage records, without the events."""
        if isinstance(self.save_at, tuple):
            return len(self.save_at)
        return SAVES if self.save_at is None else self.save_at

    @property
    def inner(self) -> GradientFlow:
        """The method that follows each stage: itself."""
        return self

    def stages(self, network: AnyNetwork | None) -> list[Stage]:
        """One stage, in which everything moves."""
        return [Stage(None, self.until)]

    def longer(
        self, amount: float, end: float, first: int, switches: list[dict[str, Any]]
    ) -> tuple[GradientFlow, list[Stage]]:
        """The method of a run that stands at time `end` and goes on for `amount`, and the stages that are left.

        To times that were listed its new end is added.
        """
        until, save_at = (
            end + real("amount", amount, above=0, fix="it is how much longer the flow goes on"),
            self.save_at,
        )
        if isinstance(save_at, tuple):
            save_at = (*(t for t in save_at if t < until), until)
        longer = replace(self, until=until, save_at=save_at)
        return longer, longer.stages(None)

    @property
    def extent(self) -> tuple[float, str]:
        """How long it is, for a progress bar: the total and its unit."""
        return limit(self.until), "unit"

    def shared_times(self) -> GradientFlow:
        """The method with saves at times that all members of a batch share: without each one's own event times."""
        return replace(self, save_at=SAVES) if self.save_at is None else self

    def follow(self, engine: Engine, members: Sequence[Member], leg: Leg) -> list[Part]:
        """What the one member records in a stage (`smoothly`)."""
        (member,) = members
        return [smoothly(self, engine, member, leg)]


def round_off(x):
    """x to 12 digits, so that a tolerance derived from another prints as it would be typed."""
    return float(f"{x:.12g}")


def smoothly(method, engine, member, leg):
    """Follow a stage by the flow; an event is located by root finding."""
    stage, began = leg.stage, leg.began
    gated = engine.field(member.network, stage.train_w, stage.train_attention)
    # Where an event ends it, the times to save are known only afterwards, and read off the dense output.
    event = is_event(stage.end) and not isinstance(method.save_at, tuple)
    end = limit(stage.end) + (0.0 if stage.name is None and not is_event(stage.end) else began)
    times = method.times(began, end)

    def excess(t, y):
        return float(leg.stop(gated.unpack(y[None]))[0])

    def show(times, states):
        leg.on_save(times, gated.unpack(states))

    def note(t, until):
        leg.progress((t - began) / (until - began))

    error, ended, where = None, "end", ""
    try:
        result = solve(
            gated.field,
            gated.pack(member.state),
            end,
            start=began,
            rtol=method.rtol,
            atol=method.atol,
            save_at=None if event else times if leg.record else times[times > began],
            keep_events=method.save_at is None,
            stop=excess if leg.stop is not None else None,
            on_save=show if leg.on_save is not None else None,
            progress=note if leg.progress is not None else None,
        )
    except (ChatteringError, DivergedError) as stopped:
        error, result, ended = stopped, stopped.run, "diverged" if isinstance(stopped, DivergedError) else "chattering"
    if event and result.time > began:
        result = _saved(method, result, leg.record)
    proof = result.counts
    if result.ended == "interrupted":
        ended = "interrupted"
    elif leg.certificate and error is None:
        try:
            proof = certify(result)
        except KeyboardInterrupt:
            ended, where = "interrupted", "before its certificate"
    return Part(
        **_recorded(gated, result, keep_end=stage.name is not None or result.ended != "until"),
        ended=ended,
        error=error,
        where=where,
        events=result.events,
        counts=result.counts,
        certificate=proof,
        dense=Dense(gated, result) if result.time > result.start else None,
    )


@dataclass(frozen=True, eq=False)
class Dense:
    """A stage of a flow between its saves: dense(times (k,)) is the history there."""

    gated: object
    result: object

    def __call__(self, times):
        return self.gated.unpack(self.result(times))

    @property
    def time(self):
        """When the stage ended."""
        return self.result.time

    @property
    def times(self):
        """Ends and middles of the solver's own steps, which do not depend on what is saved; of two that are CLOSE the later."""
        t = np.append(self.result.steps[0], self.result.time)
        t = np.sort(np.concatenate([t, (t[1:] + t[:-1]) / 2]))
        far = np.append(np.diff(t) > CLOSE * (t[-1] - t[0]), True)
        far[0] = True
        return t[far]


def _recorded(gated, result, keep_end):
    """The saved times and states. A list of times is exactly those, but a stage and a flow that stopped early keep their end."""
    times, states = result.times, result.states
    if not len(times) or (keep_end and times[-1] < result.time):
        times, states = np.append(times, result.time), np.concatenate([states, result.state[None]])
    state = {name: x[0] for name, x in gated.unpack(result.state[None]).items()}
    return {"time": times, "history": gated.unpack(states), "state": state}


def _saved(method, result, record):
    """The result of a flow that an event ended, with the times that would have been saved had its end been known."""
    times = method.times(result.start, result.time)
    if method.save_at is None:
        times = np.union1d(times, [event.time for event in result.events])
    times = times if record else times[times > result.start]
    return replace(result, times=times, states=result(times))
