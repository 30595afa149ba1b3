"""The few series that stage detection reads: from a dataset, from measured arrays, or from a flow between its saves."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING

import numpy as np

from ..checks import array
from ..errors import SpecError
from ..filippov.walk import root
from ..tasks.floor import above_least

if TYPE_CHECKING:
    from typing import Any

    from ..engines.base import Engine
    from ..networks import AnyNetwork
    from ..types import Array, History, xarray

SERIES = ("loss", "loss_easy", "loss_hard", "z", "margin")
ARRAYS = ("time", *SERIES, "w", "A")
FLOOR = ("least_loss", "probability", "hard")  # of every atom


@dataclass(frozen=True)
class Trajectory:
    """One run as the detector needs it; the first axis of every array is time, further axes are free.

    time       (T,) increasing
    loss       (T,) mean loss, above the least possible one where that is not 0
    loss_easy  (T,) on the easy samples, NaN if there are none
    loss_hard  (T,) on the hard samples, NaN if there are none
    w          (T, ...) neurons, in any fixed coordinates
    A          (T, ...) attention scores: entries of W_Kᵀ W_Q, because "moved by one" is meant in units of a score
    z          (T, ...) pre-activations of every head and atom (or atom type)
    margin     (T, ...) y·F of every atom (or atom type), only shown as evidence
    least      what was taken off the losses, by name; empty where they are as they were
    at         of a flow: at(times (k,)) -> the Trajectory there, on the solver's dense output; None where only saves are known
    gates      whether a neuron is off at z ≤ 0; those of a linear network never are
    exact_from the time from which `at` knows: a run that goes on knows its past by its saves
    """

    time: np.ndarray
    loss: np.ndarray
    loss_easy: np.ndarray
    loss_hard: np.ndarray
    w: np.ndarray
    A: np.ndarray
    z: np.ndarray
    margin: np.ndarray
    least: dict = field(default_factory=dict)
    at: Callable | None = None
    gates: bool = True
    exact_from: float = 0.0

    def __post_init__(self):
        for name in ARRAYS:
            value = array(name, getattr(self, name), "one entry for each time")
            if value.ndim == 0 or (name == "time" and value.ndim != 1):
                raise SpecError(f"{name} has shape {value.shape}: expected an entry for each time.")
            if value.size and name in ("w", "A", "z", "margin"):
                value = value.reshape(len(value), -1)
            object.__setattr__(self, name, value)
            if len(value) != len(self.time):
                raise SpecError(f"{name} has shape {value.shape}: expected {len(self.time)} entries along time.")
        if not np.all(np.diff(self.time) > 0):
            raise SpecError("time does not increase: sort the saves and drop repeated ones.")

    def exact(self, t: float) -> bool:
        """Whether the flow itself is known at time t."""
        return self.at is not None and t >= self.exact_from

    def value(self, series: Callable[..., Array], t: float) -> float:
        """series(trajectory) -> (T,) at the time t: on the flow itself, or straight between saves."""
        return float(series(self.at([t]))[0] if self.exact(t) else np.interp(t, self.time, series(self)))

    def crossing(self, series: Callable[..., Array], i: int) -> float | None:
        """When series(trajectory) -> (T,) rises through 0 between the times i and i + 1 of a flow; None if that is not known."""
        if not self.exact(self.time[i]):
            return None
        return float(root(lambda t: float(series(self.at([t]))[0]), self.time[i], self.time[i + 1]))

    def after(self, past: Trajectory) -> Trajectory:
        """This flow with the saves of the run whose end it goes on from."""
        joined = {name: np.concatenate([getattr(past, name)[:-1], getattr(self, name)]) for name in ARRAYS}
        return Trajectory(**joined, least=self.least, at=self.at, gates=self.gates, exact_from=self.time[0])

    @classmethod
    def from_dataset(cls, dataset: xarray.Dataset) -> Trajectory:
        """One run's dataset; for many classes w and A are taken from their sectors."""
        if "run" in dataset["loss"].dims:
            raise SpecError("the dataset holds a batch of runs: choose one with dataset.isel(run=0).")
        if not (finite := np.isfinite(dataset["loss"].values)).all():  # a diverged member of a batch ends in NaN
            dataset = dataset.isel(time=finite)
        sectors = "A" not in dataset and "A_sector" in dataset  # many classes: atoms and features are not listed
        names = [*SERIES, *(("w_sector", "A_sector") if sectors else ("w", "A"))]
        missing = [name for name in names if name not in dataset]
        if missing:
            raise SpecError(
                f"the dataset lacks {', '.join(missing)}: stages are read from {', '.join(names)} over time."
            )
        series = {name: dataset[name].variable.transpose("time", ...).values for name in names}
        floor = [dataset[name].values for name in FLOOR] if "least_loss" in dataset.coords else None
        classes = (
            dataset.sizes["atom_type"] // 2 if sectors else None
        )  # a type is a label and how many other signs are +
        spec = json.loads(dataset.attrs.get("spec", "{}"))
        gates = spec.get("transformer", {}).get("activation") != "linear"
        return cls.of(series | {"time": dataset["time"].values}, classes=classes, floor=floor, gates=gates)

    @classmethod
    def of(cls, series: History, *, classes: int | None = None, floor: Any = None, gates: bool = True) -> Trajectory:
        """What an engine measures, {variable: (T, ...)}.

        classes  how many, where w and A are given by sector
        floor    least loss, probability and hardness (n,) of every atom, where equal samples have different labels
        gates    whether neurons are off at z ≤ 0
        """
        chosen = {name: series[name] for name in ("time", *SERIES)}
        if floor is not None:  # what is learned is above it
            least, weight, hard = floor
            chosen = above_least(chosen, least, weight, hard.astype(bool))
        if "A" in series:
            return cls(**chosen, w=series["w"], A=series["A"], gates=gates)
        A, w = series["A_sector"], series["w_sector"]
        if A.ndim == 5:  # where the heads are no mirror images, head + is read
            A, w = A[:, 0], w[:, 0]
        return cls.from_sectors(classes=classes, common=A[:, 0], contrast=A[:, 1], w=w, gates=gates, **chosen)

    @classmethod
    def measured(cls, engine: Engine) -> Callable[[History], Trajectory]:
        """`of` for what this engine measures: a function of the series."""
        labels = engine.coordinates()
        floor = [labels[name][1] for name in FLOOR] if "least_loss" in labels else None
        gates = getattr(engine.network, "activation", None) != "linear"
        return partial(cls.of, classes=getattr(engine.task, "classes", None), floor=floor, gates=gates)

    @classmethod
    def of_flow(cls, engine: Engine, network: AnyNetwork, outcome: Any) -> Trajectory | None:
        """A flow at points of the solver's own steps, whatever was saved, and `at` any time between; None if it went nowhere."""
        parts = [part.dense for part in outcome.parts if part.dense is not None]
        if not parts:
            return None
        ends, made = np.array([part.time for part in parts]), cls.measured(engine)

        def read(times):
            times = np.array(times)
            of = np.minimum(np.searchsorted(ends, times), len(parts) - 1)  # the stage of each time
            pieces = [parts[k](times[of == k]) for k in np.unique(of)]
            history = {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}
            seen = {name: x for name, (_, x) in engine.measure(history, network).items()}
            return made(seen | {"time": times})

        remembered = lru_cache(maxsize=64)(read)  # several things are asked about one time

        def at(times):
            return remembered(tuple(map(float, times)))

        times = np.concatenate([parts[0].times, *(part.times[1:] for part in parts[1:])])
        whole = read(times)
        finite = np.isfinite(whole.loss)  # a flow that diverged may end in NaN
        kept = {name: getattr(whole, name)[finite] for name in ARRAYS}
        return replace(whole, **kept, at=at, exact_from=times[0])

    @classmethod
    def from_sectors(cls, *, classes: int, common: Array, contrast: Array, **series: Any) -> Trajectory:
        """A symmetric run: `common` and `contrast` are the sectors of A, each (T, ..., 2, 2); the rest as for arrays.

        A block x·I + y·J acts as x + K y on the common sector and as x on the contrast sector, so the scores themselves
        are x + y (own class) and y (another class).
        """
        common, contrast = np.asarray(common, float), np.asarray(contrast, float)
        other = (common - contrast) / classes
        return cls(A=np.stack([contrast + other, other], axis=1), **series)
