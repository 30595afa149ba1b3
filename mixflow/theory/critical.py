"""The critical sub-system: how the contrast sector learns which identifier belongs to which signal (docs/mathematics.md §4–5).

Write h = −g for the contrast sector's slope of the loss and stack keys and queries, (K_c, K_v, Q_c, Q_v):

    B = [[G_K, A], [Aᵀ, G_Q]]  (4×4)        H = [[0, h], [hᵀ, 0]]  (2×2 blocks)        B' = H B + B H,   B(0) = ω² I

These are the lines of §3, no more: the contrast sector obeys a *linear* system with the growth matrix H(t), and the large
system acts on it through h alone. It learns by h_cv: with that entry alone, A_cv = ω² sinh 2Θ, Θ = ∫ h_cv dt, so the
attention starts from exactly 0, grows exponentially in Θ, and ω enters the time only through log 1/ω². While the attention is
uniform and only the neurons of unanimous samples are silent, h_cv = w_c / (2 (K+1)³) exactly (`plateau_growth`).

`sandwich`  bounds h on each of a few windows by constants and integrates the two comparison systems; by Müller's theorem they
            enclose every entry of B.
`predict`   uses nothing of the critical system: it follows the large system with the contrast's c–v scores held at 0 and
            integrates B' = H B + B H with the h of that background.
"""

import itertools
import math
from dataclasses import dataclass, replace

import numpy as np

from ..checks import whole
from ..dynamics.flow import GradientFlow, flow
from ..errors import SpecError
from ..jaxed import jax
from ..models.symmetric_field import _surface, symmetric_field
from ..models.transformer import Transformer
from ..tasks.mixture import Mixture

ROWS = ("K_c", "K_v", "Q_c", "Q_v")
C, V = 0, 1
CONTRAST = 1
CV, VC = (0, 3), (1, 2)  # A_cv and A_vc as entries of B, h_cv and h_vc as entries of H
LEVEL = 1.0  # A_cv counts as learned: own signals look at the identifier e times more than others do
LIMIT = 1e5
SURFACE = 1e-8  # |z| of a sliding neuron; the flow keeps it below 1e-10


@dataclass(frozen=True, eq=False, kw_only=True)
class Critical:
    """The critical sub-system along a trajectory.

    time     (T,)
    B        (T, 4, 4) the contrast sector's keys and queries
    H        (T, 4, 4) its growth matrix
    forcing  (T, 4, 4) H at the same w, common sector and gates, but A_cv = A_vc = 0 in the contrast: what the large system
             does to an attention that knows nothing; H − forcing is the contrast's feedback on itself
    speed    (T, 4, 4) B' of the flow
    """

    time: np.ndarray
    B: np.ndarray
    H: np.ndarray
    forcing: np.ndarray
    speed: np.ndarray

    @property
    def rate(self):
        """(T,) the growth rate of B: twice the largest eigenvalue of H, that is twice the largest singular value of h."""
        return 2 * np.linalg.eigvalsh(self.H)[:, -1]

    @property
    def defect(self):
        """(T,) largest |B' − H B − B H|: rounding for a symmetric run, the neglected asymmetry for a class average."""
        return np.abs(self.speed - self.H @ self.B - self.B @ self.H).max(axis=(1, 2))

    @property
    def driven(self):
        """(T,) ω² sinh 2∫h_cv dt: A_cv if h_cv were the only entry of H."""
        h = self.H[:, *CV]
        turn = np.concatenate([[0.0], np.cumsum((h[1:] + h[:-1]) / 2 * np.diff(self.time))])
        return self.B[0, 0, 0] * np.sinh(2 * turn)


def plateau_growth(classes):
    """h_cv / w_c at uniform attention, when no neuron is silent but those of samples whose signs all agree: 1 / (2 (K+1)³).

    A query s_j v_j gives the identifier 1/L of its attention, so ∂z_+/∂A[c_k,v_j] = s_j/L² · (w_c − (w_c + w_v Σs)/L) in class k,
    and h[c_k,v_j] = (1/K) E[y r s_j/L² · (w_c K/L − w_v Σs/L)] with the residual r = 1/(1 + e^{yF}). Own minus other signal has
    the factor y (s_k − s_j) = 2·1[s_j ≠ y]: unanimous samples drop out, so their silent neurons do not matter. On the rest F
    is an odd function of Σs (the heads are reflections), and given s_k = y, s_j = −y the sum Σs is symmetric about 0.
    Hence E r = 1/2; r(Σs) + r(−Σs) = 1 and averaging over both labels removes w_v; what is left is w_c/L³ · 2 · 1/2 · 1/2.
    """
    return 1 / (2 * (classes + 1) ** 3)


