"""Is the class-symmetric solution stable? Perturbations of the full system, by symmetry type (docs/mathematics.md §4).

The mean-field start is invariant under the permutations of the classes and the reflection of the heads (v → −v, + ↔ −), so a
perturbation splits into types that, to first order, do not mix:

    classes   "equal" (the same for every class), "unequal" (class against class: the standard representation of S_K) and
              "pairs" (the rest: particular pairs of classes; it needs K ≥ 3 for matrices, and is empty for K = 2)
    heads     "mirror" (reflected heads stay reflected) or "apart"

Two independent measurements of the growth of a type:
`tangent`  the linearised field, δ' = J(t) δ, along the symmetric trajectory, inside the modes;
`growth`   two flows from starts a small finite distance apart, which also sees the neurons switch at different times;
`descent_growth`  the same by descent, all types at once in the lanes of one program. It is the only one that goes through
                  the many simultaneous sliding neurons of K ≥ 4, at the price of larger perturbations (descent flips a
                  sliding neuron at every step, which moves the scores by about 1e-4).
"""

import itertools
from dataclasses import replace
from functools import lru_cache

import numpy as np

from ..dynamics.descent import descend
from ..dynamics.flow import GradientFlow, flow
from ..dynamics.gates import ChatteringError
from ..jaxed import jax
from ..models.gated import pack
from ..models.gram import Gram
from ..models.gram_field import gram_field
from .critical import gates_at

CLASSES, HEADS = ("equal", "unequal", "pairs"), ("mirror", "apart")
TYPES = tuple(itertools.product(CLASSES, HEADS))
SIZE = 1e-5  # of the perturbation relative to ω²: far above the solver's 1e-10 and far below 1


def project(parts, K, kind):
    """The part of (w, A, G_K, G_Q) that has the given type (classes, heads); w (2, 2K), matrices (2, 2K, 2K)."""
    classes, heads = kind
    return {name: _heads(_classes(x, K, classes), K, heads) for name, x in parts.items()}


def _heads(x, K, heads):
    sign = np.repeat([1.0, -1.0], K)
    mirrored = x[::-1] * (sign if x.ndim == 2 else np.outer(sign, sign))
    return (x + mirrored) / 2 if heads == "mirror" else (x - mirrored) / 2


@lru_cache(maxsize=8)
def _group(K):
    """Every permutation of the classes acting on the 2K features, and its number of fixed classes."""
    permutations = np.array(list(itertools.permutations(range(K))))
    return np.concatenate([permutations, K + permutations], axis=1), (permutations == np.arange(K)).sum(axis=1)


def _classes(x, K, classes):
    """The projection Σ_g χ(g) g·x · dim/|S_K| on a representation with character χ; "pairs" is what the others leave."""
    moves, fixed = _group(K)
    moved = x[:, moves] if x.ndim == 2 else x[:, moves[:, :, None], moves[:, None, :]]  # (2, |S_K|, …)
    average = lambda weight: np.tensordot(weight / len(moves), moved.swapaxes(0, 1), 1)  # noqa: E731
    equal = average(np.ones(len(moves)))
    if classes == "equal":
        return equal
    unequal = average((K - 1.0) * (fixed - 1))
    return unequal if classes == "unequal" else x - equal - unequal


def perturbation(K, omega, kind, seed):
    """A random direction of the type; None if it is empty. Its statistics are those of a large finite width: entries of A and
    off-diagonal entries of G have one variance, diagonal entries of G twice that, w = 0. The largest entry is SIZE·ω².
    """
    rng = np.random.default_rng(seed)
    A, X, Y = rng.standard_normal((3, 2, 2 * K, 2 * K))
    T = lambda M: M.swapaxes(1, 2)  # noqa: E731
    parts = {"w": np.zeros((2, 2 * K)), "A": A, "G_K": (X + T(X)) / 2**0.5, "G_Q": (Y + T(Y)) / 2**0.5}
    parts = project(parts, K, kind)
    largest = max(np.abs(x).max() for x in parts.values())
    if largest < 1e-9:
        return None
    return {name: SIZE * omega**2 * x / largest for name, x in parts.items()}


def size(parts):
    """The root mean square of the scores' perturbation, over time if the arrays have it first."""
    A = parts["A"]
    return np.sqrt((A**2).mean(axis=(-3, -2, -1)))


def growth(task, transformer, kind, times, *, seed=0, rtol=1e-10, scale=1.0):
    """‖δA(t)‖ / ‖δA(0)‖ at `times` by two flows a small distance apart, NaN after a flow stopped; None if the type is empty."""
    K = task.classes
    delta = perturbation(K, transformer.omega, kind, seed)
    if delta is None:
        return None
    field = gram_field(task, replace(transformer, width=float("inf")))
    method = GradientFlow(until=float(times[-1]), rtol=rtol, save_at=tuple(map(float, times)))
    base = symmetric_states(task, transformer, method)
    try:
        there = flow(field, field.y0 + scale * pack(**delta), method)
    except (
        ChatteringError
    ) as stopped:  # neurons that switch together in the symmetric run may not untangle; keep what is there
        there = stopped.run
    ratio = np.full(len(times), np.nan)
    found = field.unpack(there.states)["A"]
    ratio[: len(found)] = size({"A": found - base["A"][: len(found)]}) / (scale * size(delta))
    return ratio


