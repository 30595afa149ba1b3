"""What every experiment looks like: settings with reasons, a run, a verdict of checks, figures.

An experiment is a value, not a class to inherit from: one `Experiment(...)` at the end of its file ties together three
functions, so that reading one file teaches all of them.
"""

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Setting:
    """One entry of an experiment's configuration: its quick value, its full value if that differs, and why."""

    quick: object
    why: str
    full: object = None


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


def in_turn(function, items, progress):
    """[function(item) for each item], with progress(how many are done): what computes the parts of an experiment."""
    found = []
    for item in items:
        found.append(function(item))
        progress(len(found))
    return found


@dataclass(frozen=True)
class Experiment:
    """A question and how to answer it.

    name      short, as on the command line
    title     heading in the report
    question  one sentence that ends with a question mark
    section   of docs/mathematics.md that predicts the answer
    config    settings by name
    run       (settings, progress) -> Results; one in parts also takes each=in_turn, or what does the same in several processes
    verdict   Results -> list of Check
    answer    Results -> the answer to the question, in words with its numbers
    figures   Results -> list of Picture
    seconds   what quick and full take on two quiet cores, for the first guess of the time left
    file      where it stands if not in mixflow
    in_parts  whether most of its work are independent parts, computed by an importable function of picklable items
    """

    name: str
    title: str
    question: str
    section: str
    config: dict
    run: Callable
    verdict: Callable
    figures: Callable
    answer: Callable
    seconds: tuple = (10.0, 60.0)
    file: str = ""
    in_parts: bool = False

    def settings(self, full=False):
        """The values of the configuration, JSON-ready."""
        return {
            name: entry.full if full and entry.full is not None else entry.quick for name, entry in self.config.items()
        }
