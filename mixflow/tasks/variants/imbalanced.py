"""Classes and signs that are not equally likely."""

from __future__ import annotations

import numbers
from typing import TYPE_CHECKING

import numpy as np

from ...checks import listed, real
from ...errors import SpecError
from ...spec import recipe
from ..mixture import Mixture

if TYPE_CHECKING:
    from ...tasks.finite import FiniteTask
    from ...types import Sequence


@recipe
def imbalanced(classes: int = 2, *, priors: Sequence[float] | None = None, positive: float = 0.5) -> FiniteTask:
    """The mixture with class probabilities `priors` and signs that are + with probability `positive`, as a FiniteTask.

    priors    K probabilities; uniform if not given
    positive  one probability for all signals, or K of them; independent of the class

    >>> imbalanced(2, positive=0.9).probabilities[:2].round(4).tolist()
    [0.405, 0.045]
    """
    mixture = Mixture(classes=classes, priors=priors)
    K = mixture.classes
    atoms = mixture.all_atoms()
    one = isinstance(positive, numbers.Real)
    chances = [positive] * K if one else listed("positive", positive, "one number, or one for each signal")
    if len(chances) != K:
        raise SpecError(f"positive has {len(chances)} entries: expected one number, or {K}, one for each signal.")
    q = np.array([real("positive", x, least=0, most=1) for x in chances])
    prior = np.full(K, 1 / K) if mixture.priors is None else np.array(mixture.priors)
    chance = [prior[k] * np.prod(np.where(np.array(s) > 0, q, 1 - q)) for k, s in atoms]
    return mixture.finite(atoms, chance)
