"""What every experiment looks like: settings with reasons, a run, a verdict of checks, figures.

An experiment is a value, not a class to inherit from: one `Experiment(...)` at the end of its file ties together three
functions, so that reading one file teaches all of them.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

SAME = (
    1e-6  # relative tolerance of `mixflow verify` unless a check states its own: rounding of another machine, no more
)


@dataclass(frozen=True)
class Setting:
    """One entry of an experiment's configuration: its quick value, its full value if that differs, and why."""

    quick: object
    why: str
    full: object = None


@dataclass(frozen=True)
class Check:
    """One number (or word) of an experiment beside what was predicted.

    name       unique within the experiment
    says       the claim in words
    measured   what the runs gave; text where the answer is no number
    predicted  what was expected, as the report prints it; empty if nothing was
    ok         whether the measurement agrees with the prediction; None if nothing was predicted
    low, high  interval of the measurement, where it varies over seeds
    tolerance  relative; within it `mixflow verify` must find the number again
    """

    name: str
    says: str
    measured: float | str
    predicted: str = ""
    ok: bool | None = None
    low: float | None = None
    high: float | None = None
    tolerance: float = SAME


@dataclass(frozen=True)
class Picture:
    """A matplotlib figure with its caption (what to see) and its alternative text (what it shows, for who cannot see it)."""

    name: str
    caption: str
    alt: str
    figure: object


@dataclass(frozen=True)
class Table:
    """Words and numbers as text, row by row, for the page; the numbers themselves are in a series."""

    name: str
    caption: str
    columns: tuple
    rows: tuple


@dataclass(frozen=True)
class Source:
    """Data that came from outside: where from, under which licence, which bytes, and how it was split."""

    name: str
    origin: str
    licence: str
    sha256: str
    split: str


@dataclass(frozen=True)
class Results:
    """What a run of an experiment leaves behind.

    runs     trained models by name, saved beside the report
    series   datasets by name: what the figures show, and nothing that depends on the clock or the machine
    facts    whatever else `verdict` and `figures` need
    sources  outside data, if any
    tables   Table by Table, shown above the checks
    """

    runs: dict = field(default_factory=dict)
    series: dict = field(default_factory=dict)
    facts: dict = field(default_factory=dict)
    sources: tuple = ()
    tables: tuple = ()


def quiet(done, total):
    """The progress function that shows nothing."""


@dataclass(frozen=True)
class Experiment:
    """A question and how to answer it.

    name      short, as on the command line
    title     heading in the report
    question  one sentence that ends with a question mark
    section   of docs/mathematics.md that predicts the answer
    config    settings by name
    run       (settings, progress) -> Results
    verdict   Results -> list of Check
    figures   Results -> list of Picture
    seconds   what quick and full take on two quiet cores, for the first guess of the time left
    """

    name: str
    title: str
    question: str
    section: str
    config: dict
    run: Callable
    verdict: Callable
    figures: Callable
    seconds: tuple = (10.0, 60.0)

    def settings(self, full=False):
        """The values of the configuration, JSON-ready."""
        return {
            name: entry.full if full and entry.full is not None else entry.quick for name, entry in self.config.items()
        }


# Checks --------------------------------------------------------------------------------------------------------------


def near(name, says, measured, predicted, within, *, relative=False, low=None, high=None, tolerance=SAME):
    """Measured within `within` of a predicted number."""
    measured = float(measured)
    allowed = abs(predicted) * within if relative else within
    ok = bool(abs(measured - predicted) <= allowed)
    text = f"{printed(predicted)} ± {100 * within:g} %" if relative else f"{printed(predicted)} ± {printed(within)}"
    return Check(name, says, measured, text, ok, _real(low), _real(high), tolerance)


def between(name, says, measured, least, most, *, low=None, high=None, tolerance=SAME):
    """Measured between two bounds, each included; None leaves a side open."""
    measured = float(measured)
    ok = bool((least is None or measured >= least) and (most is None or measured <= most))
    if least is None:
        text = f"at most {printed(most)}"
    elif most is None:
        text = f"at least {printed(least)}"
    else:
        text = f"from {printed(least)} to {printed(most)}"
    return Check(name, says, measured, text, ok, _real(low), _real(high), tolerance)


def equal(name, says, measured, predicted):
    """Measured text (or whole number) equal to the prediction."""
    measured, predicted = str(measured), str(predicted)
    return Check(name, says, measured, predicted, measured == predicted, tolerance=0.0)


def shown(name, says, measured, *, low=None, high=None, tolerance=SAME):
    """A measurement worth reading that nothing was predicted about."""
    return Check(name, says, float(measured), low=_real(low), high=_real(high), tolerance=tolerance)


RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def printed(x, digits=10):
    """A number as the report prints it: so many digits at most, a true minus sign, powers of ten raised."""
    text = f"{x:.{digits}g}"
    if "e" in text:
        digits, power = text.split("e")
        raised = str(int(power)).translate(RAISED)
        text = f"{digits}·10{raised}" if digits.strip("-") != "1" else digits.replace("1", f"10{raised}")
    return text.replace("-", "−")


def _real(value):
    return None if value is None or not math.isfinite(value) else float(value)
