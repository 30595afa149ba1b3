"""A finite sample of a mixture with a recorded train/test split: the empirical task."""

import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..checks import real, whole
from ..errors import SpecError
from .mixture import ATOM_LIMIT, Mixture


@dataclass(frozen=True)
class Sample:
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

    task: Mixture
    n: int
    seed: int
    test_fraction: float = 0.25

    def __post_init__(self):
        put = lambda name, value: object.__setattr__(self, name, value)  # noqa: E731 (the dataclass is frozen)
        put("n", whole("n", self.n, least=2, fix="a split needs one sample on each side"))
        put("seed", whole("seed", self.seed, least=0))
        put("test_fraction", real("test_fraction", self.test_fraction, above=0, below=1))
        if not 1 <= self.held_out_count < self.n:
            raise SpecError(
                f"test_fraction = {self.test_fraction} of n = {self.n} leaves an empty side: draw more samples."
            )

    @property
    def held_out_count(self):
        """How many samples are held out."""
        return round(self.n * self.test_fraction)

    @cached_property
    def drawn(self):
        """(n,) class index k and (n, K) signs s of every sample, in the order drawn."""
        rng = np.random.default_rng(self.seed)
        K = self.task.classes
        k = rng.choice(K, size=self.n, p=self.task.priors)
        return k, 2.0 * rng.integers(0, 2, size=(self.n, K)) - 1.0

    @cached_property
    def _shuffle(self):
        return np.random.default_rng([self.seed, 1]).permutation(self.n)

    @property
    def train_index(self):
        """Indices of the training samples, sorted."""
        return np.sort(self._shuffle[: self.n - self.held_out_count])

    @property
    def test_index(self):
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
        return self.task.finite(atoms, weight[0]), weight[1]

    def population(self):
        """The distinct samples with their frequency in the training part, as a FiniteTask."""
        return self._finite[0]

    @property
    def held_out(self):
        """(n_atoms,) frequency of each atom of `population()` in the held-out part."""
        return self._finite[1]

    @property
    def checksum(self):
        """SHA-256 of the draw and its split, so that a report can show that two splits are the same."""
        k, s = self.drawn
        parts = (k.astype("<i8"), s.astype("<f8"), self.train_index.astype("<i8"), self.test_index.astype("<i8"))
        return hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest()

    def spec(self):
        """A JSON-ready description from which `from_spec` builds an equal task."""
        return {
            "kind": "sample",
            "task": self.task.spec(),
            "n": self.n,
            "seed": self.seed,
            "test_fraction": self.test_fraction,
            "checksum": self.checksum,
        }

    @classmethod
    def from_spec(cls, spec):
        return cls(
            task=Mixture.from_spec(spec["task"]), n=spec["n"], seed=spec["seed"], test_fraction=spec["test_fraction"]
        )
