"""What methods that go step by step share, and how they follow a stage, lane by lane (docs/mathematics.md §3)."""

from dataclasses import replace
from functools import partial

import numpy as np

from ..checks import real, whole
from .chunks import descend
from .stage import Part, Stage
from .until import is_event, steps_within

STEP_LIMIT = 10**15  # beyond it steps could no longer be told apart in float64 time
factor = partial(real, least=0, most=1e6)  # of the learning rate, for one part of the network


class Stepwise:
    """A method with `learning_rate`, `steps`, `save_every`, `neurons_rate` and `attention_rate`."""

    flows = staged = False

    @property
    def inner(self):
        """The method that follows each stage: itself."""
        return self

    @property
    def until(self):
        """The time of the last step."""
        return self.learning_rate * self.steps

    @property
    def extent(self):
        """How long it is, for a progress bar: the total and its unit."""
        return self.steps, "step"

    def stages(self, network):
        """One stage, in which everything moves."""
        return [Stage(None, self.until)]

    def saves(self, stage):
        """How many times a stage records; None if an event ends it, so that nobody knows."""
        if is_event(stage.end):
            return None
        return (
            1 + (self.steps if stage.name is None else steps_within(stage.end, self.learning_rate)) // self.save_every
        )

    def longer(self, amount, end, first, switches):
        """The method of a run that stands at step `first` and goes on for `amount` steps, and the stages that are left."""
        longer = replace(self, steps=first + whole("steps", amount))
        return longer, longer.stages(None)

    def shared_times(self):
        """The method with saves at times that all members of a batch share: it has."""
        return self

    def follow(self, engine, members, leg):
        """What each of `members` records in a stage: `engine.lanes` at most, spare lanes repeat the first."""
        padded = [*members, *[members[0]] * (engine.lanes - len(members))]
        rates = np.array([self.learning_rate if member.rate is None else member.rate for member in padded])
        networks, stage = [member.network for member in padded], leg.stage
        eta_w, eta_A = self.neurons_rate * stage.train_w * rates, self.attention_rate * stage.train_attention * rates
        parameters = engine.parameters(networks, eta_w, eta_A)
        # Steps are counted through all stages, so that saves keep one grid.
        done = round(leg.began / rates[0]) if leg.first is None else leg.first
        last = self.steps if stage.name is None else done + steps_within(stage.end, rates[0])

        def reached(saved):
            hits = np.flatnonzero(leg.stop(engine.unstack(saved, 0)) >= 0)
            return int(hits[0]) if len(hits) else None

        def show(steps, saved):
            leg.on_save(rates[0] * np.array(steps), engine.unstack(saved, 0))

        def note(at, _):
            leg.progress((at - done) / max(last - done, 1))

        history = descend(
            engine,
            [member.state for member in padded],
            parameters,
            last,
            self.save_every,
            first=done,
            record_first=leg.record,
            progress=note if leg.progress is not None else None,
            stop=reached if leg.stop is not None else None,
            alike=self.batch_size is None,
            on_save=show if leg.on_save is not None else None,
        )
        return [_part(engine, history, lane, rates[lane], done) for lane in range(len(members))]


def _part(engine, history, lane, rate, done):
    """What one lane recorded since step `done`, up to the step at which it left float64."""
    steps, diverged = np.array(history.steps, np.int64), history.diverged.get(lane)
    keep = np.full(len(steps), True) if diverged is None else steps < diverged
    saved = {name: x[keep] for name, x in engine.unstack(history.saved, lane).items()} if history.parts else {}
    step = steps[keep]
    return Part(
        time=rate * step,
        step=step,
        history=saved,
        state=engine.lane(history.state, lane),
        ended="interrupted" if history.interrupted else "end" if diverged is None else "diverged",
        diverged=diverged,
        counts={"steps": int(step[-1]) - done if len(step) else 0},
    )
