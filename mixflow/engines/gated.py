"""The gated field: the velocity of (w, A, G_K, G_Q) as a linear function of ReLU gates in [0, 1] (docs/mathematics.md §3, §7).

A ReLU network's gradient flow is smooth once every neuron's gate is fixed, so the flow solver wants a field that takes
the gates as an argument. Two models supply one, `gram_field` (any finite task) and `symmetric_field` (any K): each
gives its own z(w, A) as a JAX function plus a few constants, and everything else is stated here once.

    state   y = (w, A, G_K, G_Q) flat, float64; H blocks (2 heads or sectors, C heads for C classes) of f×f matrices
    gates   Hn numbers, one for each entry of an (H, n) table whose columns are samples. Two rows decide the margin
            label · (ReLU z[0] − ReLU z[1]); gate i enters the loss gradient as  r_i · gate_i · ∇z_i
    field   y' = move(Σ_i r_i gate_i ∇z_i),  where `move` applies the lines of §3 and is linear
    B       z' = B gates,  B_ij = −N_ij r_j,  N = the neural-tangent Gram matrix of the z (symmetric, semi-definite)

A gate with r > 0 pushes its own neuron off and can slide; a gate with r < 0 pushes it on and cannot.
"""

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from ..checks import real
from ..filippov import Field, solve
from ..filippov.field import RIDGE, Evaluation, padded
from ..jaxed import jax as configured
from ..jaxed import jit
from . import loss as losses

SMALL = 4096  # multiplications in one matrix product


