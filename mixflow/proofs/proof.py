"""`prove` and the `Proof` it returns: enclosures of the mean-field flow that hold by theorem, a statement, a file."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from .. import display
from ..checks import real
from ..errors import SpecError
from ..intervals import Interval, from_fraction
from ..methods.stage import Stage
from ..methods.until import Until, is_event
from ..networks.transformer import Transformer
from ..progress import Progress
from . import claims, finite
from .hessian import SMALL
from .network import scores, symmetric
from .stages import Ended, exact, follow
from .tube import Tube

if TYPE_CHECKING:
    from typing import Any

    from ..methods.three_stage import ThreeStage
    from ..tasks.mixture import Mixture
    from ..types import Array, PathLike, Shown

MOST_CLASSES = 8  # the open gates and the time to learn grow with K; nothing above was tried
LOSS = 0.1  # the level at which a task counts as learned, if no other end is asked for


@dataclass(frozen=True, eq=False)
class Proof:
    """A proven run of the mean-field flow; made by `prove` or read by `Proof.load`.

    classes      K
    omega, bias  (lowest, highest) as exact fractions: the statement holds for every ω and b between
    ended        how each stage of training ends
    found        what happens when, (low, high) on the clock of the tube, or None: "silent", "right", "separated", "half"
    distance     also for every network whose keys and queries start this near to mean-field, |S − ω| (docs/proofs.md)
    tube         the cells: times, residual δ, growth μ, radius

    Raised by nothing itself.

    >>> import mixflow as mf
    >>> proof = mf.prove(mf.Mixture(classes=2), mf.Transformer(omega=0.3), until=1)
    >>> low, high = proof.loss(1.0)
    >>> 0 < high - low < 1e-12, proof.radius < 1e-12, proof.cells
    (True, True, 4)
    """

    classes: int
    omega: tuple[Fraction, Fraction]
    bias: tuple[Fraction, Fraction]
    ended: tuple[Ended, ...]
    found: dict
    distance: float
    tube: Tube = field(repr=False)

    @property
    def level(self) -> Fraction | None:
        """Of the loss, at which the last stage ends, a fraction; None if it ends otherwise."""
        end = self.ended[-1].end
        return exact(end.threshold) if is_event(end) and end.quantity == "loss" else None

    @property
    def time(self) -> tuple[float, float] | None:
        """(low, high), units of time: the last stage ends between, where the loss passes the level; None without an event."""
        return self._real(self.ended[-1].time)

    @property
    def switch_off(self) -> tuple[float, float] | None:
        """(low, high): the first neuron falls silent between; None if none is proven silent."""
        return self._real(self.found["silent"])

    @property
    def separated(self) -> tuple[float, float] | None:
        """(low, high): the deciding samples' feature margin first reaches 0.1 between; None if it is not proven to."""
        return self._real(self.found["separated"])

    @property
    def right_from(self) -> float | None:
        """Every sample is right from here to `end`; None if that is not proven."""
        return self.found["right"] and self.found["right"][1]

    @property
    def wrong_at(self) -> float | None:
        """A time before at which some sample is wrong; None if none is proven wrong, or the time is known within bounds only."""
        low = self.found["right"] and self.found["right"][0]
        return None if low is None or self._late(low) else low

    @property
    def stages(self) -> list[tuple[str, tuple[float, float]]]:
        """[(name, (low, high))]: when each stage of training is proven to end, as the library measures it; [] if it is not.

        Without stages of its own a run has those of `run.stages`: "neurons" until the first neuron is silent, "attention" until
        the hard samples' loss is half of its largest value since.
        """
        if len(self.ended) > 1:
            return [(str(stage.name), self._real(stage.time)) for stage in self.ended if stage.time]
        if not self.found["half"] or self.found["half"][0] is None:
            return []
        return [("neurons", self.switch_off), ("attention", self._real(self.found["half"]))]

    @property
    def end(self) -> float:
        """The last time that is proven."""
        end = float(self.tube.times[-1, 1])
        return end - self._late(end)

    @property
    def radius(self) -> float:
        """How far the flow can be from its polynomial, at most, anywhere."""
        return float(self.tube.total.max())

    @property
    def cells(self) -> int:
        """How many stretches of time the proof has."""
        return len(self.tube.times)

    @property
    def every_sample_right(self) -> bool:
        """Whether every sample is proven right at `end`."""
        return self.right_from is not None

    def state(self, t: float) -> tuple[Array, Array]:
        """(low, high), each (34,), or (136,) with a distance: the weights x(t) in the coordinates of docs/proofs.md."""
        return _ends(self._ball(t)[1])

    def loss(self, t: float) -> tuple[float, float]:
        """(low, high) of the population loss at time t."""
        low, high = _ends(claims.loss_at(self._tables, self._bias, *self._ball(t)))
        return float(low), float(high)

    def margins(self, t: float) -> tuple[Array, Array]:
        """(low, high), each (K,): y·F of the samples with n = 0..K−1 other signs equal to the label's; all 8 with a distance."""
        middle, _, radius = self._ball(t)
        return _ends(claims.margins_at(self._tables, self._bias, middle, radius))

    def scores(self, t: float) -> tuple[Array, Array]:
        """(low, high), each (2, 2, 2): A[same class or another, key, query] over (c, v) in head +; (2, 4, 4) with a distance."""
        low, high = _ends(scores(self._tables, self._ball(t)[1]))
        side = 4 if self.distance else 2
        return low.reshape(2, side, side), high.reshape(2, side, side)

    @property
    def width(self) -> int | None:
        """The least width at which a random start is within the distance with probability 0.99; None without a distance."""
        return finite.width(self.distance, float(self.omega[0])) if self.distance else None

    def _repr_html_(self):
        return display.proof(self)

    def facts(self) -> dict[str, Any]:
        """What a program reads: numbers, strings, lists and None."""
        return {
            "classes": self.classes,
            "omega": [str(end) for end in self.omega],
            "bias": [str(end) for end in self.bias],
            "loss": None if self.level is None else str(self.level),
            "time": self.time and list(self.time),
            "switch_off": self.switch_off and list(self.switch_off),
            "separated": self.separated and list(self.separated),
            "stages": [{"name": name, "end": list(time)} for name, time in self.stages],
            "right_from": self.right_from,
            "wrong_at": self.wrong_at,
            "every_sample_right": self.every_sample_right,
            "distance": self.distance,
            "width": self.width,
            "end": self.end,
            "radius": self.radius,
            "cells": self.cells,
            "pieces": len(self.tube.pieces),
            "growth": float(np.exp(np.sum(self.tube.mu * np.diff(self.tube.times)[:, 0]))),
        }

    def statement(self) -> str:
        """The theorem in words."""
        from .words import statement

        return statement(self)

    def save(self, path: PathLike) -> None:
        """Write the proof as one JSON file with a checksum; `mixflow prove --check FILE` verifies it."""
        from .file import write

        if self.tube.frame is not None:
            raise SpecError(
                f"a proof from starts within {self.tube.first[0]:.2g}: expected less than {SMALL:g}, by smaller radii or no"
                " distance; the checker's files hold tubes of balls only."
            )
        write(self, path)

    @classmethod
    def load(cls, path: PathLike) -> Proof:
        """Read a proof's file; the claims are taken as they stand there: `mixflow prove --check` proves them."""
        from .file import read

        return read(path)

    @property
    def _tables(self):
        return symmetric(self.classes) if self.tube.space is None else self.tube.space.tables

    @property
    def _bias(self):
        return _hull(self.bias)

    def _ball(self, t):
        t = real("t", t, least=0, most=self.end, fix="the proof ends there")
        return claims.ball(self.tube, t, self._late(t))

    def _late(self, t):
        """How much later than the flow the clock of the tube can be at time t: a stage is over when it is proven to be."""
        return sum(stage.time[1] - stage.time[0] for stage in self.ended[:-1] if stage.time[0] <= t)

    def _real(self, time):
        """Ends on the clock of the tube as ends of the time itself; None stays None."""
        return time and (time[0] - self._late(time[0]), time[1])