def descent_growth(task, transformer, steps, *, learning_rate=0.1, saves=12, scale=1e3, seed=0):
    """{type: ‖P δA(t)‖ / ‖P δA(0)‖} and the times, by descent; P projects on the type, `scale` multiplies SIZE."""
    K = task.classes
    engine = Gram(task.population())
    network = replace(transformer, width=float("inf"))
    base = engine.start(network)
    deltas = {kind: perturbation(K, transformer.omega, kind, seed) for kind in TYPES}
    deltas = {kind: delta for kind, delta in deltas.items() if delta is not None}
    starts = [base] + [{name: base[name] + scale * delta[name] for name in base} for delta in deltas.values()]
    rate = np.full(engine.lanes, learning_rate)
    padded = starts + [base] * (engine.lanes - len(starts))
    every = max(1, steps // saves)
    history = descend(engine, padded, engine.parameters([network] * engine.lanes, rate, rate), steps, every)
    A = [engine.unstack(history.saved, lane)["A"] for lane in range(len(starts))]
    found = {}
    for lane, (kind, delta) in enumerate(deltas.items(), start=1):
        part = np.array([size(project({"A": x}, K, kind)) for x in A[lane] - A[0]])
        found[kind] = part / (scale * size(delta))
    return found, learning_rate * np.array(history.steps)


def symmetric_states(task, transformer, method):
    """The symmetric trajectory in feature coordinates, kept for the next perturbation."""
    key = (task.classes, transformer.omega, transformer.bias, transformer.tie_values, method)
    if key not in _bases:
        field = gram_field(task, replace(transformer, width=float("inf")))
        result = flow(field, field.y0, method)
        _bases.clear()
        _bases[key] = field.unpack(result.states)
    return _bases[key]


_bases = {}


def tangent(task, transformer, kind, times, *, seed=0, substeps=4):
    """‖δA(t)‖ / ‖δA(0)‖ of the linearised field along the symmetric trajectory, modes' gates held; None if the type is empty.

    Runge and Kutta's method on δ' = J δ between the `times`, with the trajectory itself saved at every half step.
    """
    K = task.classes
    delta = perturbation(K, transformer.omega, kind, seed)
    if delta is None:
        return None
    field = gram_field(task, replace(transformer, width=float("inf")))
    fine = np.concatenate([np.linspace(a, b, 2 * substeps, endpoint=False) for a, b in itertools.pairwise(times)])
    fine = np.append(fine, times[-1])
    method = GradientFlow(until=float(fine[-1]), save_at=tuple(map(float, fine)))
    states = flow(field, field.y0, method).states
    gates = np.array([gates_at(field, y) for y in states])
    path = _variation(field)(field.device, states, gates, np.diff(fine)[::2] * 2, pack(**delta))
    path = field.unpack(np.asarray(path)[::substeps])
    return size(path) / size(delta)


def _variation(field):
    J = jax()
    jnp, evaluate, nobody = J.numpy, field.functions[1], field.put_indices(())
    velocity = lambda c, y, gates: evaluate(c, y, gates, *nobody).dy  # noqa: E731

    def run(c, states, gates, steps, delta):
        def slope(i, d):
            return J.jvp(lambda y: velocity(c, y, gates[i]), (states[i],), (d,))[1]

        def advance(d, item):
            i, h = item
            k1 = slope(i, d)
            k2 = slope(i + 1, d + h / 2 * k1)
            k3 = slope(i + 1, d + h / 2 * k2)
            k4 = slope(i + 2, d + h * k3)
            d = d + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
            return d, d

        index = jnp.arange(0, 2 * len(steps), 2)
        _, path = J.lax.scan(advance, delta, (index, steps))
        return jnp.concatenate([delta[None], path])

    return J.jit(run)


def asymmetry(A, K):
    """{type: root mean square of that type's part of the scores} of one state A (2, 2K, 2K)."""
    return {kind: float(size(project({"A": A}, K, kind))) for kind in TYPES}


def seed_growth(task, first, last):
    """{type: asymmetry after / before} of finite-width runs, (run,) each; `first`, `last` are their A (run, 2, 2K, 2K).

    "equal, mirror" is left out: the symmetric solution itself moves there.
    """
    before, after = ([asymmetry(A, task.classes) for A in states] for states in (first, last))
    kinds = [kind for kind in TYPES if kind != TYPES[0] and before[0][kind] > 1e-12]
    return {kind: np.array([b[kind] / a[kind] for a, b in zip(before, after, strict=True)]) for kind in kinds}
