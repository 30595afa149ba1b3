"""A region of the (ω, b) plane, covered by boxes that are each proven: one theorem for all of its points (docs/proofs.md)."""

from dataclasses import dataclass
from fractions import Fraction

from ..errors import ProofError
from ..progress import Progress
from .proof import Proof, asked, proved
from .words import parameter, rounded_down, rounded_up

SIDES = (Fraction(4, 1000), Fraction(1, 1000))  # the largest half sides of a box, ω and b: larger ones seldom hold
LEAST = 32  # a box this many times smaller is not halved again


@dataclass(frozen=True, eq=False)
class Cover:
    """Proofs whose boxes fill a box of ω and b, each with every sample right at its end.

    omega, bias  (lowest, highest), exact fractions
    proofs       one for each box
    """

    omega: tuple[Fraction, Fraction]
    bias: tuple[Fraction, Fraction]
    proofs: list[Proof]

    @property
    def right_from(self):
        """Every sample of every flow is right from here to `end`."""
        return max(proof.right_from for proof in self.proofs)

    @property
    def end(self):
        return min(proof.end for proof in self.proofs)

    def facts(self):
        """What a program reads."""
        return {
            "classes": self.proofs[0].classes,
            "omega": [str(end) for end in self.omega],
            "bias": [str(end) for end in self.bias],
            "boxes": len(self.proofs),
            "cells": sum(proof.cells for proof in self.proofs),
            "right_from": self.right_from,
            "end": self.end,
            "every_sample_right": self.right_from <= self.end,
            "radius": max(proof.radius for proof in self.proofs),
        }

    def statement(self):
        """The theorem in words."""
        facts = self.facts()
        return "\n".join(
            [
                f"Theorem (computer-assisted). For {parameter('ω', self.omega)} and {parameter('b', self.bias)}",
                f"the gradient flow of the mean-field transformer on the uniform mixture of K = {facts['classes']} classes,",
                "all weights at once, classifies every sample rightly"
                f" from t = {rounded_up(self.right_from)} to t = {rounded_down(self.end)}.",
                f"Proof. {facts['boxes']} boxes with {facts['cells']} cells of time, every rounding error bounded;"
                " premise: IEEE 754 arithmetic;",
                "the checker has no frames: it rests on the prover alone. ∎",
            ]
        )


def cover(task, transformer, *, until, omega_radius, bias_radius, progress=False):
    """Cover every ω and b within the radii by boxes, each proven to have every sample right at the time `until`.

    task, transformer, until  as in `prove`, a time
    progress                  True for a bar on stderr, or a function of (done, total) shares of the region

    A box that fails is halved across its side that is longer in units of `SIDES`. Returns a `Cover`. Raises SpecError as
    `prove` does, and ProofError where a box LEAST times smaller than the largest ones still fails.
    """
    question = asked(task, transformer, None, until, omega_radius, bias_radius, 0.0)
    todo, proofs, bar, area = _tiles(question), [], Progress.of(progress, "share"), Fraction(0)
    whole = max(len(todo), 1) * 2**10  # in units of which halves are whole, down to a thousandth of a tile
    shares = [Fraction(2**10)] * len(todo)
    while todo:
        box, share = todo.pop(), shares.pop()
        try:
            proof = proved(question | box)
        except ProofError as error:
            proof, reason = None, str(error)
        if proof is not None and proof.right_from is not None and proof.right_from <= until:
            proofs.append(proof)
            area += share
            bar(int(area), whole)
            continue
        if share * LEAST < 2**10:
            reason = "a sample may be wrong at the end" if proof else reason
            raise ProofError(f"no cover: the box {_said(box)} is not proven ({reason}); prove another time or region.")
        todo += _halves(box)
        shares += [share / 2] * 2
    bar.close()
    return Cover(question["omega"], question["bias"], proofs)


def _tiles(question):
    """The region in boxes of at most SIDES."""
    cuts = []
    for (low, high), side in zip((question["omega"], question["bias"]), SIDES):
        count = max(1, -(-(high - low) // (2 * side)))
        ends = [low + (high - low) * i / count for i in range(count + 1)]
        cuts.append(list(zip(ends, ends[1:])))
    return [{"omega": omega, "bias": bias} for omega in cuts[0] for bias in cuts[1]]


def _halves(box):
    lengths = [(box[name][1] - box[name][0]) / side for name, side in zip(("omega", "bias"), SIDES)]
    name = "omega" if lengths[0] >= lengths[1] else "bias"
    low, high = box[name]
    middle = (low + high) / 2
    return [{**box, name: (low, middle)}, {**box, name: (middle, high)}]


def _said(box):
    return " × ".join(f"[{float(low):.6g}, {float(high):.6g}]" for low, high in box.values())
