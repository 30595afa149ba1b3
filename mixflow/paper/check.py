"""One statement beside its measurement: the only verdict there is in the study.

Four kinds, counted apart:

    theory      a closed form, a theorem, an order of convergence, a conserved quantity: known without running anything
    paper       what the text of the paper says
    regression  a number stored before, by us or by a program that shares nothing with this one: it must not change
    shown       worth reading; nothing was predicted
"""

import dataclasses
import math

import numpy as np

import mixflow as mf

KINDS = ("theory", "paper", "regression", "shown")
JUDGED = ("theory", "paper")  # what the headline counts
SAME = (
    1e-6  # relative tolerance of `mixflow verify` unless a check states its own: rounding of another machine, no more
)
HOLDS, FAILS, SILENT = "holds", "fails", "does not apply"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Check:
    """A statement, the quantity that decides it, what was predicted and what was measured.

    name        short, unique within its experiment
    sentence    what is claimed, in words
    quantity    the number that decides it, where the sentence does not name it
    measured    what the runs gave: a number, or text where the answer is none; None if the claim does not apply
    predicted   what was expected, as the report prints it; empty if nothing was
    ok          whether they agree; None if nothing was predicted, or the claim does not apply
    kind        "theory", "paper", "regression" or "shown"
    because     what prediction and tolerance rest on: the formula, the paper's phrase, the stored number
    after       whether the tolerance was set after the data had been seen
    low, high   interval of the measurement, where it varies
    over        what the interval is over, for example "16 seeds at width 64"
    tolerance   relative; within it `mixflow verify` must find the number again
    facts       further numbers, and the reason if the claim does not apply
    """

    name: str
    sentence: str
    quantity: str = ""
    measured: float | str | None = None
    predicted: str = ""
    ok: bool | None = None
    kind: str = "shown"
    because: str = ""
    after: bool = False
    low: float | None = None
    high: float | None = None
    over: str = ""
    tolerance: float = SAME
    facts: dict = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        if self.kind not in KINDS or (self.kind != "shown" and not self.because):
            raise ValueError(f"check {self.name!r}: a {self.kind} row must say what its prediction rests on")

    @property
    def holds(self):
        return self.ok is True

    @property
    def verdict(self):
        return {True: HOLDS, False: FAILS, None: SILENT}[self.ok]

    def to_dict(self):
        """JSON-ready; NaN and infinity, which JSON has not, become None."""
        return {name: plain(getattr(self, name)) for name in self.__dataclass_fields__} | {"verdict": self.verdict}

    def __str__(self):
        if self.ok is None:
            return f"  –   {self.name:22} {self.facts.get('reason', '')}"
        spread = "" if self.low is None else f"  [{self.low:.4g}, {self.high:.4g}] over {self.over}"
        mark = "yes" if self.ok else "NO "
        measured = self.measured if isinstance(self.measured, str) else f"{self.measured:.6g}"
        why = f" ({self.facts['reason']})" if "reason" in self.facts else ""
        number = f"{self.quantity}: {measured}{spread}; expected {self.predicted}{why}"
        return f"  {mark} {self.name:22} {self.sentence}\n      {'':22} {number}"


def theory(because, **more):
    """The parts of a Check whose prediction follows from mathematics."""
    return {"kind": "theory", "because": because, **more}


def paper(because, **more):
    """The parts of a Check whose prediction is what the paper says."""
    return {"kind": "paper", "because": because, **more}


def stored(because, **more):
    """The parts of a Check whose prediction is a number stored before."""
    return {"kind": "regression", "because": because, **more}


def near(name, sentence, measured, predicted, within, *, relative=False, **known):
    """A Check: measured within `within` of a predicted number."""
    measured = float(measured)
    allowed = abs(predicted) * within if relative else within
    text = f"{printed(predicted)} ± {100 * within:g} %" if relative else f"{printed(predicted)} ± {printed(within)}"
    return _check(name, sentence, measured, text, abs(measured - predicted) <= allowed, known)


def between(name, sentence, measured, least, most, **known):
    """A Check: measured between two bounds, each included; None leaves a side open."""
    measured = float(measured)
    ok = (least is None or measured >= least) and (most is None or measured <= most)
    if least is None:
        text = f"at most {printed(most)}"
    elif most is None:
        text = f"at least {printed(least)}"
    else:
        text = f"from {printed(least)} to {printed(most)}"
    return _check(name, sentence, measured, text, ok, known)


def equal(name, sentence, measured, predicted, **known):
    """A Check: measured text (or whole number) equal to the prediction."""
    measured, predicted = str(measured), str(predicted)
    return _check(name, sentence, measured, predicted, measured == predicted, {"tolerance": 0.0} | known)


def shown(name, sentence, measured, **known):
    """A Check without a prediction: a measurement worth reading."""
    return _check(name, sentence, float(measured), "", None, known)


def _check(name, sentence, measured, predicted, ok, known):
    known = {key: _real(value) if key in ("low", "high") else value for key, value in known.items()}
    ok = None if ok is None else bool(ok)
    return Check(name=name, sentence=sentence, measured=measured, predicted=predicted, ok=ok, **known)


def _real(value):
    return None if value is None or not math.isfinite(value) else float(value)


def over_seeds(values, what):
    """The mean, and the parts of a Check that say how sure it is: Student's 95 % interval from two values on."""
    x = [float(value) for value in values if value is not None and math.isfinite(value)]
    mean, low, high = mf.measure.mean_interval(x)
    return mean, {"low": _real(low), "high": _real(high), "over": f"{len(x)} {what}" if len(x) > 1 else ""}


def tally(checks):
    """{kind: [held, judged]} of checks as dictionaries, and how many only show a number."""
    judged = {kind: [c["ok"] for c in checks if c["kind"] == kind and c["ok"] is not None] for kind in KINDS[:3]}
    counts = {kind: [sum(found), len(found)] for kind, found in judged.items()}
    return counts | {"shown": sum(c["ok"] is None for c in checks)}


RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def printed(x, digits=10):
    """A number as the report prints it: so many digits at most, a true minus sign, powers of ten raised."""
    text = f"{x:.{digits}g}"
    if "e" in text:
        digits, power = text.split("e")
        raised = str(int(power)).translate(RAISED)
        text = f"{digits}·10{raised}" if digits.strip("-") != "1" else digits.replace("1", f"10{raised}")
    return text.replace("-", "−")


def plain(value):
    """A value as JSON keeps it."""
    if isinstance(value, dict):
        return {str(key): plain(x) for key, x in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(x) for x in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
