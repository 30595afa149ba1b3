"""What a visitor may ask for: one table of controls, from which come the page's sliders, every check and every limit."""

from dataclasses import asdict, dataclass

from ..errors import SpecError
from .recipes import CONSTRUCTIONS, LOSSES, METHODS, NETWORKS, TASKS, TRAINED, labels

MOST_STEPS = 500_000


@dataclass(frozen=True)
class Control:
    """One input of the page.

    kind     "whole", "real", "flag" or "choice"; a choice has `choices` {value: label}
    scale    how a slider moves: "linear" or "log"
    only     {control: its values} with which this one has a meaning; always if not given
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
    only: dict | None = None

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

    def used(self, values):
        """Whether it has a meaning beside these values of the others."""
        return all(values[name] in allowed for name, allowed in (self.only or {}).items())

    def describe(self):
        """JSON-ready, for the page."""
        return {key: value for key, value in asdict(self).items() if value is not None}


WIDTHS = {"inf": "∞ (mean-field)", **{str(2**n): str(2**n) for n in range(2, 13)}}
BATCHES = {"all": "all of them (the paper)", **{str(4**n): str(4**n) for n in range(4)}}
FINITE = tuple(width for width in WIDTHS if width != "inf")

_TRAINED = {"method": TRAINED}
_TABLE = (
    Control(
        "classes", "classes K", "whole", 2, least=2, most=200, step=1, scale="log",
        help="How many mixtures: K hidden links between an identifier and its signal.",
    ),
    Control(
        "task", "task", "choice", "plain", choices=labels(TASKS), only=_TRAINED,
        help="What is learned: the paper's mixture, or one that is less regular.",
    ),
    Control(
        "prior", "probability of class 1", "real", 0.8, least=0.01, most=0.99, step=0.01,
        only={**_TRAINED, "task": ("unequal",)}, help="The other classes share the rest equally.",
    ),
    Control(
        "coherence", "coherence ρ", "real", 0.3, least=-0.3, most=0.95, step=0.01,
        only={**_TRAINED, "task": ("coherent",)},
        help="The inner product of every two features, which have length 1; 0 is orthonormal.",
    ),
    Control(
        "wrong", "share of wrong labels", "real", 0.1, least=0.0, most=0.45, step=0.01,
        only={**_TRAINED, "task": ("noisy",)}, help="Every label is wrong with this probability.",
    ),
    Control(
        "distractors", "further tokens", "whole", 1, least=1, most=3, step=1,
        only={**_TRAINED, "task": ("longer",)}, help="Tokens ±d in every sample that have nothing to do with its label.",
    ),
    Control(
        "network", "network", "choice", "paper", choices=labels(NETWORKS), only=_TRAINED,
        help="The paper's transformer, or one in which a part of it is missing: what does it need?",
    ),
    Control(
        "loss", "loss", "choice", "logistic", choices=labels(LOSSES), only=_TRAINED,
        help="What a margin costs: log(1 + e^−margin), or e^−margin, which pushes harder where the answer is wrong.",
    ),
    Control(
        "width", "width m", "choice", "inf", choices=WIDTHS, only=_TRAINED,
        help="Rows of W_K and W_Q. At infinite width training is deterministic.",
    ),
    Control(
        "omega", "initial scale ω", "real", 0.3, least=0.01, most=3, step=0.01, only=_TRAINED,
        help="Size of the initial W_K and W_Q; their entries are N(0, ω²/m).",
    ),
    Control(
        "bias", "bias b", "real", 0.5, least=0, most=2, step=0.05,
        help="Fixed bias of the ReLU neurons; with b > 0 every neuron starts on.",
    ),
    Control(
        "method", "training", "choice", "gd", choices=labels(METHODS, CONSTRUCTIONS),
        help="How the weights are found: by training, or written down in closed form.",
    ),
    Control(
        "learning_rate", "learning rate η", "real", 0.1, least=0.001, most=1000, scale="log", only={"method": ("gd", "three")},
        help="Time is η × step.",
    ),
    Control(
        "steps", "steps", "whole", 20_000, least=100, most=MOST_STEPS, step=1, scale="log", only={"method": ("gd",)},
        help="Number of updates.",
    ),
    Control(
        "batch", "samples per step", "choice", "all", choices=BATCHES, only={"method": ("gd", "three")},
        help="Train on all samples at once, or on a few drawn anew for each step, with replacement.",
    ),
    Control(
        "until", "until time", "real", 2000.0, least=10, most=1e9, scale="log", only={"method": ("flow",)},
        help="The flow ends at this time.",
    ),
    Control(
        "proof", "prove it", "flag", False,
        only={"method": ("flow",), "task": ("plain",), "network": ("paper",), "loss": ("logistic",), "width": ("inf",),
              "tie_values": (False,)},
        help="Prove, rounding errors included, when the loss passes 0.1 and from when every sample is right: some seconds.",
    ),
    Control(
        "neurons", "stage 1: neurons", "real", 100.0, least=1, most=1e6, scale="log", only={"method": ("three",)},
        help="How long w moves while the attention is frozen.",
    ),
    Control(
        "attention", "stage 2: attention", "real", 500.0, least=1, most=1e6, scale="log", only={"method": ("three",)},
        help="How long W_K and W_Q move while w is frozen.",
    ),
    Control(
        "converge", "stage 3: convergence", "real", 1400.0, least=1, most=1e6, scale="log", only={"method": ("three",)},
        help="How long w moves again while the attention is frozen.",
    ),
    Control(
        "target_margin", "margin wanted", "real", 3.0, least=0.1, most=30, scale="log", only={"method": tuple(CONSTRUCTIONS)},
        help="y·F on every sample; it sets the value β of the identifiers.",
    ),
    Control(
        "tie_values", "tied values", "flag", False, only=_TRAINED,
        help="Force w_− = −w_+: another mechanism is learned.",
    ),
    Control(
        "seed", "seed", "whole", 0, least=0, most=9999, step=1, only={**_TRAINED, "width": FINITE},
        help="Of the initial weights.",
    ),
    Control(
        "batch_seed", "seed of the draws", "whole", 0, least=0, most=9999, step=1,
        only={"method": ("gd", "three"), "batch": tuple(BATCHES)[1:]}, help="Which samples are drawn.",
    ),
)  # fmt: skip
CONTROLS = {control.name: control for control in _TABLE}
