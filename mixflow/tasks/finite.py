"""Any task with finitely many token types: the only form of a task the exact engine knows (docs/mathematics.md §8)."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ..checks import one_of, real
from ..errors import SpecError

LOSSES = ("logistic", "squared", "softmax")


@dataclass(frozen=True, eq=False, kw_only=True)
class FiniteTask:
    """Atoms of (feature, coefficient) tokens with a label and a probability each.

    features       names of the F features, e.g. ("c1", "c2", "v1", "v2")
    atoms          n sequences of (feature name, coefficient) tokens; order inside an atom does not matter
    labels         n labels: +1 or -1; for loss="squared" real numbers; for loss="softmax" classes 0, 1, …, C-1
    probabilities  n non-negative numbers that sum to one; uniform if not given
    gram           Γ, the F×F Gram matrix of the features; identity if not given
    hard           n booleans, True where the plain vote is wrong; no atom is hard if not given
    names          n readable names; made from the tokens if not given
    loss           "logistic"; "squared" for regression; "softmax" for C classes, with one head for each of them

    Raises SpecError for unknown features, empty atoms, labels other than ±1, probabilities that do not sum to one, or a Γ
    that is not a Gram matrix.

    >>> task = FiniteTask(features=("c1", "v1"), atoms=[[("c1", 1), ("v1", 1)], [("c1", 1), ("v1", -1)]], labels=[1, -1])
    >>> task.names
    ('c1 +v1', 'c1 -v1')
    """

    features: Sequence[str]
    atoms: Sequence[Sequence[tuple[str, float]]]
    labels: Sequence[float]
    probabilities: Sequence[float] | None = None
    gram: np.ndarray | None = None
    hard: Sequence[bool] | None = None
    names: Sequence[str] | None = None
    loss: str = "logistic"

    # Token types: τ = (feature, coefficient), and how often each stands in each atom. Softmax attention over a multiset
    # of tokens needs nothing else, so repeated tokens and atoms of different lengths cost no special case.
    token_feature: np.ndarray = field(init=False, repr=False)  # (T,) index into features
    token_coefficient: np.ndarray = field(init=False, repr=False)  # (T,)
    count: np.ndarray = field(init=False, repr=False)  # (n, T)  M[a, τ]

    def __post_init__(self):
        put = lambda name, value: object.__setattr__(self, name, value)  # noqa: E731 (the dataclass is frozen)
        put("features", tuple(self.features))
        _check_features(self.features)
        atoms = tuple(tuple((name, float(coefficient)) for name, coefficient in atom) for atom in self.atoms)
        put("atoms", atoms)
        one_of("loss", self.loss, LOSSES)
        put("labels", _labels(self.labels, len(atoms), self.loss))
        put("gram", np.eye(len(self.features)) if self.gram is None else np.array(self.gram, float))
        _check_atoms(self.features, atoms)
        check_gram(self.gram, len(self.features))
        n = len(atoms)
        put("probabilities", check_probabilities("probabilities", self.probabilities, n))
        hard = np.zeros(n, bool) if self.hard is None else np.asarray(self.hard, bool)
        if hard.shape != (n,):
            raise SpecError(f"hard has shape {hard.shape}: expected one value for each of the {n} atoms.")
        put("hard", hard)
        put("names", tuple(self.names) if self.names is not None else tuple(map(_name, atoms)))
        index = {name: i for i, name in enumerate(self.features)}
        types = sorted({(index[name], -coefficient) for atom in atoms for name, coefficient in atom})
        place = {kind: i for i, kind in enumerate(types)}
        count = np.zeros((n, len(types)))
        for a, atom in enumerate(atoms):
            for name, coefficient in atom:
                count[a, place[index[name], -coefficient]] += 1
        put("token_feature", np.array([i for i, _ in types]))
        put("token_coefficient", np.array([-negative for _, negative in types]))
        put("count", count)

    @property
    def heads(self):
        """The names of the heads: "+" and "-", or for softmax one for each class, "0", "1", …"""
        return tuple(map(str, range(int(self.labels.max()) + 1))) if self.loss == "softmax" else ("+", "-")

    @property
    def length(self):
        """(n,) the number of tokens L of each atom."""
        return self.count.sum(axis=1)

    def population(self):
        """The finite population: the task itself."""
        return self

    def spec(self):
        """A JSON-ready description from which `from_spec` builds an equal task."""
        return {
            "kind": "finite",
            "features": list(self.features),
            "atoms": [[list(token) for token in atom] for atom in self.atoms],
            "labels": self.labels.tolist(),
            "probabilities": self.probabilities.tolist(),
            "gram": self.gram.tolist(),
            "hard": self.hard.tolist(),
            "names": list(self.names),
            "loss": self.loss,
        }

    @classmethod
    def from_spec(cls, spec):
        return cls(**{key: value for key, value in spec.items() if key != "kind"})


def finite_population(what, task):
    """The FiniteTask that a task trains on, or a SpecError that says what `what` needs."""
    population = task.population() if hasattr(task, "population") else None
    if not isinstance(population, FiniteTask):
        raise SpecError(
            f"{what} needs a Mixture, a Sample or a FiniteTask, whose samples can be listed, not {task!r:.60}."
        )
    return population


def check_probabilities(name, values, n):
    """(n,) non-negative numbers that sum to one, uniform for None, or a SpecError."""
    if values is None:
        return np.full(n, 1 / n)
    try:
        p = np.array([real(f"{name}[{i}]", x, least=0) for i, x in enumerate(values)])
    except TypeError:
        raise SpecError(f"{name} = {values!r}: expected a list of {n} probabilities.") from None
    if p.shape != (n,):
        raise SpecError(f"{name} has {len(p)} entries: expected {n}, one for each; add or remove entries.")
    if abs(p.sum() - 1) > 1e-9:
        raise SpecError(f"{name} sum to {p.sum():.12g}: expected 1; divide each by their sum.")
    return p


def check_gram(gram, size):
    """Raise a SpecError unless `gram` is a symmetric positive semi-definite matrix of the given size."""
    if gram.shape != (size, size):
        raise SpecError(f"gram has shape {gram.shape}: expected ({size}, {size}), one row for each feature.")
    if not np.all(np.isfinite(gram)) or not np.allclose(gram, gram.T, rtol=0, atol=1e-12):
        raise SpecError("gram is not a symmetric matrix of finite numbers: pass Φᵀ Φ of the feature vectors Φ.")
    least = np.linalg.eigvalsh(gram)[0]
    if least < -1e-10 * max(1.0, np.abs(gram).max()):
        raise SpecError(
            f"gram has the negative eigenvalue {least:.3g}: expected a positive semi-definite Γ = Φᵀ Φ; lower the coherence."
        )


def _check_features(features):
    if not features or len(set(features)) != len(features):
        raise SpecError(f"features = {features!r}: expected at least one name, each once.")


def _labels(labels, n, loss):
    """(n,) the labels as floats, or a SpecError that says what this loss expects."""
    try:
        labels = np.asarray(labels, float)
    except (TypeError, ValueError):
        raise SpecError(f"labels = {labels!r}: expected {n} numbers, one for each atom.") from None
    if loss == "squared":
        if labels.shape != (n,) or not np.all(np.isfinite(labels)):
            raise SpecError(f"labels must be finite numbers, one for each of the {n} atoms, for loss='squared'.")
    elif loss == "softmax":
        classes = np.arange(max(2, len(np.unique(labels))))
        if labels.shape != (n,) or not np.array_equal(np.unique(labels), classes):
            raise SpecError(
                f"labels must be classes numbered 0, 1, … without a gap, at least two, one for each of the {n} atoms, for "
                "loss='softmax'."
            )
    elif labels.shape != (n,) or not np.all(np.abs(labels) == 1):
        raise SpecError(f"labels must be +1 or -1, one for each of the {n} atoms.")
    return labels


def _check_atoms(features, atoms):
    if not atoms:
        raise SpecError("atoms is empty: a task needs at least one atom.")
    for a, atom in enumerate(atoms):
        if not atom:
            raise SpecError(f"atoms[{a}] is empty: each atom needs at least one (feature, coefficient) token.")
        for name, coefficient in atom:
            if name not in features:
                raise SpecError(f"atoms[{a}] names the feature {name!r}: expected one of {', '.join(features)}.")
            real(f"the coefficient of {name!r} in atoms[{a}]", coefficient)


def _name(atom):
    def token(name, coefficient):
        if coefficient == 1:
            return name if name.startswith("c") else f"+{name}"
        return f"-{name}" if coefficient == -1 else f"{coefficient:+g}{name}"

    return " ".join(token(name, coefficient) for name, coefficient in atom)
