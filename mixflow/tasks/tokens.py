"""A task as arrays of token vectors: the form for tokens that are not finitely many features, such as images."""

from dataclasses import dataclass, replace

import numpy as np

from ..errors import SpecError
from .entries import SIZE_LIMIT
from .finite import FiniteTask


@dataclass(frozen=True, eq=False, kw_only=True)
class Part:
    """Samples of L tokens each. The token at position l of a sample is a coefficient times one of the vectors that stand there.

    vectors  L arrays (N_l, d)
    index    (n, L) which of `vectors[l]` stands at position l
    sign     (n, L) its coefficient
    labels   (n,) +1 or -1
    hard     (n,) True where the plain vote is wrong
    """

    vectors: tuple
    index: np.ndarray
    sign: np.ndarray
    labels: np.ndarray
    hard: np.ndarray

    def __post_init__(self):
        L = len(self.vectors)
        if self.index.shape != self.sign.shape or self.index.shape != (len(self.labels), L):
            raise SpecError(
                f"index {self.index.shape} and sign {self.sign.shape}: expected one entry for each of {len(self.labels)} "
                f"samples and {L} positions."
            )
        if np.any(self.index < 0) or np.any(self.index >= np.array(self.sizes)):
            raise SpecError(f"index names a vector that is not there: expected 0 … N-1 with N = {self.sizes}.")

    @property
    def sizes(self):
        """How many vectors stand at each position."""
        return tuple(map(len, self.vectors))

    @property
    def rows(self):
        """(ΣN_l, d) all vectors, position by position."""
        return np.concatenate(self.vectors)

    @property
    def tokens(self):
        """(n, L, d) the token matrix X of every sample."""
        columns = [x[i] * s[:, None] for x, i, s in zip(self.vectors, self.index.T, self.sign.T)]
        return np.stack(columns, axis=1)

    def atoms(self, known):
        """Every sample as a list of (feature name, coefficient), by {bytes of a vector: name}."""
        names = [[known.get(row.tobytes()) for row in vectors] for vectors in self.vectors]
        return [
            [(names[l][i], s) for l, (i, s) in enumerate(zip(*sample))]
            for sample in zip(self.index.tolist(), self.sign.tolist())
        ]


@dataclass(frozen=True, eq=False, kw_only=True)
class Tokens:
    """A training part, perhaps a held-out part, and the directions that are watched.

    train          the samples trained on
    test           the samples held out, or None
    probabilities  (n,) weights of the training samples
    features       F names of the watched directions
    directions     (F, d)
    """

    train: Part
    test: Part | None = None
    probabilities: np.ndarray
    features: tuple
    directions: np.ndarray

    labels = property(lambda self: self.train.labels)
    hard = property(lambda self: self.train.hard)
    loss, heads = "logistic", ("+", "-")  # as a FiniteTask has them; the labels are +1 and -1

    @property
    def dimension(self):
        """d, the length of a token vector."""
        return self.directions.shape[1]

    @property
    def is_identifier(self):
        """(F,) booleans: the first half of the watched directions are the identifiers."""
        return np.arange(len(self.features)) < len(self.features) // 2

    def population(self):
        """The tokens themselves."""
        return self

    def finite(self, positions):
        """The same task as a FiniteTask: every token vector of a sample is a feature, with its inner products in Γ.

        positions  the kind of token at each position, e.g. ("c", "v1", "v2"), for the features' names

        The watched directions stand first, and a token that is one of them is that feature. Atoms are the samples, training ones
        first; `probabilities` are the weights of training, 0 for those held out, and `held_out` the weights of the test.
        Raises SpecError where the tokens are too many to list.
        """
        names, rows = list(self.features), list(self.directions)
        known = {row.tobytes(): name for name, row in zip(names, rows)}
        for part, mark in ((self.train, ""), (self.test, "t")):
            for kind, vectors, index in zip(positions, part.vectors, part.index.T) if part else ():
                for i in np.unique(index):
                    row = vectors[i]
                    if row.tobytes() not in known:
                        known[row.tobytes()] = f"{kind}:{mark}{i + 1}"
                        names.append(known[row.tobytes()])
                        rows.append(row)
        if len(names) > SIZE_LIMIT:
            raise SpecError(
                f"{len(names)} different tokens: expected at most {SIZE_LIMIT}; take fewer samples or images."
            )
        parts = [part for part in (self.train, self.test) if part]
        n = len(self.train.labels)
        tested = (
            np.concatenate([np.zeros(n), np.full(len(self.test.labels), 1 / len(self.test.labels))])
            if self.test
            else None
        )
        X = np.stack(rows)
        return FiniteTask(
            features=names,
            atoms=[atom for part in parts for atom in part.atoms(known)],
            labels=np.concatenate([part.labels for part in parts]),
            probabilities=np.concatenate([self.probabilities, np.zeros(sum(len(part.labels) for part in parts) - n)]),
            gram=X @ X.T,
            hard=np.concatenate([part.hard for part in parts]),
            identifiers=[name for name in self.features if name.startswith("c")],
            held_out=tested,
            watched=self.features,
        )

    def in_span(self):
        """The same tokens in orthonormal coordinates of the span of the training tokens; held-out ones are projected on it."""
        _, size, basis = np.linalg.svd(self.train.rows, full_matrices=False)
        basis = basis[size > 1e-12 * size[0]]  # (rank, d)
        if len(basis) == self.dimension:
            return self

        def seen(part):
            return part and replace(part, vectors=tuple(x @ basis.T for x in part.vectors))

        return replace(self, train=seen(self.train), test=seen(self.test), directions=self.directions @ basis.T)

    @classmethod
    def of(cls, task, vectors):
        """A finite task whose atoms have equal length as tokens: each atom a sample, `vectors` (F, d) its features."""
        task = task.population()
        if task.loss != "logistic":
            raise SpecError(f"loss = {task.loss!r}: Tokens has labels +1 and -1; use a task with loss='logistic'.")
        if len(set(task.length.tolist())) != 1:
            raise SpecError("atoms have different numbers of tokens: Tokens needs the same number in every sample.")
        place = {name: i for i, name in enumerate(task.features)}
        index = np.array([[place[name] for name, _ in atom] for atom in task.atoms])
        there = [np.unique(column) for column in index.T]
        part = Part(
            vectors=tuple(vectors[features] for features in there),
            index=np.stack([np.searchsorted(features, column) for features, column in zip(there, index.T)], axis=1),
            sign=np.array([[coefficient for _, coefficient in atom] for atom in task.atoms]),
            labels=task.labels,
            hard=task.hard,
        )
        return cls(train=part, probabilities=task.probabilities, features=task.features, directions=vectors)
