"""Is the class-symmetric solution stable? The flow linearised around it, one small linear system for each symmetry type (§11).

Along the symmetric trajectory y(t), with its gates, the coordinates ξ of a perturbation in a type's basis (`symmetry.py`) obey

    ξ' = J(t) ξ                        between the neurons' switches; J = the gram field's Jacobian in the basis, by automatic
                                       differentiation; neurons that slide stay on their surface: their gates move with ξ
    ξ⁺ = ξ⁻ + Σ_i τ_i (f⁻ − f⁺)_i      where neurons cross their surface: neuron i does so τ_i = −δz_i / z_i' late, and for that
                                       long its part of the field is still that of before
    ξ⁺ = the point of δz = 0 that ξ⁻ reaches along the neurons' own parts of the field, where neurons begin to slide

A neuron that stops sliding does so with a continuous field, so nothing jumps. J is smooth between switches, so Magnus's
fourth-order step (the exponential of J averaged at two Gauss points) needs a few hundred points for any K.

One thing is left out at a crossing: the twins of a neuron (the same sample of the other classes) cross a little earlier or
later, and whoever crosses first changes the others' z' for the rest of that moment. The flow's derivative is then only
piecewise linear, and types mix a little. `coupling` is the size of that change; beside two flows it costs about 0.1 %.
"""

import itertools
from dataclasses import dataclass, replace

import numpy as np

import mixflow as mf

from .symmetry import TYPES, basis

GAUSS = 0.5 + np.array([-1, 1]) * 3**0.5 / 6
EDGE = 1e-6  # of a gate: nearer to 0 or 1 than this it is there


@dataclass(frozen=True, eq=False, kw_only=True)
class Linear:
    """Perturbations of one symmetry type along the symmetric trajectory.

    kind      (classes, heads)
    time      (T,)
    map       (T, n, n) from the perturbation's coordinates at the start to those at each time, in `basis(K, kind)`
    coupling  how far the twins' crossings are from independent: the largest change of a z' by its twins' switches, relative to z'
    slack     what no motion of the sliding gates could hold at the surface, relative to what they do hold
    """

    kind: tuple
    time: np.ndarray
    map: np.ndarray
    classes: int
    coupling: float
    slack: float

    @property
    def scores(self):
        """Which coordinates are entries of A."""
        n, K = len(self.map[0]), self.classes
        A = slice(4 * K, 4 * K + 8 * K * K)  # the place of A in a flat state
        return np.array([np.abs(row[A]).max() > 0 for row in basis(K, self.kind)], bool).reshape(n)

    @property
    def spread(self):
        """(n,) standard deviations of the coordinates at a large width, in units of ω²/√m: w 0, A 1, G √2."""
        w = np.abs(basis(self.classes, self.kind)[:, : 4 * self.classes]).max(axis=1) > 0
        return np.where(w, 0.0, np.where(self.scores, 1.0, 2**0.5))

    @property
    def growth(self):
        """(T,) root mean square of the scores' perturbation over that at the start, when the start is a large finite width's."""
        sigma, A = self.spread, self.scores
        return np.sqrt(((self.map[:, A] * sigma) ** 2).sum(axis=(1, 2)) / A.sum())

    @property
    def most(self):
        """(T,) the same for the worst start of that size: the largest singular value instead of the mean."""
        return np.linalg.norm(self.map[:, self.scores] * self.spread, ord=2, axis=(1, 2))


