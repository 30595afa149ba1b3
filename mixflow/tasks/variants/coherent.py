"""Features that are not orthogonal: a Gram matrix with one coherence parameter."""

from __future__ import annotations

import numpy as np

from ...checks import one_of, real, whole
from ...errors import SpecError
from ...spec import recipe
from ..mixture import Mixture

LARGEST = 64  # classes; a mixture with a Γ of its own can be listed, and so trained, up to K = 8
PAIRS = ("all", "identifiers", "signals", "own", "cross")


@recipe
def coherent(classes: int = 2, *, coherence: float, pairs: str = "all") -> Mixture:
    """The mixture with Γ_ij = `coherence` between the chosen pairs of features, 1 on the diagonal, 0 elsewhere.

    pairs  "all"          any two features
           "identifiers"  c_i and c_j
           "signals"      v_i and v_j
           "own"          c_k and its own v_k: the features themselves hint at the correspondence
           "cross"        every c_i and every v_j, own or not

    >>> coherent(2, coherence=0.5, pairs="own").gram[0]
    (1.0, 0.0, 0.5, 0.0)
    """
    K = whole("classes", classes, most=LARGEST)
    one_of("pairs", pairs, PAIRS)
    coherence = real("coherence", coherence)
    P = pattern(K, pairs)
    values = np.linalg.eigvalsh(P)
    # 1 + ρ λ ≥ 0 for every eigenvalue λ of the pattern; a pattern without entries (K = 1) has none but 0.
    least = -1 / values[-1] if values[-1] > 1e-12 else -np.inf
    most = -1 / values[0] if values[0] < -1e-12 else np.inf
    if not least - 1e-12 <= coherence <= most + 1e-12:
        raise SpecError(
            f"coherence = {coherence:g} makes Γ indefinite: for {K} classes and pairs={pairs!r} expected a number from "
            f"{least:.6g} to {most:.6g}."
        )
    return Mixture(classes=K, gram=np.eye(2 * K) + coherence * P)


def pattern(classes, pairs):
    """(2K, 2K) with 1 at the chosen pairs of (c1..cK, v1..vK), 0 elsewhere and on the diagonal."""
    ones, own = np.ones((classes, classes)), np.eye(classes)
    among, nothing = ones - own, np.zeros_like(ones)
    c, v, across = {
        "all": (among, among, ones),
        "identifiers": (among, nothing, nothing),
        "signals": (nothing, among, nothing),
        "own": (nothing, nothing, own),
        "cross": (nothing, nothing, ones),
    }[pairs]
    return np.block([[c, across], [across, v]])
