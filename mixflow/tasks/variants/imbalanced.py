"""Classes and signs that are not equally likely."""

import itertools
import numbers

import numpy as np

from ...checks import real
from ...errors import SpecError
from ..mixture import Mixture


def imbalanced(classes=2, *, priors=None, positive=0.5):
    """The mixture with class probabilities `priors` and signs that are + with probability `positive`, as a FiniteTask.

    priors    K probabilities; uniform if not given
    positive  one probability for all signals, or K of them; independent of the class

    >>> imbalanced(2, positive=0.9).probabilities[:2].round(4).tolist()
    [0.405, 0.045]
    """
    mixture = Mixture(classes=classes, priors=priors)
    K = mixture.classes
    listed = [positive] * K if isinstance(positive, numbers.Real) else list(positive)
    if len(listed) != K:
        raise SpecError(f"positive has {len(listed)} entries: expected one number, or {K}, one for each signal.")
    q = np.array([real("positive", x, least=0, most=1) for x in listed])
    prior = np.full(K, 1 / K) if mixture.priors is None else np.array(mixture.priors)
    atoms = [(k, s) for k in range(K) for s in itertools.product((1.0, -1.0), repeat=K)]
    chance = [prior[k] * np.prod(np.where(np.array(s) > 0, q, 1 - q)) for k, s in atoms]
    return mixture.finite(atoms, chance)
