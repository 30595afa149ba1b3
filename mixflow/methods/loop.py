"""The one loop: a run is its stages, one after the other, whatever follows them (docs/mathematics.md §6)."""

from dataclasses import dataclass, field, replace

import numpy as np

from .stage import Leg
from .until import is_event


@dataclass(eq=False)
class Outcome:
    """What one run recorded: its parts, stage by stage, what ended each stage; the stages that a flow was seen to have."""

    parts: list = field(default_factory=list)
    switches: list = field(default_factory=list)
    stages: list | None = None

    @property
    def last(self):
        return self.parts[-1]

    @property
    def time(self):
        """(k,) the saved times; the state at a switch is kept once."""
        return self._joined([part.time for part in self.parts])

    @property
    def step(self):
        """(k,) the saved steps, or None for a flow."""
        return None if self.last.step is None else self._joined([part.step for part in self.parts])

    @property
    def history(self):
        """Arrays with time first."""
        names = self.parts[0].history
        return {name: self._joined([part.history[name] for part in self.parts]) for name in names}

    @property
    def events(self):
        """Every switch of a neuron."""
        return [event for part in self.parts for event in part.events]

    @staticmethod
    def _joined(arrays):
        return np.concatenate([arrays[0], *(x[1:] for x in arrays[1:])])  # a stage begins where the one before ended


def follow(engine, method, members, *, leg=None, watch=None, stages=None):
    """The outcome of each member: all stages of `method`, or those given.

    members   runs that share a program, one if a stage ends at an event or flows
    leg       where it begins and who listens (its stage is not looked at): a new run if not given
    watch     watch(end, network) -> a function of a history that is negative before the event
    """
    outcomes = [Outcome() for _ in members]
    stages = method.stages(members[0].network) if stages is None else stages
    leg = Leg() if leg is None else leg
    heard = leg.progress
    # All of them before the first step: an event that the task cannot have must not cost the stages before it.
    stops = [watch(stage.end, members[0].network) if is_event(stage.end) else None for stage in stages]
    for number, (stage, stop) in enumerate(zip(stages, stops, strict=True)):

        def note(share, number=number):
            heard((number + min(share, 1.0)) / len(stages))

        leg = replace(leg, stage=stage, stop=stop, progress=None if heard is None else note)
        parts = method.inner.follow(engine, members, leg)
        for outcome, part in zip(outcomes, parts, strict=True):
            outcome.parts.append(part)
            outcome.switches.append(_switch(number + 1, leg, part))
        if any(part.ended != "end" for part in parts) and len(members) == 1:
            break
        members = [replace(member, state=part.state) for member, part in zip(members, parts, strict=True)]
        time, step = parts[0].time, parts[0].step
        leg = replace(leg, began=time[-1], first=None if step is None else int(step[-1]), record=True)
    return outcomes


def _switch(number, leg, part):
    """What ended a stage, as the log keeps it."""
    stage, stop, began = leg.stage, leg.stop, float(leg.began)
    finished = float(part.time[-1]) if len(part.time) else began
    found = {"stage": number, "name": stage.name, "start": began, "end": finished}
    if part.ended != "end":
        return {**found, "trigger": part.ended, "reached": False}
    if stop is None:
        return {**found, "trigger": "time", "reached": True}
    end = stage.end
    excess = float(stop({name: x[-1:] for name, x in part.history.items()})[0])
    reached = excess >= -1e-6 * end.threshold  # the flow stops at the root, up to its rounding
    value = end.threshold + excess * (1 if end.excess(end.threshold + 1) > 0 else -1)
    watched = {"quantity": end.quantity, "threshold": end.threshold, "value": value}
    early = "standstill" if finished - began < 0.999 * end.limit else "limit"
    return {**found, "trigger": end.quantity if reached else early, "reached": reached, **watched}
