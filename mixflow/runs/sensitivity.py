"""When does it learn, and what would change that? Derivatives of a flow by what it was made of (docs/mathematics.md §15).

A parameter enters a flow through the constants of its field and through its start. Both are low polynomials of the parameters
(Γ at finite width aside), so their derivatives come from a few evaluations nearby, exactly to rounding; the flow itself is
differentiated through every kink (`filippov.sensitivity`), never repeated.
"""

import numbers
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np

from ..checks import listed, one_of, real, shown
from ..engines import choose
from ..engines.gated import split
from ..errors import SpecError
from ..filippov import sensitivity as through_kinks
from ..filippov import solve
from ..filippov.walk import root
from ..jaxed import jax
from ..measure.watch import watch
from ..methods.until import Until, is_event, limit
from ..networks.specs import changed

PARAMETERS = ("omega", "bias", "probabilities", "priors", "gram")
USUAL = PARAMETERS[:3]  # what is asked for if nothing is said
BY_SAMPLE = PARAMETERS[2:]  # what needs samples one by one
BEYOND = 1 + 1e-6  # how much longer than it took a stage is solved, so that its event is inside
NEAR = 1e-3  # how far from a parameter its neighbours are, relatively
WEIGHTS = {-2: 1 / 12, -1: -8 / 12, 1: 8 / 12, 2: -1 / 12}  # of a derivative from four neighbours, exact for degree 4
AHEAD = {0: -25 / 12, 1: 4.0, 2: -3.0, 3: 4 / 3, 4: -1 / 4}  # the same from one side, where the other does not exist


@dataclass(frozen=True)
class Direction:
    """One way to change a problem: `at(s)` is the task and the network with the parameter changed by s; `size` a small s, and
    `weights` of a derivative from the multiples of it that exist."""

    at: object
    size: float
    weights: dict = field(default_factory=lambda: WEIGHTS)


def sensitivity(run, of, to):
    """What `Run.sensitivity` returns."""
    if not run.method.flows:
        raise SpecError(
            f"the run was trained by {run.spec['method']['kind']}: expected a flow, which has derivatives; train it with "
            "GradientFlow."
        )
    if not isinstance(of, Until):
        if not isinstance(of, numbers.Real) or isinstance(of, bool):
            raise SpecError(f"of = {shown(of)}: expected Until(quantity, threshold) or a time.")
        of = real("of", of, above=0, fix="it is the time at which the loss is differentiated")
    if to is None:
        names = [name for name in USUAL if _lacking(run, name) is None]
    else:
        names = (to,) if isinstance(to, str) else listed("to", to, f"some of {', '.join(PARAMETERS)}")
    for name in names:
        one_of("to", name, PARAMETERS)
        if (why := _lacking(run, name)) is not None:
            has = ", ".join(repr(each) for each in PARAMETERS if _lacking(run, each) is None)
            raise SpecError(f"to = {name!r}: {why}; expected some of {has}, or leave out to.")
    return _Study(run, of, tuple(dict.fromkeys(names))).dataset()


def _lacking(run, name):
    """Why a run has no such parameter, or None."""
    if name == "bias" and hasattr(run.transformer, "respond"):
        return "the read-out is a function of one's own, without the bias of a Transformer"
    if name in BY_SAMPLE and run.task.unlisted:
        return f"its {type(run.task).__name__} is no list of samples, and too large for one"
    return None


