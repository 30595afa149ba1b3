"""Identifiers made of two tokens, neither of which says enough alone."""

from __future__ import annotations

import itertools

from ...checks import listed, one_of, shown, whole
from ...errors import SpecError
from ...spec import recipe
from ..finite import FiniteTask
from ..mixture import ATOM_LIMIT

RULES = ("pair", "parity")


@recipe
def composed(parts: tuple[int, int] = (2, 2), *, rule: str = "pair") -> FiniteTask:
    """A sample holds two identifier tokens ca_i and cb_j, and every signal; together they say which signal is the label.

    parts  I and J: i = 1 … I, j = 1 … J, all pairs equally likely
    rule   "pair"    I·J signals; (i, j) addresses a signal of its own, and each part alone narrows the choice
           "parity"  two signals; v1 if i + j is even, v2 if it is odd, and each part alone says nothing

    A sample is hard where the plain vote of the signals is wrong, as in the mixture.

    >>> composed((2, 2), rule="parity").names[0]
    'ca1 cb1 +v1 +v2'
    """
    given = listed("parts", parts, "two numbers, for example (2, 2)", most=ATOM_LIMIT)
    if len(given) != 2:
        raise SpecError(f"parts = {shown(parts)}: expected two numbers, for example (2, 2).")
    I, J = (whole(f"parts[{i}]", part, most=ATOM_LIMIT) for i, part in enumerate(given))
    one_of("rule", rule, RULES)
    if rule == "parity" and (I < 2 or J < 2):
        raise SpecError(f"parts = {(I, J)}: parity needs two tokens of each part, for example (2, 2).")
    K = I * J if rule == "pair" else 2
    if K > 30 or I * J * 2**K > ATOM_LIMIT:
        raise SpecError(
            f"parts = {(I, J)} with rule={rule!r} has {I * J}·2^{K} atoms, above the limit of {ATOM_LIMIT}."
        )

    def address(i, j):
        return i * J + j if rule == "pair" else (i + j) % 2

    cases = [(i, j, s) for i in range(I) for j in range(J) for s in itertools.product((1.0, -1.0), repeat=K)]
    labels = [s[address(i, j)] for i, j, s in cases]
    identifiers = (*(f"ca{i + 1}" for i in range(I)), *(f"cb{j + 1}" for j in range(J)))
    return FiniteTask(
        features=(*identifiers, *(f"v{k + 1}" for k in range(K))),
        identifiers=identifiers,
        atoms=[
            [(f"ca{i + 1}", 1.0), (f"cb{j + 1}", 1.0), *((f"v{k + 1}", sign) for k, sign in enumerate(s))]
            for i, j, s in cases
        ],
        labels=labels,
        hard=[y * sum(s) <= 0 for y, (_, _, s) in zip(labels, cases)],
    )
