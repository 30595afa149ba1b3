"""mixflow: the laboratory for watching a transformer learn a hidden correspondence, exactly."""

__version__ = "0.1.0"

from .lazy import exports

# The public names and the module each lives in, "" for public modules. They are imported on first use: `mixflow --help` then
# needs no NumPy.
_HOME = {
    "ChatteringError": "filippov.gates",
    "DivergedError": "errors",
    "FiniteTask": "tasks",
    "GradientDescent": "methods",
    "GradientFlow": "methods",
    "Interrupted": "errors",
    "MixflowError": "errors",
    "Mixture": "tasks",
    "Mnist": "tasks",
    "Network": "networks.own",
    "Optimizer": "methods",
    "Proof": "proofs",
    "ProofError": "errors",
    "Run": "store",
    "Sample": "tasks",
    "SpecError": "errors",
    "StoreError": "errors",
    "ThreeStage": "methods",
    "Transformer": "networks.transformer",
    "Until": "methods",
    "Vanilla": "networks.vanilla",
    "Variant": "networks.variant",
    "checks": "",
    "compare": "side_by_side",
    "construct": "networks.construct",
    "extend": "training",
    "field": "engines.field",
    "filippov": "",
    "load": "store",
    "measure": "",
    "open_sweep": "sweeping",
    "plot": "",
    "plot_run": "plot.run",
    "prove": "proofs",
    "provenance": "",
    "sweep": "sweeping",
    "train": "training",
    "train_many": "training",
    "variants": "tasks",
}

__all__ = list(_HOME)
__getattr__, _names = exports(__name__, _HOME)


def __dir__():
    return [*_names(), "__version__"]
