"""A stage of training: what moves, until when; who goes through it, from where, and what it recorded."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class Stage:
    """A stretch of training.

    name              "neurons", "attention", "convergence"; None where a method has one stage only
    end               a duration in units of time, or an Until
    train_w           whether the neurons move (w, and what is trained beside it)
    train_attention   whether W_K and W_Q move
    """

    name: str | None
    end: object
    train_w: bool = True
    train_attention: bool = True


@dataclass(frozen=True, kw_only=True)
class Member:
    """One run of a batch: its network, its learning rate, and the state it is in."""

    network: object
    state: object
    rate: float | None = None  # the method's own if not given


@dataclass(frozen=True, kw_only=True)
class Leg:
    """A stage as it is followed.

    stage         the stage; the loop sets it, with its stop
    began, first  the time at which it begins, and its step if it is not a new run
    record        whether to record the state at the beginning
    stop          None, or stop(history) -> (k,) negative before an event; for a single member
    progress      None, or called with the share that is done
    on_save       None, or called with the saved times and the history of the first member as they are computed
    certificate   whether a flow is solved again at a tighter tolerance
    """

    stage: Stage | None = None
    began: float = 0.0
    first: int | None = None
    record: bool = True
    stop: Callable | None = None
    progress: Callable | None = None
    on_save: Callable | None = None
    certificate: bool = True


@dataclass(eq=False, kw_only=True)
class Part:
    """What one stage of one run recorded.

    time, step   (k,) of the saves; no steps for a flow
    history      arrays with time first
    state        after the stage
    ended        "end" (its time or event), "interrupted", "diverged" or "chattering"
    error        the error that ended it, or None
    where        where it was interrupted, in words, if that is not its last time
    diverged     the first bad step of a descent, or None
    events       a flow's switches;  counts  of its work;  certificate  what it proves about itself
    dense        a flow between its saves (`flow.Dense`), until what is looked for there is found
    """

    time: np.ndarray
    history: dict
    state: object
    step: np.ndarray | None = None
    ended: str = "end"
    error: Exception | None = None
    where: str = ""
    diverged: int | None = None
    events: tuple = ()
    counts: dict = field(default_factory=dict)
    certificate: dict | None = None
    dense: Callable | None = None
