"""A mixture of linear regressions: signals carry real values, and the label is the value of the addressed one."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from ...checks import listed, real, shown, whole
from ...errors import SpecError
from ...spec import recipe
from ..finite import FiniteTask
from ..mixture import ATOM_LIMIT

if TYPE_CHECKING:
    from ...types import Sequence


@recipe
def regression(classes: int = 2, *, values: Sequence[float] = (-1.0, -0.5, 0.5, 1.0)) -> FiniteTask:
    """A sample holds c_k and x_1 v_1, …, x_K v_K, each x_j one of `values`; the label is x_k, the loss (F − x_k)²/2.

    A sample is hard where the mean of the signals' values is not the label: there the identifier is needed.

    >>> regression(1, values=(0.5, 2)).labels.tolist()
    [0.5, 2.0]
    """
    K = whole("classes", classes, most=ATOM_LIMIT)
    given = listed("values", values, "a list of different numbers, for example (-1, 1)", most=ATOM_LIMIT)
    values = tuple(real(f"values[{i}]", x) for i, x in enumerate(given))
    if len(values) < 2 or len(set(values)) != len(values) or 0 in values:
        raise SpecError(f"values = {shown(values)}: expected at least two different numbers, none of them 0.")
    if K > 30 or K * len(values) ** K > ATOM_LIMIT:
        raise SpecError(f"classes = {K} with {len(values)} values has {K}·{len(values)}^{K} atoms, above {ATOM_LIMIT}.")
    cases = [(k, x) for k in range(K) for x in itertools.product(values, repeat=K)]
    identifiers = tuple(f"c{k + 1}" for k in range(K))
    return FiniteTask(
        identifiers=identifiers,
        features=(*identifiers, *(f"v{k + 1}" for k in range(K))),
        atoms=[[(f"c{k + 1}", 1.0), *((f"v{j + 1}", value) for j, value in enumerate(x))] for k, x in cases],
        labels=[x[k] for k, x in cases],
        hard=[abs(sum(x) / K - x[k]) > 1e-12 for k, x in cases],
        loss="squared",
    )
