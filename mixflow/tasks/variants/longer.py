"""Longer sequences: tokens that say nothing, and tokens that stand more than once."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ...checks import whole
from ...errors import SpecError
from ...spec import recipe
from ..finite import finite_population
from ..mixture import ATOM_LIMIT, Mixture

if TYPE_CHECKING:
    from ...tasks import Task
    from ...tasks.finite import FiniteTask

LARGEST = 4096  # of one kind of token in a sample
TOKEN_LIMIT = 10**6  # in all atoms together


@recipe
def distractors(task: Task, *, count: int = 1, kinds: int = 1) -> FiniteTask:
    """`task` with `count` more tokens in every sample, each ±d_1, …, ±d_kinds with equal probability.

    They are independent of everything else, so the label does not depend on them; the sequence is longer by `count`.

    >>> from mixflow import Mixture
    >>> distractors(Mixture(1), count=2).names[:3]
    ('c1 +v1 +d1 +d1', 'c1 +v1 +d1 -d1', 'c1 +v1 -d1 -d1')
    """
    listed = finite_population("distractors", task)
    count, kinds = whole("count", count, least=0, most=LARGEST), whole("kinds", kinds, most=LARGEST)
    new = tuple(f"d{i + 1}" for i in range(kinds))
    taken = set(new) & set(listed.features)
    if taken:
        raise SpecError(f"the task has a feature {min(taken)} already: distractors need names of their own.")
    tokens = [(name, sign) for name in new for sign in (1.0, -1.0)]
    number = math.comb(count + len(tokens) - 1, count)  # multisets
    atoms = number * len(listed.atoms)
    if atoms > ATOM_LIMIT or atoms * (count + max(map(len, listed.atoms))) > TOKEN_LIMIT:
        raise SpecError(
            f"count = {count} distractors of kinds = {kinds} give more than {ATOM_LIMIT} atoms, or more than {TOKEN_LIMIT} "
            "tokens: take fewer."
        )
    added = [
        (added, _orders(added) / len(tokens) ** count)
        for added in itertools.combinations_with_replacement(tokens, count)
    ]
    pairs = [(a, extra, chance) for a in range(len(listed.atoms)) for extra, chance in added]
    F = len(listed.features)
    gram = np.eye(F + kinds)
    gram[:F, :F] = listed.gram
    return listed.relisted(
        [a for a, _, _ in pairs],
        [chance for _, _, chance in pairs],
        features=(*listed.features, *new),
        atoms=[(*listed.atoms[a], *extra) for a, extra, _ in pairs],
        gram=gram,
        names=None,
    )


@recipe
def repeated(classes: int = 2, *, signals: int = 2, identifiers: int = 1) -> FiniteTask:
    """The mixture in which every signal stands `signals` times and the identifier `identifiers` times.

    The length is identifiers + K · signals; what is to be learned is the same, but one identifier among many signals gets
    less of the attention.

    >>> repeated(1, signals=2).names
    ('c1 +v1 +v1', 'c1 -v1 -v1')
    """
    signals, identifiers = whole("signals", signals, most=LARGEST), whole("identifiers", identifiers, most=LARGEST)
    mixture = Mixture(classes=classes)
    task = mixture.population()
    tokens = len(task.atoms) * (identifiers + mixture.classes * signals)
    if tokens > TOKEN_LIMIT:
        raise SpecError(
            f"signals = {signals}, identifiers = {identifiers} give {tokens} tokens, above {TOKEN_LIMIT}: take fewer."
        )
    many = {name: identifiers if name in task.identifiers else signals for name in task.features}
    longer = [[token for token in atom for _ in range(many[token[0]])] for atom in task.atoms]
    return replace(task, atoms=longer, names=None)


def _orders(tokens):
    """In how many orders these tokens can come."""
    return math.factorial(len(tokens)) / math.prod(math.factorial(n) for n in Counter(tokens).values())
