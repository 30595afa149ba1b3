"""What a trajectory shows: observables, separability, invariants, stages, means over seeds; public functions of arrays.

    stages        detect, switch_off, falls_to, Stage, Trajectory
    over seeds    mean_interval, stage_intervals
    network       preactivation, margin, attention_features, attention_probabilities, attention_scores, alignment
    means         mean_loss, mean_losses, mean_accuracy, loss_of_each, observe, Samples, above_least, TIE
    geometry      deciding, feature_margin, feature_points, max_margin, separating_plane
    invariants    conserved, drift, smallest_eigenvalue

Arrays may have leading axes for time and run; what has the wrong shape raises SpecError.

>>> import mixflow as mf
>>> run = mf.train(mf.Mixture(), mf.Transformer(), mf.GradientDescent(steps=8000, save_every=20))
>>> [stage.name for stage in mf.measure.detect(run.dataset) if stage.found]
['neurons', 'attention', 'convergence']
>>> margin = mf.measure.feature_margin(run.task, run.dataset.A.values[[0, -1]])  # of the hard samples, before and after
>>> bool(margin[0] == 0), bool(margin[1] > 0.3)
(True, True)
>>> mf.measure.mean_interval([1.0, 2.0, 3.0])[0]  # mean over seeds, with low and high
2.0
"""

from typing import TYPE_CHECKING

from ..lazy import exports

# The public names and the module each lives in.
_HOME = {
    "Samples": ".tasks.floor",
    "Stage": "stages",
    "TIE": ".tasks.means",
    "Trajectory": "trajectory",
    "above_least": ".tasks.floor",
    "alignment": "observables",
    "attention_features": "observables",
    "attention_probabilities": "observables",
    "attention_scores": "observables",
    "conserved": "invariants",
    "deciding": "separability",
    "detect": "stages",
    "drift": "invariants",
    "falls_to": "between_saves",
    "feature_margin": "separability",
    "feature_points": "separability",
    "loss_of_each": ".engines.forward",
    "margin": ".engines.forward",
    "max_margin": "separability",
    "mean_accuracy": ".tasks.means",
    "mean_interval": "seeds",
    "mean_loss": ".tasks.means",
    "mean_losses": ".tasks.means",
    "observe": "observables",
    "preactivation": ".engines.forward",
    "separating_plane": "plane",
    "smallest_eigenvalue": "invariants",
    "stage_intervals": "seeds",
    "switch_off": "between_saves",
}
__all__ = list(_HOME)
__getattr__, __dir__ = exports(__name__, _HOME)

if TYPE_CHECKING:  # for editors and type checkers, which do not run the table above; a test compares the two
    from ..engines.forward import loss_of_each as loss_of_each
    from ..engines.forward import margin as margin
    from ..engines.forward import preactivation as preactivation
    from ..tasks.floor import Samples as Samples
    from ..tasks.floor import above_least as above_least
    from ..tasks.means import TIE as TIE
    from ..tasks.means import mean_accuracy as mean_accuracy
    from ..tasks.means import mean_loss as mean_loss
    from ..tasks.means import mean_losses as mean_losses
    from .between_saves import falls_to as falls_to
    from .between_saves import switch_off as switch_off
    from .invariants import conserved as conserved
    from .invariants import drift as drift
    from .invariants import smallest_eigenvalue as smallest_eigenvalue
    from .observables import alignment as alignment
    from .observables import attention_features as attention_features
    from .observables import attention_probabilities as attention_probabilities
    from .observables import attention_scores as attention_scores
    from .observables import observe as observe
    from .plane import separating_plane as separating_plane
    from .seeds import mean_interval as mean_interval
    from .seeds import stage_intervals as stage_intervals
    from .separability import deciding as deciding
    from .separability import feature_margin as feature_margin
    from .separability import feature_points as feature_points
    from .separability import max_margin as max_margin
    from .stages import Stage as Stage
    from .stages import detect as detect
    from .trajectory import Trajectory as Trajectory
