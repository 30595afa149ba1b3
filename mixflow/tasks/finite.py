"""Any task with finitely many token types: the only form of a task the exact engine knows (docs/mathematics.md §8)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np

from ..checks import listed, one_of, shown, word
from ..errors import SpecError
from ..spec import Spec, setting
from . import entries

if TYPE_CHECKING:
    from typing import Any

    from ..types import Array

SIGNED = ("logistic", "exponential", "linear", "squared")  # losses of labels ±1
LOSSES = (*SIGNED, "softmax")
ENTRY_LIMIT = 10**8  # of the table of tokens in atoms


@dataclass(frozen=True, eq=False, kw_only=True)
class FiniteTask(Spec, section="task", kind="finite"):
    """Atoms of (feature, coefficient) tokens with a label and a probability each.

    features       names of the F features, e.g. ("c1", "c2", "v1", "v2")
    atoms          n sequences of (feature name, coefficient) tokens; order inside an atom does not matter
    labels         n labels: +1 or -1; for loss="squared" real numbers; for loss="softmax" classes 0, 1, …, C-1
    probabilities  n non-negative numbers that sum to one, the weights of training; uniform if not given
    gram           Γ, the F×F Gram matrix of the features; identity if not given
    hard           n booleans, True where the plain vote is wrong; no atom is hard if not given
    names          n readable names; made from the tokens if not given
    loss           "logistic", log(1 + e^{-yF}); "exponential", e^{-yF}; "linear", -yF; "squared", (F - y)²/2, for regression;
                   "softmax" for C classes, with one head for each of them
    identifiers    names of the features that say which signal carries the label; those that begin with c if not given
    query          for each atom the one token (feature, coefficient) that asks, for networks with queries="one"; it is a key
                   only if it also stands in the atom
    held_out       n weights that sum to one, of the atoms in the mean that tests; an atom of probability 0 is not trained on
    watched        names of the features a dataset records; all if not given

    Raises SpecError for unknown features, empty atoms, labels other than ±1, probabilities that do not sum to one, or a Γ
    that is not a Gram matrix.

    >>> task = FiniteTask(features=("c1", "v1"), atoms=[[("c1", 1), ("v1", 1)], [("c1", 1), ("v1", -1)]], labels=[1, -1])
    >>> task.names
    ('c1 +v1', 'c1 -v1')
    """

    features: Sequence[str] = setting(check=entries.words)
    atoms: Sequence[Sequence[tuple[str, float]]] = setting(check=entries.atoms)
    labels: Sequence[float] = setting(check=entries.numbers)
    probabilities: Sequence[float] | None = setting(None, entries.numbers)
    gram: np.ndarray | None = setting(None, entries.matrix)
    hard: Sequence[bool] | None = setting(None, entries.flags)
    names: Sequence[str] | None = setting(None)
    loss: str = setting("logistic", partial(one_of, choices=LOSSES))
    identifiers: Sequence[str] | None = setting(None)
    query: Sequence[tuple[str, float]] | None = setting(None, entries.tokens)
    held_out: Sequence[float] | None = setting(None, entries.numbers)
    watched: Sequence[str] | None = setting(None, entries.words)

    def check(self) -> None:
        n, F = len(self.atoms), len(self.features)
        known = set(self.features)
        if F > entries.SIZE_LIMIT:
            raise SpecError(
                f"features has {F} entries: expected at most {entries.SIZE_LIMIT}, since Γ has their square."
            )
        for a, atom in enumerate(self.atoms):
            self._check_known(f"atoms[{a}]", known, (name for name, _ in atom))
        check_labels(self.labels, n, self.loss)
        self.settle(
            gram=np.eye(F) if self.gram is None else check_gram(self.gram, F),
            probabilities=check_probabilities("probabilities", self.probabilities, n),
            hard=np.zeros(n, bool) if self.hard is None else self.hard,
        )
        for name, value in (("hard", self.hard), ("query", self.query)):
            if value is not None and len(value) != n:
                raise SpecError(f"{name} has {len(value)} entries: expected one for each of the {n} atoms.")
        if self.held_out is not None:
            self.settle(held_out=check_probabilities("held_out", self.held_out, n))
        self._check_known("query", known, (name for name, _ in self.query or ()))
        self._check_known("watched", known, self.watched or ())
        self.settle(identifiers=self._identifiers(known))
        self.settle(names=self._names(n))
        if n * len(self._types) > ENTRY_LIMIT:
            raise SpecError(
                f"{n} atoms of {len(self._types)} kinds of token: expected at most {ENTRY_LIMIT} in their product; list fewer."
            )

    @staticmethod
    def _check_known(where, known, used):
        for name in used:
            if name not in known:
                names = shown(sorted(known)).strip("[]")
                raise SpecError(f"{where} names the feature {name!r}: expected one of {names}.")

    def _identifiers(self, known):
        if self.identifiers is None:
            return tuple(name for name in self.features if name.startswith("c"))
        chosen = {word("identifiers", name) for name in listed("identifiers", self.identifiers, "a list of features")}
        self._check_known("identifiers", known, chosen)
        return tuple(name for name in self.features if name in chosen)

    def _names(self, n):
        if self.names is None:
            bare = set(self.identifiers)
            return tuple(" ".join(written(name, s, name in bare) for name, s in atom) for atom in self.atoms)
        made = tuple(word(f"names[{i}]", x) for i, x in enumerate(listed("names", self.names, "a list of names")))
        if len(made) != n:
            raise SpecError(f"names has {len(made)} entries: expected one for each of the {n} atoms.")
        return made

    # Token types: τ = (feature, coefficient), and how often each stands in each atom. Softmax attention over a multiset
    # of tokens needs nothing else, so repeated tokens and atoms of different lengths cost no special case.
    @cached_property
    def _types(self):
        """{(index of the feature, coefficient): τ}, features in order, large coefficients first."""
        index = {name: i for i, name in enumerate(self.features)}
        used = {token for atom in self.atoms for token in atom}.union(self.query or ())
        kinds = sorted((index[name], -coefficient) for name, coefficient in used)
        return {(self.features[i], -negative): place for place, (i, negative) in enumerate(kinds)}

    @cached_property
    def token_feature(self) -> Array:
        """(T,) the feature of every token type, an index into `features`."""
        index = {name: i for i, name in enumerate(self.features)}
        return np.array([index[name] for name, _ in self._types])

    @cached_property
    def token_coefficient(self) -> Array:
        """(T,) the coefficient of every token type."""
        return np.array([coefficient for _, coefficient in self._types])

    @cached_property
    def token_index(self) -> Array:
        """(n, L) the token type at every position of every atom, -1 behind the end of shorter ones."""
        index = np.full((len(self.atoms), max(map(len, self.atoms))), -1)
        for a, atom in enumerate(self.atoms):
            index[a, : len(atom)] = [self._types[token] for token in atom]
        return index

    @cached_property
    def count(self) -> Array:
        """(n, T) M[a, τ], how often each token type stands in each atom."""
        count = np.zeros((len(self.atoms), len(self._types)))
        a, position = np.nonzero(self.token_index >= 0)
        np.add.at(count, (a, self.token_index[a, position]), 1)
        return count

    @cached_property
    def query_index(self) -> Array | None:
        """(n,) the token type that asks in each atom; None where every token does."""
        return None if self.query is None else np.array([self._types[token] for token in self.query])

    @property
    def is_identifier(self) -> Array:
        """(F,) True for the features that say which signal carries the label."""
        chosen = set(self.identifiers)
        return np.array([name in chosen for name in self.features])

    @property
    def heads(self) -> tuple[str, ...]:
        """The names of the heads: "+" and "-", or for softmax one for each class, "0", "1", …"""
        return tuple(map(str, range(int(self.labels.max()) + 1))) if self.loss == "softmax" else ("+", "-")

    @property
    def unlisted(self) -> str | None:
        """Why its atoms cannot be listed one by one: they can, so None."""
        return None

    @property
    def length(self) -> Array:
        """(n,) the number of tokens L of each atom."""
        return self.count.sum(axis=1)

    def population(self) -> FiniteTask:
        """The finite population: the task itself."""
        return self

    def relisted(self, index: Sequence[int], share: Sequence[float], **changes: Any) -> FiniteTask:
        """The task with atom index[i] at place i and `share[i]` of its weight; `changes` replace other fields."""
        index, share = np.asarray(index), np.asarray(share)
        follow = {"atoms": self.atoms, "query": self.query}
        follow = {name: None if of is None else [of[i] for i in index] for name, of in follow.items()}
        weights = {"probabilities": self.probabilities, "held_out": self.held_out}
        weights = {name: None if of is None else of[index] * share for name, of in weights.items()}
        return replace(self, **{"hard": self.hard[index], "labels": self.labels[index], **follow, **weights, **changes})


def written(name, coefficient, bare=False):
    """A token as text: "c1", "+v1", "-v2", "+0.5v1"; `bare` leaves out the plus of an identifier."""
    if coefficient == 1:
        return name if bare else f"+{name}"
    return f"-{name}" if coefficient == -1 else f"{coefficient:+g}{name}"


def finite_population(what, task):
    """The FiniteTask that a task trains on, or a SpecError that says what `what` needs."""
    if isinstance(task, FiniteTask):
        return task
    population = task.population() if hasattr(type(task), "population") else None
    if not isinstance(population, FiniteTask):
        raise SpecError(
            f"{what} needs a Mixture, a Sample or a FiniteTask, whose samples can be listed, not {shown(task)}."
        )
    return population


def check_probabilities(name, values, n):
    """(n,) non-negative numbers that sum to one, uniform for None, or a SpecError."""
    if values is None:
        return np.full(n, 1 / n)
    p = entries.numbers(name, listed(name, values, f"a list of {n} probabilities"))
    if p.shape != (n,):
        raise SpecError(f"{name} has {len(p)} entries: expected {n}, one for each; add or remove entries.")
    if p.min() < 0:
        i = int(p.argmin())
        raise SpecError(f"{name}[{i}] = {p[i]}: expected a finite number at least 0.")
    if not abs(p.sum() - 1) <= 1e-9:
        raise SpecError(f"{name} sum to {p.sum():.12g}: expected 1; divide each by their sum.")
    return p


def check_gram(gram, size):
    """`gram`, or a SpecError unless it is a symmetric positive semi-definite matrix of the given size."""
    if gram.shape != (size, size):
        raise SpecError(f"gram has shape {gram.shape}: expected ({size}, {size}), one row for each feature.")
    if not np.allclose(gram, gram.T, rtol=0, atol=1e-12):
        raise SpecError("gram is not a symmetric matrix of finite numbers: pass Φᵀ Φ of the feature vectors Φ.")
    largest = max(1.0, np.abs(gram).max())
    scaled = gram / largest  # the squares of large entries leave float64
    try:
        np.linalg.cholesky(scaled + 1e-10 * np.eye(size))  # ten times faster than the eigenvalues
        return gram
    except np.linalg.LinAlgError:
        least = np.linalg.eigvalsh(scaled)[0]
    if least < -1e-10:
        raise SpecError(
            f"gram has the negative eigenvalue {least * largest:.3g}: expected a positive semi-definite Γ = Φᵀ Φ; lower "
            "the coherence."
        )
    return gram


def check_labels(labels, n, loss):
    """Raise a SpecError unless these are the labels of n atoms that the loss expects."""
    fit = labels.shape == (n,)
    if loss == "squared":
        if not fit:
            raise SpecError(f"labels must be finite numbers, one for each of the {n} atoms, for loss='squared'.")
    elif loss == "softmax":
        classes = np.arange(max(2, len(np.unique(labels))))
        if not fit or not np.array_equal(np.unique(labels), classes):
            raise SpecError(
                f"labels must be classes numbered 0, 1, … without a gap, at least two, one for each of the {n} atoms, for "
                "loss='softmax'."
            )
    elif not fit or not np.all(np.abs(labels) == 1):
        raise SpecError(f"labels must be +1 or -1, one for each of the {n} atoms.")