def linearised(task, transformer, until, kinds=TYPES, *, points=300):
    """{type: Linear} of the flow on a uniform mixture from the mean-field start to `until`; empty types are left out."""
    from scipy.linalg import expm

    points = mf.checks.whole("points", points, least=2)
    if transformer.bias <= 0 or transformer.tie_values:
        raise mf.SpecError(
            f"bias = {transformer.bias:g}, tie_values = {transformer.tie_values}: expected every neuron on at the "
            "start and "
            "values of their own; use bias > 0 and tie_values=False."
        )
    K = task.classes
    transformer = replace(transformer, width=float("inf"))
    path = Trajectory(task, transformer, float(until), points)
    bases = {kind: basis(K, kind) for kind in kinds if len(basis(K, kind))}
    together = np.concatenate(list(bases.values()))
    edges = np.cumsum([0] + [len(rows) for rows in bases.values()])
    parts = {kind: slice(a, b) for kind, (a, b) in zip(bases, itertools.pairwise(edges), strict=True)}
    maps = {kind: [np.eye(len(rows))] for kind, rows in bases.items()}
    worst = {kind: {"coupling": 0.0, "slack": 0.0} for kind in bases}
    for leg in path.legs:
        if leg.switch:
            jump = path.jump(leg, together)
            for kind, part in parts.items():
                maps[kind][-1] = jump(part, worst[kind]) @ maps[kind][-1]
        J = [path.jacobian(y, gates, leg.sliding, together) for y, gates in zip(leg.states, leg.gates, strict=True)]
        for i, h in enumerate(leg.lengths):
            for kind, part in parts.items():
                first, second = (J[2 * i + j](part, worst[kind]) for j in (0, 1))
                turn = (second @ first - first @ second) * 3**0.5 * h * h / 12
                maps[kind].append(expm((first + second) * h / 2 + turn) @ maps[kind][-1])
    return {
        kind: Linear(kind=kind, time=path.times, map=np.array(found), classes=K, **worst[kind])
        for kind, found in maps.items()
    }


@dataclass(frozen=True, eq=False, kw_only=True)
class Leg:
    """The trajectory between two switches: Gauss points of every step, and how it begins.

    lengths  (s,) of the steps
    states   (2s, size) gram states and gates (2s, 2n) at the Gauss points
    sliding  (k, 2n) which neurons slide: one row of 0 and 1 for each type of neuron
    switch   the state at the beginning with the gates before and after; empty at the very beginning
    """

    lengths: np.ndarray
    states: np.ndarray
    gates: np.ndarray
    sliding: np.ndarray
    switch: tuple


