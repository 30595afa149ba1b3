"""The words of annotations: what the rooms hand to each other. Type checkers and editors read it; a program never imports it.

Every room may use these words, so this file names the rooms from below, and a test holds it to imports that do not run.
"""

from __future__ import annotations

import os
from collections.abc import Callable as Callable
from collections.abc import Sequence as Sequence
from fractions import Fraction as Fraction
from pathlib import Path as Path
from typing import Any, TypeAlias

import numpy as np
import xarray as xarray
from matplotlib.axes import Axes as Axes
from matplotlib.figure import Figure as Figure

from .engines.base import Engine as Engine
from .measure.stages import Stage as Stage
from .methods import GradientDescent, GradientFlow, Optimizer
from .methods import ThreeStage as ThreeStage
from .methods.until import Until as Until
from .networks.own import Network
from .networks.transformer import Transformer as Transformer
from .networks.vanilla import Vanilla
from .playground.view import View as View
from .runs.batch import Runs as Runs
from .runs.run import Run as Run
from .sweeping.results import SweepResult as SweepResult
from .tasks import FiniteTask as FiniteTask
from .tasks import Mixture as Mixture
from .tasks import Mnist
from .tasks import Sample as Sample
from .tasks.tokens import Tokens as Tokens
from .tasks.variants.noisy import NoisyMixture

Task: TypeAlias = Mixture | Sample | FiniteTask | Mnist | NoisyMixture  # what `train` learns
Population: TypeAlias = FiniteTask | Tokens  # what `task.population()` lists, and a network sees
AnyNetwork: TypeAlias = Transformer | Vanilla | Network  # who learns
Method: TypeAlias = GradientDescent | GradientFlow | ThreeStage | Optimizer  # how

Array: TypeAlias = np.ndarray  # float64 where the dynamics is concerned; docstrings give the shape
Weights: TypeAlias = dict[str, Array]  # every trained array by name
State: TypeAlias = dict[str, Array]  # what a run carries from step to step
History: TypeAlias = dict[str, Array]  # what its saves record, time first
Variables: TypeAlias = dict[str, tuple[Sequence[str] | str, Array]]  # {variable: (dimensions, values)}

Shown: TypeAlias = bool | Callable[[float, float], object]  # progress: a bar, silence, or a function of (done, total)
PathLike: TypeAlias = str | os.PathLike[str]
Lines: TypeAlias = dict[str, tuple[str, Any, Array]]  # of a chart: label -> (colour, dash, series)
