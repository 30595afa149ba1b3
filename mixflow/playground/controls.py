"""What a visitor may ask for: one table of controls, from which come the page's sliders, every check and every limit."""

import math
from dataclasses import asdict, dataclass

from ..dynamics import GradientDescent, GradientFlow, ThreeStage
from ..errors import SpecError
from ..models.transformer import Transformer
from ..tasks import Mixture

SAVES = 1000  # states kept of a run: more than a screen has columns
FINITE_CLASSES = {
    "gd": 5,
    "three": 5,
    "flow": 3,
}  # most K at finite width, where all K·2^K samples are followed one by one
MOST_STEPS = 500_000


@dataclass(frozen=True)
class Control:
    """One input of the page.

    kind     "whole", "real", "flag" or "choice"; a choice has `choices` {value: label}
    scale    how a slider moves: "linear" or "log"
    methods  the methods that use it; all if empty
    """

    name: str
    label: str
    kind: str
    default: object
    help: str
    least: float | None = None
    most: float | None = None
    step: float | None = None
    scale: str = "linear"
    choices: dict | None = None
    methods: tuple = ()

    def check(self, value):
        """The value in its own type, or a SpecError that says what is expected."""
        shown = repr(value)[:60]
        if self.kind == "choice":
            if not isinstance(value, str) or value not in self.choices:
                raise SpecError(f"{self.label} = {shown}: expected one of {', '.join(self.choices)}.")
            return value
        if self.kind == "flag":
            if not isinstance(value, bool):
                raise SpecError(f"{self.label} = {shown}: expected true or false.")
            return value
        # Comparisons of an int with a float are exact in Python, so huge numbers are refused here and never converted.
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        whole = self.kind != "whole" or (number and (isinstance(value, int) or value.is_integer()))
        if not number or not whole or not self.least <= value <= self.most:
            what = "a whole number" if self.kind == "whole" else "a number"
            raise SpecError(f"{self.label} = {shown}: expected {what} from {self.least:g} to {self.most:g}.")
        return int(value) if self.kind == "whole" else float(value)

    def describe(self):
        """JSON-ready, for the page."""
        return {key: value for key, value in asdict(self).items() if value not in (None, ())}


WIDTHS = {"inf": "∞ (mean-field)", **{str(2**n): str(2**n) for n in range(2, 13)}}

_TABLE = (
    Control(
        "classes", "classes K", "whole", 2, least=2, most=200, step=1, scale="log",
        help="How many mixtures: K hidden links between an identifier and its signal.",
    ),
    Control(
        "width", "width m", "choice", "inf", choices=WIDTHS,
        help="Rows of W_K and W_Q. At infinite width training is deterministic.",
    ),
    Control(
        "omega", "initial scale ω", "real", 0.3, least=0.01, most=3, step=0.01,
        help="Size of the initial W_K and W_Q; their entries are N(0, ω²/m).",
    ),
    Control(
        "bias", "bias b", "real", 0.5, least=0, most=2, step=0.05,
        help="Fixed bias of the ReLU neurons; with b > 0 every neuron starts on.",
    ),
    Control("method", "method", "choice", "gd", help="How it is trained.", choices={}),
    Control(
        "learning_rate", "learning rate η", "real", 0.1, least=0.001, most=1000, scale="log", methods=("gd", "three"),
        help="Time is η × step.",
    ),
    Control(
        "steps", "steps", "whole", 20_000, least=100, most=MOST_STEPS, step=1, scale="log", methods=("gd",),
        help="Number of updates.",
    ),
    Control(
        "until", "until time", "real", 2000.0, least=10, most=1e9, scale="log", methods=("flow",),
        help="The flow ends at this time.",
    ),
    Control(
        "neurons", "stage 1: neurons", "real", 100.0, least=1, most=1e6, scale="log", methods=("three",),
        help="How long w moves while the attention is frozen.",
    ),
    Control(
        "attention", "stage 2: attention", "real", 500.0, least=1, most=1e6, scale="log", methods=("three",),
        help="How long W_K and W_Q move while w is frozen.",
    ),
    Control(
        "converge", "stage 3: convergence", "real", 1400.0, least=1, most=1e6, scale="log", methods=("three",),
        help="How long w moves again while the attention is frozen.",
    ),
    Control("tie_values", "tied values", "flag", False, help="Force w_− = −w_+: another mechanism is learned."),
    Control(
        "seed", "seed", "whole", 0, least=0, most=9999, step=1,
        help="Of the initial weights; infinite width has none.",
    ),
)  # fmt: skip
CONTROLS = {control.name: control for control in _TABLE}