class Trajectory:
    """The symmetric solution written out in the gram model's coordinates, leg by leg."""

    def __init__(self, task, transformer, until, points):
        self.small, self.full = (
            mf.field(task, transformer, model="symmetric"),
            mf.field(task, transformer, model="gram"),
        )
        self.classes, self.neurons = task.classes, _neurons(task, self.small.gate_names)
        events = self.small.flow(mf.GradientFlow(until=until, save_at=2)).events
        switches = sorted({event.time for event in events})
        grid = mf.GradientFlow(until=until, save_at=points).times()
        near = 1e-6 * until  # a grid point this close to a switch would make a step of no length
        grid = [t for t in grid if all(abs(t - s) > near for s in switches)]
        self.times = np.array(sorted([*grid, *switches]))
        inner = self.times[:-1, None] + np.diff(self.times)[:, None] * GAUSS
        wanted = sorted([*inner.ravel(), *switches])
        saved = self.small.flow(mf.GradientFlow(until=until, save_at=tuple(wanted)))
        at = dict(zip(wanted, saved.states, strict=True))
        self.legs = list(self._legs(events, switches, inner, at))

    def _legs(self, events, switches, inner, at):
        mode = np.array(["on"] * len(self.small.gate_names), "U7")
        begins = [self.times[0], *switches]
        for begin, end in itertools.zip_longest(begins, begins[1:], fillvalue=np.inf):
            switch = ()
            if begin in switches:
                before = self._gates(at[begin], mode)
                for event in events:
                    if event.time == begin:
                        mode[event.gate] = event.after
                switch = (self._write_out(at[begin]), before, self._gates(at[begin], mode))
            steps = np.flatnonzero((self.times[:-1] >= begin) & (self.times[:-1] < end))
            states = [at[t] for t in inner[steps].ravel()]
            yield Leg(
                lengths=np.diff(self.times)[steps],
                states=np.array([self._write_out(y) for y in states]),
                gates=np.array([self._gates(y, mode) for y in states]),
                sliding=np.array([self.neurons == i for i in np.flatnonzero(mode == "sliding")], float),
                switch=switch,
            )

    def _write_out(self, y):
        return self.small.expand(y)

    def _gates(self, y, mode):
        """(2n,) gates of the gram model's neurons: those of the symmetric model's types."""
        gates = (mode == "on").astype(float)
        sliding = np.flatnonzero(mode == "sliding")
        if len(sliding):
            gates[sliding] = self.small.shares(y, gates, sliding)
        return gates[self.neurons]

    def jacobian(self, y, gates, sliding, rows):
        """J in any part of the basis `rows`: a function (part, worst) -> (n, n)."""
        if not len(sliding):
            J = rows @ self.full.derivatives.field(y, gates, rows).T
            return lambda part, worst: J[part, part]
        speed, shift, drift = self.full.derivatives.sliding(y, gates, rows)
        J, held = rows @ speed.T, sliding.any(axis=0)
        push = self._push(y, gates, shift, sliding, rows)

        def inside(part, worst):
            C = push(part)
            answer, left = _held(shift[part][:, held].T @ C, drift[part][:, held].T)
            worst["slack"] = max(worst["slack"], left)
            return J[part, part] - C @ answer

        return inside

    def jump(self, leg, rows):
        """What a switch does to a perturbation: a function (part, worst) -> (n, n)."""
        y, before, after = leg.switch
        shift, speed = self.full.derivatives.shift(y, rows), self.full.derivatives.speed(y, before)
        held = leg.sliding.any(axis=0) if len(leg.sliding) else np.zeros(len(after), bool)
        # From 0 to 1 or back is a crossing; a neuron that leaves the surface does so with a gate of 0 or 1 already.
        crossed = (np.abs(before - after) > 1 - EDGE) & ~held
        late = np.zeros(shift.shape)
        late[:, crossed] = -shift[:, crossed] / speed[crossed]
        effect = rows @ self.full.derivatives.push(y, before, late * (before - after)).T
        coupling = self._coupling(y, before, after, crossed, speed)
        push = self._push(y, after, shift, leg.sliding, rows) if len(leg.sliding) else None

        def inside(part, worst):
            one = np.eye(part.stop - part.start)
            worst["coupling"] = max(worst["coupling"], coupling)
            crossing = one + effect[part, part]
            if push is None:
                return crossing
            C, Z = push(part), shift[part][:, held].T
            answer, left = _held(Z @ C, Z)
            worst["slack"] = max(worst["slack"], left)
            return (one - C @ answer) @ crossing

        return inside

    def _push(self, y, gates, shift, sliding, rows):
        """The motions of the sliding gates that a part of the basis can ask for, as columns: a function part -> (n, k·n)."""
        pushes = [rows @ self.full.derivatives.push(y, gates, shift * mask).T for mask in sliding]
        return lambda part: np.concatenate([push[part, part] for push in pushes], axis=1)

    def _coupling(self, y, before, after, crossed, speed):
        """The change of the first crossing neuron's z' by the switches of all the others, relative to z'."""
        if not crossed.any():
            return 0.0
        first = np.flatnonzero(crossed)[0]
        twins = np.where(crossed, after - before, 0.0)
        twins[first] = 0.0
        change = self.full.derivatives.shift(y, self.full.derivatives.push(y, before, twins[None]))[0, first]
        return float(abs(change / speed[first]))


def _held(M, wanted):
    """The least-squares x of M x = wanted, and the largest part of `wanted` it misses, relative to the largest of `wanted`."""
    scale = np.abs(M).max()
    if scale < 1e-13:  # no neuron of the set moves in this type
        return np.zeros((M.shape[1], wanted.shape[1])), 0.0
    answer = np.linalg.lstsq(M, wanted, rcond=1e-9)[0]
    return answer, float(np.abs(M @ answer - wanted).max() / max(np.abs(wanted).max(), 1e-300))


def _neurons(task, gate_names):
    """(2n,) for each (head, atom) of the gram model the symmetric model's gate it belongs to."""
    place = {name: i for i, (_, name) in enumerate(gate_names)}
    population, K = task.population(), task.classes
    found = []
    for head in (1, -1):
        for atom, label in zip(population.atoms, population.labels, strict=True):
            positive = sum(sign > 0 for name, sign in atom if name.startswith("v"))
            y, n = int(label), positive - (label > 0)
            if head < 0:  # z_-(y, n) = z_+(−y, K−1−n)
                y, n = -y, K - 1 - n
            found.append(place[f"y={'+' if y > 0 else '-'} n={n}"])
    return np.array(found)
