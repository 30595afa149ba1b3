"""mixflow: the laboratory for watching a transformer learn a hidden correspondence, exactly."""

__version__ = "0.1.0"

from typing import TYPE_CHECKING

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
    "export": "",
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


if TYPE_CHECKING:  # for editors and type checkers, which do not run the table above; a test compares the two
    from . import checks as checks
    from . import export as export
    from . import filippov as filippov
    from . import measure as measure
    from . import plot as plot
    from . import provenance as provenance
    from .engines.field import field as field
    from .errors import DivergedError as DivergedError
    from .errors import Interrupted as Interrupted
    from .errors import MixflowError as MixflowError
    from .errors import ProofError as ProofError
    from .errors import SpecError as SpecError
    from .errors import StoreError as StoreError
    from .filippov.gates import ChatteringError as ChatteringError
    from .methods import GradientDescent as GradientDescent
    from .methods import GradientFlow as GradientFlow
    from .methods import Optimizer as Optimizer
    from .methods import ThreeStage as ThreeStage
    from .methods import Until as Until
    from .networks.construct import construct as construct
    from .networks.own import Network as Network
    from .networks.transformer import Transformer as Transformer
    from .networks.vanilla import Vanilla as Vanilla
    from .networks.variant import Variant as Variant
    from .plot.run import plot_run as plot_run
    from .proofs import Proof as Proof
    from .proofs import prove as prove
    from .side_by_side import compare as compare
    from .store import Run as Run
    from .store import load as load
    from .sweeping import open_sweep as open_sweep
    from .sweeping import sweep as sweep
    from .tasks import FiniteTask as FiniteTask
    from .tasks import Mixture as Mixture
    from .tasks import Mnist as Mnist
    from .tasks import Sample as Sample
    from .tasks import variants as variants
    from .training import extend as extend
    from .training import train as train
    from .training import train_many as train_many
