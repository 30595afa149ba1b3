"""The one loop: a run is its stages, one after the other, whatever follows them (docs/mathematics.md §6)."""

from dataclasses import dataclass, field, replace

import numpy as np

from .until import is_event


@dataclass(eq=False)
class Outcome:
    """What one run recorded: its parts, stage by stage, and what ended each stage."""

    parts: list = field(default_factory=list)
    switches: list = field(default_factory=list)

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


def follow(engine, method, members, *, began=0.0, first=None, record=True, watch=None, progress=None, on_save=None, stages=None,
           certificate=True):  # fmt: skip
    """The outcome of each member: all stages of `method`, or those given.

    members   runs that share a program, one if a stage ends at an event or flows
    began     the time, first  the step at which it goes on; record  whether to record the state there
    watch     watch(end, network) -> a function of a history that is negative before the event
    progress  called with the share that is done, from 0 to 1
    on_save   called with the saved times and the history of the first member as they are computed
    """
    outcomes = [Outcome() for _ in members]
    stages = method.stages(members[0].network) if stages is None else stages
    for number, stage in enumerate(stages):
        stop = watch(stage.end, members[0].network) if is_event(stage.end) else None

        def note(share, number=number):
            progress((number + min(share, 1.0)) / len(stages))

        parts = method.inner.follow(
            engine, members, stage, began=began, first=first, record=record, stop=stop, on_save=on_save,
            progress=note if progress is not None else None, certificate=certificate,
        )  # fmt: skip
        for outcome, part in zip(outcomes, parts, strict=True):
            outcome.parts.append(part)
            outcome.switches.append(_switch(number + 1, stage, began, part, stop))
        if any(part.ended != "end" for part in parts) and len(members) == 1:
            break
        members = [replace(member, state=part.state) for member, part in zip(members, parts, strict=True)]
        began, first, record = parts[0].time[-1], None if parts[0].step is None else int(parts[0].step[-1]), True
    return outcomes


def _switch(number, stage, began, part, stop):
    """What ended a stage, as the log keeps it."""
    finished = float(part.time[-1]) if len(part.time) else float(began)
    found = {"stage": number, "name": stage.name, "start": float(began), "end": finished}
    if part.ended != "end":
        return {**found, "trigger": part.ended, "reached": False}
    if stop is None:
        return {**found, "trigger": "time", "reached": True}
    end = stage.end
    excess = float(stop({name: x[-1:] for name, x in part.history.items()})[0])
    reached = excess >= -1e-6 * end.threshold  # the flow stops at the root, up to its rounding
    value = end.threshold + excess * (1 if end.excess(end.threshold + 1) > 0 else -1)
    watched = {"quantity": end.quantity, "threshold": end.threshold, "value": value}
    return {**found, "trigger": end.quantity if reached else "limit", "reached": reached, **watched}