def prove(
    task: Mixture,
    transformer: Transformer,
    method: ThreeStage | None = None,
    *,
    until: float | Until | None = None,
    omega_radius: float = 0.0,
    bias_radius: float = 0.0,
    distance: float = 0.0,
    progress: Shown = False,
) -> Proof:
    """A proof about the gradient flow of the mean-field transformer on the uniform mixture, by intervals.

    task, transformer  a uniform `Mixture` of at least 2 classes and a `Transformer` of infinite width; ω and b are read as the
                       decimals that Python prints, so 0.3 means 3/10 exactly
    method             a `ThreeStage` of a `GradientFlow`; all weights are trained at once if not given
    until              a time, or an `Until`: a little beyond the moment it is reached (default: loss 0.1); not with stages
    omega_radius, bias_radius  prove for every ω and b within these distances at once
    distance           prove for every network, of any width, whose keys and queries start this near to mean-field (K = 2 only)
    progress           True for a bar on stderr, or a function of (done, total) cells

    Returns a `Proof`. Raises SpecError for what is not the mean-field flow of the mixture, ProofError where the argument breaks.

    >>> import mixflow as mf
    >>> mf.prove(mf.Mixture(classes=2), mf.Transformer(omega=0.3), until=0.5).every_sample_right
    False
    """
    bar = Progress.of(progress, "cell")
    proof = proved(asked(task, transformer, method, until, omega_radius, bias_radius, distance), bar)
    bar.close()
    return proof


