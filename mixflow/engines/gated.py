"""The gated field: the velocity of a Gram state as an affine function of ReLU gates in [0, 1] (docs/mathematics.md §3, §7).

A ReLU network's gradient flow is smooth once every neuron's gate is fixed, so the flow solver wants a field that takes
the gates as an argument. Two engines supply one, `gram_field` (any listed task) and `symmetric_field` (any K): each gives
its own z and loss as JAX functions plus a few constants, and everything else is stated here once.

    state   y = (w, what else is trained, A, G_K, G_Q) flat, float64; a blocks (attentions or sectors) of f×f matrices
    gates   g numbers, one for each neuron on each atom; gate i enters the loss gradient as  r_i · gate_i · ∇z_i,
            r_i = ∂loss/∂ReLU(z_i)
    field   y' = move(Σ_i r_i gate_i ∇z_i + what the loss sees besides), `move` applies the lines of §3 and is linear
    B       z' = v + B gates,  B_ij = −N_ij r_j,  N = the neural-tangent Gram matrix of the z (symmetric, semi-definite)

A gate with r > 0 pushes its own neuron off and can slide; a gate with r < 0 pushes it on and cannot.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial

import numpy as np

from ..checks import real
from ..filippov import Field, solve
from ..filippov.field import RIDGE, Evaluation, padded
from ..jaxed import in_float64, jit
from ..jaxed import jax as configured
from .gram_families import Attention
from .gram_update import Algebra, slope

SMALL = 4096  # multiplications in one matrix product
HIDDEN = ("G_K", "G_Q", "G_QQ", "G_V", "N")  # parts of a state that the loss does not see


@dataclass(frozen=True, eq=False, kw_only=True)
class GatedField:
    """One engine's gated field; built by `gram_field` or `symmetric_field`.

    surface    surface(numpy or jax.numpy, constants, parts) -> z (..., g); part of the compilation key
    loss_of    loss_of(numpy or jax.numpy, constants, on (..., g), parts) -> (...) the loss; likewise
    constants  what these read, with metric_w, rate_others, rate (a,) and Gamma (or None for identity)
    shapes     {name: shape} of the parts of a state, in order: w, others, A and perhaps G_K, G_Q, G_V, N
    y0         the start
    gate_names g pairs (head, atom)
    attention  what W_K and W_Q are (`gram_families.Attention`), or None where scores are trained directly
    spare      None, or spare(constants) -> constants with spare gates, and the number of all (`filippov.Field`)
    """

    surface: object
    loss_of: object
    constants: dict
    shapes: dict
    y0: np.ndarray
    gate_names: tuple
    attention: Attention | None
    spare: Callable | None = None

    @cached_property
    @in_float64
    def device(self):
        """The constants as device arrays."""
        return configured().tree.map(configured().numpy.asarray, self.constants)

    @cached_property
    @in_float64
    def functions(self):
        """z, evaluate, evaluate compiled, velocity."""
        return _evaluation(self.surface, self.loss_of, tuple(self.shapes.items()), self.attention)

    @cached_property
    def field(self):
        """What the solver of `filippov` follows."""
        z, evaluate, _, velocity = self.functions
        return Field(
            velocity=velocity,
            surface=z,
            gates=self.gate_names,
            constants=self.device,
            y0=self.y0,
            evaluate=evaluate,
            checks=self.checks if "G_K" in self.shapes else None,
            spare=None if self.spare is None else self.spare(self.constants),
        )

    @property
    def n_gates(self):
        """g"""
        return len(self.gate_names)

    def unpack(self, Y):
        """The parts of one state (size,) or many (..., size), by name."""
        return split(np.asarray(Y), tuple(self.shapes.items()))

    def parts(self, y):
        """The parts of a flat state that JAX traces, by name."""
        return split(y, tuple(self.shapes.items()))

    def pack(self, state):
        """The flat state y of its named parts."""
        return np.concatenate([np.ravel(state[name]) for name in self.shapes]).astype(float)

    def z(self, Y):
        """(..., g) pre-activations of one state or many."""
        with np.errstate(over="ignore", invalid="ignore"):  # a state beyond float64 gives NaN, which the flow reports
            return self.surface(np, self.constants, self.unpack(np.asarray(Y, float)))

    def loss(self, Y):
        """(...) population loss of one state or many."""
        on = np.maximum(self.z(Y), 0)
        return self.loss_of(np, self.constants, on, self.unpack(np.asarray(Y, float)))

    @in_float64
    def velocity(self, y, gates):
        """y' for any gates (g,) in [0, 1], affine in them at fixed margins; a gate that is not 1 counts as sliding or off.

        This is the plain statement of the field; the solver compiles `evaluate` into its steps.
        """
        return np.asarray(self.functions[2](self.device, y, np.asarray(gates, float), *self.put_indices(())).dy)

    @in_float64
    def B(self, y, gates):
        """(g, g) with dz/dt = v + B gates at the margins of state y, where neurons with gate 0 count as silent."""
        index, real = self.put_indices(range(self.n_gates))
        found = self.functions[2](self.device, y, np.asarray(gates, float), index, real)
        n = self.n_gates
        return -np.asarray(found.N)[:n, :n] * np.asarray(found.r)[:n]

    def put_indices(self, indices):
        """Indices padded to 0, 4, 8, 16, …, and 1.0 where an entry is real: a few shapes serve every sliding set."""
        return padded(tuple(int(i) for i in indices))

    def checks(self, Y):
        """For a certificate: the drift of each attention's or sector's conserved tr(C²), tr(C) over the states Y (k, size),
        absolute and relative to the size of the terms, and the smallest eigenvalue of [[G_K, A], [Aᵀ, G_Q]]."""
        C, found = self.invariants(Y), {}
        for name, key in (("tr C2", "tr_C2"), ("tr C", "tr_C")):
            drift, size = np.abs(C[name] - C[name][:1]), C[name.replace("tr", "size")]
            found[f"drift_{key}"] = float(drift.max())
            found[f"relative_drift_{key}"] = float(
                np.divide(drift, size, out=np.zeros_like(drift), where=size > 0).max()
            )
        return {**found, "smallest_eigenvalue": float(self.smallest_eigenvalue(Y).min())}

    def invariants(self, Y):
        """(..., a) each: the conserved tr(C²) and tr(C) of every attention or sector, and the size of their terms (§3).

        With Γ ≠ I they read tr((Γ⁺G_K)²) − 2 tr(Γ⁺AΓ⁺Aᵀ) + tr((Γ⁺G_Q)²) and tr(Γ⁺G_K) − tr(Γ⁺G_Q): the part of
        C = W_K W_Kᵀ − W_Q W_Qᵀ inside the span of the features, conserved since the rest of C never moves.
        """
        p, Gamma = self.unpack(Y), self.constants["Gamma"]
        inverse = np.eye(self.shapes["A"][-1]) if Gamma is None else np.linalg.pinv(Gamma, hermitian=True)
        K, Q, A, At = (inverse @ X for X in (p["G_K"], p["G_Q"], p["A"], np.swapaxes(p["A"], -1, -2)))

        def trace(X):
            return np.trace(X, axis1=-2, axis2=-1)

        squares, traces = [trace(K @ K), trace(A @ At), trace(Q @ Q)], [trace(K), trace(Q)]
        if "G_QQ" in p:  # one W_K against all W_Q
            QQ = inverse @ p["G_QQ"]
            heads = 2 - len(self.shapes["A"])  # the axis; sectors come after it
            queries = [squares[2], 2 * trace(QQ @ inverse @ np.swapaxes(p["G_QQ"], -1, -2))]
            squares[2] = np.concatenate(queries, axis=heads)
            squares, traces = ([x.sum(axis=heads, keepdims=True) for x in each] for each in (squares, traces))
        return {
            "tr C2": squares[0] - 2 * squares[1] + squares[2],
            "tr C": traces[0] - traces[1],
            "size C2": squares[0] + 2 * squares[1] + squares[2],
            "size C": traces[0] + traces[1],
        }

    def smallest_eigenvalue(self, Y):
        """(...) the smallest eigenvalue of [[G_K, A], [Aᵀ, G_Q]] over attentions; never negative in exact arithmetic."""
        p = self.unpack(Y)
        At, G_K = np.swapaxes(p["A"], -1, -2), np.broadcast_to(p["G_K"], p["A"].shape)
        top, bottom = np.concatenate([G_K, p["A"]], axis=-1), np.concatenate([At, p["G_Q"]], axis=-1)
        return np.linalg.eigvalsh(np.concatenate([top, bottom], axis=-2))[..., 0].min(axis=-1)


def product(xp, X, Y):
    """X @ Y. A small product that JAX compiles is written as sums: XLA cannot merge a call of its matrix product with the
    arithmetic around it, and for matrices this small the calls would be most of the time."""
    if xp is np or X.shape[-2] * X.shape[-1] * Y.shape[-1] > SMALL:
        return X @ Y
    return xp.sum(X[..., :, :, None] * Y[..., None, :, :], axis=-2)


def split(Y, shapes):
    """The parts of states (..., size) by name."""
    parts, at = {}, 0
    for name, shape in shapes:
        size = math.prod(shape)
        parts[name] = Y[..., at : at + size].reshape((*Y.shape[:-1], *shape))
        at += size
    return parts


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
def _evaluation(surface, loss_of, shapes, attention):
    """The functions behind every call of one field; constants are arguments, so tasks of equal shapes share a compilation."""
    jax = configured()
    jnp = jax.numpy
    names = [name for name, _ in shapes]
    trained = [name for name in names if name not in HIDDEN]
    width = sum(
        int(np.prod(shape, dtype=int)) for name, shape in shapes if name in trained
    )  # of what z and the loss see

    def seen(y):
        parts = split(y, shapes)
        return {name: parts[name] for name in trained}

    def z(c, parts):
        return surface(jnp, c, parts)

    def flat(parts):
        return jnp.concatenate([parts[name].ravel() for name in trained])

    def evaluate(c, y, gates, index, real):
        parts = seen(y)
        at, pull_back = jax.vjp(lambda parts: z(c, parts), parts)
        # r_i = ∂loss/∂(ReLU z_i). A neuron that is off or sliding adds nothing, whichever side of 0 a trial step puts
        # it on: the field of a mode is then smooth across the mode's end, where its solver must be able to look.
        active = jnp.where(gates == 1, at, 0)
        r, direct = jax.grad(lambda on, parts: loss_of(jnp, c, on, parts), argnums=(0, 1))(active, parts)
        s = len(index)
        if s == 0:
            down = jax.tree.map(jnp.add, pull_back(r * gates)[0], direct)
            return Evaluation(
                _move(c, y, down, shapes, attention), jnp.zeros(0), at, jnp.zeros(0), jnp.zeros((0, 0)), r[:0]
            )
        # Row 0 is the gradient under the given gates, the others ∇z of the chosen gates: one batch, compiled once.
        rows = jnp.concatenate([(r * gates)[None], real[:, None] * (index[:, None] == jnp.arange(len(r)))])
        (downs,) = jax.vmap(pull_back)(rows)
        J = jax.vmap(flat)(downs)[1:]
        first = jnp.arange(s + 1) == 0
        downs = {
            name: x + jnp.where(first.reshape(-1, *[1] * (x.ndim - 1)), direct[name], 0.0) for name, x in downs.items()
        }
        moves = jax.vmap(lambda down: _move(c, y, down, shapes, attention))(downs)
        products = jnp.sum(moves[:, None, :width] * J, axis=-1)
        v, N = products[0], -products[1:]
        N = (N + N.T) / 2
        # dz/dt = v − N μ = 0 with μ = r λ. Padding rows are zero, so the ridge alone keeps them regular, at μ = 0.
        ridge = RIDGE * jnp.maximum(jnp.max(jnp.diagonal(N)), 1e-300)
        mu = _solve(N + ridge * jnp.eye(s), v)
        r = jnp.sum(jnp.where(index[:, None] == jnp.arange(len(r)), r, 0.0), axis=-1)
        dy = moves[0] + jnp.sum(mu[:, None] * moves[1:], axis=0)
        return Evaluation(dy, mu / jnp.where(r == 0, 1e-300, r), at, v, N, r)

    def surface_of(c, y):
        return z(c, seen(y))

    def velocity(c, y, gates):
        return evaluate(c, y, gates, jnp.zeros(0, int), jnp.zeros(0)).dy

    return surface_of, evaluate, jit(evaluate, quick=True), velocity


def _move(c, y, down, shapes, attention):
    """y' from the loss gradient: the lines of §3 (and of §8 for Γ ≠ I); a rate of 0 freezes its part."""
    jnp, parts, Gamma = configured().numpy, split(y, shapes), c["Gamma"]
    algebra = Algebra(partial(product, jnp), jnp.matrix_transpose)
    moved = {name: c["rate_others"] * x for name, x in down.items() if name not in ("w", "A")}
    if "G_V" in parts:
        moved |= _moved_values(c, parts, c["rate_others"] * down["w"], algebra)
    else:
        moved["w"] = jnp.sum(c["metric_w"] * down["w"].ravel(), axis=-1)
    g = c["rate"][:, None, None] * down["A"]
    if attention is None:  # the scores themselves are trained
        moved["A"] = g if Gamma is None else Gamma @ g @ Gamma
    else:
        moved |= attention.state(slope(attention.blocks(parts), attention.turns(g, Gamma, algebra), algebra))
    return -jnp.concatenate([moved[name].ravel() for name, _ in shapes])