class _Study:
    """One flow with its directions."""

    def __init__(self, run, of, names):
        self.run, self.of, self.names = run, of, names
        self.network, self.method = run.transformer, run.method
        by_sample = set(BY_SAMPLE) & set(names)
        self.task = run.task.population() if by_sample else run.task
        self.model = "gram" if by_sample else run.dataset.attrs["model"]
        self.engine = self._engine(self.task, self.network)
        self._check_start()
        self.directions = {name: self._directions(name) for name in names}
        self.flat = [each for name in names for each in self.directions[name]]

    def _engine(self, task, network):
        return choose(task, network, self.method, self.model)

    def _check_start(self):
        if "start" in self.run.spec:
            raise SpecError(
                "the run began elsewhere than at its network's own start, so its parameters did not make it: expected a run "
                "without start=; train it from its own start."
            )

    # --- what can change ---------------------------------------------------------------------------------------------------

    def _directions(self, name):
        """The directions of one parameter, in the order of its labels."""
        task, network = self.task, self.network
        if name in ("omega", "bias"):
            value = getattr(network, name)
            size = NEAR * (max(abs(value), 1e-3) if name == "bias" else value or 1.0)
            weights = AHEAD if name == "omega" and value == 0 else WEIGHTS
            return [Direction(lambda s: (task, changed(network, **{name: value + s})), size, weights)]
        if name == "probabilities":
            return [self._toward(np.eye(len(task.probabilities))[a]) for a in range(len(task.probabilities))]
        if name == "priors":
            return [self._toward(each) for each in self._classes()]
        return [self._product(i, j) for i, j in _pairs(len(task.features))]

    def _toward(self, mixture):
        """Probabilities p → (1 − s) p + s m, s ≥ 0, m the samples that become more likely: to first order (p + s m)/(1 + s)."""
        task, network, p = self.task, self.network, self.task.probabilities

        def at(s):
            return replace(task, probabilities=(1 - s) * p + s * mixture), network

        return Direction(at, NEAR, AHEAD)

    def _classes(self):
        """(K, n) the samples of each class with their share of it."""
        task = self.task
        names = [name for name in task.features if name in task.identifiers]
        of = np.array([[any(f == name for f, _ in atom) for atom in task.atoms] for name in names], float)
        if not names or not np.array_equal(of.sum(axis=0), np.ones(len(task.atoms))):
            raise SpecError(
                "to = 'priors': the task has no classes told by an identifier; use 'probabilities' instead."
            )
        if never := [name for name, row in zip(names, of, strict=True) if row @ task.probabilities == 0]:
            raise SpecError(
                f"to = 'priors': class {never[0]} has probability 0, so nobody knows how it would be shared among its samples; "
                "use 'probabilities' instead."
            )
        return [row * task.probabilities / (row @ task.probabilities) for row in of]

    def _product(self, i, j):
        """Γ_ij = Γ_ji changed by s."""
        task, network = self.task, self.network

        def at(s):
            gram = np.array(task.gram, float)
            gram[i, j] += s
            gram[j, i] = gram[i, j]
            return replace(task, gram=gram), network

        return Direction(at, NEAR)

    # --- the flow ----------------------------------------------------------------------------------------------------------

    def follow(self):
        """Through the stages: the last result, its Sensitivity and field, and the derivative (p,) of when its stage began."""
        y, S, began, shift = None, None, 0.0, np.zeros(len(self.flat))
        for number, stage in enumerate(self.method.stages(self.network)):
            gated = self._gated(self.engine, self.network, stage)
            constants, start = self._going_in(stage)
            y, S = (gated.y0, start) if y is None else (y, S)
            result, event = self._solved(gated, y, began, self._bound(number, stage, began), stage)
            moved = through_kinks(result, constants=constants, y0=S)
            done = self._reached(gated, result)
            if done or (not isinstance(self.of, Until) and result.time >= self.of):
                return result, moved, gated, shift
            if event:
                # An event's threshold may follow from the network, as the margin of the neurons' stage follows from the bias.
                delay = self._delay(lambda network, n=number: self.method.stages(network)[n].end, gated, result, moved)
                shift, S = shift + delay, moved.state + delay[:, None] * moved.slope
            else:
                S = moved.state
            y, began = result.state, result.time
        what = f"{self.of.quantity} = {self.of.threshold:g}" if isinstance(self.of, Until) else f"t = {self.of:g}"
        raise SpecError(
            f"the flow ends at t = {began:g} before {what}: expected something it reaches; train it for longer."
        )

    def _gated(self, engine, network, stage):
        gated = engine.field(network, stage.train_w, stage.train_attention)
        if "gram" in self.names and gated.constants["Gamma"] is None:  # orthonormal, but not for its neighbours
            gated = replace(gated, constants={**gated.constants, "Gamma": np.eye(len(self.task.features))})
        return gated

    def _bound(self, number, stage, began):
        """A time at which a stage is certainly over, and hardly later: the run knows when its events came."""
        end = began + limit(stage.end)
        if is_event(stage.end):
            seen = self.run.switches[number]["end"] if self.method.staged else float(self.run.dataset.time[-1])
            end = min(end, began + BEYOND * (seen - began))
        return end if isinstance(self.of, Until) else min(end, self.of)

    def _solved(self, gated, y, began, end, stage):
        """The flow of a stage up to its first event, and whether there was one before its end.

        Solved once to its end, the event located on the dense output, then again to there: a function of the state that is asked
        at every step would cost more than both.
        """

        def flow(until):
            tolerances = {"rtol": self.method.inner.rtol, "atol": self.method.inner.atol}
            return solve(gated.field, y, until, start=began, save_at=[until], **tolerances)

        whole = flow(end)
        ends = [watch(self.engine, each, self.network) for each in (self.of, stage.end) if is_event(each)]
        times = np.append(whole.steps[0], whole.time)
        times = np.sort(np.concatenate([times, (times[1:] + times[:-1]) / 2]))

        def beyond(times):
            return np.max([excess(gated.unpack(whole(times))) for excess in ends], axis=0)

        reached = np.flatnonzero(beyond(times) >= 0) if ends else ()
        if not len(reached):
            return whole, False
        if reached[0] == 0:
            return solve(gated.field, y, end, start=began, stop=lambda t, y: 0.0), True
        when = root(lambda t: float(beyond([t])[0]), *times[reached[0] - 1 : reached[0] + 1])
        return flow(when), True

    def _reached(self, gated, result):
        if not isinstance(self.of, Until):
            return False
        excess = float(watch(self.engine, self.of, self.network)(gated.unpack(result.state[None]))[0])
        return excess >= -1e-9 * self.of.threshold

    def _delay(self, end_of, gated, result, moved):
        """(p,) derivative of the time at which the event end_of(network) is reached."""
        end = end_of(self.network)
        if end.quantity == "loss":
            return moved.time(_loss_of(gated))
        change = self._change(lambda engine, network: watch(engine, end_of(network), network), gated, result, moved)
        size = 1e-5 * max(np.abs(result.state).max(), 1e-3) / max(np.abs(moved.slope).max(), 1e-300)
        excess = watch(self.engine, end, self.network)
        speed = sum(
            weight * float(excess(gated.unpack((result.state + k * size * moved.slope)[None]))[0]) / size
            for k, weight in WEIGHTS.items()
        )
        return -change / speed

    def _change(self, measure, gated, result, moved):
        """(p,) total derivative at the end of a quantity that NumPy measures."""
        changes = []
        for direction, S in zip(self.flat, moved.state, strict=True):
            size = min(direction.size, 1e-5 * max(np.abs(result.state).max(), 1e-3) / max(np.abs(S).max(), 1e-300))
            total = 0.0
            for k, weight in direction.weights.items():
                task, network = direction.at(k * size)
                value = measure(self._engine(task, network), network)(gated.unpack((result.state + k * size * S)[None]))
                total += weight * float(value[0]) / size
            changes.append(total)
        return np.array(changes)

    # --- derivatives of what goes in ---------------------------------------------------------------------------------------

    def _going_in(self, stage):
        """The directions (p, …) of the field's constants, None where one does not move, and of its start."""
        known = self._gated(self.engine, self.network, stage)
        moved = {name: [] for name, x in known.constants.items() if x is not None}
        starts = []
        for direction in self.flat:
            near = {}
            for k in direction.weights:
                task, network = direction.at(k * direction.size)
                near[k] = self._gated(self._engine(task, network), network, stage)
            for name, rows in moved.items():
                rows.append(_slope({k: gated.constants[name] for k, gated in near.items()}, direction))
            starts.append(_slope({k: gated.y0 for k, gated in near.items()}, direction))
        changes = {name: np.array(rows) for name, rows in moved.items()}
        still = dict.fromkeys(known.constants)
        return still | {name: x for name, x in changes.items() if x.any()}, np.array(starts)

    # --- the dataset -------------------------------------------------------------------------------------------------------

    def dataset(self):
        """The derivatives by name, labelled."""
        import xarray

        result, moved, gated, shift = self.follow()
        if isinstance(self.of, Until):
            what, value = "time", result.time
            change = shift + self._delay(lambda network: self.of, gated, result, moved)
        else:
            what, value = "loss", float(gated.loss(result.state))
            # The stages before ended sooner or later by `shift`, and so did the clock of this one.
            change = moved.value(_loss_of(gated)) - shift * moved.speed(_loss_of(gated))
        variables, coords, at = {what: ((), value)}, {}, 0
        for name in self.names:
            count = len(self.directions[name])
            part, kinked = change[at : at + count], moved.one_sided[at : at + count]
            dims, labels = self._labels(name)
            if name == "gram":
                part, kinked = (_square(x, len(self.task.features)) for x in (part, kinked))
            variables[f"{what}_by_{name}"] = (dims, part if dims else part[0])
            variables[f"one_sided_{name}"] = (dims, kinked if dims else kinked[0])
            coords |= labels
            at += count
        data = xarray.Dataset(variables, coords=coords, attrs={"of": str(self.of), "model": self.engine.name})
        data[what].attrs["units"] = "units of time" if what == "time" else "nats"
        return data

    def _labels(self, name):
        task = self.task
        if name == "probabilities":
            atoms = {"label": task.labels, "probability": task.probabilities, "hard": task.hard}
            return ("atom",), {"atom": list(task.names), **{key: ("atom", x) for key, x in atoms.items()}}
        if name == "priors":
            return ("class",), {"class": [f for f in task.features if f in task.identifiers]}
        if name == "gram":
            return ("feature", "other"), {"feature": list(task.features), "other": list(task.features)}
        return (), {}


def _slope(values, direction):
    """The derivative from the values at the places of a direction's weights; exactly 0 where they agree."""
    values = {k: np.asarray(value, float) for k, value in values.items()}
    slope = sum(weight * values[k] for k, weight in direction.weights.items()) / direction.size
    same = np.all([value == values[1] for value in values.values()], axis=0)
    return np.where(same, 0.0, slope)


def _pairs(F):
    return [(i, j) for i in range(F) for j in range(i + 1)]


def _square(values, F):
    """A symmetric table of the values of `_pairs`."""
    table = np.zeros((F, F), values.dtype)
    for (i, j), value in zip(_pairs(F), values, strict=True):
        table[i, j] = table[j, i] = value
    return table


def _loss_of(gated):
    """The loss as a JAX function of constants and state; one function for all fields of a kind, so that it is compiled once."""
    return _loss(gated.surface, gated.loss_of, tuple(gated.shapes.items()))


@lru_cache(maxsize=32)
def _loss(surface, loss_of, shapes):
    def loss(c, y):
        xp = jax().numpy
        parts = split(y, shapes)
        return loss_of(xp, c, xp.maximum(surface(xp, c, parts), 0), parts)

    return loss
