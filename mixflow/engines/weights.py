"""Every weight, by automatic differentiation: any network of finite width, any update rule, runs as lanes of one vmap.

A network gives `start(task)` (weights by name), `answer(weights, task)`, `observe(weights, task)`; what it observes is either a
Gram state, measured as the other engines' is, or has its own `variables`.
"""

import json

import numpy as np

from ..errors import SpecError
from ..jaxed import jax
from ..networks.given import given
from ..networks.own import seen
from . import loss as losses
from .base import Engine, besides, listed
from .gram_update import inverse_length, largest
from .minibatch import Minibatches
from .optax_rules import transformation
from .series import judged, series

MOST = 2**26  # weights: with gradients, what rules remember and what JAX needs beside them, some 5 GB
SMALL = 20_000  # weights up to which runs share a program
LANES = 5  # ten seeds are two groups, one for each of two threads; a single run fills every lane with itself


class Weights(Engine):
    """Descent by any rule on the weights of a network, full batch or minibatches."""

    name = "full"

    def __init__(self, task, network, method):
        super().__init__(task, network, method)
        self.population = task.population()
        self.rule, self.constants = getattr(method.inner, "rule", "sgd"), getattr(method.inner, "constants", {})
        self.normalised = "normalised" in besides(method)
        self.batches = Minibatches(self.population.probabilities, method.inner)
        weights = network.start(self.population)
        self.names, size = tuple(weights), sum(np.size(x) for x in jax().tree.leaves(weights))
        if size > MOST:
            raise SpecError(
                f"{type(network).__name__} has {size} weights, above {MOST}, and training each takes some ten numbers: lower the "
                "width, or leave model out where the reduction serves, which has any width."
            )
        self.lanes = LANES if size <= SMALL else 1

    @classmethod
    def objection(cls, task, network, method):
        """Why not: weights must be stored, and a kink between them has no gate that a flow could follow."""
        if (why := listed(task)) is not None:
            return why
        if network.mean_field:
            why = network.no_closure or method.inner.no_closure or ""
            why = f"{why.partition(';')[0]}, and " if why else ""
            return f"width = inf: {why}infinitely many weights cannot be stored; set the width, for example 64"
        if method.flows:
            return "every weight has no gradient flow, only the reduction has; use a Transformer with model='gram'"
        if method.staged and not network.attention_weights:
            return f"a {type(network).__name__} does not say which weights are attention, so it cannot be trained in stages"
        return network.objection(task.population())

    @classmethod
    def apt(cls, task, network, method):
        """What does not close."""
        return network.no_closure is not None or method.inner.no_closure is not None

    def work(self):
        """Every weight by itself."""
        return 20 * super().work()

    @property
    def key(self):
        """What the compiled program depends on: everything but seeds and scales of the start."""
        task, network = self.population, self.network
        numbers = {"seed", "omega", "bias", "value_scale", "initialisation"} & set(network.spec())
        spec = json.dumps({**network.spec(), **dict.fromkeys(numbers, 0)}, sort_keys=True)
        arrays = (task.token_feature, task.token_coefficient, task.count, task.labels, task.gram)
        method = (self.rule, self.normalised, *sorted(self.constants), self.batches.key)
        return (
            self.name,
            type(network),
            spec,
            method,
            task.loss,
            task.atoms,
            *((array.shape, array.tobytes()) for array in arrays),
        )

    def start(self, network):
        """Initial weights."""
        return {"weights": network.start(self.population)}

    def parameters(self, networks, eta_w, eta_A):
        """Arrays the step reads besides the state: a learning rate for the neurons and one for the attention."""
        constants = {name: np.array(value, float) for name, value in self.constants.items()}
        rates = {"eta_w": np.asarray(eta_w, float), "eta_A": np.asarray(eta_A, float)}
        return {**self.batches.parameters(networks), **rates, **constants}

    def stack(self, states):
        """Single runs as lanes, the first axis, and the optimiser's own state."""
        tree = jax().tree
        stacked = tree.map(lambda *x: np.stack(x), *states)
        if "optimizer" not in stacked:
            stacked["optimizer"] = jax().vmap(self._transformation(self.constants).init)(stacked["weights"])
        return stacked

    def unstack(self, saved, lane):
        """The history of one lane."""
        return {name: x[..., lane] for name, x in saved.items()}

    def lane(self, state, lane):
        """One run's weights and its optimiser's state."""
        return jax().tree.map(lambda x: np.asarray(x)[lane], state)

    def observe(self, state, parameters):
        """What the network shows, lanes last."""
        J = jax()

        def one(weights):
            if self._closed:
                return self.network.observe(weights, self.population)
            found = seen(self.network, weights, self.population)
            return {**found, "answer": self._shaped(found["answer"]) if "answer" in found else self._answer(weights)}

        return {name: J.numpy.moveaxis(x, 0, -1) for name, x in J.vmap(one)(state["weights"]).items()}

    @property
    def _closed(self):
        return self.network.no_closure is None

    def step(self, i, state, parameters):
        """One update of every trained weight."""
        J = jax()
        weight = J.numpy.broadcast_to(self.batches.weights(i, parameters), (len(self.population.labels), self.lanes))

        def one(weights, optimizer, weight, eta_w, eta_A):
            gradient = J.grad(self._loss)(weights, weight)
            rates = {name: self._rate(name, eta_w, eta_A) for name in weights}
            if self.normalised:
                gradient = _unit(gradient, rates)
            updates, optimizer = self._transformation(parameters).update(gradient, optimizer, weights)
            moved = {
                name: J.tree.map(lambda x, u, r=rates[name]: x + r * u, weights[name], updates[name])
                for name in weights
            }
            return moved, optimizer

        axes = (0, 0, -1, 0, 0)
        weights, optimizer = J.vmap(one, in_axes=axes)(
            state["weights"], state["optimizer"], weight, parameters["eta_w"], parameters["eta_A"]
        )
        return {"weights": weights, "optimizer": optimizer}

    def _rate(self, name, eta_w, eta_A):
        if name in self.network.frozen_weights:
            return 0.0
        return eta_A if name in self.network.attention_weights else eta_w

    def _loss(self, weights, weight):
        task, jnp = self.population, jax().numpy
        return jnp.sum(weight * losses.cost(task.loss, task.labels, self._answer(weights), jnp))

    def _answer(self, weights):
        return self._shaped(self.network.answer(weights, self.population))

    def _shaped(self, found):
        task = self.population
        shape = (len(task.heads), len(task.labels)) if task.loss == "softmax" else (len(task.labels),)
        if np.shape(found) != shape:
            raise SpecError(
                f"{type(self.network).__name__}.answer gives shape {np.shape(found)}: expected {shape} for loss = {task.loss!r}."
            )
        return found

    def _transformation(self, constants):
        return transformation(self.rule, 1.0, **{name: constants[name] for name in self.constants})

    def measure(self, history, network, listed=None):
        """The dataset's variables (docs/schema.md)."""
        if self._closed:
            return series(self.task, network, history)
        shown = {name: x for name, x in history.items() if name != "answer"}
        return judged(self.task, history["answer"]) | network.variables(self.population, shown)

    def final(self, state):
        """The weights and the optimiser's memory, leaf by leaf in the order of the tree."""
        leaves = jax().tree.leaves(state)
        return {
            f"final_{i}": (tuple(f"final_{i}_{k}" for k in range(x.ndim)), x)
            for i, x in enumerate(map(np.asarray, leaves))
        }

    def resume(self, dataset):
        """The state after the last step."""
        if "final_0" not in dataset:
            raise SpecError(
                "the run ended before its last state could be kept, so it cannot be continued: train again."
            )
        blank = self.lane(self.stack([self.start(self.network)] * self.lanes), 0)
        leaves, tree = jax().tree.flatten(blank)
        return tree.unflatten([dataset[f"final_{i}"].values for i in range(len(leaves))])

    def weights(self, state):
        """w, W_K, … by name."""
        return state["weights"]

    def take(self, network, offers):
        """Inner products do not determine weights."""
        raise SpecError(
            "start has inner products only, but model='full' needs weights: give run.weights(), or leave model out."
        )

    def convert(self, network, weights):
        """The state with the weights given by name; what is not given keeps its start."""
        return {"weights": given(network.start(self.population), weights)}

    def after(self, network, run, same):
        """The weights at its end, with what the rule remembers where that is the same; of another task the weights alone."""
        if not same:
            return weights_after(self, network, run)
        rule = alike(run.method, self.method)
        return self.carried(network, (self if rule else run.engine).resume(run.dataset), rule)

    def carried(self, network, state, memory):
        """A state in a network, which keeps its own untrained weights; with what the rule remembers if `memory`."""
        own = network.start(self.population)
        weights = state["weights"] | {name: own[name] for name in network.frozen_weights}
        return {"weights": weights} | ({"optimizer": state["optimizer"]} if memory and "optimizer" in state else {})


def alike(one, other):
    """Whether two methods remember the same things, so that what one remembered means something to the other."""

    def rule(method):
        return getattr(method.inner, "rule", "sgd"), sorted(getattr(method.inner, "constants", {}))

    return rule(one) == rule(other)


def weights_after(engine, network, run):
    """The state of the weights with which a run ended, if it was computed on weights as the engine computes."""
    if run.spec["model"] != engine.name:
        return engine.take(network, [])
    return engine.convert(network, run.weights())


def _unit(gradient, rates):
    """The gradient divided by the length of what of it is trained; 0 where that is 0."""
    J = jax()
    size = largest([(J.numpy.reshape(rates[name], 1), J.tree.leaves(g)) for name, g in gradient.items()], 1)
    gradient = J.tree.map(lambda g: g / size[0], gradient)
    squares = [
        J.numpy.where(rates[name] > 0, sum(J.numpy.sum(x**2) for x in J.tree.leaves(g)), 0.0)
        for name, g in gradient.items()
    ]
    scale = inverse_length(sum(squares))
    return J.tree.map(lambda g: scale * g, gradient)
