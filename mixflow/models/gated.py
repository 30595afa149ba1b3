"""The gated field: the velocity of (w, A, G_K, G_Q) as a linear function of ReLU gates in [0, 1] (docs/mathematics.md §3, §7).

A ReLU network's gradient flow is smooth once every neuron's gate is fixed, so the flow solver wants a field that takes
the gates as an argument. Two models supply one, `gram_field` (any finite task) and `symmetric_field` (any K): each
gives its own z(w, A) as a JAX function plus a few constants, and everything else is stated here once.

    state   y = (w, A, G_K, G_Q) flat, float64; two blocks (heads, or sectors) of f×f matrices
    gates   2n numbers, one for each row of a (2, n) table whose columns are samples; a sample's margin is
            sign · (ReLU z[0] − ReLU z[1]), and gate i enters the loss gradient as  r_i · gate_i · ∇z_i
    field   y' = move(Σ_i r_i gate_i ∇z_i),  where `move` applies the lines of §3 and is linear
    B       z' = B gates,  B_ij = −N_ij r_j,  N = the neural-tangent Gram matrix of the z (symmetric, semi-definite)

A gate with r > 0 pushes its own neuron off and can slide; a gate with r < 0 pushes it on and cannot.
"""

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from ..jaxed import jax as configured

RIDGE = (
    1e-12  # relative; leaves |dz/dt| ≤ RIDGE · N · r on the surface and makes dependent ∇z (twins by symmetry) harmless
)


