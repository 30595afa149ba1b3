"""Gradient descent: the specification, and how it follows a stage, lane by lane (docs/mathematics.md §3)."""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from ..checks import real, seed, whole
from ..spec import Spec, setting
from .chunks import descend
from .stage import Part, Stage
from .until import steps_within

STEP_LIMIT = 10**15  # beyond it steps could no longer be told apart in float64 time


@dataclass(frozen=True)
class GradientDescent(Spec, section="method", kind="descent"):
    """Full-batch gradient descent on every weight at once, the paper's experiment; minibatches on request.

    learning_rate  η > 0; time is t = η × step
    steps          number of updates, at least 1
    save_every     record the state every so many steps; step 0 and the last step are always recorded
    batch_size     atoms drawn for each step; the whole population if not given
    batch_seed     of the minibatch draws

    Raises SpecError for a learning rate that is not positive and for counts below 1.

    >>> GradientDescent(learning_rate=0.1, steps=1000).until
    100.0
    """

    learning_rate: float = setting(0.1, partial(real, above=0, fix="the paper uses 0.1"))
    steps: int = setting(20_000, partial(whole, most=STEP_LIMIT))
    save_every: int = setting(10, partial(whole, most=STEP_LIMIT))
    batch_size: int | None = setting(None, whole)
    batch_seed: int = setting(0, seed)

    flows = staged = False

    @property
    def no_closure(self):
        """Why training by it does not close on inner products: it does, so None."""
        return None

    @property
    def inner(self):
        """The method that follows each stage: itself."""
        return self

    @property
    def until(self):
        """The time of the last step."""
        return self.learning_rate * self.steps

    def stages(self, network):
        """One stage, in which everything moves."""
        return [Stage(None, self.until)]

    def longer(self, amount, end, first, switches):
        """The method of a run that stands at step `first` and goes on for `amount` steps, and the stages that are left."""
        longer = replace(self, steps=first + whole("steps", amount))
        return longer, longer.stages(None)

    @property
    def extent(self):
        """How long it is, for a progress bar: the total and its unit."""
        return self.steps, "step"

    def shared_times(self):
        """The method with saves at times that all members of a batch share: it has."""
        return self

    def follow(self, engine, members, stage, **given):
        """What each of `members` records in a stage (`stepwise`)."""
        return stepwise(self, engine, members, stage, **given)


@dataclass(frozen=True, kw_only=True)
class Member:
    """One run of a batch: its network, its learning rate, and the state it is in."""

    network: object
    state: object
    rate: float | None = None  # the method's own if not given


def stepwise(method, engine, members, stage, *, began=0.0, first=None, record=True, stop=None, progress=None, on_save=None,
             certificate=False):  # fmt: skip
    """Follow a stage by steps, `engine.lanes` members at most; spare lanes repeat the first.

    began    the time at which the stage begins;  first  its step, if it is not a new run
    record   whether to record the state at the beginning
    stop     None, or stop(history) -> (k,) negative before an event; for a single member
    """
    padded = [*members, *[members[0]] * (engine.lanes - len(members))]
    rates = np.array([method.learning_rate if member.rate is None else member.rate for member in padded])
    parameters = engine.parameters(
        [member.network for member in padded], rates * stage.train_w, rates * stage.train_attention
    )
    rate = rates[0]
    done = (
        round(began / rate) if first is None else first
    )  # steps are counted through all stages, so saves keep one grid
    last = method.steps if stage.name is None else done + steps_within(stage.end, rate)

    def reached(saved):
        hits = np.flatnonzero(stop(engine.unstack(saved, 0)) >= 0)
        return int(hits[0]) if len(hits) else None

    def show(steps, saved):
        on_save(rate * np.array(steps), engine.unstack(saved, 0))

    history = descend(
        engine, [member.state for member in padded], parameters, last, method.save_every, first=done, record_first=record,
        progress=progress and (lambda at, _: progress((at - done) / max(last - done, 1))),
        stop=reached if stop is not None else None, on_save=show if on_save is not None else None,
    )  # fmt: skip
    steps = np.array(history.steps, np.int64)
    parts = []
    for lane in range(len(members)):
        diverged = history.diverged.get(lane)
        keep = np.full(len(steps), True) if diverged is None else steps < diverged
        saved = {name: x[keep] for name, x in engine.unstack(history.saved, lane).items()} if history.parts else {}
        ended = "interrupted" if history.interrupted else "end" if diverged is None else "diverged"
        step = steps[keep]
        parts.append(Part(
            time=rates[lane] * step, step=step, history=saved, state=engine.lane(history.state, lane), ended=ended,
            diverged=diverged, counts={"steps": int(step[-1]) - done if len(step) else 0},
        ))  # fmt: skip
    return parts
