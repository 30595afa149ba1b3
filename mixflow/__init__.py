"""mixflow: the laboratory for watching a transformer learn a hidden correspondence, exactly."""

from .dynamics import GradientDescent, GradientFlow, ThreeStage, Until
from .dynamics.gates import ChatteringError
from .errors import DivergedError, Interrupted, MixflowError, SpecError, StoreError
from .models.transformer import Transformer
from .store import Run, load
from .sweep import open_sweep, sweep
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
    "extend",
    "load",
    "open_sweep",
    "sweep",
    "train",
    "train_many",
]
