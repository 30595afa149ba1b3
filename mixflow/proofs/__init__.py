"""Runs that are theorems: enclosures of the gradient flow, every rounding error included (docs/proofs.md)."""

from .proof import Proof, prove

__all__ = ["Proof", "prove"]
