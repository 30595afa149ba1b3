"""mixflow: the laboratory for watching a transformer learn a hidden correspondence, exactly."""

__version__ = "0.1.0"

# The public names and the module each lives in. They are imported on first use: `mixflow --help` then needs no NumPy.
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
    "Run": "store",
    "Sample": "tasks",
    "SpecError": "errors",
    "StoreError": "errors",
    "ThreeStage": "methods",
    "Transformer": "networks.transformer",
    "Until": "methods",
    "Vanilla": "networks.vanilla",
    "Variant": "networks.variant",
    "compare": "side_by_side",
    "construct": "networks.construct",
    "extend": "training",
    "load": "store",
    "open_sweep": "sweeping",
    "plot_run": "plot.run",
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
