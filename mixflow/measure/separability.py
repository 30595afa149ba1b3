"""How well the attention-averaged features separate the labels: the exact maximum margin (docs/mathematics.md §5–6).

A head can only use its neuron on its attention-averaged features φ_h(a), `z_h(a) = b + φ_h(a)·w_h` with b fixed. So

    one head     max over ‖w‖ = 1 of the smallest y_a ⟨φ_h(a), w⟩ among the samples;
    both heads   the same for ψ(a) = (φ_+(a), −φ_-(a)) and w = (w_+, w_-); with more of each, for all of them side by side.

The joint form is the network itself while every neuron is active: there b cancels and `F = ψ·w`, and with b > 0 a short
enough w keeps every neuron active. Hence **the attention features are linearly separable** (joint margin > 0) exactly
when some w makes every one of these samples right with all neurons on; that is the sense in which stage 2 must prepare
stage 3. A free intercept is not allowed because b is not trained. Norms and products are those of R^d: for features
with Gram matrix Γ, ⟨φ, φ'⟩ = φᵀ Γ φ' in feature coordinates.

"Hard" is the paper's question for K = 2, where uniform attention gives exactly 0. For K = 3 the hard samples alone are
separable from the start by voting against the majority (w = −Σ v), which gets the easy ones wrong: for K ≥ 3 ask for
samples="all", where uniform attention gives 0 for every K ≥ 2.

By duality the margin is the distance from the origin to the convex hull of the points y_a φ(a), a least-squares problem
with non-negative weights, solved by Lawson and Hanson's active-set method and polished to rounding. (SLSQP on the
primal is three to six times slower and wrong by 1e-10 on a margin of 1e-6; HiGHS decides only whether it is positive.)
The margin is 0, never negative, when the samples are not separable: the origin is then in the hull.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..checks import array, one_of
from ..engines.forward import CHUNK, features
from ..errors import SpecError
from ..networks.initial import embedding
from ..networks.readout import asking
from ..tasks.entries import flags
from ..tasks.finite import finite_population
from .observables import identifiers

if TYPE_CHECKING:
    from ..networks.transformer import Transformer
    from ..tasks.finite import FiniteTask
    from ..types import Array


@dataclass(frozen=True)
class Separation:
    """A maximum margin with its two-sided certificate.

    margin     min_a y_a ⟨φ(a), w⟩ reached by `separator`; 0 if no separator exists
    upper      length of the convex combination `weights` of the points y_a φ(a): no unit w does better
    separator  unit vector w in the coordinates of the points, or zeros if not separable
    weights    (n,) convex weights; positive on the support samples
    """

    margin: float
    upper: float
    separator: np.ndarray
    weights: np.ndarray

    @property
    def separable(self):
        return self.margin > 0


# Rounding of points of length 1 moves the hull by about 1e-16 √d; below this a margin says nothing.
ROUNDING = 1e-14
GAP = 4e-15  # between the margin reached and its upper bound, for points of length 1: a dozen roundings


def max_margin(points: Array, labels: Array) -> Separation:
    """The exact maximum margin of points (n, d) with labels ±1 (n,) by a hyperplane through the origin."""
    from scipy.optimize import nnls

    points, labels = array("points", points), array("labels", labels)
    if labels.ndim != 1 or len(labels) != len(np.atleast_1d(points)):
        raise SpecError(f"labels has shape {labels.shape}: expected one label for each of the points {points.shape}.")
    if not np.isfinite(points).all() or not np.isfinite(labels).all():
        raise SpecError("points and labels hold NaN or infinity: expected finite numbers.")
    if points.ndim != 2 or points.size == 0:
        raise SpecError(f"points has shape {np.shape(points)}: expected (n, d) with n ≥ 1; choose samples that exist.")
    X = points * labels[:, None]
    n, d = X.shape
    size = np.linalg.norm(X, axis=1).max()
    if size == 0:
        return Separation(0.0, 0.0, np.zeros(d), np.full(n, 1 / n))
    X = X / size
    # min ‖Xᵀα‖² + (Σα − 1)² over α ≥ 0: for α = tβ, Σβ = 1, its minimum over t is ‖Xᵀβ‖²/(1 + ‖Xᵀβ‖²), increasing in
    # ‖Xᵀβ‖, so β is the hull's point nearest to the origin.
    alpha, _ = nnls(np.vstack([X.T, np.ones(n)]), np.append(np.zeros(d), 1.0), maxiter=30 * (n + d))
    beta = alpha / alpha.sum()
    upper = np.linalg.norm(X.T @ beta)
    if upper > ROUNDING:
        w, beta = _polish(X, beta)
        reached, upper = (X @ w).min(), np.linalg.norm(X.T @ beta)
        if reached > ROUNDING:
            return Separation(float(reached * size), float(upper * size), w, beta)
    return Separation(0.0, float(upper * size), np.zeros(d), beta)


def _polish(X, beta, rounds=50):
    """The best unit separator w, and its convex weights, by active-set rounds on the primal from the support found.

    The nearest point p = Xᵀβ is a separator itself, but cancellation leaves it a relative error of 1e-16/‖p‖, and the
    solver's optimality test sees ‖p‖², so a margin of 1e-6 is known to 1e-10. Asking the support for equal products,
    X_S w = 1, loses only 1e-16 in the margin however small that is; a support point with a negative multiplier leaves,
    a violated point enters.
    """
    S = np.flatnonzero(beta > 0)
    p = X.T @ beta
    best, weights = p / np.linalg.norm(p), beta
    for _ in range(rounds):
        if np.linalg.norm(X.T @ weights) - (X @ best).min() <= GAP:
            break
        w = np.linalg.lstsq(X[S], np.ones(len(S)), rcond=None)[0]  # ‖w‖ = 1/margin of the support
        multiplier = np.linalg.lstsq(X[S].T, w, rcond=None)[0]
        if len(S) > 1 and multiplier.min() < -1e-12 * multiplier.max():
            S = np.delete(S, multiplier.argmin())
            continue
        unit = w / np.linalg.norm(w)
        products = X @ unit
        if products.min() > (X @ best).min():
            best, weights = unit, np.zeros(len(X))
            weights[S] = np.maximum(multiplier, 0) / np.maximum(multiplier, 0).sum()
        worst = products.argmin()
        if worst in S:
            break
        S = np.append(S, worst)
    return best, weights


def deciding(task: FiniteTask) -> str:
    """The samples whose separation says whether the task can be learned: "hard" for two classes, "all" for any other number.

    For K = 2 that is the paper's question. From K = 3 on voting against the majority separates the hard samples from the start
    (above), so all are asked for.
    """
    return "hard" if identifiers(task).sum() == 2 else "all"


def no_margin(task: FiniteTask, heads: int) -> str | None:
    """Why separability means nothing for a task and so many heads, or None."""
    if task.loss in ("softmax", "squared"):
        return f"feature_margin is about labels +1 and -1, but the task has loss = {task.loss!r}"
    if heads % 2:
        return f"feature_margin is about as many heads + as -, but the network has {heads}"
    return None


def feature_margin(
    task: FiniteTask, A: Array, *, samples: str = "hard", heads: str = "both", network: Transformer | None = None
) -> Array:
    """Maximum margin of the attention-averaged features along a trajectory: (...,) from A (..., head, F, F).

    samples  "hard", "easy", "all" or n booleans; NaN if the task has none of the kind
    heads    "both" (joint, the network's own margin), "+" or "-" (the first such head's features alone)
    network  whose queries ask; the paper's, where all tokens do and their mean is taken, if not given
    """
    task = finite_population("feature_margin", task)
    A = array("A", A, "key by query features of the task", ends=(len(task.features), len(task.features)))
    if A.ndim < 3:
        raise SpecError(f"A has shape {A.shape}: expected (..., head, F, F).")
    lead = A.shape[:-3]
    flat = A.reshape(-1, *A.shape[-3:])
    step = max(1, CHUNK // task.count.size)  # times at once: all of them need not fit in memory
    margins = np.full(len(flat), np.nan)
    for i in range(0, len(flat), step):
        points, labels = feature_points(task, flat[i : i + step], samples=samples, heads=heads, network=network)
        if len(labels):
            margins[i : i + step] = [max_margin(X, labels).margin for X in points]
    return margins.reshape(lead)[()]


def feature_points(
    task: FiniteTask, A: Array, *, samples: str = "hard", heads: str = "both", network: Transformer | None = None
) -> tuple[Array, Array]:
    """The points whose separability is asked, in orthonormal coordinates (..., n', d), and their labels (n',)."""
    one_of("heads", heads, ("both", "+", "-"))
    task, A = finite_population("feature_points", task), array("A", A)
    H = A.shape[-3] if A.ndim > 2 else 1
    if (why := no_margin(task, H)) is not None:
        fix = "a network with an even number of heads" if "heads" in why else "a task with loss='logistic'"
        raise SpecError(f"{why}; use {fix}.")
    chosen = _chosen(task, samples)
    ask = asking(network, task) if hasattr(network, "queries") else None
    phi = features(task, A, ask)[..., chosen, :] @ embedding(task).T  # (..., h, n', d)
    if heads == "both":
        points = np.concatenate([(-1) ** h * phi[..., h, :, :] for h in range(H)], axis=-1)
    else:
        points = phi[..., ("+", "-").index(heads), :, :]
    return points, task.labels[chosen]


def _chosen(task, samples):
    if isinstance(samples, str):
        one_of("samples", samples, ("hard", "easy", "all"))
        return {"hard": task.hard, "easy": ~task.hard, "all": np.ones(len(task.labels), bool)}[samples]
    chosen = samples if isinstance(samples, np.ndarray) else flags("samples", samples)
    if chosen.dtype != bool or chosen.shape != (len(task.labels),):
        raise SpecError(f"samples has shape {chosen.shape}: expected one boolean for each of {len(task.labels)} atoms.")
    return chosen