@dataclass(frozen=True)
class Call:
    """A constructor with its arguments: built for the engine, written out for "copy as Python", so both always agree."""

    kind: type
    arguments: dict

    def build(self):
        return self.kind(**{k: v.build() if isinstance(v, Call) else v for k, v in self.arguments.items()})

    def code(self):
        return f"mf.{self.kind.__name__}({', '.join(f'{k}={_written(v)}' for k, v in self.arguments.items())})"


def _written(value):
    if isinstance(value, Call):
        return value.code()
    return "math.inf" if value == math.inf else repr(value)


def _descent(c, steps):
    return Call(
        GradientDescent, {"learning_rate": c["learning_rate"], "steps": steps, "save_every": max(1, -(-steps // SAVES))}
    )


def _three_stage(c):
    lengths = {name: c[name] for name in ("neurons", "attention", "converge")}
    return Call(ThreeStage, {"method": _descent(c, round(sum(lengths.values()) / c["learning_rate"])), **lengths})


# name: (label, controls -> Call). Another method is one more row here and its controls above.
METHODS = {
    "gd": ("gradient descent", lambda c: _descent(c, c["steps"])),
    "flow": ("gradient flow", lambda c: Call(GradientFlow, {"until": c["until"]})),
    "three": ("three stages", _three_stage),
}
CONTROLS["method"].choices.update({name: label for name, (label, _) in METHODS.items()})


@dataclass(frozen=True)
class Request:
    """A checked request: the same for equal settings, whatever else the page shows."""

    values: tuple  # (name, value) of every control that matters for the method, in the table's order

    @classmethod
    def of(cls, asked):
        """From a dictionary of control values (missing ones take their default), or a SpecError."""
        if not isinstance(asked, dict):
            raise SpecError("a request is an object of control values, for example {'classes': 2}.")
        unknown = [str(name)[:40] for name in asked if name not in CONTROLS]
        if unknown:
            raise SpecError(f"there is no control called {unknown[0]!r}; there are {', '.join(CONTROLS)}.")
        values = {name: control.check(asked.get(name, control.default)) for name, control in CONTROLS.items()}
        if values["width"] == "inf":
            values["seed"] = 0  # it has no effect: one result serves all
        used = lambda control: not control.methods or values["method"] in control.methods  # noqa: E731
        request = cls(tuple((name, values[name]) for name, control in CONTROLS.items() if used(control)))
        request._check_limits(values)
        return request

    def _check_limits(self, c):
        most = FINITE_CLASSES[c["method"]]
        if c["width"] != "inf" and c["classes"] > most:
            raise SpecError(
                f"K = {c['classes']} at finite width follows {c['classes']}·2^{c['classes']} samples one by one, too slow for a "
                f"page with this method: take K ≤ {most}, or infinite width."
            )
        if c["method"] == "three":
            steps = sum(c[name] for name in ("neurons", "attention", "converge")) / c["learning_rate"]
            if steps > MOST_STEPS:
                raise SpecError(
                    f"the three stages take {steps:.3g} steps, above {MOST_STEPS:,}: shorten them or raise η."
                )

    @property
    def key(self):
        """A name for the result, equal for equal settings."""
        import hashlib

        return hashlib.sha256(repr(self.values).encode()).hexdigest()[:16]

    def calls(self):
        """Task, transformer and method as Calls."""
        c = dict(self.values)
        width = math.inf if c["width"] == "inf" else int(c["width"])
        transformer = {"width": width, **{name: c[name] for name in ("omega", "bias", "tie_values", "seed")}}
        return (
            Call(Mixture, {"classes": c["classes"]}),
            Call(Transformer, transformer),
            METHODS[c["method"]][1](c),
        )

    def spec(self):
        """Task, transformer and method as the engine takes them; what does not fit together is a SpecError."""
        return tuple(call.build() for call in self.calls())

    def script(self, time=None):
        """A Python program that reproduces the run and prints the numbers shown at the cursor."""
        arguments = "".join(f"    {call.code()},\n" for call in self.calls())
        at = "isel(time=-1)" if time is None else f'sel(time={time!r}, method="nearest")'
        return (
            f"{'import math' if 'math.inf' in arguments else ''}\n\nimport mixflow as mf\n\nrun = mf.train(\n{arguments})\n"
            f"shown = run.dataset.{at}  # the time cursor\n"
            'for name in ("time", "loss", "loss_easy", "loss_hard", "accuracy"):\n'
            '    print(f"{name} = {float(shown[name]):.6g}")\n'
            "for stage in run.stages:\n    print(stage)\n"
        ).lstrip("\n")
