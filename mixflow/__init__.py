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
    "Run": "runs.run",
    "Runs": "runs.batch",
    "Sample": "tasks",
    "SpecError": "errors",
    "StoreError": "errors",
    "ThreeStage": "methods",
    "Transformer": "networks.transformer",
    "Until": "methods",
    "Vanilla": "networks.vanilla",
    "checks": "",
    "compare": "runs.compare",
    "construct": "networks.construct",
    "export": "",
    "extend": "runs.extend",
    "field": "engines.field",
    "filippov": "",
    "intervals": "",
    "load": "runs.files",
    "measure": "",
    "open_sweep": "sweeping",
    "plot": "",
    "plot_run": "plot.run",
    "prove": "proofs",
    "provenance": "",
    "sweep": "sweeping",
    "train": "runs.train",
    "train_many": "runs.train",
    "variants": "tasks",
    "view": "playground.view",
}

__all__ = list(_HOME)
__getattr__, _names = exports(__name__, _HOME)


def __dir__():
    return [*_names(), "__version__"]


if TYPE_CHECKING:  # for editors and type checkers, which do not run the table above; a test compares the two
    from . import checks as checks
    from . import export as export
    from . import filippov as filippov
    from . import intervals as intervals
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
    from .playground.view import view as view
    from .plot.run import plot_run as plot_run
    from .proofs import Proof as Proof
    from .proofs import prove as prove
    from .runs.batch import Runs as Runs
    from .runs.compare import compare as compare
    from .runs.extend import extend as extend
    from .runs.files import load as load
    from .runs.run import Run as Run
    from .runs.train import train as train
    from .runs.train import train_many as train_many
    from .sweeping import open_sweep as open_sweep
    from .sweeping import sweep as sweep
    from .tasks import FiniteTask as FiniteTask
    from .tasks import Mixture as Mixture
    from .tasks import Mnist as Mnist
    from .tasks import Sample as Sample
    from .tasks import variants as variants
