"""The mean-field transformer on the uniform mixture, any K and every option, in 22 numbers and O(√K) work a step
(docs/mathematics.md §4)."""

from functools import cached_property

import numpy as np

from ..jaxed import jax
from ..tasks.means import averages
from ..tasks.symmetry import KINDS, MATRICES, OF_ATTENTION, SECTORS, atom_types, binomial, expand
from . import loss as losses
from .base import Engine, besides, remembered
from .gram_families import Attention, Values
from .gram_rule import Rule
from .gram_update import Algebra, enlarged, inverse_length, largest
from .lanes import LANES, exp, mirrors, product, stages, transpose
from .orbits import QUERIES, Orbits, halves, one_class
from .series import series

OCTAVES = 64  # atom types up to which rows are padded to a power of two; beyond, an octave has four steps
NEGLIGIBLE = 1e-40  # probability below which an atom type changes no digit of a step (docs/mathematics.md §4)
EXPAND_LIMIT = 6  # classes up to which a run is also written out feature by feature and atom by atom
MIRRORED = [0, 1, 3, 2]  # QUERIES in the mirror
SIDE_BY_SIDE = (*OF_ATTENTION, "attention_memory")  # parts of a state with attentions and sectors in the last axis


class Symmetric(Engine):
    """Gradient descent on the carried heads (`Orbits`): w (c, v) and, in each sector, 2×2 matrices A, G_K, G_Q over (c, v).

    With lanes w is (heads, 2, LANES), and matrices (2, 2, attentions·2·LANES): attentions, sectors and runs lie side by side, so
    that each sector obeys the Gram update by itself. Classes enter as an argument, so runs of different K share a program as
    long as they need the same room for atom types.
    """

    name = "symmetric"
    lanes = LANES
    straight = True

    def __init__(self, task, network, method):
        super().__init__(task, network, method)
        self.orbits = Orbits.of(network)
        weight = binomial(task.classes)
        kept = np.flatnonzero(weight > NEGLIGIBLE)
        self.first, self.weight = kept[0], weight[kept]
        self.room = _room(len(kept))
        self.values = None if network.value_neurons is None else Values(2 * self.orbits.carried)

    @classmethod
    def objection(cls, task, network, method):
        """Why not: everything must keep the classes exchangeable."""
        if not getattr(task, "uniform", False):
            return "it needs a Mixture with uniform priors and orthonormal features, whose classes are exchangeable"
        if network.no_closure is not None or hasattr(network, "respond"):
            return (
                f"it needs a Transformer: {network.no_closure or 'a read-out of your own may tell the classes apart'}"
            )
        if not network.mean_field:
            return f"width = {network.width} breaks the symmetry between classes; only width=inf keeps it"
        if network.standard or (network.value_scale and network.value_neurons is None):
            drawn = "initialisation='standard'" if network.standard else f"value_scale = {network.value_scale:g}"
            return f"{drawn} draws a random start, which breaks the symmetry between classes; leave it out"
        if (why := method.inner.no_closure) is not None:
            return why
        if getattr(method.inner, "batch_size", None) is not None:
            return "minibatches break the symmetry between classes; leave out batch_size"
        return None

    @classmethod
    def apt(cls, task, network, method):
        """Where atoms are too many to list and only something in the network or method stands against it."""
        near = getattr(task, "uniform", False) and task.unlisted and getattr(network, "mean_field", False)
        return bool(near) and super().apt(task, network, method)

    @property
    def attention(self):
        """The family of W_K and W_Q, None where scores are trained directly."""
        return Attention.of(self.network, one_class(), 2 * self.lanes)

    @cached_property
    def rule(self):
        """How slopes move a state."""
        return Rule(besides(self.method))

    def work(self):
        """By atom types."""
        return self.room * self.orbits.carried / 5

    @property
    def key(self):
        """What the compiled program depends on."""
        network = self.network
        own = (self.orbits, self.attention, network.train_bias, network.offset, self.values is None)
        return self.name, self.room, self.task.loss, self.rule.key, *own

    @property
    def numbers(self):
        """How many independent numbers a state has: 22 for the paper's network (docs/mathematics.md §4)."""
        orbits, total = self.orbits, 0
        full = () if self.attention is not None and self.attention.tied else ("A", "G_QQ")
        for name, x in orbits.start(self.network).items():
            size = np.size(x)
            if name in OF_ATTENTION and orbits.mirror and orbits.shared:  # its own mirror image
                size = size // 2
            elif name in MATRICES and name not in full:
                size = 3 * size // 4
            elif name == "w" and orbits.mirror and orbits.tied:
                size = size // 2
            total += size
        return total

    def start(self, network):
        """The mean-field start, at rest: `Orbits.start`."""
        return self._at_rest(self.orbits.start(network))

    def _at_rest(self, state):
        families = {"w": self.values, "A": self.attention}
        direct = [name for name in self._trained if families.get(name) is None]
        found = self.rule.velocities(direct, (), state)
        rows = {"A": state["A"].reshape(-1, 2, 2), "w": np.zeros((self.orbits.carried, 2, 2))}  # by sector
        return state | found | self.rule.velocities((), filter(None, families.values()), rows)

    @property
    def _trained(self):
        network = self.network
        return ["w", "A", *(["bias"] if network.train_bias else []), *(["offset"] if network.offset else [])]

    def parameters(self, networks, eta_w, eta_A):
        """Arrays the step reads besides the state, for `lanes` runs."""
        score_rate = np.array([network.score_rate(None) for network in networks])
        lanes = {"bias": np.array([network.bias for network in networks])}
        lanes |= self.rule.parameters(eta_w, eta_A, score_rate)
        if self.values is not None:
            lanes["value_neurons"] = np.array([float(network.value_neurons) for network in networks])
        return {name: np.tile(x, 2 * self.orbits.attentions) for name, x in lanes.items()} | {
            "classes": np.array(float(self.task.classes)),
            "first": np.array(float(self.first)),
            "weight": np.append(self.weight, np.zeros(self.room - len(self.weight))),
        }

    @cached_property
    def _shapes(self):
        return {name: np.shape(x) for name, x in self.start(self.network).items()}

    def stack(self, states):
        """`lanes` states of single runs -> one state with lanes."""
        return {name: self._to_lanes(name, np.stack([state[name] for state in states], axis=-1)) for name in states[0]}

    def _to_lanes(self, name, x):
        kind = name.removesuffix("_velocity")
        if kind in MATRICES:
            x = x.reshape(-1, 2, 2, self.lanes)
        elif kind == "value_memory":
            x = x.reshape(-1, *x.shape[2:])
        elif kind not in ("attention_memory", "offset") and self.orbits.carried == 1:
            x = x[None]
        return np.moveaxis(x, 0, -2).reshape(*x.shape[1:-1], -1) if kind in SIDE_BY_SIDE else x

    def unstack(self, saved, lane):
        """The history of one lane, time first."""
        found = {}
        for name, x in saved.items():
            if name.removesuffix("_velocity") in SIDE_BY_SIDE:
                x = np.moveaxis(x[..., lane :: self.lanes], -1, 1)  # (saves, attentions·sectors, …)
            else:
                x = x[..., lane]
            found[name] = x.reshape(len(x), *self._shapes[name])
        return found

    def lane(self, state, lane):
        """One run's state."""
        saved = {name: np.asarray(x)[None] for name, x in state.items()}
        return {name: x[0] for name, x in self.unstack(saved, lane).items()}

    def observe(self, state, parameters):
        """What is recorded at a save: the state, without what it remembers."""
        return {name: x for name, x in state.items() if not remembered(name)}

    def step(self, i, state, parameters):
        """One step of gradient descent: each sector obeys the Gram update by itself (docs/mathematics.md §3, §4).

        In stages: without them a loop of eight lanes compiled by XLA (JAX 0.10) gave a wrong G_K, 1e-4 off, where a single
        step was right.
        """
        stage = stages(parameters["weight"], self.lanes)
        g, algebra = self.gradient(state, parameters), Algebra(product, transpose, stage, mirrors(self.lanes))
        rate_w, rate_A = parameters["rate_w"][: self.lanes], parameters["rate_A"]
        if self.rule.normalises:
            moves = {True: parameters["moves_A"], False: parameters["moves_w"]}
            size = largest([(moves[name == "A"], [x]) for name, x in g.items()], self.lanes)
            g = {name: enlarged(x, size) for name, x in g.items()}
            scale = inverse_length(self._squared_length(state, parameters, g, algebra))
            rate_w, rate_A = scale * rate_w, jax().numpy.tile(scale, 2 * self.orbits.attentions) * rate_A
        h = {name: (rate_A if name == "A" else rate_w) * slope for name, slope in g.items()}
        new = {}
        for name, moved in h.items():
            if name == "A" and self.attention is not None:
                new |= self.rule.products(self.attention, state, moved, parameters, algebra)
            elif name == "w" and self.values is not None:
                view, scaled, root = self._in_sectors(state, moved, parameters)
                new |= self.rule.products(self.values, view, scaled, parameters, algebra)
                new |= {"w": new["w"][::2] / root, "N": new["N"][::2]}
            else:
                new |= self.rule.directly(name, state, moved, parameters)
        return new

    def _in_sectors(self, state, g_w, parameters):
        """State and slopes of values that are products, by head and sector: w lies in the common one, with length √K w."""
        jnp, root = jax().numpy, jax().numpy.sqrt(parameters["classes"])

        def common(x):
            return jnp.stack([root * x, jnp.zeros_like(x)], axis=1).reshape(-1, 2, self.lanes)

        view = state | {"w": common(state["w"]), "N": jnp.repeat(state["N"], 2, axis=0)}
        return view, (common(g_w), parameters["value_neurons"][: self.lanes]), root

    def _squared_length(self, state, parameters, g, algebra):
        """The squared length of the gradient of all weights that move, all heads and classes (docs/mathematics.md §13)."""
        jnp, K, copies = jax().numpy, parameters["classes"], self.orbits.copies
        if self.values is not None:
            view, scaled, _ = self._in_sectors(state, g["w"], parameters)
            total = copies["head"] * self.values.squares(view, scaled, None, algebra)
        else:
            halved = 2 if self.orbits.tied and not self.orbits.mirror else 1  # one vector serves both heads
            total = copies["w"] / halved * K * jnp.sum(g["w"] ** 2, axis=(0, 1))
        if "bias" in g:
            total = total + copies["head"] * jnp.sum(g["bias"] ** 2, axis=0)
        if "offset" in g:
            total = total + g["offset"] ** 2
        if self.attention is None:
            squares = jnp.sum(g["A"] ** 2, axis=(0, 1))
        else:
            squares = self.attention.squares(state, g["A"], None, algebra)
        by_sector = squares.reshape(-1, 2, self.lanes).sum(axis=0)
        moves_w, moves_A = (parameters[name][: self.lanes] for name in ("moves_w", "moves_A"))
        return moves_w * total + moves_A * copies["A"] * (by_sector[0] + (K - 1) * by_sector[1])

    def gradient(self, state, parameters):
        """∂loss by one entry of one head, by name: w (heads, 2, lanes), A in sectors, …; of the shapes of the state."""
        jnp, orbits, K = jax().numpy, self.orbits, parameters["classes"]
        n = jnp.minimum(parameters["first"] + jnp.arange(self.room, dtype=float), K - 1)[:, None]
        weight = parameters["weight"][:, None] / len(orbits.labels)  # (room, 1); spare rows have weight 0

        def answers(parts):
            A = jnp.moveaxis(parts["A"].reshape(2, 2, orbits.attentions, 2, self.lanes), (2, 3), (0, 1))
            bias = parts["bias"] if "bias" in parts else [parameters["bias"][: self.lanes]] * orbits.carried
            z = [(p, orbits.neurons(jnp, y, p, K, parts["w"], A, bias, exp)) for y, p in halves(n, K)]
            return orbits.answer([orbits.pooled(orbits.act(x, jnp), p, K) for p, x in z], parts.get("offset", 0.0))

        F, pull = jax().vjp(answers, {name: state[name] for name in self._trained})
        (d,) = pull([weight * losses.slope(self.task.loss, y, each) for y, each in zip(orbits.labels, F, strict=True)])
        # A number that stands for many entries has the sum of their derivatives. Sectors: K diagonal and K(K-1) off-diagonal
        # entries are seen, and by the chain rule ∂/∂common = g_common and ∂/∂contrast = (K-1) g_contrast.
        sector = jnp.repeat(jnp.stack([jnp.ones_like(K), jnp.maximum(K - 1, 1.0)]), self.lanes)
        many = {"A": jnp.tile(sector, orbits.attentions) * orbits.copies["A"], "w": K * orbits.copies["w"]}
        g = {name: x / many.get(name, orbits.copies["head"]) for name, x in d.items()}
        if orbits.tied and not orbits.mirror:
            both = g["w"][0] - g["w"][1]
            g["w"] = jnp.stack([both, -both])
        return g

    def field(self, network, train_w=True, train_attention=True):
        """The gated field of head +."""
        from .symmetric_field import symmetric_field

        return symmetric_field(self.task, network, train_w=train_w, train_attention=train_attention)

    def measure(self, history, network, listed=None):
        """The 22 numbers, and everything else atom by atom for few classes, or by atom type; `listed` forces one of them."""
        K, found = self.task.classes, {}
        heads, many = ((), ()) if self.orbits.carried == 1 else (("head",), (self.orbits.carried,))
        for name, x in history.items():
            if name == "w":
                found["w_sector"] = ("time", *heads, "kind"), x
            elif name in MATRICES:
                pairs = ("head_pair",) if name == "G_QQ" else heads
                x = x if name == "G_QQ" else np.broadcast_to(x, (len(x), *many, 2, 2, 2))
                found[f"{name}_sector"] = ("time", *pairs, "sector", "key_kind", "query_kind"), x
        if K <= EXPAND_LIMIT if listed is None else listed:
            return found | series(self.task, network, self.orbits.written(history, K))
        _, y, n, _ = atom_types(K)
        z, F = self._by_type(history, network)
        loss = self.task.loss
        m = losses.right(loss, y, F)
        single = {name: x for name, x in history.items() if name != "w" and name not in MATRICES}
        for name, x in expand(single, K, self.orbits.heads, 1, self.orbits.mirror).items():
            found[name] = ("time", "head")[: x.ndim], x
        hard = y * (y + 2 * n - (K - 1)) <= 0
        means = averages(m, np.tile(binomial(K), 2) / 2, hard, losses.cost(loss, y, F))
        token = ("token_type",) if self.orbits.readout.before else ()
        found |= {"margin": (("time", "atom_type"), m), "z": (("time", "head", "atom_type", *token), z)}
        return found | {name: ("time", x) for name, x in means.items()}

    def _by_type(self, history, network):
        """z (time, head, 2K) or, by query, (time, head, 2K, 4), and F (time, 2K); types ordered as in `atom_types`."""
        K, orbits = self.task.classes, self.orbits
        n = np.arange(K, dtype=float)[:, None]
        parts = {name: history[name] for name in ("w", "A", "bias") if name in history}
        if orbits.carried == 1:
            parts = {name: x[:, None] for name, x in parts.items()}
        parts = {name: np.moveaxis(x, 0, -1) for name, x in parts.items()}  # time last
        bias = parts.get("bias", [network.bias] * orbits.carried)
        z = [orbits.neurons(np, y, p, float(K), parts["w"], parts["A"], bias, np.exp) for y, p in halves(n, K)]
        on = [orbits.pooled(orbits.act(x, np), p, K) for x, (_, p) in zip(z, halves(n, K), strict=True)]
        F = orbits.answer(on, history.get("offset", 0.0))
        F = np.concatenate([F[0], -F[0][::-1] if orbits.mirror else F[1][::-1]])
        z = np.array(z)  # (half, carried, query, K, time)
        if orbits.readout.before:
            there = np.array([np.broadcast_to(many, n.shape) > 0 for many in orbits.asks(n, K)])
            z = np.where(np.array([there, there[MIRRORED]])[:, None], z, np.nan)
        heads = np.concatenate([z[0], z[1][:, :, ::-1]], axis=2)  # (carried, query, 2K, time)
        if orbits.mirror:
            other = heads[0][MIRRORED] if orbits.readout.before else heads[0]
            heads = np.array([heads[0], other[:, ::-1]] * (orbits.heads // 2))
        z = np.moveaxis(heads, (-1, 1), (0, -1))
        return z if orbits.readout.before else z[..., 0], F.T

    def coordinates(self, listed=None):
        """Labels of sectors and of atom types, or of the features and atoms of a task that is written out."""
        K = self.task.classes
        kinds = {name: list(KINDS) for name in ("kind", "key_kind", "query_kind")}
        found = {**self.network.coordinates(one_class()), "sector": list(SECTORS), **kinds}
        if K <= EXPAND_LIMIT if listed is None else listed:
            return found | super().coordinates()
        names, y, n, multiplicity = atom_types(K)
        types = {"positive_others": n, "multiplicity": multiplicity, "label": y.astype(float)}
        types |= {"probability": np.tile(binomial(K), 2) / 2, "hard": y * (y + 2 * n - (K - 1)) <= 0}
        found |= {"token_type": list(QUERIES)} if self.orbits.readout.before else {}
        return found | {"atom_type": names, **{name: ("atom_type", x) for name, x in types.items()}}

    def at(self, dataset, place):
        """The Gram state at a save, from sectors where features were left out."""
        if "A" in dataset:
            return super().at(dataset, place)
        now = {name: x[place, None] for name, x in self._history(dataset).items()}
        return {name: x[0] for name, x in self.orbits.written(now, self.task.classes).items()}

    def expanded(self, dataset):
        """Features and atoms of a run of many classes; SpecError where they are too many."""
        return {} if "A" in dataset else self.measure(self._history(dataset), self.network, True)

    def _history(self, dataset):
        """The state over time."""
        found = {}
        for name, blank in self.orbits.start(self.network).items():
            x = dataset[f"{name}_sector" if name == "w" or name in MATRICES else name].values
            if x.ndim > 1 + blank.ndim:  # every head has it, one is carried
                x = x[:, 0]
            found[name] = x[:, : len(blank)] if blank.ndim else x
        return found

    def resume(self, dataset):
        """The state of the last save; at rest if the run that made it remembered nothing."""
        return self.recalled(self._at_rest({name: x[-1] for name, x in self._history(dataset).items()}), dataset)


def _room(types):
    """Rows for so many atom types: a power of two for few, then four steps to an octave, so that cost is smooth in K.

    >>> [_room(types) for types in (2, 3, 100, 129, 1000)]
    [2, 4, 112, 160, 1024]
    """
    octave = 1 << max(1, (types - 1).bit_length())
    step = octave // 8 if octave > OCTAVES else octave
    return -(-types // step) * step
