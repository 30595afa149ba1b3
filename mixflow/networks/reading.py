"""A read-out of the user's own behind the attention of a Transformer: a function of what the queries read, and everything closes.

Whatever happens after O, what each query reads, training W_K, W_Q and the values closes on their inner products, and what the
read-out trains moves by plain descent (docs/mathematics.md §13). So one function has infinite width, flow, every update rule
that closes, three stages and `extend`.
"""

from dataclasses import replace

import numpy as np

from ..checks import shown
from ..errors import MixflowError, SpecError
from ..jaxed import jax
from ..variables import taken
from . import functions
from . import weights as every_weight
from .initial import start
from .own import Network
from .transformer import Transformer

BUILT_IN = ("bias", "read_out", "offset")  # parts of a Transformer's own read-out


class ReadOutNetwork(Network):
    """What `mf.Network(answer, …)` makes; see there. It answers for its Transformer wherever an engine asks about attention."""

    no_closure = None

    def __init__(self, answer, transformer=None, *, parameters=None, neurons=None):
        transformer = Transformer() if transformer is None else transformer
        for name, value in (("answer", answer), ("neurons", neurons)):
            if not callable(value) and not (name == "neurons" and value is None):
                raise SpecError(f"{name} = {shown(value)}: expected a function of (O, parameters).")
        if not isinstance(transformer, Transformer):
            raise SpecError(f"transformer = {shown(transformer)}: expected a Transformer, whose queries read.")
        if changed := {*BUILT_IN, "activate", "train_bias"} & set(transformer.options()):
            raise SpecError(
                f"{', '.join(sorted(changed))} of the Transformer is part of a read-out: leave it to your function."
            )
        found = _arrays({} if parameters is None else parameters)
        if clash := [
            name for name in found if not isinstance(name, str) or not name.isidentifier() or taken(name, found)
        ]:
            raise SpecError(
                f"parameters has {shown(clash[0])}: expected a name of its own, one that no dataset has (docs/schema.md); choose "
                f"for example {'my_' + str(clash[0])!r:.40}."
            )
        self.read_out, self.neurons, self.transformer, self.parameters = answer, neurons, transformer, found
        for function in filter(None, (answer, neurons)):
            functions.known(function)

    def __repr__(self):
        own = {"parameters": {name: x.tolist() for name, x in self.parameters.items()}}
        own["neurons"] = self.neurons and functions.named(self.neurons)
        more = "".join(f", {name}={value}" for name, value in own.items() if value)
        return f"Network({functions.named(self.read_out)}, {self.transformer!r}{more})"

    def __getattr__(self, name):
        if name.startswith("__") or name == "transformer":
            raise AttributeError(name)
        return getattr(self.transformer, name)

    def __replace__(self, **fields):
        behind = replace(self.transformer, **fields)
        return ReadOutNetwork(self.read_out, behind, parameters=self.parameters, neurons=self.neurons)

    @property
    def mean_field(self):
        """Whether the width is infinite."""
        return self.transformer.mean_field

    @property
    def attention_weights(self):
        """What the attention stage of a staged run trains."""
        return self.transformer.attention_weights

    @property
    def altered(self):
        """What makes it another network than the paper's."""
        return [*self.transformer.altered, "answer"]

    def limit(self, task=None, flow=False):
        """What infinite width does to its attention."""
        return self.transformer.limit()

    def objection(self, task):
        """Why it cannot serve on this task, with the fix, or None."""
        return self.transformer.objection(task)

    def coordinates(self, task):
        """Labels along the dimensions of its variables."""
        return self.transformer.coordinates(task)

    def gram_start(self, task):
        """The initial Gram state, with the read-out's own parameters."""
        return {name: x for name, x in start(self.transformer, task).items() if name not in BUILT_IN} | self.parameters

    def start(self, task):
        """Initial weights."""
        drawn = every_weight.start(self.transformer, task)
        return {name: x for name, x in drawn.items() if name not in BUILT_IN} | self.parameters

    def observe(self, weights, task):
        """The Gram state of weights."""
        return every_weight.observe(self.transformer, weights, task) | {name: weights[name] for name in self.parameters}

    def answer(self, weights, task):
        """F of every atom (n,), or logits (C, n), from weights."""
        return self.respond(self.observe(weights, task), task)[1]

    def respond(self, state, task, on=None):
        """z, what the neurons get (1 where there are none, since nothing is ever off), and F, in JAX; `on` stands for ReLU(z)."""
        jnp = jax().numpy
        own = {name: state[name] for name in self.parameters}
        O, share = every_weight.read(self.transformer, task, state["w"], state["A"])
        O = jnp.where(share > 0, O, 0.0)
        O = O[:, 0] if self.transformer.values == 1 else O
        if self.neurons is None:
            return jnp.ones((len(state["w"]), len(task.labels))), self._checked(
                self._called(self.read_out, O, own), task
            )
        z = self._called(self.neurons, O, own)
        on = jnp.where(z > 0, z, 0.0) if on is None else on.reshape(z.shape)
        return z, self._checked(self._called(self.read_out, on, own), task)

    def _called(self, function, O, own):
        """What a function of the user's gives; whatever goes wrong inside it is one sentence."""
        try:
            found = jax().numpy.asarray(function(O, own))
            return found.astype(float) if found.dtype.kind in "iub" else _real(found)
        except MixflowError:
            raise
        except Exception as error:
            what = f"{type(error).__name__}: {' '.join(str(error).split()):.80}"
            axes = "ReLU(z)" if function is not self.neurons and self.neurons else "O (head, atom, query)"
            raise SpecError(
                f"{functions.named(function)} fails ({what}): write it with jax.numpy, for {axes} of shape {O.shape}."
            ) from error

    def _checked(self, F, task):
        shape = (len(task.heads), len(task.labels)) if task.loss == "softmax" else (len(task.labels),)
        if np.shape(F) != shape:
            raise SpecError(
                f"{functions.named(self.read_out)} gives shape {np.shape(F)}: expected {shape} for loss = {task.loss!r}."
            )
        return F

    def spec(self):
        """Its functions by name and fingerprint, its Transformer, and the start of its parameters."""
        own = {"answer": self.read_out, "neurons": self.neurons}
        return {
            "kind": "read-out",
            **{name: f and functions.named(f) for name, f in own.items()},
            "code": {name: functions.fingerprint(f) for name, f in own.items() if f},
            "transformer": self.transformer.spec(),
            "parameters": {name: x.tolist() for name, x in self.parameters.items()},
        }


def rebuilt(spec):
    """The network of a `spec()`; its functions must have been given to `mf.Network` in this process."""
    from ..spec import build

    code = spec["code"] if isinstance(spec.get("code"), dict) else {}
    answer, neurons = (spec.get(name) and functions.found(spec[name], code.get(name)) for name in ("answer", "neurons"))
    transformer = build("transformer", spec.get("transformer"))
    own = spec.get("parameters")
    try:
        parameters = {name: np.asarray(x, float) for name, x in own.items()}
    except (AttributeError, TypeError, ValueError):
        raise SpecError(f"parameters = {shown(own)}: expected arrays of numbers by name.") from None
    return ReadOutNetwork(answer, transformer, parameters=parameters, neurons=neurons)


def _arrays(parameters):
    """{name: float array} of what a read-out trains."""
    try:
        return {name: np.asarray(x, float) for name, x in dict(parameters).items()}
    except (TypeError, ValueError):
        raise SpecError(f"parameters = {shown(parameters)}: expected names with arrays of numbers.") from None


def _real(x):
    if x.dtype.kind != "f":
        raise TypeError(f"{x.dtype} numbers, where real ones are expected")
    return x
