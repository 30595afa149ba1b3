"""The exact Gram reduction: descent on (w, A, G_K, G_Q), at any width, with every option (docs/mathematics.md §3, §8, §13).

Equal to training every weight, step for step.
"""

from functools import partial

import numpy as np

from ..jaxed import jax
from ..networks.given import given
from ..networks.initial import start
from ..networks.readout import ReadOut, asking
from . import loss as losses
from .attention_tables import Tables
from .base import Engine, besides, no_closure, remembered
from .forward import scores
from .gram_families import Attention, Values
from .gram_field import gram_field
from .gram_own import own_gradient
from .gram_rule import Rule, gram_of
from .gram_update import Algebra, enlarged, inverse_length, largest
from .lanes import EXP_RANGE, LANES, mirrors, product, stages, transpose
from .minibatch import Minibatches
from .series import resumed, series

TYPES = 1024  # token types up to which tables serve; a table of scores has the square of it in entries, for each lane
SPOILED = 1e-10  # relative; an eigenvalue of the joint Gram matrix so far below 0 is rounding that has grown

OF_VALUES = ("w", "bias", "read_out", "G_V", "N", "value_memory")  # parts of a state with axes (head, value)


class Gram(Engine):
    """Gradient descent on the Gram state of one finite task, `LANES` runs at a time.

    A network has a attentions (one for each head, or one that all heads share) with c value vectors each. The attentions lie
    side by side in the last axis: index attention·LANES + lane. State of a run: w (H, r, F), A, G_K, G_Q (a, F, F), and
    bias, read_out (H, r), offset () where they are trained; with lanes w (c, F, a·LANES), A, … (F, F, a·LANES), …
    """

    name = "gram"
    lanes = LANES

    def __init__(self, task, network, method):
        super().__init__(task, network, method)
        self.population = task.population()
        self.readout = ReadOut.of(network, self.population)
        self.own = hasattr(network, "respond")  # a function of the user's in the place of the read-out
        H, r = len(network.heads_for(self.population)), network.values
        self.heads, self.attentions = H, 1 if network.shared_attention else H
        self.vectors = H * r // self.attentions
        # head[c, a]: to which head a value vector belongs
        self.head = np.arange(H).repeat(r).reshape(self.attentions, self.vectors).T
        self.orthonormal = np.array_equal(self.population.gram, np.eye(len(self.population.gram)))
        self.batches = Minibatches(self.population.probabilities, method.inner)
        self.rule = Rule(besides(method))
        self.kernel = Tables(self.population, *asking(network, self.population), fine=self.rule.normalises)
        self.values = None if network.value_neurons is None else Values(self.vectors)

    @classmethod
    def objection(cls, task, network, method):
        """Why not: it needs a listed task, a network of one attention layer, and a rule that closes."""
        if (why := no_closure(task, network, method)) is not None:
            return why
        if network.attention == "product" and network.direct and "weight_decay" in besides(method):
            return "weight_decay shrinks W_K and W_Q, which are no more there at infinite width; set a finite width"
        if len(task.population().token_feature) > TYPES:
            fix = "take fewer samples, or GradientDescent" if method.flows else "use model='full'"
            return f"the task has more than {TYPES} token types, too many for tables of scores; {fix}"
        return None

    def work(self):
        """Products of F×F matrices and pairs of tokens, for each attention: within a fifth of the operations of its program."""
        return self.attentions * (len(self.population.gram) ** 3 + 0.4 * 72 * super().work()) / 186

    @property
    def attention(self):
        """The family of W_K and W_Q, None where scores are trained directly."""
        return Attention.of(self.network, self.population, self.lanes)

    @property
    def straight(self):
        """Whether a step is arithmetic alone, given what it draws: no function of the user's."""
        return not self.own

    def ahead(self, block, parameters):
        """The minibatches of a block of steps."""
        return self.batches.ahead(block, parameters)

    @property
    def key(self):
        """What the compiled program depends on; probabilities, Γ, learning rate and bias are arguments of it."""
        task, network = self.population, self.network
        arrays = (task.token_feature, task.token_coefficient, task.count, task.labels, *asking(network, task))
        options = (
            self.own and (network.read_out, network.neurons, *network.parameters),
            network.tie_values,
            network.train_bias,
            network.offset,
            self.values is None,
        )
        return (
            self.name,
            self.readout,
            self.attentions,
            self.attention,
            options,
            self.orthonormal,
            self.rule.key,
            task.loss,
            len(task.features),
            self.batches.key,
            *((array.shape, array.tobytes()) for array in arrays),
        )

    def start(self, network):
        """The initial state of one run, at rest."""
        return self._at_rest((network.gram_start if self.own else partial(start, network))(self.population))

    def _at_rest(self, state):
        families = {"w": self.values, "A": self.attention}
        direct = [*self._trained, *(name for name, family in families.items() if family is None)]
        return state | self.rule.velocities(direct, filter(None, families.values()), state)

    def parameters(self, networks, eta_w, eta_A):
        """Arrays the step reads besides the state, for `LANES` runs; a rate of zero freezes that part of the model."""
        score_rate = np.array([network.score_rate(self.population) for network in networks])
        lanes = {
            "bias": np.array([network.bias for network in networks]),
            **self.rule.parameters(eta_w, eta_A, score_rate),
        }
        if self.values is not None:
            lanes["value_neurons"] = np.array([float(network.value_neurons) for network in networks])
        gram = {} if self.orthonormal else {"gram": self.population.gram}
        tiled = {name: np.tile(x, self.attentions) for name, x in lanes.items()}
        return {**self.batches.parameters(networks), **gram, **tiled}

    def stack(self, states):
        """`LANES` states of single runs -> one state with lanes."""
        return {name: self._to_lanes(name, [state[name] for state in states]) for name in states[0]}

    def _to_lanes(self, name, values):
        x, name = np.stack(values, axis=-1), name.removesuffix("_velocity")  # lanes last
        if name == "offset" or self._own_part(name):
            return x
        if name in OF_VALUES:
            x = x.reshape(self.attentions, self.vectors, *x.shape[2:])
        return np.moveaxis(x, 0, -2).reshape(*x.shape[1:-1], -1)

    def _own_part(self, name):
        return self.own and name in self.network.parameters

    def unstack(self, saved, lane):
        """The history of one lane, time first."""
        return {name: self._from_lanes(name, x, lane) for name, x in saved.items()}

    def _from_lanes(self, name, x, lane):
        name = name.removesuffix("_velocity")
        if name == "offset" or self._own_part(name):
            return x[..., lane]
        x = np.stack([x[..., i] for i in range(lane, x.shape[-1], self.lanes)], axis=1)  # (saves, a, …)
        if name in OF_VALUES:
            return x.reshape(len(x), self.heads, -1, *x.shape[3:])
        return x

    def observe(self, state, parameters):
        """What is recorded at a save: the state, without what it remembers."""
        return {name: x for name, x in state.items() if not remembered(name)}

    def step(self, i, state, parameters):
        """One step of gradient descent, exactly (`gram_rule`)."""
        stage = stages(parameters["probability"], self.lanes)
        algebra, weight = Algebra(product, transpose, stage, mirrors(self.lanes)), self.batches.weights(i, parameters)
        g_w, g, g_others = self.gradient(stage, state, parameters, weight)
        rate_w, rate_A = parameters["rate_w"], parameters["rate_A"]
        if self.rule.normalises:
            size = largest(
                [(parameters["moves_w"], [*g_w, *g_others.values()]), (parameters["moves_A"], [g])], self.lanes
            )
            g_w, g, g_others = jax().tree.map(lambda x: enlarged(x, size), (g_w, g, g_others))
            scale = inverse_length(self._squared_length(state, parameters, g_w, g, g_others, algebra))
            rate_w, rate_A = scale * rate_w, scale * rate_A
        new = {}
        for name, slope in g_others.items():
            new |= self.rule.directly(name, state, rate_w[: slope.shape[-1]] * slope, parameters)
        if self.values is None:
            h_w = jax().numpy.stack([self._by_gram(rate_w * each, parameters) for each in g_w])
            new |= self.rule.directly("w", state, h_w, parameters)
        else:
            slopes = jax().numpy.stack(g_w), parameters["value_neurons"]
            new |= self.rule.products(self.values, state, slopes, parameters, algebra, rate_w)
        if self.attention is None:
            h = self._both_by_gram(rate_A * g, parameters, stage)
            return new | self.rule.directly("A", state, h, parameters)
        if self.rule.normalises:
            return new | self.rule.products(self.attention, state, g, parameters, algebra, rate_A)
        return new | self.rule.products(
            self.attention, state, stage(lambda rate, g: rate * g, rate_A, g), parameters, algebra
        )

    def _by_gram(self, x, parameters):
        """Γ x of a vector over features (F, lanes)."""
        return x if self.orthonormal else product(gram_of(parameters), x[:, None])[:, 0]

    def _both_by_gram(self, X, parameters, stage):
        """Γ X Γ of a matrix between features (F, F, lanes)."""
        Γ = gram_of(parameters)
        return X if Γ is None else stage(product, stage(product, Γ, X), Γ)

    def _squared_length(self, state, parameters, g_w, g, g_others, algebra):
        """The squared length of the gradient of all weights that move (docs/mathematics.md §13), alike for all attentions."""
        jnp, Γ = jax().numpy, gram_of(parameters)

        def by_run(moves, squares):
            return (moves[: len(squares)] * squares).reshape(-1, self.lanes).sum(axis=0)

        if self.values is not None:
            squares = self.values.squares(state, (jnp.stack(g_w), parameters["value_neurons"]), Γ, algebra)
        else:
            squares = sum(jnp.sum(each * self._by_gram(each, parameters), axis=0) for each in g_w)
            squares = squares / 2 if self.network.tie_values else squares  # one vector serves both heads
        total = by_run(parameters["moves_w"], squares)
        for x in g_others.values():
            total = total + by_run(parameters["moves_w"], jnp.sum(x.reshape(-1, x.shape[-1]) ** 2, axis=0))
        if self.attention is None:
            squares = jnp.sum(g * self._both_by_gram(g, parameters, algebra.stage), axis=(0, 1))
        else:
            squares = self.attention.squares(state, g, Γ, algebra)
        return jnp.tile(total + by_run(parameters["moves_A"], squares), self.attentions)

    def gradient(self, stage, state, parameters, weight):
        """∂loss/∂w (F, lanes) of every value vector, g = ∂loss/∂A (F, F, lanes), and ∂loss by what else is trained."""
        if self.own:
            g_w, g, g_others = own_gradient(self, state, weight)
            return self._tied(g_w), g, g_others
        kernel, rows = self.kernel, self.kernel.rows
        E, inverse_Z = kernel.exponentials(stage, state["A"])
        read = [kernel.read(stage, E, inverse_Z, state["w"][c]) for c in range(self.vectors)]
        z, dz, g_others = self._neurons(stage, [O for _, O in read], state, parameters, weight)
        if self.readout.before:

            def share(z, d, inverse_Z):
                return self._through(z, rows.spread(d)) * inverse_Z

            R = [stage(share, each, d, inverse_Z) for each, d in zip(z, dz, strict=True)]
        else:
            R = [stage(lambda d, inverse_Z: d[rows.atom] * (rows.weight * inverse_Z), d, inverse_Z) for d in dz]
        g_w, g = kernel.pull_back(stage, E, inverse_Z, state["w"], read, R)
        return self._tied(g_w), g, g_others

    def _neurons(self, stage, O, state, parameters, weight):
        """z of every value vector, ∂loss by z (n, lanes), or by what is pooled where the ReLU comes first, and by b, u, θ."""
        rows, before = self.kernel.rows, self.readout.before
        bias = [state["bias"][c] if "bias" in state else parameters["bias"] for c in range(self.vectors)]
        if before:
            z = [stage(lambda O, b: b + O, each, b) for each, b in zip(O, bias, strict=True)]
            pooled = [stage(lambda z: rows.pool(self.readout.act(z, jax().numpy)), each) for each in z]
        else:
            z = [stage(lambda O, b: b + rows.pool(O), each, b) for each, b in zip(O, bias, strict=True)]
            pooled = z  # the ReLU is taken where it is read
        trained = [state[name] for name in self._trained if name != "bias"]
        slope = stage(
            lambda weight, *x: self._residual(weight, x[: self.vectors], *x[self.vectors :]), weight, *pooled, *trained
        )
        factors = list(state["read_out"]) if "read_out" in self._trained else []
        dz = []
        for c in range(self.vectors):

            def pull(z, slope, u=1.0, c=c):
                return self._gate(z, self._spread(c, slope, z.shape) * u)

            dz.append(stage(pull, pooled[c], slope, *factors[c : c + 1]))
        return z, dz, self._others(z, pooled, dz, slope)

    def _residual(self, weight, pooled, *trained):
        """weight · ∂loss/∂F of every atom: (n, LANES), or (n, H, LANES) for softmax."""
        jnp, task = jax().numpy, self.population
        trained = dict(zip([name for name in self._trained if name != "bias"], trained, strict=True))
        out = [0.0] * self.heads
        for c, each in enumerate(pooled):
            on = self._on(each)
            if "read_out" in trained:
                on = on * trained["read_out"][c].reshape(self.attentions, self.lanes)
            for a in range(self.attentions):
                out[self.head[c, a]] = out[self.head[c, a]] + on[:, a]
        if self.readout.signs is None:
            logits = jnp.stack(out, axis=1)  # (n, H, LANES)
            return (weight.T[:, None] * losses.slope(task.loss, task.labels, logits.T)).T
        F = sum(sign * each for sign, each in zip(self.readout.signs, out, strict=True)) - trained.get("offset", 0.0)
        return weight * losses.slope(task.loss, task.labels[:, None], F)

    def _on(self, pooled):
        """The activation (n, a, LANES) of one value vector."""
        on = pooled if self.readout.before else self.readout.act(pooled, jax().numpy)
        return on.reshape(-1, self.attentions, self.lanes)

    def _spread(self, c, slope, shape):
        """∂loss by the outputs of the heads to which value vector c belongs, (n, lanes)."""
        if self.readout.signs is None:
            return slope[:, self.head[c]].reshape(shape)
        return (np.array(self.readout.signs)[self.head[c]][:, None] * slope[:, None]).reshape(shape)

    def _gate(self, pooled, d):
        """d where the neuron is on; all of it where the ReLU comes before the pooling, or not at all."""
        return d if self.readout.before or self.readout.linear else jax().numpy.where(pooled > 0, d, 0.0)

    @property
    def _trained(self):
        network = self.network
        if self.own:
            return list(network.parameters)
        wanted = {"bias": network.train_bias, "read_out": network.values > 1, "offset": network.offset}
        return [name for name, is_trained in wanted.items() if is_trained]

    def _others(self, z, pooled, dz, slope):
        """∂loss by bias (c, lanes), read_out (c, lanes) and offset (LANES,), where they are trained."""
        jnp, rows, found = jax().numpy, self.kernel.rows, {}
        if "bias" in self._trained:
            if self.readout.before:
                found["bias"] = jnp.stack(
                    [jnp.sum(self._through(x, rows.spread(d)), axis=(0, 1)) for x, d in zip(z, dz)]
                )
            else:
                found["bias"] = jnp.stack([jnp.sum(d, axis=0) for d in dz])
        if "read_out" in self._trained:
            slopes = [self._spread(c, slope, each.shape) for c, each in enumerate(pooled)]
            found["read_out"] = jnp.stack(
                [jnp.sum(d * self._on(x).reshape(x.shape), axis=0) for d, x in zip(slopes, pooled)]
            )
        if "offset" in self._trained:
            found["offset"] = -jnp.sum(slope, axis=0)
        return found

    def _through(self, z, d):
        """d where the neuron of a query is on."""
        return d if self.readout.linear else jax().numpy.where(z > 0, d, 0.0)

    def _tied(self, g_w):
        """One shared vector moves by the difference of the heads' gradients."""
        if not self.network.tie_values:
            return g_w
        jnp, r = jax().numpy, self.network.values
        if self.attentions == 1:
            shared = [g_w[v] - g_w[r + v] for v in range(r)]
            return [*shared, *(-each for each in shared)]
        halves = [each[:, : self.lanes] - each[:, self.lanes :] for each in g_w]
        return [jnp.concatenate([each, -each], axis=-1) for each in halves]

    def lane(self, state, lane):
        """One run's state."""
        return {
            name: x[0]
            for name, x in self.unstack({name: np.asarray(x)[None] for name, x in state.items()}, lane).items()
        }

    def convert(self, network, weights):
        """The Gram state of weights given by name; what is not given keeps its start."""
        if network.mean_field:
            return super().convert(network, weights)
        seen = network.observe(given(network.start(self.population), weights), self.population)
        return self._at_rest({name: np.asarray(x) for name, x in seen.items()})

    def field(self, network, train_w=True, train_attention=True):
        """The gated field."""
        return gram_field(self.task, network, train_w=train_w, train_attention=train_attention)

    def measure(self, history, network, listed=None):
        """The dataset's variables (docs/schema.md)."""
        return series(self.task, network, history)

    def doubt(self, dataset):
        """Rounding has grown where the joint Gram matrix, a product of the weights with themselves, is below 0 somewhere.

        A network narrower than its features has no weights in some directions, but 1e-17 of rounding, which normalised steps
        make grow as they would real ones."""
        end = dataset.isel(time=-1)
        if self.network.attention == "tied":
            S = end.A.values
        elif {"G_K", "G_Q"} <= set(dataset) and not self.network.shared_keys:
            A, G_K, G_Q = (end[name].values for name in ("A", "G_K", "G_Q"))
            S = np.block([[G_K, A], [A.swapaxes(-1, -2), G_Q]])
        else:
            return None
        values = np.linalg.eigvalsh(S) if np.isfinite(S).all() else np.zeros(1)
        if values.min() >= -SPOILED * values.max():
            return None
        return (
            f"rounding has grown until the joint Gram matrix of the weights had an eigenvalue of {values.min():.2g} beside "
            f"{values.max():.2g}, where weights have none below 0: train with model='full', or a larger width."
        )

    def cure(self, dataset):
        """Scores that a table of exponentials for all atoms cannot hold from the start are none of the learning rate's doing."""
        most = np.abs(scores(self.population, dataset["A"].values[0])).max()
        fix = f"its scores begin at {most:.0f} and tables hold them up to {EXP_RANGE:.0f}: train with model='full'"
        return fix if most > EXP_RANGE / 2 else super().cure(dataset)

    def resume(self, dataset):
        """The state at the last save; at rest if the run that made it remembered nothing."""
        return self.recalled(self._at_rest(resumed(dataset, self.network)), dataset)
