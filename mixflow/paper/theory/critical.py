"""The critical sub-system: how the contrast sector learns which identifier belongs to which signal (docs/mathematics.md §4–5).

Write h = −g for the contrast sector's slope of the loss and stack keys and queries, (K_c, K_v, Q_c, Q_v):

    B = [[G_K, A], [Aᵀ, G_Q]]  (4×4)        H = [[0, h], [hᵀ, 0]]  (2×2 blocks)        B' = H B + B H,   B(0) = ω² I

These are the lines of §3, no more: the contrast sector obeys a *linear* system with the growth matrix H(t), and the large
system acts on it through h alone. It learns by h_cv: with that entry alone, A_cv = ω² sinh 2Θ, Θ = ∫ h_cv dt, so the
attention starts from exactly 0, grows exponentially in Θ, and ω enters the time only through log 1/ω². While the attention is
uniform and only the neurons of unanimous samples are silent, h_cv = w_c / (2 (K+1)³) exactly (`plateau_growth`).

A finite-width run has no sectors, but a class average: with P the mean over all permutations of the classes and the reflection of
the heads, B = P of its Gram matrices' contrast and h = P(−g), g the slope at the run's own, unequal state. Then
B' = P(H B + B H) of the run, which differs from (H B + B H) of the averages by a covariance: `residual`, measured, never dropped.

`comparison.py` bounds B by linear systems and predicts when it grows.
"""

from dataclasses import dataclass

import numpy as np

import mixflow as mf

from .enclosure import Enclosure, enclose

ROWS = ("K_c", "K_v", "Q_c", "Q_v")
C, V = 0, 1
CONTRAST = 1
CV, VC = (0, 3), (1, 2)  # A_cv and A_vc as entries of B, h_cv and h_vc as entries of H
SURFACE = 1e-8  # |z| of a sliding neuron; the flow keeps it below 1e-10


@dataclass(frozen=True, eq=False, kw_only=True)
class Critical:
    """The critical sub-system along a trajectory, or its class average along a run of finite width.

    time     (T,)
    B        (T, 4, 4) the contrast sector's keys and queries
    H        (T, 4, 4) its growth matrix
    forcing  (T, 4, 4) H at the same w, common sector and gates, but A_cv = A_vc = 0 in the contrast: what the large system
             does to an attention that knows nothing; H − forcing is the contrast's feedback on itself
    speed    (T, 4, 4) B' of the flow
    between  the proven bounds of h between the saves; None where there are only the saves
    """

    time: np.ndarray
    B: np.ndarray
    H: np.ndarray
    forcing: np.ndarray
    speed: np.ndarray
    between: Enclosure | None = None

    @property
    def rate(self):
        """(T,) the growth rate of B: twice the largest eigenvalue of H, that is twice the largest singular value of h."""
        return 2 * np.linalg.eigvalsh(self.H)[:, -1]

    @property
    def residual(self):
        """(T, 4, 4) B' − H B − B H: rounding for a symmetric run, the neglected asymmetry for a class average."""
        return self.speed - self.H @ self.B - self.B @ self.H

    @property
    def defect(self):
        """(T,) the largest entry of the residual."""
        return np.abs(self.residual).max(axis=(1, 2))

    @property
    def driven(self):
        """(T,) A_cv if h_cv were the only entry of H: A_cv(0) cosh 2Θ + (G_K,cc + G_Q,vv)(0)/2 sinh 2Θ, Θ = ∫ h_cv dt."""
        h = self.H[:, *CV]
        turn = np.concatenate([[0.0], np.cumsum((h[1:] + h[:-1]) / 2 * np.diff(self.time))])
        first = self.B[0]
        return first[CV] * np.cosh(2 * turn) + (first[0, 0] + first[3, 3]) / 2 * np.sinh(2 * turn)


def plateau_growth(classes):
    """h_cv / w_c at uniform attention, when no neuron is silent but those of samples whose signs all agree: 1 / (2 (K+1)³).

    A query s_j v_j gives the identifier 1/L of its attention, so ∂z_+/∂A[c_k,v_j] = s_j/L² · (w_c − (w_c + w_v Σs)/L) in class k,
    and h[c_k,v_j] = (1/K) E[y r s_j/L² · (w_c K/L − w_v Σs/L)] with the residual r = 1/(1 + e^{yF}). Own minus other signal has
    the factor y (s_k − s_j) = 2·1[s_j ≠ y]: unanimous samples drop out, so their silent neurons do not matter. On the rest F
    is an odd function of Σs (the heads are reflections), and given s_k = y, s_j = −y the sum Σs is symmetric about 0.
    Hence E r = 1/2; r(Σs) + r(−Σs) = 1 and averaging over both labels removes w_v; what is left is w_c/L³ · 2 · 1/2 · 1/2.
    """
    return 1 / (2 * (classes + 1) ** 3)


