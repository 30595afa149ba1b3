"""The transformer as a specification: width, initial scale, bias, seed (docs/mathematics.md §2)."""

import math
from dataclasses import dataclass

import numpy as np

from ..checks import flag, real, whole
from ..errors import SpecError

WIDTH_LIMIT = 10**7  # the start draws 4·m·d numbers; at this width it differs from the mean-field limit by 3e-4


@dataclass(frozen=True)
class Transformer:
    """The symmetric two-headed transformer with ReLU neurons, before training.

    width       m, rows of W_K and W_Q in each head; math.inf is the mean-field limit
    omega       ω, scale of the initial W_K, W_Q: entries are N(0, ω²/m)
    bias        b, fixed
    tie_values  force w_- = -w_+ (one shared vector, so its gradient is the difference of the heads' gradients)
    seed        of the initial weights; unused at infinite width
    dimension   d ≥ the rank of the features; the smallest possible if not given. Only model="full" spends anything on it.

    Raises SpecError for a width below 1 or above ten million, a negative ω, or numbers that are not finite.

    >>> Transformer(width=math.inf, omega=0.3).mean_field
    True
    """

    width: float = math.inf
    omega: float = 0.3
    bias: float = 0.5
    tie_values: bool = False
    seed: int = 0
    dimension: int | None = None

    def __post_init__(self):
        put = lambda name, value: object.__setattr__(self, name, value)  # noqa: E731 (the dataclass is frozen)
        if self.width != math.inf:
            put("width", whole("width", self.width, most=WIDTH_LIMIT, fix="or math.inf for the mean-field limit"))
        put("omega", real("omega", self.omega, least=0, most=1e6, fix="the paper takes 0 < omega < 1"))
        put("bias", real("bias", self.bias))
        flag("tie_values", self.tie_values)
        put("seed", whole("seed", self.seed, least=0))
        if self.dimension is not None:
            put("dimension", whole("dimension", self.dimension))

    @property
    def mean_field(self):
        """Whether the width is infinite."""
        return self.width == math.inf

    def spec(self):
        """A JSON-ready description from which `from_spec` builds an equal transformer."""
        width = "inf" if self.mean_field else self.width
        return {
            "width": width,
            "omega": self.omega,
            "bias": self.bias,
            "tie_values": self.tie_values,
            "seed": self.seed,
            "dimension": self.dimension,
        }

    @classmethod
    def from_spec(cls, spec):
        return cls(**{**spec, "width": math.inf if spec["width"] == "inf" else spec["width"]})


def embedding(task, dimension=None):
    """Φ, shape (d, F): feature vectors with Φᵀ Φ = Γ, in the first F coordinates (d ≥ F unless Γ has low rank).

    The symmetric square root of Γ, so that orthonormal features are simply the first basis vectors.
    """
    F = len(task.features)
    values, vectors = np.linalg.eigh(task.gram)
    rank = int(np.sum(values > 1e-12 * max(values[-1], 1e-300)))
    d = F if dimension is None else dimension
    if d < rank:
        raise SpecError(f"dimension = {d}: expected at least {rank}, the rank of the features' Gram matrix.")
    if np.array_equal(task.gram, np.eye(F)):
        root = np.eye(F)
    elif d >= F:
        root = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
    else:
        root = (vectors * np.sqrt(np.maximum(values, 0))).T[F - d :]
    Phi = np.zeros((d, F))
    Phi[: len(root)] = root
    return Phi


def draw_weights(transformer, task, heads=None, deviation=None):
    """Initial W_K, W_Q, each (head, m, d), entries N(0, ω²/m), or of the standard deviation given; the task's heads unless
    their number is given.

    The first F columns are drawn first, so that d > F changes nothing that training can see.
    """
    m, heads = transformer.width, len(task.heads) if heads is None else heads
    Phi = embedding(task, transformer.dimension)
    d = len(Phi)
    F = min(d, len(task.features))
    rng = np.random.default_rng(transformer.seed)
    scale = transformer.omega / math.sqrt(m) if deviation is None else deviation
    seen = rng.standard_normal((2, heads, m, F))
    rest = rng.standard_normal((2, heads, m, d - F))
    W_K, W_Q = scale * np.concatenate([seen, rest], axis=-1)
    return W_K, W_Q


def start(transformer, task):
    """The initial Gram state of each head in feature coordinates: w (H, F), A, G_K, G_Q (H, F, F) (docs/mathematics.md §3)."""
    F, H = len(task.features), len(task.heads)
    if transformer.mean_field:
        G = np.broadcast_to(transformer.omega**2 * task.gram, (H, F, F)).copy()
        return {"w": np.zeros((H, F)), "A": np.zeros((H, F, F)), "G_K": G, "G_Q": G.copy()}
    Phi = embedding(task, transformer.dimension)
    W_K, W_Q = (W @ Phi for W in draw_weights(transformer, task))
    inner = lambda X, Y: np.einsum("hmi,hmj->hij", X, Y)  # noqa: E731
    return {"w": np.zeros((H, F)), "A": inner(W_K, W_Q), "G_K": inner(W_K, W_K), "G_Q": inner(W_Q, W_Q)}
