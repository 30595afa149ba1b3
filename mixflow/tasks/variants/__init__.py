"""Beyond the paper's task: each file changes one thing. All but the noisy one are finite, so that every engine is exact.

Each function returns a task for `mf.train`; each raises SpecError, with the fix, for numbers that make no such task.

>>> import mixflow as mf
>>> task = mf.variants.label_noise(mf.variants.coherent(2, coherence=0.3), probability=0.1)
>>> len(task.labels)  # every atom twice, with the right label and with the wrong one
16
"""

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
