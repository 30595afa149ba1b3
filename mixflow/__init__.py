"""mixflow: the laboratory for watching a transformer learn a hidden correspondence, exactly."""

from .compare import compare
from .dynamics import GradientDescent, GradientFlow, ThreeStage, Until
from .dynamics.gates import ChatteringError
from .errors import DivergedError, Interrupted, MixflowError, SpecError, StoreError
from .models.construct import construct
from .models.transformer import Transformer
from .store import Run, load
from .tasks import FiniteTask, Mixture, Sample
from .train import extend, train, train_many

__version__ = "0.1.0"

__all__ = [
    "ChatteringError",
    "DivergedError",
    "FiniteTask",
    "GradientDescent",
    "GradientFlow",
    "Interrupted",
    "MixflowError",
    "Mixture",
    "Run",
    "Sample",
    "SpecError",
    "StoreError",
    "ThreeStage",
    "Transformer",
    "Until",
    "compare",
    "construct",
    "extend",
    "load",
    "train",
    "train_many",
]
