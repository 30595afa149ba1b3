"""Labels that are sometimes wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...checks import real
from ...errors import SpecError
from ...spec import recipe
from ..finite import finite_population
from ..mixture import ATOM_LIMIT

if TYPE_CHECKING:
    from ...tasks import Task
    from ...tasks.finite import FiniteTask


@recipe
def label_noise(task: Task, *, probability: float) -> FiniteTask:
    """`task` with every label replaced by another one with the given probability, evenly among the other labels.

    Every atom stands once with each label it can get; its name says which it got, e.g. "c1 +v1 +v2 → -1". Works for labels
    ±1 and for classes; more than half of wrong labels would turn the answer round, so that is an error.

    >>> from mixflow import Mixture
    >>> label_noise(Mixture(1), probability=0.1).labels.tolist()
    [1.0, -1.0, -1.0, 1.0]
    """
    listed = finite_population("label_noise", task)
    if listed.loss == "squared":
        raise SpecError("label_noise needs labels ±1 or classes: a real label has no other one to be replaced by.")
    kinds = np.unique(listed.labels) if listed.loss == "softmax" else np.array([1.0, -1.0])
    least = (len(kinds) - 1) / len(kinds)
    p = real("probability", probability, least=0, below=least, fix="beyond it the wrong label is the likelier one")
    if len(listed.labels) > ATOM_LIMIT:
        raise SpecError(
            f"label_noise of {len(listed.labels)} atoms, {len(kinds)} labels for each: expected at most {ATOM_LIMIT} atoms; take "
            "a smaller task, or noise once instead of noise on noise."
        )
    index, labels, share, names = [], [], [], []
    for a, (label, name) in enumerate(zip(listed.labels, listed.names)):
        for given in (label, *kinds[kinds != label]):
            index.append(a)
            labels.append(given)
            share.append(1 - p if given == label else p / (len(kinds) - 1))
            names.append(name if given == label else f"{name} → {given:g}")
    return listed.relisted(index, share, labels=labels, names=names)