def _moved_values(c, parts, h, algebra):
    """Where w is a product, [W_V | Σ_j a_j w_j]: what flows away from w, G_V and N. In sectors w lies in the common one."""
    w, N, Gamma = parts["w"], parts["N"], c["Gamma"]
    if "common" in c:
        w, h, N = c["common"] * w[..., None, :], c["common"] * h[..., None, :] / c["classes"], N[..., None]
    S = {(0, 0): parts["G_V"], (0, 1): w[..., None], (1, 1): N[..., None, None]}
    h = h[..., None]
    left = h if Gamma is None else Gamma @ h
    rise = slope(S, {(0, 1): (c["value_neurons"] * h, False), (1, 0): (left, True)}, algebra)
    if "common" not in c:
        return {"G_V": rise[0, 0], "w": rise[0, 1], "N": rise[1, 1]}
    return {"G_V": rise[0, 0], "w": rise[0, 1][..., 0, :, 0] / c["common"][0], "N": rise[1, 1][..., 0, 0, 0]}


def flow(gated, y0, method, *, start_time=0.0, stop=None, progress=None, on_save=None):
    """The flow of a gated field from y0 at `start_time` to `method.until`, as a GradientFlow asks for it: `filippov.solve`."""
    start_time = real("start_time", start_time, least=0, below=method.until, fix="the flow ends at method.until")
    return solve(
        gated.field,
        y0,
        method.until,
        start=start_time,
        rtol=method.rtol,
        atol=method.atol,
        stop=stop,
        save_at=method.times(start_time),
        keep_events=method.save_at is None,
        progress=progress,
        on_save=on_save,
    )
