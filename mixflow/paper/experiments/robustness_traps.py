"""Settings in which the infinitely wide network cannot learn, by theorem, and the loss it is left with (§13)."""

import math

from .robustness_rows import BIAS

LOG2 = math.log(2)
# Symmetries of the start that training keeps: hard samples of both labels have one answer, and half of all samples are hard.
MIRROR = "the mirror symmetry keeps A_cv = A_vc = 0 for ever, so hard samples are tied"
TIED = {
    "shared attention": MIRROR,
    "linear output": MIRROR,
    "scaled scores": "scores vanish like 1/√m, so attention stays uniform and hard samples are tied",
    "composed identifiers, parity": "exchanging the values of either token exchanges the signals: no token tells them apart",
}


def floor(variant, strength):
    """(least loss, why) of the infinitely wide network where it is trapped; None where it is not.

    With every neuron on the contrast stays 0, and the first neuron switches off when an easy sample has y·F = 2b. Where the easy
    samples' loss is least before that, none ever does.

    >>> round(floor("label noise", "0.3")[0], 6), floor("label noise", "0.2")
    (0.652006, None)
    """
    if variant in TIED:
        return LOG2 / 2, TIED[variant]
    if variant == "label noise":
        p = float(strength)
        best = math.log((1 - p) / p)
        if best >= 2 * BIAS:
            return None
        entropy = -p * math.log(p) - (1 - p) * math.log(1 - p)
        return (
            entropy + LOG2
        ) / 2, f"easy samples are best at y·F = log((1−p)/p) = {best:.3f} < 2b: no neuron switches off"
    if variant == "regression" and int(strength) == 2:  # ±1; tokens of several lengths also draw different attention
        return 0.25, "easy samples are exact at y·F = 1 = 2b: no neuron switches off, and hard ones stay at F = 0"
    return None
