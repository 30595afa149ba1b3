"""A checked request: control values that fit together, as the library's objects and under one name."""

import hashlib
import math
from dataclasses import dataclass

from ..errors import SpecError
from ..networks.transformer import Transformer
from .controls import CONTROLS, MOST_STEPS
from .recipes import CONSTRUCTIONS, METHODS, NETWORKS, TASKS, task

# Most K where all K·2^K samples are followed one by one, and where the flow follows them by type: until they have learned,
# K = 20 takes some seconds with its certificate, K = 30 a minute, K = 50 five.
LISTED_CLASSES = {"gd": 5, "three": 5, "flow": 3}
FLOW_CLASSES = 20
PROOF_CLASSES = 3


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
        request = cls(tuple((name, values[name]) for name, control in CONTROLS.items() if control.used(values)))
        request._check_limits()
        request.spec()  # refuses what only the library knows to be impossible
        return request

    def _check_limits(self):
        if self.constructed:
            return
        c = dict(self.values)
        K, most = c["classes"], min(LISTED_CLASSES[c["method"]], TASKS[c["task"]][1])
        listed = {
            "at finite width": c["width"] != "inf",
            "with this task": c["task"] != "plain",
            "with this network": c["network"] != "paper",
            "with this loss": c["loss"] != "logistic",
            "with minibatches": c.get("batch", "all") != "all",
        }
        why = next((words for words, holds in listed.items() if holds), None)
        if why and most < K:
            raise SpecError(
                f"K = {K} {why} follows {K}·2^{K} samples one by one, too slow for a page with this method: "
                f"take K ≤ {most}, or the paper's task, network and loss at infinite width on all samples."
            )
        if c["method"] == "flow" and K > FLOW_CLASSES:
            raise SpecError(
                f"K = {K} takes the gradient flow minutes, too slow for a page: take K ≤ {FLOW_CLASSES}, or gradient descent."
            )
        if self.proof and K > PROOF_CLASSES:
            raise SpecError(
                f"K = {K} is too much to prove for a page: take K ≤ {PROOF_CLASSES}, or leave out the proof."
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

    @property
    def proof(self):
        """Whether the run shall be proved, too."""
        return dict(self.values).get("proof", False)

    def spec(self):
        """Task, transformer and method; a construction alone. What does not fit together is a SpecError."""
        c = dict(self.values)
        if self.constructed:
            return (CONSTRUCTIONS[c["method"]][1](c),)
        width = math.inf if c["width"] == "inf" else int(c["width"])
        options = {name: c[name] for name in ("omega", "bias", "tie_values", "seed") if name in c}
        network = Transformer(width=width, **options, **NETWORKS[c["network"]][1])
        return task(c), network, METHODS[c["method"]][1](c)
