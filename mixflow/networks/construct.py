"""A transformer for any K in closed form: explicit weights, and one certified margin on every atom (docs/mathematics.md §9).

    w = β on every c_k, 0 on every v_k       A_±[c_k, c_k] = C       A_±[v_k, c_k] = ∓B       all else 0

    y F = (β/L) [ e^C/(e^C + e^{−B} + K − 1) − e^C/(e^C + e^B + K − 1) ]        on each of the K·2^K atoms, for b ≥ 0

`evaluate` does not use the formula: it runs the attention on the weights, atom by atom up to K = 12 and by atom type
(label y, number n of + signs among the others) beyond.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import asdict, dataclass

import numpy as np

from .. import display
from ..checks import real, whole
from ..errors import SpecError
from ..tasks.mixture import CLASS_LIMIT, Mixture
from ..tasks.symmetry import SECTORS, atom_types, binomial, expand

ENUMERATED = 12  # classes up to which every atom is evaluated by itself: 49152 atoms, a second
WEIGHTS = 2**27  # float64 entries (1 GiB) of W_K beyond which the weights are not written out
STRONGEST = 700.0  # scores beyond this leave float64
EASE = 3.0  # default C = log K + EASE and B = 2C: 95 % of the largest margin β/L


@dataclass(frozen=True, kw_only=True)
class Construction:
    """The closed-form transformer; made by `construct`.

    classes  K
    beta     β, the value of every identifier
    B, C     scores of the own signal and of the identifier itself for the query c_k
    bias     b ≥ 0
    width    m ≥ K rows of W_K and W_Q
    """

    classes: int
    beta: float
    B: float
    C: float
    bias: float
    width: int

    @property
    def task(self):
        """The task it solves."""
        return Mixture(classes=self.classes)

    def _repr_html_(self):
        return display.construction(self)

    def spec(self):
        """A JSON-ready description from which `from_spec` builds an equal network."""
        return {"kind": "construct", **asdict(self)}

    @classmethod
    def from_spec(cls, spec):
        return cls(**{key: value for key, value in spec.items() if key != "kind"})

    @property
    def margin(self):
        """The certified y·F of every atom."""
        return self.beta / (self.classes + 1) * gap(self.B, self.C, self.classes)

    @property
    def sectors(self):
        """Head + in the 22 numbers of §4: w (2,), A, G_K, G_Q (sector, 2, 2); each block is a multiple of I, so sectors agree."""
        A = np.array([[self.C, 0.0], [-self.B, 0.0]])
        norm = math.hypot(self.B, self.C)
        G_K = np.outer(A[:, 0], A[:, 0]) / norm if norm else np.zeros((2, 2))

        def both(X):
            return np.stack([X] * len(SECTORS))

        return {"w": np.array([self.beta, 0.0]), "A": both(A), "G_K": both(G_K), "G_Q": both(np.diag([norm, 0.0]))}

    @property
    def state(self):
        """Both heads in feature coordinates: w (2, 2K), A, G_K, G_Q (2, 2K, 2K)."""
        self._writable(2 * self.classes)
        return expand(self.sectors, self.classes)

    @property
    def w(self):
        """(2, 2K) values of the features."""
        return self.state["w"]

    @property
    def A(self):
        """(2, 2K, 2K) scores, row = key, column = query."""
        return self.state["A"]

    @property
    def W_K(self):
        """(2, m, 2K) key weights: row k holds C on c_k and ∓B on v_k, divided by √‖(B, C)‖; rows beyond K are zero."""
        self._writable(self.width)
        K, scale = self.classes, self._scale
        W = np.zeros((2, self.width, 2 * K))
        k = np.arange(K)
        W[:, k, k] = self.C / scale
        W[0, k, K + k], W[1, k, K + k] = -self.B / scale, self.B / scale
        return W

    @property
    def W_Q(self):
        """(2, m, 2K) query weights: row k holds √‖(B, C)‖ on c_k, so that both factors have the least possible norm."""
        self._writable(self.width)
        W = np.zeros((2, self.width, 2 * self.classes))
        k = np.arange(self.classes)
        W[:, k, k] = self._scale if self.B or self.C else 0.0
        return W

    def evaluate(self):
        """Margins, losses, accuracy and attention on the whole population, by running the attention on the weights."""
        if self.classes <= ENUMERATED:
            z, y, hard = every_atom(self.w, self.A, self.bias)
            probability = np.full(len(y), 1 / len(y))
        else:
            z, y, hard = every_type(self.sectors, self.classes, self.bias)
            probability = np.tile(binomial(self.classes), 2) / 2
        on = np.maximum(z, 0)
        return Evaluation(margin=y * (on[0] - on[1]), probability=probability, hard=hard, z=z, attention=self.attention)

    @property
    def attention(self):
        """{label y: (head, 3)}: how the query c_k of an atom with that label divides its attention, whatever the other signs.

        Shares: the identifier itself, its own signal, all other signals together.
        """
        found = {}
        for y in (1, -1):
            own = np.array([-y * self.B, y * self.B])  # score of the token y v_k in head + and head −
            top = np.maximum(self.C, own)
            share = np.stack([np.exp(self.C - top), np.exp(own - top), (self.classes - 1) * np.exp(-top)], axis=1)
            found[y] = share / share.sum(axis=1, keepdims=True)
        return found

    @property
    def _scale(self):
        return math.sqrt(math.hypot(self.B, self.C)) or 1.0

    def _writable(self, rows):
        if 2 * rows * 2 * self.classes > WEIGHTS:
            raise SpecError(
                f"classes = {self.classes}: the weights of {rows} rows do not fit in memory; use `sectors` and `evaluate`, "
                "which need none of them."
            )


@dataclass(frozen=True, eq=False, kw_only=True)
class Evaluation:
    """A network on the whole population.

    margin, probability, hard  (n,) of every atom, or of every atom type
    z                          (2, n) inputs of the neurons
    attention                  how the identifier as query divides its attention
    """

    margin: np.ndarray
    probability: np.ndarray
    hard: np.ndarray
    z: np.ndarray
    attention: dict

    def _mean(self, each, where=True):
        weight = self.probability * where
        return float(each @ weight / weight.sum())

    @property
    def loss(self):
        """Mean logistic loss."""
        return self._mean(np.logaddexp(0, -self.margin))

    @property
    def loss_easy(self):
        """Mean logistic loss of the easy samples."""
        return self._mean(np.logaddexp(0, -self.margin), ~self.hard)

    @property
    def loss_hard(self):
        """Mean logistic loss of the hard samples."""
        return self._mean(np.logaddexp(0, -self.margin), self.hard)

    @property
    def accuracy(self):
        """Share of right answers; F = 0 counts as half."""
        return self._mean(np.where(self.margin == 0, 0.5, self.margin > 0))


def construct(
    *,
    classes: int,
    target_margin: float | None = None,
    width: int | None = None,
    beta: float | None = None,
    B: float | None = None,
    C: float | None = None,
    bias: float = 0.5,
) -> Construction:
    """The closed-form transformer for `classes` classes, with a certified margin on every sample.

    classes        K, from 2 to 100,000
    target_margin  the margin wanted; without `beta` it sets β, with `beta` it sets the scores. 1 if nothing else is given.
    width          m ≥ K; K if not given, wider networks get zero rows
    beta, B, C     the weights' scales, each at least 0
    bias           b ≥ 0

    Returns a Construction: `margin`, `evaluate()`, `w` (2, 2K), `A` (2, 2K, 2K), `W_K`, `W_Q` (2, m, 2K).
    Raises SpecError for a margin that the given scales cannot reach and for scores that leave float64.

    >>> net = construct(classes=3, target_margin=2.0)
    >>> round(net.margin, 12), round(float(net.evaluate().margin.min()), 12)
    (2.0, 2.0)
    """
    K = whole("classes", classes, least=2, most=CLASS_LIMIT, fix="with one class there is nothing to tell apart")
    m = K if width is None else whole("width", width, least=K, fix=f"the scores have rank K = {K}")
    bias = real("bias", bias, least=0, fix="below 0 the neurons need not be on and the margin is not certified")
    given = {"beta": beta, "B": B, "C": C}
    beta, B, C = (
        None if x is None else real(name, x, least=0, most=STRONGEST if name != "beta" else None)
        for name, x in given.items()
    )
    if beta is None and target_margin is None:
        target_margin = 1.0
    target = None if target_margin is None else real("target_margin", target_margin, above=0)
    if beta is not None and target is not None:
        B, C = _scores_for(target * (K + 1) / beta if beta else math.inf, B, C, K, beta)
    C = math.log(K) + EASE if C is None else C
    B = min(2 * C, STRONGEST) if B is None else B
    if beta is None:
        reach = gap(B, C, K)
        if reach == 0:
            raise SpecError(f"B = {B:g}: with these scores the heads do not differ and the margin is 0; take B > 0.")
        beta = target * (K + 1) / reach
    return Construction(classes=K, beta=beta, B=B, C=C, bias=bias, width=m)


def gap(B, C, K):
    """e^C/(e^C + e^{−B} + K − 1) − e^C/(e^C + e^B + K − 1): attention of the query c_k to itself, head + minus head −, y = +.

    Over a common denominator, so that a small gap keeps all its digits:  e^C (e^B − e^{−B}) / (D_+ D_−), scaled by e^{−C−B}.
    """
    plus = 1 + math.exp(-B - C) + (K - 1) * math.exp(-C)  # D_+ / e^C
    minus = math.exp(-B) + math.exp(-C) + (K - 1) * math.exp(-B - C)  # D_− / e^{C+B}
    return -math.expm1(-2 * B) * math.exp(-C) / (plus * minus)


def _scores_for(wanted, B, C, K, beta):
    """B, C with gap(B, C, K) = wanted; the gap of (2C, C) rises from 0 to 1 with C, that of (B, C) with B to its limit."""
    if B is not None:
        raise SpecError(
            "beta, B and target_margin are all given: the margin is their consequence; leave one of them out."
        )
    # At B → ∞ the second share vanishes; at C → ∞ too, the first is 1.
    limit = 1.0 if C is None else 1 / (1 + (K - 1) * math.exp(-C))
    reach = 1.0 if C is None else gap(STRONGEST, C, K)
    if wanted >= limit or wanted > reach:
        fix = (
            f"beta above {wanted * beta:.6g}" if C is None else f"beta above {wanted * beta / limit:.6g} or a larger C"
        )
        held = f"beta = {beta:g}" if C is None else f"beta = {beta:g} and C = {C:g}"
        raise SpecError(
            f"target_margin = {wanted * beta / (K + 1):g}: with {held} the margin "
            f"stays below {limit * beta / (K + 1):.6g} = β/L times the largest share, whatever the other scores; take {fix}."
        )
    from scipy.optimize import brentq

    if C is None:
        C = brentq(lambda c: gap(2 * c, c, K) - wanted, 0.0, STRONGEST / 2, xtol=1e-15, rtol=1e-15)
        return 2 * C, C
    return brentq(lambda b: gap(b, C, K) - wanted, 0.0, STRONGEST, xtol=1e-15, rtol=1e-15), C


def every_atom(w, A, bias):
    """z (2, K·2^K), label and hardness of every atom (class first, then signs) for any weights in feature coordinates.

    w (2, 2K), A (2, 2K, 2K). One class at a time, so that K = 12 needs 20 MB and no list of named atoms.
    """
    w, A = np.asarray(w, float), np.asarray(A, float)
    K = w.shape[-1] // 2
    s = np.array(list(itertools.product((1.0, -1.0), repeat=K)))  # (2^K, K)
    token = np.concatenate([np.ones((len(s), 1)), s], axis=1)  # coefficients of c_k, v_1 … v_K
    z = np.empty((2, K, len(s)))
    for k, h in itertools.product(range(K), (0, 1)):
        f = np.array([k, *range(K, 2 * K)])
        S = token[:, :, None] * A[h][np.ix_(f, f)] * token[:, None, :]  # (2^K, key, query)
        E = np.exp(S - S.max(axis=1, keepdims=True))
        read = np.einsum("ak,akq->aq", token * w[h, f], E) / E.sum(axis=1)
        z[h, k] = bias + read.mean(axis=1)
    y = s.T.ravel()
    return z.reshape(2, -1), y, y * np.tile(s.sum(axis=1), K) <= 0


def every_type(sectors, K, bias):
    """z (2, 2K), label and hardness of every atom type for weights in sector form, in NumPy and stable for any scores.

    The four kinds of queries and five kinds of keys of §4, with their multiplicities; order as in `atom_types`.
    """
    _, y, n, _ = atom_types(K)
    w_c, w_v = sectors["w"]
    off = (sectors["A"][0] - sectors["A"][1]) / K
    D = sectors["A"][1] + off  # own class; `off` between two classes
    p, q = n.astype(float), (K - 1 - n).astype(float)
    zero = np.zeros(len(y))

    def read(c, own, plus, minus, same=zero, itself=zero, p=p, q=q):
        """What one query hears: scores of c_k, y v_k, each +v_j, each −v_j, and ±v_j itself (sign `itself`)."""
        score = np.stack([np.broadcast_to(x, y.shape) for x in (c, own, plus, minus, same)])
        many = np.stack([np.ones(len(y)), np.ones(len(y)), np.maximum(p, 0), np.maximum(q, 0), np.abs(itself)])
        value = np.stack([np.full(len(y), w_c), w_v * y, zero + w_v, zero - w_v, w_v * itself])
        E = many * np.exp(score - np.where(many > 0, score, -np.inf).max(axis=0))
        return (E * value).sum(axis=0) / E.sum(axis=0)

    cv, vc, vv = off[0, 1], off[1, 0], off[1, 1]
    heard = read(D[0, 0], y * D[1, 0], vc, -vc) + read(y * D[0, 1], D[1, 1], y * vv, -y * vv)
    one = np.ones(len(y))
    heard += p * read(cv, y * vv, vv, -vv, D[1, 1], one, p=p - 1)
    heard += q * read(-cv, -y * vv, -vv, vv, D[1, 1], -one, q=q - 1)
    z = bias + heard / (K + 1)
    mirror = np.concatenate([z[K:][::-1], z[:K][::-1]])  # z_−(y, n) = z_+(−y, K−1−n)
    return np.stack([z, mirror]), y.astype(float), y * (y + 2 * n - (K - 1)) <= 0
