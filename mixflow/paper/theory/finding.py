"""One claim decided: the sentence, the quantity, the prediction, the measurement with its interval, the verdict."""

import math
from dataclasses import dataclass, field

import numpy as np

import mixflow as mf

HOLDS, FAILS, SILENT = "holds", "fails", "does not apply"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A claim with its verdict.

    name        short, stable
    sentence    what is claimed
    quantity    the number that decides it
    prediction  what the claim says about that number
    measured    the number; None if the claim does not apply
    low, high   95 % interval of its mean over seeds, or a two-sided bound; None where there is nothing to repeat
    verdict     "holds", "fails" or "does not apply"
    figure      where it can be seen
    facts       further numbers, and the reason if it does not apply
    """

    name: str
    sentence: str
    quantity: str
    prediction: str
    measured: float | None = None
    low: float | None = None
    high: float | None = None
    verdict: str = SILENT
    figure: str = ""
    facts: dict = field(default_factory=dict)

    @property
    def holds(self):
        return self.verdict == HOLDS

    def to_dict(self):
        """JSON-ready; NaN and infinity become None."""
        return {name: _plain(getattr(self, name)) for name in self.__dataclass_fields__}

    def __str__(self):
        if self.verdict == SILENT:
            return f"  –   {self.name:22} {self.facts.get('reason', '')}"
        spread = "" if self.low is None else f"  [{self.low:.4g}, {self.high:.4g}]"
        mark = "yes" if self.holds else "NO "
        measured = "–" if self.measured is None else f"{self.measured:.6g}"
        why = f" ({self.facts['reason']})" if "reason" in self.facts else ""
        number = f"{self.quantity}: {measured}{spread}; expected {self.prediction}{why}"
        return f"  {mark} {self.name:22} {self.sentence}\n      {'':22} {number}"


def interval(values, level=0.95):
    """Mean, low and high of Student's interval; low and high None with fewer than two values."""
    x = [value for value in values if value is not None and math.isfinite(value)]
    mean, low, high = mf.measure.mean_interval(x, level)
    return (mean, low, high) if len(x) > 1 else (mean, None, None)


def _plain(value):
    if isinstance(value, dict):
        return {str(key): _plain(x) for key, x in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(x) for x in value]
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, (np.generic,)):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
