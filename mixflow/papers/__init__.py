"""Other published results in the same laboratory, one short file each, and what such a file is made of (docs/papers).

>>> import mixflow.papers as kit
>>> kit.near("rate", "power of t with which the loss falls", -1.02, -1.0, 0.1, **kit.paper("a rate of 1/t")).verdict
'holds'
"""

from ..paper.check import Check, between, equal, near, paper, shown, stored, theory
from ..paper.experiments.shape import Experiment, Picture, Results, Setting
from .tools import growth, joined, labelled, panels, power

__all__ = [
    "Check",
    "Experiment",
    "Picture",
    "Results",
    "Setting",
    "between",
    "equal",
    "growth",
    "joined",
    "labelled",
    "near",
    "panels",
    "paper",
    "power",
    "shown",
    "stored",
    "theory",
]
