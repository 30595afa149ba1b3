"""mixflow: the laboratory for watching a transformer learn a hidden correspondence, exactly."""

__version__ = "0.1.0"

# The public names and the module each lives in. They are imported on first use: `mixflow --help` then needs no NumPy.
_HOME = {
    "ChatteringError": "dynamics.gates",
    "DivergedError": "errors",
    "FiniteTask": "tasks",
    "GradientDescent": "dynamics",
    "GradientFlow": "dynamics",
    "Interrupted": "errors",
    "MixflowError": "errors",
    "Mixture": "tasks",
    "Mnist": "tasks",
    "Network": "models.own",
    "Optimizer": "dynamics",
    "Run": "store",
    "Sample": "tasks",
    "SpecError": "errors",
    "StoreError": "errors",
    "ThreeStage": "dynamics",
    "Transformer": "models.transformer",
    "Until": "dynamics",
    "Vanilla": "models.vanilla",
    "Variant": "models.variant",
    "compare": "side_by_side",
    "construct": "models.construct",
    "extend": "training",
    "load": "store",
    "open_sweep": "sweeping",
    "sweep": "sweeping",
    "train": "training",
    "train_many": "training",
    "variants": "tasks",
}

__all__ = list(_HOME)


def __getattr__(name):
    if name not in _HOME:
        raise AttributeError(f"module 'mixflow' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f".{_HOME[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__():
    return [*__all__, "__version__"]
