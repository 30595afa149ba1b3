"""mixflow: the laboratory for watching a transformer learn a hidden correspondence, exactly."""

from .dynamics import GradientDescent
from .errors import DivergedError, Interrupted, MixflowError, SpecError, StoreError
from .models.transformer import Transformer
from .store import Run, load
from .tasks import FiniteTask, Mixture, Mnist, Sample
from .train import extend, train, train_many

__version__ = "0.1.0"

__all__ = [
    "DivergedError",
    "FiniteTask",
    "GradientDescent",
    "Interrupted",
    "MixflowError",
    "Mixture",
    "Mnist",
    "Run",
    "Sample",
    "SpecError",
    "StoreError",
    "Transformer",
    "extend",
    "load",
    "train",
    "train_many",
]
