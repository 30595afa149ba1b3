"""Beyond the paper's task: each file changes one thing. All but the noisy one are finite, so that every engine is exact."""

from .coherent import coherent
from .composed import composed
from .imbalanced import imbalanced
from .label_noise import label_noise
from .longer import distractors, repeated
from .multiclass import multiclass
from .noisy import NoisyMixture
from .regression import regression

__all__ = [
    "NoisyMixture",
    "coherent",
    "composed",
    "distractors",
    "imbalanced",
    "label_noise",
    "multiclass",
    "regression",
    "repeated",
]
