"""Longer sequences: tokens that say nothing, and tokens that stand more than once."""

import itertools
import math
from collections import Counter

import numpy as np

from ...checks import whole
from ...errors import SpecError
from ..finite import FiniteTask, finite_population
from ..mixture import ATOM_LIMIT, Mixture


def distractors(task, *, count=1, kinds=1):
    """`task` with `count` more tokens in every sample, each ±d_1, …, ±d_kinds with equal probability.

    They are independent of everything else, so the label does not depend on them; the sequence is longer by `count`.

    >>> from mixflow import Mixture
    >>> distractors(Mixture(1), count=2).names[:3]
    ('c1 +v1 +d1 +d1', 'c1 +v1 +d1 -d1', 'c1 +v1 -d1 -d1')
    """
    task = finite_population("distractors", task)
    count, kinds = whole("count", count, least=0), whole("kinds", kinds)
    new = tuple(f"d{i + 1}" for i in range(kinds))
    taken = set(new) & set(task.features)
    if taken:
        raise SpecError(f"the task has a feature {min(taken)} already: distractors need names of their own.")
    tokens = [(name, sign) for name in new for sign in (1.0, -1.0)]
    number = math.comb(count + len(tokens) - 1, count)  # multisets
    if number * len(task.atoms) > ATOM_LIMIT:
        raise SpecError(
            f"count = {count} distractors of kinds = {kinds} give {number * len(task.atoms)} atoms, above the limit of "
            f"{ATOM_LIMIT}: take fewer."
        )
    added = [
        (added, _orders(added) / len(tokens) ** count)
        for added in itertools.combinations_with_replacement(tokens, count)
    ]
    pairs = [(a, extra, chance) for a in range(len(task.atoms)) for extra, chance in added]
    F = len(task.features)
    gram = np.eye(F + kinds)
    gram[:F, :F] = task.gram
    index = [a for a, _, _ in pairs]
    return FiniteTask(
        features=(*task.features, *new),
        atoms=[(*task.atoms[a], *extra) for a, extra, _ in pairs],
        labels=task.labels[index],
        probabilities=[task.probabilities[a] * chance for a, _, chance in pairs],
        gram=gram,
        hard=task.hard[index],
        loss=task.loss,
    )


def repeated(classes=2, *, signals=2, identifiers=1):
    """The mixture in which every signal stands `signals` times and the identifier `identifiers` times.

    The length is identifiers + K · signals; what is to be learned is the same, but one identifier among many signals gets
    less of the attention.

    >>> repeated(1, signals=2).names
    ('c1 +v1 +v1', 'c1 -v1 -v1')
    """
    signals, identifiers = whole("signals", signals), whole("identifiers", identifiers)
    task = Mixture(classes=classes).population()
    many = lambda name: identifiers if name.startswith("c") else signals  # noqa: E731
    return FiniteTask(
        features=task.features,
        atoms=[[token for token in atom for _ in range(many(token[0]))] for atom in task.atoms],
        labels=task.labels,
        hard=task.hard,
    )


def _orders(tokens):
    """In how many orders these tokens can come."""
    return math.factorial(len(tokens)) / math.prod(math.factorial(n) for n in Counter(tokens).values())
