"""More than two answers: signals with several values, a softmax output with one head for each."""

from __future__ import annotations

import itertools
from collections import Counter

from ...checks import whole
from ...errors import SpecError
from ...spec import recipe
from ..finite import FiniteTask
from ..mixture import ATOM_LIMIT


@recipe
def multiclass(classes: int = 2, *, values: int = 3) -> FiniteTask:
    """A sample holds c_k and one token v_j:x_j for every signal j, x_j = 0 … values-1; the label is x_k, the loss softmax.

    Every value of every signal is a feature of its own, orthogonal to the others: K + K·values features. A sample is hard
    where its label is not the strict majority of the signals' values.

    >>> multiclass(2, values=3).names[1]
    'c1 +v1:0 +v2:1'
    """
    K, C = whole("classes", classes, most=ATOM_LIMIT), whole("values", values, least=2, most=ATOM_LIMIT)
    if K > 30 or K * C**K > ATOM_LIMIT:
        raise SpecError(f"classes = {K} with values = {C} has {K}·{C}^{K} atoms, above the limit of {ATOM_LIMIT}.")
    cases = [(k, x) for k in range(K) for x in itertools.product(range(C), repeat=K)]
    identifiers = tuple(f"c{k + 1}" for k in range(K))
    return FiniteTask(
        identifiers=identifiers,
        features=(*identifiers, *(f"v{j + 1}:{x}" for j in range(K) for x in range(C))),
        atoms=[[(f"c{k + 1}", 1.0), *((f"v{j + 1}:{value}", 1.0) for j, value in enumerate(x))] for k, x in cases],
        labels=[x[k] for k, x in cases],
        hard=[not _wins(x[k], x) for k, x in cases],
        loss="softmax",
    )


def _wins(value, votes):
    count = Counter(votes)
    return all(count[value] > number for other, number in count.items() if other != value)
