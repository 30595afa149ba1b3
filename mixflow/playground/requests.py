"""A checked request: control values that fit together, as the library's objects, as a script, and under one name."""

import hashlib
import math
from dataclasses import dataclass

from ..errors import SpecError
from ..networks.transformer import Transformer
from .controls import CONTROLS, MOST_STEPS
from .recipes import CONSTRUCTIONS, METHODS, TASKS, Call

# Most K where all K·2^K samples are followed one by one, and where the flow follows them by type: until they have learned,
# K = 20 takes some seconds with its certificate, K = 30 a minute, K = 50 five.
LISTED_CLASSES = {"gd": 5, "three": 5, "flow": 3}
FLOW_CLASSES = 20

NUMBERS = ("loss", "loss_easy", "loss_hard", "accuracy")  # what a script prints, and the page's read-out shows


@dataclass(frozen=True)
class Request:
    """The same for equal settings, whatever else the page shows."""

    values: tuple  # (name, value) of every control that has a meaning beside the others, in the table's order

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
        request = cls(tuple((name, values[name]) for name, control in CONTROLS.items() if control.used(values)))
        request._check_limits()
        request.spec()  # refuses what only the library knows to be impossible
        return request

    def _check_limits(self):
        if self.constructed:
            return
        c = dict(self.values)
        K, most = c["classes"], min(LISTED_CLASSES[c["method"]], TASKS[c["task"]][1])
        why = "at finite width" if c["width"] != "inf" else "with this task" if c["task"] != "plain" else None
        if why and most < K:
            raise SpecError(
                f"K = {K} {why} follows {K}·2^{K} samples one by one, too slow for a page with this method: "
                f"take K ≤ {most}, or the plain task at infinite width."
            )
        if c["method"] == "flow" and K > FLOW_CLASSES:
            raise SpecError(
                f"K = {K} takes the gradient flow minutes, too slow for a page: take K ≤ {FLOW_CLASSES}, or gradient descent."
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
        return hashlib.sha256(repr(self.values).encode()).hexdigest()[:16]

    @property
    def constructed(self):
        """Whether the network is written down, not trained."""
        return dict(self.values)["method"] in CONSTRUCTIONS

    def calls(self):
        """Task, transformer and method as Calls; the one Call of a construction."""
        c = dict(self.values)
        if self.constructed:
            return (CONSTRUCTIONS[c["method"]][1](c),)
        width = math.inf if c["width"] == "inf" else int(c["width"])
        transformer = {"width": width, **{name: c[name] for name in ("omega", "bias", "tie_values", "seed")}}
        return TASKS[c["task"]][2](c), Call(Transformer, transformer), METHODS[c["method"]][1](c)

    def spec(self):
        """What the calls build; what does not fit together is a SpecError."""
        return tuple(call.build() for call in self.calls())

    def script(self, time=None):
        """A Python program that reproduces the run and prints the numbers shown at the cursor."""
        if self.constructed:
            return (
                f"import mixflow as mf\n\nnet = {self.calls()[0].code()}\nshown = net.evaluate()\n"
                f"for name in {NUMBERS}:\n"
                '    print(f"{name} = {getattr(shown, name):.6g}")\n'
                'print(f"margin = {net.margin:.6g} on every sample")\n'
            )
        arguments = "".join(f"    {call.code()},\n" for call in self.calls())
        at = "isel(time=-1)" if time is None else f'sel(time={time!r}, method="nearest")'
        return (
            f"{'import math' if 'math.inf' in arguments else ''}\n\nimport mixflow as mf\n\nrun = mf.train(\n{arguments})\n"
            f"shown = run.dataset.{at}  # the time cursor\n"
            f"for name in {('time', *NUMBERS)}:\n"
            '    print(f"{name} = {float(shown[name]):.6g}")\n'
            "for stage in run.stages:\n    print(stage)\n"
        ).lstrip("\n")
