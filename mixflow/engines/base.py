"""What an engine is: a network on a task, computed exactly; it refuses, starts, steps, flows, measures and resumes."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Protocol

import numpy as np

from ..errors import SpecError
from ..jaxed import in_float64, jax
from ..tasks.floor import Samples
from .series import resumed

if TYPE_CHECKING:
    from typing import Any

    from ..filippov import Field
    from ..networks import AnyNetwork
    from ..tasks import Task
    from ..types import Array, History, Sequence, State, Variables, xarray


class Method(Protocol):
    """What an engine asks of a method: the one that follows each stage, which says what it does besides plain descent."""

    @property
    def inner(self) -> Any: ...


class Engine(ABC):
    """The interface. A *state* is what one run carries from step to step, a dictionary of arrays; a *history* is what its saves
    record, arrays with time first; `lanes` runs advance together in one compiled program.

    task, network, method   what it was made for; a batch may differ in numbers, not in what `key` depends on
    """

    name: str  # what `model=` calls it and a dataset records
    lanes = 1
    straight = False  # whether `step` is arithmetic on arrays whose last axis is lanes, given what it draws (native)
    vectors_only = False  # whether it is for tasks whose tokens are vectors of their own

    def __init__(self, task: Task, network: AnyNetwork, method: Method) -> None:
        self.task, self.network, self.method = task, network, method

    @classmethod
    @abstractmethod
    def objection(cls, task: Task, network: AnyNetwork, method: Method) -> str | None:
        """Why it cannot serve, in words that finish the sentence "…: ", with the fix; None if it can."""

    @classmethod
    def apt(cls, task: Task, network: AnyNetwork, method: Method) -> bool:
        """Whether this is the engine one would expect to serve: its objection is the one to read."""
        return not hasattr(task, "tokens") and network.no_closure is None and method.inner.no_closure is None

    def work(self) -> float:
        """Rough arithmetic of one step of all lanes, in units of the K = 2 mixture; for planning only."""
        types = (self.task.population().count > 0).sum(axis=1)  # of each atom: pairs that do not occur cost nothing
        return float(np.sum(types**2)) / 72

    @property
    @abstractmethod
    def key(self) -> tuple[Any, ...]:
        """What the compiled step depends on: runs with equal keys share a program."""

    @abstractmethod
    def start(self, network: AnyNetwork) -> State:
        """The initial state of one run."""

    @abstractmethod
    def parameters(self, networks: Sequence[AnyNetwork], eta_w: Array, eta_A: Array) -> dict[str, Any]:
        """Arrays the step reads besides the state, for `lanes` runs with learning rates (lanes,) each; a rate of 0 freezes."""

    @abstractmethod
    def step(self, i: Any, state: State, parameters: dict[str, Any]) -> State:
        """The state with lanes after step i; traced by JAX."""

    def ahead(self, block: int, parameters: dict[str, Any]) -> dict[str, Any]:
        """{name: (steps, …, lanes)}: what the steps of a block draw at random, to be given with the parameters; {}: nothing."""
        return {}

    @abstractmethod
    def observe(self, state: State, parameters: dict[str, Any]) -> History:
        """What a save records of a state with lanes; traced by JAX."""

    def stack(self, states: Sequence[State]) -> State:
        """States of single runs -> one state with lanes; here one lane, the state itself."""
        return states[0]

    def unstack(self, saved: History, lane: int) -> History:
        """The history of one lane."""
        return saved

    def lane(self, state: State, lane: int) -> State:
        """One run's state out of a state with lanes."""
        return state

    def field(self, network: AnyNetwork, train_w: bool = True, train_attention: bool = True) -> Field | None:
        """The filippov.Field of the flow, or None if there is none."""
        return None

    @abstractmethod
    def measure(self, history: History, network: AnyNetwork, listed: bool | None = None) -> Variables:
        """{variable: (dimensions, values)} of a history: what a dataset, a sweep's row, a frame and an event read.

        listed   whether features and atoms must be written out (True) or not (False); the engine decides if not given
        """

    @in_float64
    def variables(self, state: State | None = None) -> dict[str, Any]:
        """{variable: dimensions} of what `measure` gives, from one state, the start if not given."""
        lanes, rest = [self.network] * self.lanes, np.zeros(self.lanes)
        one = self.start(self.network) if state is None else state

        def record():
            return self.observe(self.stack([one] * self.lanes), self.parameters(lanes, rest, rest))

        # Shapes are all that is asked for: what needs JAX is traced, which is cheaper than to compute it op by op.
        seen = record() if self.straight else jax().eval_shape(record)
        history = self.unstack({name: np.zeros((1, *np.shape(x))) for name, x in seen.items()}, 0)
        return {name: dims for name, (dims, _) in self.measure(history, self.network).items()}

    def save_bytes(self, state: State | None = None) -> dict[str, int]:
        """{variable: bytes} of one save, of what has time."""
        labels, found = self.coordinates(), {}
        for name, dims in self.variables(state).items():
            if dims == "time" or dims[0] == "time":
                inside = () if dims == "time" else dims[1:]
                found[name] = 8 * math.prod(len(labels.get(dim, " ")) for dim in inside)
        return found

    def final(self, state: State) -> Variables:
        """{variable: (dimensions, values)} of what the last state remembers, which `measure` does not determine, for `resume`."""
        return {
            f"final_{name}": (tuple(f"{name}_{i}" for i in range(np.ndim(x))), np.asarray(x))
            for name, x in state.items()
            if remembered(name)
        }

    def recalled(self, state: State, dataset: xarray.Dataset) -> State:
        """A state at rest with what the last state of a dataset remembered, if it did."""
        return {name: dataset[f"final_{name}"].values if f"final_{name}" in dataset else x for name, x in state.items()}

    @abstractmethod
    def resume(self, dataset: xarray.Dataset) -> State:
        """The state at the end of a dataset that was measured by this engine."""

    def doubt(self, dataset: xarray.Dataset) -> str | None:
        """Why the end of a dataset that was measured by this engine is not to be trusted, with the fix; None if it is."""
        return None

    def cure(self, dataset: xarray.Dataset) -> str:
        """What to do about a run that diverged after the end of this dataset."""
        return "lower the learning rate"

    def at(self, dataset: xarray.Dataset, place: int) -> State:
        """The Gram state (`networks.initial.start`) at a save of a dataset that was measured by this engine."""
        return resumed(dataset, self.network, place)

    def expanded(self, dataset: xarray.Dataset) -> Variables:
        """{variable: (dimensions, values)} of a dataset whose features and atoms `measure` left out, written out; else empty."""
        return {}

    def take(self, network: AnyNetwork, offers: Sequence[dict[str, Any]]) -> State:
        """The state, at rest, that one of several offered dictionaries holds; SpecError if none has this network's shapes."""
        blank = self.start(network)
        rest = {name: x for name, x in blank.items() if remembered(name)}
        for offer in [offer | rest for offer in offers]:
            if all(name in offer and np.shape(offer[name]) == np.shape(x) for name, x in blank.items()):
                return {name: np.asarray(offer[name], float) for name in blank}
        expected = ", ".join(f"{name} {np.shape(x)}" for name, x in blank.items())
        raise SpecError(f"start is of another network or task than this one: expected a state of {expected}.")

    def after(self, network: AnyNetwork, run: Any, same: bool) -> State:
        """The state in which a network begins where a Run ended; `same` if that was measured by this engine on this task."""
        return self.resume(run.dataset) if same else self.take(network, [resumed(run.expand().dataset, network)])

    def convert(self, network: AnyNetwork, weights: dict[str, Array]) -> State:
        """The state of weights given by name; SpecError where the engine has no weights."""
        raise SpecError(
            f"start gives weights, but model={self.name!r} has none here; set a finite width or model='full'."
        )

    def coordinates(self, listed: bool | None = None) -> dict[str, Any]:
        """Labels along the dimensions of `measure`: {name: values along itself, or (dimension, values)}."""
        population = self.task.population()
        features = list(population.features)
        found = {"feature": features, "key": features, "query": features, "atom": list(population.names)}
        for name, values in (
            ("label", population.labels),
            ("probability", population.probabilities),
            ("hard", population.hard),
        ):
            found[name] = ("atom", values)
        if (least := Samples(population).least_loss).any():
            found["least_loss"] = ("atom", least)
        return found | self.network.coordinates(population)


def remembered(name: str) -> bool:
    """Whether a part of a state is what momentum remembers."""
    return name.endswith(("_velocity", "_memory"))


def listed(task: Task) -> str | None:
    """Why the atoms of a task cannot be listed one by one, with the fix, or None."""
    return getattr(task, "unlisted", None)


def besides(method: Method) -> dict[str, Any]:
    """What a method does besides plain descent, by name, with its number."""
    inner = method.inner
    unit = {"normalised": True} if getattr(inner, "normalised", False) else {}
    return unit | getattr(inner, "constants", {})


def not_plain(method: Method) -> str | None:
    """Why an engine that has plain descent only cannot serve, with the fix, or None."""
    return f"it has plain descent only; leave out {', '.join(besides(method))}" if besides(method) else None


def no_closure(task: Task, network: AnyNetwork, method: Method) -> str | None:
    """Why training does not close on inner products of features, with the fix, or None."""
    if (why := listed(task)) is not None:
        return why
    if network.no_closure is not None:
        return f"a {type(network).__name__} needs every weight: {network.no_closure}; leave model out"
    if method.inner.no_closure is not None:
        return method.inner.no_closure
    return network.objection(task.population())
