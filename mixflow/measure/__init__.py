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