@dataclass(frozen=True, eq=False, kw_only=True)
class GatedField:
    """One model's gated field; built by `gram_field` or `symmetric_field`.

    model      "gram" or "symmetric"
    surface    z(numpy or jax.numpy, constants, w, A) -> (..., H, n); part of the compilation key
    constants  what `surface` reads, with label (n,), weight (n,), metric_w, rate (H,) and Gamma (or None for identity)
    shape_w    the shape of w in `unpack`: (H, F) or (2,)
    size       f, the side of A, G_K, G_Q
    y0         the start
    gate_names Hn pairs (head, atom)
    loss_kind  "logistic", "squared" or "softmax"
    loss_weight  factor from Σ weight · loss of a sample to the loss
    """

    model: str
    surface: object
    constants: dict
    shape_w: tuple
    size: int
    y0: np.ndarray
    gate_names: tuple
    loss_kind: str = "logistic"
    loss_weight: float = 1.0
    train_w: bool = True
    train_attention: bool = True
    device: dict = field(init=False, repr=False)  # the constants as device arrays
    functions: tuple = field(init=False, repr=False)  # z and evaluate for JAX to compile, evaluate compiled
    field: Field = field(init=False, repr=False)  # what the solver of `filippov` follows

    def __post_init__(self):
        def put(name, value):  # the dataclass is frozen
            object.__setattr__(self, name, value)

        put("device", configured().tree.map(configured().numpy.asarray, self.constants))
        put("functions", _evaluation(self.surface, self.shape_w, self.size, self.loss_kind))
        z, evaluate, _, velocity = self.functions
        put("field", Field(velocity=velocity, surface=z, gates=self.gate_names, constants=self.device, y0=self.y0,
                           evaluate=evaluate, checks=self.checks))  # fmt: skip

    @property
    def n_gates(self):
        return len(self.gate_names)

    def unpack(self, Y):
        """w, A, G_K, G_Q of one state (size,) or many (..., size), by name."""
        Y = np.asarray(Y)
        f, nw, H = self.size, int(np.prod(self.shape_w)), self.shape_w[0]
        lead, block = Y.shape[:-1], H * f * f
        parts = {"w": Y[..., :nw].reshape(*lead, *self.shape_w)}
        for i, name in enumerate(("A", "G_K", "G_Q")):
            parts[name] = Y[..., nw + i * block : nw + (i + 1) * block].reshape(*lead, H, f, f)
        return parts

    def z(self, Y):
        """(..., Hn) pre-activations of one state or many."""
        parts = self.unpack(np.asarray(Y, float))
        with np.errstate(over="ignore", invalid="ignore"):  # a state beyond float64 gives NaN, which the flow reports
            z = self.surface(np, self.constants, parts["w"], parts["A"])
        return z.reshape(*z.shape[:-2], -1)

    def loss(self, Y):
        """(...) population loss of one state or many."""
        on, labels = np.maximum(self.z(Y), 0), np.asarray(self.constants["label"])
        each = losses.cost(self.loss_kind, labels, on.reshape(*on.shape[:-1], -1, len(labels)))
        return self.loss_weight * each @ np.asarray(self.constants["weight"])

    def velocity(self, y, gates):
        """y' for any gates (Hn,) in [0, 1], linear in them at fixed margins; a gate that is not 1 counts as sliding or off.

        This is the plain statement of the field; the solver compiles `evaluate` into its steps.
        """
        return np.asarray(self.functions[2](self.device, y, np.asarray(gates, float), *self.put_indices(())).dy)

    def B(self, y, gates):
        """(Hn, Hn) with dz/dt = B gates at the margins of state y, where neurons with gate 0 count as silent."""
        index, real = self.put_indices(range(self.n_gates))
        found = self.functions[2](self.device, y, np.asarray(gates, float), index, real)
        n = self.n_gates
        return -np.asarray(found.N)[:n, :n] * np.asarray(found.r)[:n]

    def put_indices(self, indices):
        """Indices padded to 0, 4, 8, 16, …, and 1.0 where an entry is real: a few shapes serve every sliding set."""
        return padded(tuple(int(i) for i in indices))

    def checks(self, Y):
        """For a certificate: the drift of each head's or sector's conserved tr(C²), tr(C) over the states Y (k, size),
        absolute and relative to the size of the terms, and the smallest eigenvalue of [[G_K, A], [Aᵀ, G_Q]]."""
        C, found = self.invariants(Y), {}
        for name, key in (("tr C2", "tr_C2"), ("tr C", "tr_C")):
            drift = np.abs(C[name] - C[name][:1])
            found[f"drift_{key}"] = float(drift.max())
            found[f"relative_drift_{key}"] = float((drift / C[name.replace("tr", "size")]).max())
        return {**found, "smallest_eigenvalue": float(self.smallest_eigenvalue(Y).min())}

    def invariants(self, Y):
        """(..., H) each: the conserved tr(C²) and tr(C) of every head or sector, and the size of their terms (§3).

        With Γ ≠ I they read tr((Γ⁺G_K)²) − 2 tr(Γ⁺AΓ⁺Aᵀ) + tr((Γ⁺G_Q)²) and tr(Γ⁺G_K) − tr(Γ⁺G_Q): the part of
        C = W_K W_Kᵀ − W_Q W_Qᵀ inside the span of the features, conserved since the rest of C never moves.
        """
        p = self.unpack(Y)
        Gamma = self.constants["Gamma"]
        inverse = np.eye(self.size) if Gamma is None else np.linalg.pinv(Gamma, hermitian=True)
        K, Q, A, At = (inverse @ X for X in (p["G_K"], p["G_Q"], p["A"], np.swapaxes(p["A"], -1, -2)))
        trace = lambda X: np.trace(X, axis1=-2, axis2=-1)  # noqa: E731
        squares = trace(K @ K), trace(A @ At), trace(Q @ Q)
        return {
            "tr C2": squares[0] - 2 * squares[1] + squares[2],
            "tr C": trace(K) - trace(Q),
            "size C2": squares[0] + 2 * squares[1] + squares[2],
            "size C": trace(K) + trace(Q),
        }

    def smallest_eigenvalue(self, Y):
        """(...) the smallest eigenvalue of [[G_K, A], [Aᵀ, G_Q]] over heads or sectors; never negative in exact arithmetic."""
        p = self.unpack(Y)
        At = np.swapaxes(p["A"], -1, -2)
        joint = np.concatenate(
            [np.concatenate([p["G_K"], p["A"]], axis=-1), np.concatenate([At, p["G_Q"]], axis=-1)], axis=-2
        )
        return np.linalg.eigvalsh(joint)[..., 0].min(axis=-1)


def product(xp, X, Y):
    """X @ Y. A small product that JAX compiles is written as sums: XLA cannot merge a call of its matrix product with the
    arithmetic around it, and for matrices this small the calls would be most of the time."""
    if xp is np or X.shape[-2] * X.shape[-1] * Y.shape[-1] > SMALL:
        return X @ Y
    return xp.sum(X[..., :, :, None] * Y[..., None, :, :], axis=-2)


def pack(w, A, G_K, G_Q):
    """The flat state y of its named parts."""
    return np.concatenate([np.ravel(part) for part in (w, A, G_K, G_Q)]).astype(float)


def _solve(N, v):
    """N⁻¹ v for a definite N. Up to 4 rows by elimination written out, a tenth of the time of a call to LAPACK."""
    jnp = configured().numpy
    n = len(v)
    if n > 4:
        return jnp.linalg.solve(N, v)
    rows = [[N[i, j] for j in range(n)] + [v[i]] for i in range(n)]
    for i in range(n):  # a definite matrix needs no pivoting
        rows[i] = [x / rows[i][i] for x in rows[i]]
        for k in range(n):
            if k != i:
                rows[k] = [x - rows[k][i] * p for x, p in zip(rows[k], rows[i], strict=True)]
    return jnp.stack([row[n] for row in rows])