@dataclass(frozen=True, eq=False, kw_only=True)
class GatedField:
    """One model's gated field; built by `gram_field` or `symmetric_field`.

    model      "gram" or "symmetric"
    surface    z(constants, w, A) -> (2, n), a JAX function; part of the compilation key
    constants  what `surface` reads, with sign (n,), weight (n,), metric_w, rate (2,) and Gamma (or None for identity)
    shape_w    the shape of w in `unpack`: (2, F) or (2,)
    size       f, the side of A, G_K, G_Q
    y0         the start
    gate_names 2n pairs (head, atom)
    loss_weight  factor from Σ weight · log-loss to the loss
    """

    model: str
    surface: object
    constants: dict
    shape_w: tuple
    size: int
    y0: np.ndarray
    gate_names: tuple
    loss_weight: float = 1.0
    train_w: bool = True
    train_attention: bool = True
    device: dict = field(init=False, repr=False)  # the constants as device arrays
    compiled: dict = field(init=False, repr=False)  # jitted z, z_many, velocity, contact

    def __post_init__(self):
        jax = configured()
        put = lambda name, value: object.__setattr__(self, name, value)  # noqa: E731 (the dataclass is frozen)
        put("device", {k: None if v is None else jax.numpy.asarray(v) for k, v in self.constants.items()})
        put("compiled", _compiled(self.surface, self.shape_w, self.size))

    @property
    def n_gates(self):
        return len(self.gate_names)

    def unpack(self, Y):
        """w, A, G_K, G_Q of one state (size,) or many (..., size), by name."""
        Y = np.asarray(Y)
        f, nw = self.size, int(np.prod(self.shape_w))
        lead, block = Y.shape[:-1], 2 * f * f
        parts = {"w": Y[..., :nw].reshape(*lead, *self.shape_w)}
        for i, name in enumerate(("A", "G_K", "G_Q")):
            parts[name] = Y[..., nw + i * block : nw + (i + 1) * block].reshape(*lead, 2, f, f)
        return parts

    def z(self, Y):
        """(..., 2n) pre-activations of one state or many."""
        Y = np.asarray(Y, float)
        if Y.ndim == 1:
            return np.asarray(self.compiled["z"](self.device, Y))
        # Padding to a power of two keeps the number of compiled shapes small.
        flat = Y.reshape(-1, Y.shape[-1])
        room = 1 << max(len(flat) - 1, 0).bit_length()
        padded = np.concatenate([flat, np.repeat(flat[-1:], room - len(flat), axis=0)])
        return np.asarray(self.compiled["z_many"](self.device, padded))[: len(flat)].reshape(*Y.shape[:-1], -1)

    def loss(self, Y):
        """(...) population loss of one state or many."""
        z = np.maximum(self.z(Y), 0)
        n = self.n_gates // 2
        margin = np.asarray(self.constants["sign"]) * (z[..., :n] - z[..., n:])
        return self.loss_weight * np.logaddexp(0, -margin) @ np.asarray(self.constants["weight"])

    def velocity(self, y, gates):
        """y' for any gates (2n,) in [0, 1], linear in them at fixed margins; a gate that is not 1 counts as sliding or off.

        This is the plain statement of the field; the solver calls the compiled functions, a whole step at a time.
        """
        return np.asarray(self.compiled["velocity"](self.device, y, self.put(gates)))

    def slide(self, y, gates, sliding):
        """y' and the sliding gates λ (s,) that hold dz/dt = 0 on the indices `sliding`, given the gates of all others."""
        index, real = self.put_indices(sliding)
        dy, share, *_ = self.compiled["contact"](self.device, y, gates, index, real)
        return np.asarray(dy), np.asarray(share)[: len(sliding)]

    def contact(self, y, gates, touching):
        """v (s,), N (s, s), r (s,) of the gates `touching`:  dz/dt = v − N (r · gate), the other gates as given.

        The entries of `gates` on `touching` must be 0. On all gates with gates = 0 this is B = −N diag(r).
        """
        index, real = self.put_indices(touching)
        _, _, v, N, r = self.compiled["contact"](self.device, y, gates, index, real)
        s = len(touching)
        return np.asarray(v)[:s], np.asarray(N)[:s, :s], np.asarray(r)[:s]

    def B(self, y, gates):
        """(2n, 2n) with dz/dt = B gates at the margins of state y, where neurons with gate 0 count as silent."""
        everyone = np.arange(self.n_gates)
        index, real = self.put_indices(everyone)
        *_, N, r = self.compiled["contact"](self.device, y, self.put(gates), index, real)
        n = self.n_gates
        return -np.asarray(N)[:n, :n] * np.asarray(r)[:n]

    def put(self, gates):
        """The gates as a device array, so that a mode pays for the transfer once."""
        import jax

        return jax.numpy.asarray(gates, float)

    def put_indices(self, indices):
        """Indices padded to 4, 8, 16, …, and 1.0 where an entry is real: a few shapes serve every sliding set."""
        return _padded(tuple(int(i) for i in indices))

    def invariants(self, Y):
        """(..., 2) each: the conserved tr(C²) and tr(C) of every head or sector, and the size of their terms (§3).

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


def pack(w, A, G_K, G_Q):
    """The flat state y of its named parts."""
    return np.concatenate([np.ravel(part) for part in (w, A, G_K, G_Q)]).astype(float)


@lru_cache(maxsize=1024)
def _padded(indices):
    import jax.numpy as jnp

    room = 4
    while room < len(indices):
        room *= 2
    fill = room - len(indices)
    return jnp.asarray(indices + (0,) * fill, int), jnp.asarray((1.0,) * len(indices) + (0.0,) * fill)


def _solve(N, v):
    """N⁻¹ v for a definite N. Up to 4 rows by elimination written out, a tenth of the time of a call to LAPACK."""
    import jax.numpy as jnp

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
def _compiled(surface, shape_w, f):
    """The jitted functions of one model; constants are arguments, so tasks of equal shapes share one compilation."""
    import jax
    import jax.numpy as jnp

    nw = int(np.prod(shape_w))
    block = 2 * f * f

    def split(y):
        w, rest = y[:nw], y[nw:]
        return w, *(rest[i * block : (i + 1) * block].reshape(2, f, f) for i in range(3))

    def residual(c, z, gates):
        # r_i = ∂loss/∂(ReLU z_i). A neuron that is off or sliding adds nothing, whichever side of 0 a trial step puts
        # it on: the field of a mode is then smooth across the mode's end, where its solver must be able to look.
        active = (jnp.where(gates == 1, z, 0)).reshape(2, -1)
        pull = c["weight"] * jax.nn.sigmoid(-c["sign"] * (active[0] - active[1])) * c["sign"]
        return jnp.concatenate([-pull, pull])

    def move(c, y, g_w, g):
        # The lines of §3 (and of §8 for Γ ≠ I); `rate` is 0 for frozen attention, `metric_w` for frozen neurons.
        _, A, G_K, G_Q = split(y)
        g = c["rate"][:, None, None] * g
        Gg, gG = (g, g) if c["Gamma"] is None else (c["Gamma"] @ g, g @ c["Gamma"])
        T = lambda X: jnp.swapaxes(X, -1, -2)  # noqa: E731
        dA = G_K @ gG + Gg @ G_Q
        dK = Gg @ T(A)
        dQ = T(A) @ gG
        parts = (c["metric_w"] @ g_w, dA, dK + T(dK), dQ + T(dQ))
        return -jnp.concatenate([part.ravel() for part in parts])

    def z(c, y):
        w, A, _, _ = split(y)
        return surface(c, w, A).ravel()

    def velocity(c, y, gates):
        w, A, _, _ = split(y)
        z, pull_back = jax.vjp(lambda w, A: surface(c, w, A).ravel(), w, A)
        return move(c, y, *pull_back(residual(c, z, gates) * gates))

    def contact(c, y, gates, index, real):
        w, A, _, _ = split(y)
        z, pull_back = jax.vjp(lambda w, A: surface(c, w, A).ravel(), w, A)
        r = residual(c, z, gates)
        fixed = move(c, y, *pull_back(r * gates))
        rows = jnp.zeros((len(index), len(r))).at[jnp.arange(len(index)), index].set(real)
        J_w, J_A = jax.vmap(pull_back)(rows)  # ∇z of the touching gates
        moves = jax.vmap(lambda g_w, g: move(c, y, g_w, g))(J_w, J_A)
        J = jnp.concatenate([J_w, J_A.reshape(len(index), -1)], axis=1)
        v = J @ fixed[: nw + block]
        N = -J @ moves[:, : nw + block].T
        N = (N + N.T) / 2
        # dz/dt = v − N μ = 0 with μ = r λ. Padding rows are zero, so the ridge alone keeps them regular, at μ = 0.
        ridge = RIDGE * jnp.maximum(jnp.max(jnp.diagonal(N)), 1e-300)
        mu = _solve(N + ridge * jnp.eye(len(index)), v)
        r = r[index]
        return fixed + mu @ moves, mu / jnp.where(r == 0, 1e-300, r), v, N, r

    return {
        "z": jax.jit(z),
        "z_many": jax.jit(jax.vmap(z, in_axes=(None, 0))),
        "velocity": jax.jit(velocity),
        "contact": jax.jit(contact),
    }
