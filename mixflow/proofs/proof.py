"""`prove` and the `Proof` it returns: enclosures of the mean-field flow that hold by theorem, a statement, a file."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from .. import display
from ..checks import real
from ..errors import SpecError
from ..intervals import Interval, from_fraction
from ..progress import Progress
from . import claims, finite
from .approximate import pieces
from .hessian import SMALL
from .network import loss, margins, scores, start, symmetric
from .tube import Tube, build

if TYPE_CHECKING:
    from typing import Any

    from ..types import Array, Mixture, PathLike, Shown, Transformer, Until

MOST_CLASSES = 8  # the open gates and the time to learn grow with K; nothing above was tried


@dataclass(frozen=True, eq=False)
class Proof:
    """A proven run of the mean-field flow; made by `prove` or read by `Proof.load`.

    classes      K
    omega, bias  (lowest, highest) as exact fractions: the statement holds for every ω and b between
    level        of the loss, a fraction, or None
    time         (low, high), units of time: the loss passes the level between; None without a level
    switch_off   (low, high): the first neuron falls silent between; None if none is proven silent
    right_from   every sample is right from here to `end`; None if that is not proven
    wrong_at     a time before at which some sample is wrong; None if none is proven wrong
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
    level: Fraction | None
    time: tuple[float, float] | None
    switch_off: tuple[float, float] | None
    right_from: float | None
    wrong_at: float | None
    distance: float
    tube: Tube

    @property
    def end(self) -> float:
        """The last time that is proven."""
        return float(self.tube.times[-1, 1])

    @property
    def radius(self) -> float:
        """How far the flow can be from its polynomial, at most, anywhere."""
        return float(max(self.tube.first, self.tube.radius.max()))

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
        return _ends(claims.ball(self.tube, self._time(t))[1])

    def loss(self, t: float) -> tuple[float, float]:
        """(low, high) of the population loss at time t."""
        low, high = _ends(claims.loss_at(self._tables, self.tube, self._bias, self._time(t)))
        return float(low), float(high)

    def margins(self, t: float) -> tuple[Array, Array]:
        """(low, high), each (K,): y·F of the samples with n = 0..K−1 other signs equal to the label's; all 8 with a distance."""
        return _ends(claims.margins_at(self._tables, self.tube, self._bias, self._time(t)))

    def scores(self, t: float) -> tuple[Array, Array]:
        """(low, high), each (2, 2, 2): A[same class or another, key, query] over (c, v) in head +; (2, 4, 4) with a distance."""
        low, high = _ends(scores(self._tables, claims.ball(self.tube, self._time(t))[1]))
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
                f"a proof from starts within {self.tube.first:.2g}: expected less than {SMALL:g}, by smaller radii or no"
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

    def _time(self, t):
        return real("t", t, least=0, most=self.end, fix="the proof ends there")


