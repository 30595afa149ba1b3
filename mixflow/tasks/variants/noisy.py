"""Gaussian noise on every token: a sample of the mixture whose tokens are no longer finitely many."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np

from ...checks import real, seed, whole
from ...errors import SpecError
from ...spec import Spec, setting
from ..mixture import Mixture
from ..tokens import Part, Tokens

if TYPE_CHECKING:
    from ...tasks.finite import FiniteTask


@dataclass(frozen=True)
class NoisyMixture(Spec, section="task", kind="noisy"):
    """The mixture with a Gaussian vector added to every token of every sample, drawn once.

    sigma         σ: the noise has independent coordinates N(0, σ²/d), so its expected squared length is σ², a token's is 1
    classes       K
    samples       to train on; the K·2^K atoms come in turn, so that all are equally frequent (to within one)
    test_samples  held out, with noise of their own
    dimension     d ≥ 2K; the features are the first 2K basis vectors
    seed          of the noise

    >>> NoisyMixture(sigma=0.5, samples=16).tokens.train.tokens.shape
    (16, 3, 8)
    """

    sigma: float = setting(check=partial(real, least=0))
    classes: int = setting(2, whole)
    samples: int = setting(256, partial(whole, most=10**6))
    test_samples: int = setting(256, partial(whole, most=10**6))
    dimension: int = setting(8, partial(whole, most=10**4))
    seed: int = setting(0, seed)

    def check(self) -> None:
        Mixture(classes=self.classes).population()  # says so if there are too many atoms to list
        if self.dimension < 2 * self.classes:
            raise SpecError(
                f"dimension = {self.dimension} has no room for {self.classes} identifiers and as many signals: expected at "
                f"least {2 * self.classes}; raise it or take fewer classes."
            )

    @property
    def features(self) -> tuple[str, ...]:
        """("c1", …, "cK", "v1", …, "vK"), without noise."""
        return Mixture(classes=self.classes).features

    @cached_property
    def tokens(self) -> Tokens:
        """The samples as token arrays; the watched directions are the features without noise."""
        directions = np.eye(2 * self.classes, self.dimension)
        return Tokens(
            train=self._part(self.samples, directions, 0),
            test=self._part(self.test_samples, directions, 1),
            probabilities=np.full(self.samples, 1 / self.samples),
            features=self.features,
            directions=directions,
        )

    def _part(self, n, directions, stream):
        clean = Tokens.of(Mixture(classes=self.classes), directions).train
        which = np.arange(n) % len(clean.labels)
        rng = np.random.default_rng([self.seed, stream])
        noise = self.sigma / np.sqrt(self.dimension) * rng.standard_normal((n, *clean.tokens.shape[1:]))
        X = clean.tokens[which] + noise  # (n, L, d)
        L = X.shape[1]
        return Part(
            vectors=tuple(X[:, position] for position in range(L)),
            index=np.repeat(np.arange(n)[:, None], L, axis=1),
            sign=np.ones((n, L)),
            labels=clean.labels[which],
            hard=clean.hard[which],
        )

    unlisted = "every token of it is a vector of its own, so there is no list of features; use a Transformer and GradientDescent"

    def population(self) -> Tokens:
        """The token arrays."""
        return self.tokens

    def finite(self) -> FiniteTask:
        """The same task as a FiniteTask: every noisy token is a feature, with the inner products in Γ; held-out samples have no
        weight.

        Raises SpecError for more tokens than can be listed.

        >>> NoisyMixture(sigma=0.5, samples=8, test_samples=4).finite().names[8]
        '+c:t1 +v1:t1 +v2:t1'
        """
        return self.tokens.finite(("c", *self.features[self.classes :]))
