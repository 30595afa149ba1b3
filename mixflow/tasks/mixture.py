"""The K-mixture of linear classification: the identifier c_k says which signal v_k carries the label (docs/mathematics.md §1)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np

from ..checks import one_of, whole
from ..errors import SpecError
from ..spec import Spec, setting
from . import entries
from .finite import SIGNED, FiniteTask, check_gram, check_probabilities

if TYPE_CHECKING:
    from typing import Any

    from ..tasks.sample import Sample

CLASS_LIMIT = 100_000  # a step of the symmetric model takes memory and time in proportion to K
ATOM_LIMIT = 4096  # beyond this a list of atoms no longer fits a useful dataset; K = 8 has 2048, K = 9 has 4608


@dataclass(frozen=True)
class Mixture(Spec, section="task", kind="mixture"):
    """K classes; a sample holds the tokens c_k, s_1 v_1, …, s_K v_K and has the label s_k; its asking token is c_k.

    classes  K, from 1 to 100,000
    priors   K class probabilities; uniform if not given
    gram     Γ, the 2K×2K Gram matrix of (c1..cK, v1..vK); identity (orthonormal) if not given
    loss     "logistic", "exponential", "linear" or "squared" (`FiniteTask`)

    Raises SpecError for a K out of range, priors that do not sum to one, or a Γ that is not a Gram matrix; `population()` also
    where the K·2^K atoms are too many to list.

    >>> Mixture(classes=2).population().names[1]
    'c1 +v1 -v2'
    """

    classes: int = setting(2, partial(whole, most=CLASS_LIMIT, fix="classes=2 is the paper's task"))
    priors: Sequence[float] | None = setting(None, entries.numbers)
    gram: Sequence[Sequence[float]] | None = setting(None, entries.matrix, flag=False)
    loss: str = setting("logistic", partial(one_of, choices=SIGNED))

    def check(self) -> None:
        if self.priors is not None:
            self.settle(priors=tuple(check_probabilities("priors", self.priors, self.classes).tolist()))
        if self.gram is not None:
            self.settle(gram=tuple(map(tuple, check_gram(self.gram, 2 * self.classes).tolist())))

    @property
    def features(self) -> tuple[str, ...]:
        """("c1", …, "cK", "v1", …, "vK")"""
        K = self.classes
        return tuple([f"c{k + 1}" for k in range(K)] + [f"v{k + 1}" for k in range(K)])

    @property
    def uniform(self) -> bool:
        """Whether every class is equally likely and the features are orthonormal, as the symmetric model needs."""
        K = self.classes
        flat = self.priors is None or np.allclose(self.priors, 1 / K, rtol=0, atol=1e-15)
        return flat and (self.gram is None or np.array_equal(np.array(self.gram), np.eye(2 * K)))

    @property
    def listable(self) -> bool:
        """Whether the K·2^K atoms are few enough to be listed one by one."""
        return self.classes <= 30 and self.classes * 2**self.classes <= ATOM_LIMIT

    @property
    def unlisted(self) -> str | None:
        """Why its atoms cannot be listed one by one, with the fix, or None."""
        if self.listable:
            return None
        K = self.classes
        return (
            f"classes = {K} has {K}·2^{K} atoms, above the limit of {ATOM_LIMIT} that can be listed (K ≤ 8); use width=inf "
            "with uniform priors, which trains any K with model='symmetric'"
        )

    def population(self) -> FiniteTask:
        """All K·2^K atoms (k, s) with their probabilities, as a FiniteTask."""
        return self._finite

    @cached_property  # an event watcher asks for it thousands of times
    def _finite(self):
        atoms, K = self.all_atoms(), self.classes
        priors = np.full(K, 1 / K) if self.priors is None else np.array(self.priors)
        return self.finite(atoms, np.repeat(priors / 2**K, 2**K))

    def all_atoms(self) -> list[tuple[int, tuple[float, ...]]]:
        """Every (k, s), class index and signs; a SpecError where they are too many to list."""
        K = self.classes
        if self.unlisted:
            raise SpecError(f"{self.unlisted}.")
        return [(k, s) for k in range(K) for s in itertools.product((1.0, -1.0), repeat=K)]

    def finite(
        self, atoms: Sequence[Any], probabilities: Sequence[float], held_out: Sequence[float] | None = None
    ) -> FiniteTask:
        """The FiniteTask of the given atoms (k, s): class index and signs."""
        return FiniteTask(
            features=self.features,
            atoms=[[(f"c{k + 1}", 1.0), *((f"v{j + 1}", sign) for j, sign in enumerate(s))] for k, s in atoms],
            labels=[s[k] for k, s in atoms],
            probabilities=probabilities,
            gram=None if self.gram is None else np.array(self.gram),
            hard=[s[k] * sum(s) <= 0 for k, s in atoms],
            identifiers=self.features[: self.classes],
            query=[(f"c{k + 1}", 1.0) for k, _ in atoms],
            held_out=held_out,
            loss=self.loss,
        )

    def sample(self, n: int, seed: int, *, test_fraction: float = 0.25) -> Sample:
        """Draw n samples from `seed` and split them into train and test; the result, a Sample, is a task of its own."""
        from .sample import Sample

        return Sample(task=self, n=n, seed=seed, test_fraction=test_fraction)