def asked(task, transformer, method, until, omega_radius, bias_radius, distance):
    """The question in exact numbers: K, ranges of ω and b, the stages, distance."""
    K = _classes(task, transformer)
    stages = _stages(method, transformer, until)
    distance = real("distance", distance, least=0)
    if distance and (K != finite.CLASSES or method is not None or getattr(until, "quantity", "loss") != "loss"):
        raise SpecError(
            f"distance = {distance:g} with {K} classes, method = {method!r} and until = {until!r}: expected {finite.CLASSES}"
            " classes, no method and a time or a loss, or distance=0."
        )
    omega = _range("omega", transformer.omega, omega_radius)
    bias = _range("bias", transformer.bias, bias_radius)
    return {"classes": K, "omega": omega, "bias": bias, "stages": stages, "distance": distance}


def proved(question, report=None):
    """The `Proof` that answers a question of `asked`. Raises ProofError where the argument breaks."""
    from threadpoolctl import threadpool_limits

    # Threads would only wait for each other on hundreds of 34×34 matrices; what overflows is infinite or NaN and is refused.
    with threadpool_limits(1), np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        tube, ended = follow(question, report)
        tables = symmetric(question["classes"]) if tube.space is None else tube.space.tables
        readings = claims.Readings(tables, tube, _hull(question["bias"]))
        found = {"silent": readings.silent(), "right": readings.right(), "separated": None, "half": None}
        if tube.space is None and tube.frame is None:
            found["separated"] = readings.separated()
            if len(ended) == 1 and found["silent"]:
                found["half"] = readings.half(found["silent"])
    known = {name: question[name] for name in ("classes", "omega", "bias", "distance")}
    return Proof(ended=ended, found=found, tube=tube, **known)


def _classes(task, transformer):
    if not getattr(task, "uniform", False) or not 2 <= task.classes <= MOST_CLASSES or task.loss != "logistic":
        raise SpecError(
            f"task = {task!r}: expected a Mixture of 2 to {MOST_CLASSES} classes, uniform priors, logistic loss; "
            "mf.Mixture(classes=2) is one."
        )
    if not isinstance(transformer, Transformer) or not transformer.mean_field or transformer.omega <= 0:
        raise SpecError(
            f"transformer = {transformer!r}: expected a Transformer of infinite width with omega above 0; "
            "mf.Transformer(omega=0.3) is one."
        )
    if changed := transformer.options():
        raise SpecError(f"a proof is about the paper's network: leave out {', '.join(changed)}.")
    return task.classes


def _stages(method, transformer, until):
    """The stages of training, from the method or from the one end."""
    if method is None:
        end = Until("loss", LOSS) if until is None else until
        return [
            Stage(None, end if is_event(end) else real("until", end, above=0, fix="a time, or mf.Until('loss', 0.1)"))
        ]
    if not getattr(method, "staged", False) or not method.flows:
        raise SpecError(
            f"method = {method!r}: expected a ThreeStage of a GradientFlow, or none for all weights at once;"
            " mf.ThreeStage(mf.GradientFlow()) is one."
        )
    if until is not None:
        raise SpecError(
            f"until = {until!r} with a method: expected none, its stages end themselves; give converge={until!r}."
        )
    return method.stages(transformer)


def _range(name, centre, radius):
    radius = exact(real(f"{name}_radius", radius, least=0))
    return exact(centre) - radius, exact(centre) + radius


def _hull(ends):
    return from_fraction(ends[0]).hull(from_fraction(ends[1]))


def _ends(x: Interval):
    return x.lo, x.hi
