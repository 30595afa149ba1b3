"""How well the attention-averaged features separate the labels: the exact maximum margin (docs/mathematics.md §5–6).

A head can only use its neuron on its attention-averaged features φ_h(a), `z_h(a) = b + φ_h(a)·w_h` with b fixed. So

    one head     max over ‖w‖ = 1 of the smallest y_a ⟨φ_h(a), w⟩ among the samples;
    both heads   the same for ψ(a) = (φ_+(a), −φ_-(a)) and w = (w_+, w_-).

The joint form is the network itself while every neuron is active: there b cancels and `F = ψ·w`, and with b > 0 a short
enough w keeps every neuron active. Hence **the attention features are linearly separable** (joint margin > 0) exactly
when some w makes every one of these samples right with all neurons on; that is the sense in which stage 2 must prepare
stage 3. A free intercept is not allowed because b is not trained. Norms and products are those of R^d: for
features with Gram matrix Γ, ⟨φ, φ'⟩ = φᵀ Γ φ' in feature coordinates.

By duality the margin is the distance from the origin to the convex hull of the points y_a φ(a), a least-squares problem
with non-negative weights, solved to rounding by Lawson and Hanson's active-set method (SLSQP on the primal is three to six times
slower and wrong by 1e-10 on a margin of 1e-6; HiGHS decides only whether it is positive). The margin is 0, never negative,
when the samples are not separable (the origin is in the hull).
"""

from dataclasses import dataclass

import numpy as np

from ..checks import one_of
from ..errors import SpecError
from ..models.forward import features
from ..models.transformer import embedding


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


def max_margin(points, labels):
    """The exact maximum margin of points (n, d) with labels ±1 (n,) by a hyperplane through the origin."""
    from scipy.optimize import nnls

    X = np.asarray(points, float) * np.asarray(labels, float)[:, None]
    if X.ndim != 2 or len(X) == 0:
        raise SpecError(f"points has shape {np.shape(points)}: expected (n, d) with n ≥ 1; choose samples that exist.")
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
        w, reached = _separator(X, beta)
        if reached > ROUNDING:
            return Separation(float(reached * size), float(upper * size), w, beta)
    return Separation(0.0, float(upper * size), np.zeros(d), beta)


def _separator(X, beta):
    """The better of two unit separators for the support found: (w, smallest X w).

    The nearest point p = Xᵀβ itself is a separator, but cancellation leaves it a relative error of 1e-16/‖p‖. Asking the
    support points for equal products, X_S w = 1, loses only 1e-16 in the margin however small that is: for the K = 2 run
    at t = 13 the gap to `upper` falls from 9e-11 to 5e-17 on a margin of 1e-6. p stays in for degenerate supports.
    """
    support = X[beta > 0]
    candidates = [X.T @ beta, np.linalg.lstsq(support, np.ones(len(support)), rcond=None)[0]]
    units = [w / np.linalg.norm(w) for w in candidates if np.linalg.norm(w) > 0]
    best = max(units, key=lambda w: (X @ w).min())
    return best, (X @ best).min()


def feature_margin(task, A, *, samples="hard", heads="both"):
    """Maximum margin of the attention-averaged features along a trajectory: (...,) from A (..., head, F, F).

    samples  "hard", "easy", "all" or n booleans; NaN if the task has none of the kind
    heads    "both" (joint, the network's own margin), "+" or "-" (that head's features alone)
    """
    task = task.population()
    points, labels = feature_points(task, A, samples=samples, heads=heads)
    lead = points.shape[:-2]
    if not len(labels):
        return np.full(lead, np.nan)
    flat = points.reshape(-1, *points.shape[-2:])
    return np.array([max_margin(X, labels).margin for X in flat]).reshape(lead)


def feature_points(task, A, *, samples="hard", heads="both"):
    """The points whose separability is asked, in orthonormal coordinates (..., n', d), and their labels (n',)."""
    one_of("heads", heads, ("both", "+", "-"))
    task = task.population()
    chosen = _chosen(task, samples)
    phi = features(task, A)[..., chosen, :] @ embedding(task).T  # (..., h, n', d)
    plus, minus = phi[..., 0, :, :], phi[..., 1, :, :]
    points = {"both": lambda: np.concatenate([plus, -minus], axis=-1), "+": lambda: plus, "-": lambda: minus}[heads]()
    return points, task.labels[chosen]


def _chosen(task, samples):
    if isinstance(samples, str):
        one_of("samples", samples, ("hard", "easy", "all"))
        return {"hard": task.hard, "easy": ~task.hard, "all": np.ones(len(task.labels), bool)}[samples]
    chosen = np.asarray(samples)
    if chosen.dtype != bool or chosen.shape != (len(task.labels),):
        raise SpecError(f"samples has shape {chosen.shape}: expected one boolean for each of {len(task.labels)} atoms.")
    return chosen