def critical(field, time, states):
    """The critical sub-system along saved `states` (T, size) of a symmetric field's flow."""
    if field.model != "symmetric":
        raise SpecError(
            f"model = {field.model!r}: the critical sub-system needs the sectors of model 'symmetric'; use width=math.inf."
        )
    states = np.asarray(states, float)
    return _along(field, time, states, np.array([gates_at(field, y) for y in states]))


def gates_at(field, y):
    """(2n,) the gates of a state of the flow: 0, 1, or the λ that keeps a neuron at its surface."""
    z = field.z(y)
    gates = (z > SURFACE).astype(float)
    touching = np.flatnonzero(np.abs(z) <= SURFACE)
    if len(touching):
        share = field.functions[2](field.device, y, np.asarray(gates, float), *field.put_indices(touching)).share
        gates[touching] = np.clip(np.asarray(share)[: len(touching)], 0, 1)
    return gates


def _along(field, time, states, gates):
    parts = _linear_system(field)(field.device, states, gates)
    B, H, forcing, speed = (np.asarray(part) for part in parts)
    return Critical(time=np.asarray(time, float), B=B, H=H, forcing=forcing, speed=speed)


_functions = {}


def _linear_system(field):
    """The compiled (constants, states, gates) -> B, H, forcing, B', vectorised over time."""
    evaluate, nobody = field.functions[1], field.put_indices(())
    if evaluate in _functions:
        return _functions[evaluate]
    velocity = lambda c, y, gates: evaluate(c, y, gates, *nobody).dy  # noqa: E731
    J = jax()
    jnp = J.numpy
    first = {
        name: 2 + 8 * i + 4 * CONTRAST for i, name in enumerate(("A", "K", "Q"))
    }  # of each 2×2 block in the flat state

    def block(y, name):
        return y[first[name] : first[name] + 4].reshape(2, 2)

    def joint(y):
        A, G_K, G_Q = (block(y, name) for name in ("A", "K", "Q"))
        return jnp.block([[G_K, A], [A.T, G_Q]])

    def growth(c, y, gates):
        # h from the velocity: A' = G_K h + h G_Q has one solution while the G are definite.
        dA, G_K, G_Q = block(velocity(c, y, gates), "A"), block(y, "K"), block(y, "Q")
        one, zero = jnp.eye(2), jnp.zeros((2, 2))
        h = jnp.linalg.solve(jnp.kron(G_K, one) + jnp.kron(one, G_Q.T), dA.ravel()).reshape(2, 2)
        return jnp.block([[zero, h], [h.T, zero]])

    def one(c, y, gates):
        ignorant = y.at[first["A"] + 1].set(0.0).at[first["A"] + 2].set(0.0)
        return joint(y), growth(c, y, gates), growth(c, ignorant, gates), joint(velocity(c, y, gates))

    _functions[evaluate] = J.jit(J.vmap(one, in_axes=(None, 0, 0)))
    return _functions[evaluate]


# comparison ----------------------------------------------------------------------------------------------------------


def sandwich(system, windows=60):
    """Lower and upper bounds (T, 4, 4) of B by comparison systems with constant coefficients on each of some windows.

    On a window h stays between its extreme values at the saved times, widened by the largest change between neighbouring
    saves (which also covers a switch between two saves). With every B_ij in [L_ij, U_ij],
        U_ij' = Σ_k max(H_ik B_kj) + max(B_ik H_kj)        L_ij' the same with the least,
    the maximum over the ends of both intervals (Müller). While no bound changes its sign, both systems are linear.
    """
    windows = whole("windows", windows)
    T = len(system.time)
    edges = np.unique(np.linspace(0, T - 1, min(windows, T - 1) + 1).astype(int))
    bounds = np.empty((T, 2, 4, 4))
    bounds[0] = system.B[0]
    for a, b in itertools.pairwise(edges):
        values = system.H[a : b + 1]
        jump = np.abs(np.diff(values, axis=0)).max(axis=0)
        H = np.stack([values.min(axis=0) - jump, values.max(axis=0) + jump])
        for i in range(a, b):
            bounds[i + 1] = _advance(bounds[i], H, system.time[i + 1] - system.time[i])
    return bounds[:, 0], bounds[:, 1]