def prove(
    task: Mixture,
    transformer: Transformer,
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
    until              a time, or `Until("loss", level)`: a little beyond the moment the loss passes the level (default: 0.1)
    omega_radius, bias_radius  prove for every ω and b within these distances at once
    distance           prove for every network, of any width, whose keys and queries start this near to mean-field (K = 2 only)
    progress           True for a bar on stderr, or a function of (done, total) cells

    Returns a `Proof`. Raises SpecError for what is not the mean-field flow of the mixture, ProofError where the argument breaks.

    >>> import mixflow as mf
    >>> mf.prove(mf.Mixture(classes=2), mf.Transformer(omega=0.3), until=0.5).every_sample_right
    False
    """
    bar = Progress.of(progress, "cell")
    proof = proved(asked(task, transformer, until, omega_radius, bias_radius, distance), bar)
    bar.close()
    return proof


def asked(task, transformer, until, omega_radius, bias_radius, distance):
    """The question in exact numbers: K, ranges of ω and b, level of the loss, longest time, distance."""
    K = _classes(task, transformer)
    level, end = _until(until)
    distance = real("distance", distance, least=0)
    if distance and K != finite.CLASSES:
        raise SpecError(f"distance = {distance:g} with {K} classes: expected {finite.CLASSES} classes, or distance=0.")
    omega = _range("omega", transformer.omega, omega_radius)
    bias = _range("bias", transformer.bias, bias_radius)
    return {"classes": K, "omega": omega, "bias": bias, "level": level, "end": end, "distance": distance}


def proved(question, report=None):
    """The `Proof` that answers a question of `asked`. Raises ProofError where the argument breaks."""
    from threadpoolctl import threadpool_limits

    K, omega, bias, level, end, distance = (
        question[name] for name in ("classes", "omega", "bias", "level", "end", "distance")
    )
    tables, b = symmetric(K), float(sum(bias) / 2)
    target = None if level is None else float(level) * 0.999

    def far_enough(piece):
        return piece.end >= end or (level is not None and loss(tables, piece.at(piece.end), b) < target)

    # A gate is open while b decides the sign of z, and for distant starts a little longer: finer cells would decide nothing.
    spread = float(bias[1] - bias[0]) / 2 + 0.02 * (distance + float(omega[1] - omega[0]))
    # Threads would only wait for each other on hundreds of 34×34 matrices; what overflows is infinite or NaN and is refused.
    with threadpool_limits(1), np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        curve = list(pieces(tables, start(K, sum(omega) / 2).mid, b, far_enough, spread))
        if level is not None:
            end = _reached(tables, curve[-1], b, target)
        tube = build(
            tables,
            curve,
            start(K, sum(omega) / 2),
            start(K, (omega[1] - omega[0]) / 2),
            _hull(bias),
            end,
            marks=_turns(tables, curve, b, end),
            report=report,
            space=finite.space() if distance else None,
            distance=distance,
        )
        return _concluded(tables, tube, K, omega, bias, level, distance)


def _concluded(tables, tube, K, omega, bias, level, distance):
    """The proof with everything that its tube says."""
    b, tables = _hull(bias), tables if tube.space is None else tube.space.tables
    right = claims.right_from(tables, tube, b)
    return Proof(
        classes=K,
        omega=omega,
        bias=bias,
        level=level,
        time=None if level is None else claims.loss_time(tables, tube, b, from_fraction(level)),
        switch_off=claims.switch_off(tube),
        right_from=right,
        wrong_at=None if right is None else claims.wrong_at(tables, tube, b, right),
        distance=distance,
        tube=tube,
    )


def _classes(task, transformer):
    if not getattr(task, "uniform", False) or not 2 <= task.classes <= MOST_CLASSES:
        raise SpecError(
            f"task = {task!r}: expected a Mixture of 2 to {MOST_CLASSES} classes, uniform priors; mf.Mixture(classes=2) is one."
        )
    if not transformer.mean_field or transformer.tie_values or transformer.omega <= 0:
        raise SpecError(
            f"transformer = {transformer!r}: expected infinite width, untied values and omega above 0; "
            "mf.Transformer(omega=0.3) is one."
        )
    return task.classes


def _until(until):
    """Level of the loss (or None) and the longest time."""
    if until is None:
        return Fraction(1, 10), math.inf
    if hasattr(until, "quantity"):
        if until.quantity != "loss":
            raise SpecError(
                f"until = {until!r}: expected a time or Until('loss', level), the quantity that is proven to fall."
            )
        return _fraction(until.threshold), until.limit
    return None, real("until", until, above=0, fix="a time, or mf.Until('loss', 0.1)")


def _fraction(value):
    return Fraction(repr(float(value)))


def _range(name, centre, radius):
    radius = _fraction(real(f"{name}_radius", radius, least=0))
    return _fraction(centre) - radius, _fraction(centre) + radius


def _hull(ends):
    return from_fraction(ends[0]).hull(from_fraction(ends[1]))


def _ends(x: Interval):
    return x.lo, x.hi


def _reached(tables, piece, bias, target):
    """When the loss of x̂ reaches the target in its last piece, in floats."""
    low, high = piece.begin, piece.end
    for _ in range(50):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if loss(tables, piece.at(middle), bias) > target else (low, middle)
    return high


def _turns(tables, curve, bias, end):
    """Where the least margin of x̂ becomes positive for the last time, in floats: cells are finer around it."""
    times = [np.linspace(piece.begin, piece.end, 65) for piece in curve]
    least = [margins(tables, piece.at(t), bias).min(-1) for piece, t in zip(curve, times)]
    t, least = np.concatenate(times), np.concatenate(least)
    negative = np.flatnonzero((least < -1e-9) & (t < end))
    if not len(negative) or t[negative[-1]] >= end or negative[-1] + 1 == len(t):
        return ()
    low, high = t[negative[-1]], t[negative[-1] + 1]
    piece = next(piece for piece in curve if piece.begin <= low < piece.end)
    for _ in range(50):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if margins(tables, piece.at(middle), bias).min() < 0 else (low, middle)
    return (high,)
