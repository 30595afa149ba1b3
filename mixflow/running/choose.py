"""Which model serves: the cheapest exact one, or the one asked for, or a sentence that says why it cannot."""

from ..checks import one_of
from ..engines.coordinates import Coordinates
from ..engines.full import Full
from ..engines.gram import Gram
from ..engines.own import OwnNetwork
from ..engines.symmetric import Symmetric
from ..engines.tokens import TokenModel
from ..engines.trained import Trained
from ..engines.vanilla_network import VanillaNetwork
from ..engines.variant_network import VariantNetwork
from ..errors import SpecError
from ..methods.descent import GradientDescent
from ..methods.flow import GradientFlow
from ..methods.optimizers import Optimizer
from ..methods.three_stage import ThreeStage
from ..networks.own import Network
from ..networks.transformer import Transformer
from ..networks.vanilla import Vanilla
from ..networks.variant import Variant
from ..tasks import FiniteTask, Mixture, Mnist, NoisyMixture, Sample
from . import MODELS


def checked(task, transformer, method):
    """The transformer and method, defaults filled in; a SpecError if anything is of the wrong kind."""
    transformer = Transformer() if transformer is None else transformer
    method = GradientDescent() if method is None else method
    for name, value, kinds in (
        ("task", task, (Mixture, Sample, FiniteTask, Mnist, NoisyMixture)),
        ("transformer", transformer, (Transformer, Variant, Vanilla, Network)),
        ("method", method, (GradientDescent, GradientFlow, ThreeStage, Optimizer)),
    ):
        if not isinstance(value, kinds):
            raise SpecError(f"{name} = {value!r}: expected {' or '.join(kind.__name__ for kind in kinds)}.")
    return transformer, method


def choose(task, transformer, method, model="auto"):
    """The engine: the cheapest exact one, or the one asked for, or a SpecError that says why it cannot serve."""
    one_of("model", model, MODELS)
    inner = method.method if isinstance(method, ThreeStage) else method
    if isinstance(transformer, (Variant, Vanilla, Network)) or isinstance(method, Optimizer):
        return _choose_trained(task, transformer, method, model)
    if isinstance(task, Mnist):
        return _choose_tokens(task, transformer, inner, model)
    if isinstance(task, NoisyMixture):
        return _choose_noisy(task, transformer, method, model)
    if isinstance(inner, GradientFlow) and model == "full":
        raise SpecError("model='full' has no gradient flow; use model='gram', which is exact at any width.")
    symmetric_objection = _why_not_symmetric(task, transformer, inner)
    if model == "symmetric" and symmetric_objection:
        raise SpecError(f"model='symmetric' cannot represent this: {symmetric_objection}; use model='gram'.")
    if model == "symmetric" or (model == "auto" and not symmetric_objection):
        return Symmetric(task, transformer.tie_values)
    minibatch = getattr(inner, "batch_size", None)
    if minibatch is not None and model == "gram":
        raise SpecError(
            "model='gram' trains on the whole population, not on minibatches; use model='full' or no batch_size."
        )
    if minibatch is not None and transformer.mean_field:
        raise SpecError(
            "minibatches need a finite width, because model='full' stores every weight; set width, for example 256."
        )
    if model == "full" and transformer.mean_field:
        raise SpecError("model='full' with width=inf: infinitely many weights cannot be stored; use model='gram'.")
    population = task.population()
    if transformer.tie_values and len(population.heads) != 2:
        raise SpecError(
            f"tie_values makes one value vector serve two heads, but this task has {len(population.heads)} classes and "
            "heads; leave it out."
        )
    if model == "full" or minibatch is not None:
        return Full(population, transformer.tie_values, minibatch, getattr(inner, "batch_seed", 0))
    return Gram(population, transformer.tie_values)


def _choose_trained(task, transformer, method, model):
    """The engine for changed networks and other update rules: every weight, by automatic differentiation."""
    what = f"a {type(transformer).__name__} by {type(method).__name__}"
    if not isinstance(task, (Mixture, Sample, FiniteTask)):
        raise SpecError(
            f"{what} on {type(task).__name__}: expected a finite task; use a Transformer and GradientDescent there."
        )
    if not isinstance(method, (GradientDescent, Optimizer)):
        raise SpecError(f"{what}: only a Transformer has it; use GradientDescent or Optimizer.")
    if model not in ("auto", "full"):
        raise SpecError(f"model={model!r} cannot train {what}, which needs every weight; leave model out.")
    if transformer.mean_field:
        raise SpecError(f"width = inf: {what} needs every weight; set the width, for example 64.")
    population = task.population()
    if (loss := getattr(population, "loss", "logistic")) != "logistic":
        raise SpecError(
            f"{what} on a task with loss = {loss!r}: expected the logistic loss; use a plain Transformer there."
        )
    rule = {"kind": method.kind, "constants": method.constants} if isinstance(method, Optimizer) else {}
    networks = {Vanilla: ("vanilla", VanillaNetwork), Network: ("own", OwnNetwork)}
    found = [made for kind, made in networks.items() if isinstance(transformer, kind)]
    name, network = found[0] if found else ("variant", VariantNetwork)
    return Trained(
        name, network(population, transformer), population.probabilities,
        batch_size=method.batch_size, batch_seed=method.batch_seed, **rule,
    )  # fmt: skip


def _choose_tokens(task, transformer, inner, model):
    """The engine for images: every weight, full batch."""
    if model not in ("auto", "full"):
        raise SpecError(f"model={model!r} needs finitely many features, but every image is its own; use model='full'.")
    if transformer.mean_field:
        raise SpecError("width = inf: the weights on images must be stored; set the width, for example 64.")
    if not isinstance(inner, GradientDescent) or inner.batch_size is not None:
        raise SpecError(
            f"{inner!r}: images are trained by GradientDescent on the full batch, alone or in ThreeStage, without batch_size."
        )
    return TokenModel(task.tokens, transformer.tie_values)


def _choose_noisy(task, transformer, method, model):
    """The engine for noisy tokens: the reduction in their coordinates, or every weight."""
    if model == "symmetric":
        raise SpecError("model='symmetric' cannot represent noisy tokens, which are all different; use model='gram'.")
    if not isinstance(method, GradientDescent) or method.batch_size is not None:
        raise SpecError(
            f"{method!r}: noisy tokens are trained by GradientDescent on the full batch, without batch_size."
        )
    return (TokenModel if model == "full" else Coordinates)(task.tokens, transformer.tie_values)


def _why_not_symmetric(task, transformer, inner):
    if not isinstance(task, Mixture):
        return "it needs a Mixture, whose classes are exchangeable"
    if not task.uniform:
        return "it needs uniform priors and orthonormal features"
    if not transformer.mean_field:
        return f"width = {transformer.width} breaks the symmetry between classes; only width=inf keeps it"
    if getattr(inner, "batch_size", None) is not None:
        return "minibatches break the symmetry between classes"
    return None