def _slope(bounds, H):
    product = H[:, None, :, :, None] * bounds[None, :, None, :, :]  # (end of H, end of B, i, k, j)
    half = np.stack([product.min(axis=(0, 1)).sum(axis=1), product.max(axis=(0, 1)).sum(axis=1)])
    return half + half.swapaxes(1, 2)  # B H is the transpose of H B


def _advance(bounds, H, duration):
    """The comparison system over one interval by Runge and Kutta's method, in steps of at most 1/40 of its time scale."""
    steps = max(1, math.ceil(40 * duration * np.abs(H).sum(axis=-1).max()))
    h = duration / steps
    for _ in range(steps):
        k1 = _slope(bounds, H)
        k2 = _slope(bounds + h / 2 * k1, H)
        k3 = _slope(bounds + h / 2 * k2, H)
        k4 = _slope(bounds + h * k3, H)
        bounds = bounds + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return bounds


def enclosed(system, windows=60, tolerance=1e-9):
    """Whether the bounds hold at every saved time, up to rounding relative to the largest entry of B; and the bounds."""
    lower, upper = sandwich(system, windows)
    room = tolerance * np.abs(system.B).max(axis=(1, 2), keepdims=True)
    outside = (lower > system.B + room) | (upper < system.B - room)
    return not outside.any(), lower, upper


# prediction ----------------------------------------------------------------------------------------------------------


KNOWN = np.ones((2, 2, 2))  # 0 on the contrast sector's c–v scores
KNOWN[CONTRAST, C, V] = KNOWN[CONTRAST, V, C] = 0.0


def _background_surface(xp, c, w, A):
    """The network as it would be if the contrast sector knew no correspondence: A_cv = A_vc = 0 there."""
    return _surface(xp, c, w, A * KNOWN)


def predict(task, transformer, until, *, level=LEVEL, saves=400):
    """When the linear theory expects A_cv of the contrast sector to reach `level`; None if not before `until`.

    Its background is the flow of the large system with the contrast's c–v scores held at 0, which it then never sees.
    """
    full = symmetric_field(task, transformer)
    background = replace(full, surface=_background_surface)
    result = flow(background, background.y0, GradientFlow(until=until, rtol=1e-7, save_at=saves))
    gates = np.array([gates_at(background, y) for y in result.states])
    system = _along(full, result.times, result.states, gates)
    path = [system.B[0, *CV]]
    B = system.B[0]
    for i, duration in enumerate(np.diff(system.time)):
        H = (system.H[i] + system.H[i + 1]) / 2
        B = _advance(np.stack([B, B]), np.stack([H, H]), duration)[0]
        path.append(B[CV])
        if path[-1] > 100 * level:
            break
    return first_time(system.time[: len(path)], np.array(path), level)


def first_time(time, series, level):
    """When a series first reaches the level, interpolated in its logarithm; None if it does not."""
    above = np.flatnonzero(series >= level)
    if not len(above) or above[0] == 0:
        return float(time[0]) if len(above) else None
    i = above[0]
    low, high = math.log(max(series[i - 1], 1e-300)), math.log(series[i])
    return float(time[i - 1] + (time[i] - time[i - 1]) * (math.log(level) - low) / (high - low))


def separation(classes, omega, bias, *, windows=60, saves=600):
    """One (ω, b): the time at which A_cv reaches LEVEL, its bounds and its prediction; None where it is not reached."""
    task, transformer = Mixture(classes=classes), Transformer(omega=omega, bias=bias)
    field = symmetric_field(task, transformer)
    score = lambda y: float(field.unpack(y)["A"][1, 0, 1])  # noqa: E731
    found = flow(field, field.y0, GradientFlow(until=LIMIT, save_at=2), stop=lambda t, y: score(y) - 2 * LEVEL)
    facts = {"classes": classes, "omega": omega, "bias": bias}
    if found.ended != "stop":
        return facts | {"actual": None, "lower": None, "upper": None, "predicted": None, "holds": None}
    times = np.linspace(0, found.time, saves)
    run = flow(field, field.y0, GradientFlow(until=found.time, save_at=tuple(times)))
    system = critical(field, run.times, run.states)
    holds, lower, upper = enclosed(system, windows)
    time = lambda path: first_time(system.time, path[:, *CV], LEVEL)  # noqa: E731
    return facts | {
        "actual": time(system.B),
        "lower": time(upper),  # the faster comparison system is early
        "upper": time(lower),
        "predicted": predict(task, transformer, 3 * found.time, level=LEVEL),
        "holds": holds,
        "defect": float(system.defect.max()),
        "driven": float(np.interp(time(system.B), system.time, system.driven)) / LEVEL,
    }