def critical(field, time, states, *, error=None):
    """The critical sub-system along saved `states` (T, size) of a flow, or of descent with its gates taken as they are.

    A symmetric field has the contrast sector; of a gram field on a uniform mixture it is the class average. With `error`, how far
    the states of a symmetric flow may be from the truth, h is also bounded between the saves (`enclosure.py`).
    """
    _needs_classes(field)
    states = np.asarray(states, float)
    gates = np.array([gates_at(field, y) for y in states])
    between = None
    if error is not None:
        if field.model != "symmetric":
            raise mf.SpecError(
                f"model = {field.model!r}: bounds between the saves need model 'symmetric'; leave out error."
            )
        between = enclose(field, time, states, error)
    return along(field, time, states, gates, between)


def critical_of_run(data, task, transformer):
    """The critical sub-system of a run's dataset: of its sectors if it has them, otherwise its class average."""
    field, suffix = _field_of_run(data, task, transformer)
    parts = [data[name + suffix].transpose("time", ...).values for name in ("w", "A", "G_K", "G_Q")]
    states = np.array([field.pack(*(part[i] for part in parts)) for i in range(data.sizes["time"])])
    return critical(field, data["time"].values, states)


def score_of_run(data, task, transformer):
    """(T,) A_cv of the contrast sector, or of the class average: the cheap part of the above."""
    field, suffix = _field_of_run(data, task, transformer)
    return contrast(field, data["A" + suffix].transpose("time", ...).values)[:, C, V]


def _field_of_run(data, task, transformer):
    if not getattr(task, "uniform", False):
        raise mf.SpecError("the critical sub-system needs a Mixture with uniform priors and orthonormal features.")
    if "A_sector" in data:
        return mf.field(task, transformer, model="symmetric"), "_sector"
    return mf.field(task, transformer, model="gram"), ""


def _needs_classes(field):
    if field.model == "symmetric":
        return
    K = field.side // 2
    identifiers = [name.split()[0] for _, name in field.gate_names]
    if field.constants["Gamma"] is not None or set(identifiers) != {f"c{k + 1}" for k in range(K)}:
        raise mf.SpecError("the critical sub-system needs the classes of a Mixture with orthonormal features.")


def gates_at(field, y):
    """(2n,) the gates of a state of the flow: 0, 1, or the λ that keeps a neuron at its surface."""
    z = field.z(y)
    gates = (z > SURFACE).astype(float)
    touching = np.flatnonzero(np.abs(z) <= SURFACE)
    if len(touching):
        gates[touching] = np.clip(field.shares(y, gates, touching), 0, 1)
    return gates


def along(field, time, states, gates, between=None):
    """The critical sub-system of `field` along states (T, size) with given gates (T, 2n)."""
    parts = field.unpack(states)
    ignorant = {**parts, "A": _forget(field, parts["A"])}
    speed = field.unpack(field.velocities(states, gates))
    return Critical(
        time=np.asarray(time, float),
        B=_joint(field, parts),
        H=_growth(field, parts, gates),
        forcing=_growth(field, ignorant, gates),
        speed=_joint(field, speed),
        between=between,
    )


def contrast(field, X):
    """(T, 2, 2) the contrast sector of matrices X (T, 2, f, f), averaged over the classes and the heads if there are several.

    Diagonal minus off-diagonal mean of each block; the blocks cv and vc of head − count with the opposite sign (reflection).
    """
    if field.model == "symmetric":
        return X[:, CONTRAST]
    K = field.side // 2
    blocks = X.reshape(len(X), 2, 2, K, 2, K)
    own = np.einsum("thikjk->thij", blocks)
    other = blocks.sum(axis=(3, 5)) - own
    return ((own / K - other / (K * (K - 1))) * MIRROR).mean(axis=1)


MIRROR = np.array([[[1.0, 1.0], [1.0, 1.0]], [[1.0, -1.0], [-1.0, 1.0]]])  # head, kind of key, kind of query


def _forget(field, A):
    """A with the contrast sector's c–v scores (of the class average) taken out."""
    known = contrast(field, A)
    known = np.stack([np.zeros_like(known), known], axis=1) * (1 - np.eye(2))
    if field.model == "symmetric":
        return A - known
    K = field.side // 2
    spread = np.einsum("tij,hij,kl->thikjl", known[:, 1], MIRROR, np.eye(K) - 1 / K)
    return A - spread.reshape(A.shape)


def _joint(field, parts):
    A, G_K, G_Q = (contrast(field, parts[name]) for name in ("A", "G_K", "G_Q"))
    return np.block([[G_K, A], [A.swapaxes(1, 2), G_Q]])


def _growth(field, parts, gates):
    """H: with G_K = G_Q = 1/2 the field's A' = G_K h + h G_Q is h itself."""
    half = np.broadcast_to(np.eye(field.side) / 2, parts["A"].shape)
    states = np.array([field.pack(w, A, G, G) for w, A, G in zip(parts["w"], parts["A"], half, strict=True)])
    h = contrast(field, field.unpack(field.velocities(states, gates))["A"])
    zero = np.zeros_like(h)
    return np.block([[zero, h], [h.swapaxes(1, 2), zero]])
