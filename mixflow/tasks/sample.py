"""A finite sample of a mixture with a recorded train/test split: the empirical task."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np

from ..checks import real, seed, whole
from ..errors import SpecError
from ..spec import Spec, part, setting
from .mixture import ATOM_LIMIT, Mixture

if TYPE_CHECKING:
    from ..tasks.finite import FiniteTask
    from ..types import Array

SAMPLE_LIMIT = 10**7
SIGN_LIMIT = 10**8  # signs drawn, K for each sample


@dataclass(frozen=True)
class Sample(Spec, section="task", kind="sample"):
    """n samples of `task` drawn from `seed`; the last `test_fraction` of a seeded shuffle is held out.

    The model ignores token order, so a sample of any size is again a finite task: its atoms are the distinct samples,
    weighted by how often each was drawn. `gram` and the flow therefore stay exact on empirical data.

    task           the Mixture that is sampled
    n              samples in all, at least 2
    seed           of the draw and of the split, a whole number
    test_fraction  share of the samples held out, between 0 and 1

    Raises SpecError where one side of the split would be empty or the distinct samples are too many to list.

    >>> Sample(task=Mixture(classes=2), n=100, seed=0).train_index.shape
    (75,)
    """

    task: Mixture = setting(check=part("task", "mixture"))
    n: int = setting(check=partial(whole, least=2, most=SAMPLE_LIMIT, fix="a split needs one sample on each side"))
    seed: int = setting(check=seed)
    test_fraction: float = setting(0.25, partial(real, above=0, below=1))

    recorded = ("checksum",)

    def check(self) -> None:
        if not 1 <= self.held_out_count < self.n:
            raise SpecError(
                f"test_fraction = {self.test_fraction} of n = {self.n} leaves an empty side: draw more samples."
            )
        if self.n * self.task.classes > SIGN_LIMIT:
            raise SpecError(f"n = {self.n} samples of {self.task.classes} signs: expected at most {SIGN_LIMIT} signs.")

    @property
    def held_out_count(self) -> int:
        """How many samples are held out."""
        return round(self.n * self.test_fraction)

    @cached_property
    def drawn(self) -> tuple[Array, Array]:
        """(n,) class index k and (n, K) signs s of every sample, in the order drawn."""
        rng = np.random.default_rng(self.seed)
        K = self.task.classes
        k = rng.choice(K, size=self.n, p=self.task.priors)
        return k, 2.0 * rng.integers(0, 2, size=(self.n, K)) - 1.0

    @cached_property
    def _shuffle(self):
        return np.random.default_rng([self.seed, 1]).permutation(self.n)

    @property
    def train_index(self) -> Array:
        """Indices of the training samples, sorted."""
        return np.sort(self._shuffle[: self.n - self.held_out_count])

    @property
    def test_index(self) -> Array:
        """Indices of the held-out samples, sorted."""
        return np.sort(self._shuffle[self.n - self.held_out_count :])

    @cached_property
    def _finite(self):
        k, s = self.drawn
        rows, inverse = np.unique(np.column_stack([k, -s]), axis=0, return_inverse=True)
        if len(rows) > ATOM_LIMIT:
            raise SpecError(
                f"n = {self.n} drew {len(rows)} distinct atoms, above the limit of {ATOM_LIMIT}: draw fewer."
            )
        weight = [
            np.bincount(inverse.ravel()[index], minlength=len(rows)) / len(index)
            for index in (self.train_index, self.test_index)
        ]
        atoms = [(int(row[0]), tuple(-row[1:])) for row in rows]
        return self.task.finite(atoms, weight[0], weight[1])

    @property
    def unlisted(self) -> str | None:
        """Why its atoms cannot be listed one by one: they can, so None."""
        return None

    def population(self) -> FiniteTask:
        """The distinct samples with their frequency in the training part (and, in `held_out`, in the other), as a FiniteTask."""
        return self._finite

    @property
    def held_out(self) -> Array:
        """(n_atoms,) frequency of each atom of `population()` in the held-out part."""
        return self._finite.held_out

    @property
    def checksum(self) -> str:
        """SHA-256 of the draw and its split, so that a report can show that two splits are the same."""
        k, s = self.drawn
        parts = (k.astype("<i8"), s.astype("<f8"), self.train_index.astype("<i8"), self.test_index.astype("<i8"))
        return hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest()