@lru_cache(maxsize=64)
def _evaluation(surface, shape_w, f, kind):
    """The function behind every call of one model; constants are arguments, so tasks of equal shapes share a compilation."""
    jax = configured()
    jnp = jax.numpy
    nw, H = int(np.prod(shape_w)), shape_w[0]
    block = H * f * f

    def split(y):
        w, rest = y[:nw], y[nw:]
        return w, *(rest[i * block : (i + 1) * block].reshape(H, f, f) for i in range(3))

    def residual(c, z, gates):
        # r_i = ∂loss/∂(ReLU z_i). A neuron that is off or sliding adds nothing, whichever side of 0 a trial step puts
        # it on: the field of a mode is then smooth across the mode's end, where its solver must be able to look.
        active = (jnp.where(gates == 1, z, 0)).reshape(-1, len(c["label"]))
        if kind != "logistic":
            return (c["weight"] * losses.slope(kind, c["label"], active)).ravel()
        pull = c["weight"] * jax.nn.sigmoid(-c["label"] * (active[0] - active[1])) * c["label"]
        return jnp.concatenate([-pull, pull])

    def move(c, y, g_w, g):
        # The lines of §3 (and of §8 for Γ ≠ I); `rate` is 0 for frozen attention, `metric_w` for frozen neurons.
        _, A, G_K, G_Q = split(y)
        g = c["rate"][:, None, None] * g
        Gg, gG = (g, g) if c["Gamma"] is None else (c["Gamma"] @ g, g @ c["Gamma"])
        T = lambda X: jnp.swapaxes(X, -1, -2)  # noqa: E731
        dA = product(jnp, G_K, gG) + product(jnp, Gg, G_Q)
        dK = product(jnp, Gg, T(A))
        dQ = product(jnp, T(A), gG)
        parts = (jnp.sum(c["metric_w"] * g_w, axis=-1), dA, dK + T(dK), dQ + T(dQ))
        return -jnp.concatenate([part.ravel() for part in parts])

    def z(c, w, A):
        return surface(jnp, c, w.reshape(shape_w), A).ravel()

    def evaluate(c, y, gates, index, real):
        w, A, _, _ = split(y)
        at, pull_back = jax.vjp(lambda w, A: z(c, w, A), w, A)
        r = residual(c, at, gates)
        s = len(index)
        if s == 0:
            dy = move(c, y, *pull_back(r * gates))
            return Evaluation(dy, jnp.zeros(0), at, jnp.zeros(0), jnp.zeros((0, 0)), r[:0])
        # Row 0 is the gradient under the given gates, the others ∇z of the chosen gates: one batch, compiled once.
        rows = jnp.concatenate([(r * gates)[None], real[:, None] * (index[:, None] == jnp.arange(len(r)))])
        g_w, g = jax.vmap(pull_back)(rows)
        moves = jax.vmap(lambda g_w, g: move(c, y, g_w, g))(g_w, g)
        J = jnp.concatenate([g_w, g.reshape(s + 1, -1)], axis=1)[1:]
        products = jnp.sum(moves[:, None, : nw + block] * J, axis=-1)
        v, N = products[0], -products[1:]
        N = (N + N.T) / 2
        # dz/dt = v − N μ = 0 with μ = r λ. Padding rows are zero, so the ridge alone keeps them regular, at μ = 0.
        ridge = RIDGE * jnp.maximum(jnp.max(jnp.diagonal(N)), 1e-300)
        mu = _solve(N + ridge * jnp.eye(s), v)
        r = jnp.sum(jnp.where(index[:, None] == jnp.arange(len(r)), r, 0.0), axis=-1)
        return Evaluation(
            moves[0] + jnp.sum(mu[:, None] * moves[1:], axis=0), mu / jnp.where(r == 0, 1e-300, r), at, v, N, r
        )

    def surface_of(c, y):
        return z(c, *split(y)[:2])

    def velocity(c, y, gates):
        nobody = jnp.zeros(0, int)
        return evaluate(c, y, gates, nobody, jnp.zeros(0)).dy

    return surface_of, evaluate, jit(evaluate, quick=True), velocity


# --- the flow of a gated field ---------------------------------------------------------------------------------------------


def flow(model, y0, method, *, start_time=0.0, stop=None, progress=None, on_save=None):
    """The flow of a gated field from y0 at `start_time` to `method.until`, as a GradientFlow asks for it: `filippov.solve`."""
    start_time = real("start_time", start_time, least=0, below=method.until, fix="the flow ends at method.until")
    return solve(
        model.field, y0, method.until, start=start_time, rtol=method.rtol, atol=method.atol, stop=stop,
        save_at=method.times(start_time), keep_events=method.save_at is None, progress=progress, on_save=on_save,
    )  # fmt: skip
