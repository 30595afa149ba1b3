"""A network on a task, computed exactly: each engine says whether it can, starts, steps, flows, measures and resumes (`base`)."""

from ..checks import one_of
from ..errors import SpecError
from ..jaxed import in_float64

MODELS = ("auto", "full", "gram", "symmetric")


def engines():
    """Every engine, the cheapest first."""
    from .gram import Gram
    from .span import Span
    from .symmetric import Symmetric
    from .vectors import Vectors
    from .weights import Weights

    return [Symmetric, Gram, Span, Vectors, Weights]


@in_float64
def choose(task, network, method, model="auto"):
    """The first engine without an objection, or the first of those named `model`; SpecError with the objection if all object.

    Of several objections the user reads that of the last engine that could have served: the most general one for "auto".
    """
    one_of("model", model, MODELS)
    asked = [engine for engine in engines() if model in ("auto", engine.name)]
    objections = []
    for engine in asked:
        why = engine.objection(task, network, method)
        if why is None:
            return engine(task, network, method)
        objections.append((engine, why))
    closes = network.no_closure is None and method.inner.no_closure is None
    if closes and hasattr(task, "tokens") and model != "full":
        # What closes does not depend on the coordinates of a token, only on inner products: list them.
        try:
            return choose(task.finite(), network, method, model)
        except SpecError:
            if method.flows:  # which only a list can have, so what is wrong with the list is what to read
                raise
    raise SpecError(_sentence(task, network, method, model, objections))


def _sentence(task, network, method, model, objections):
    """Why none can, in one sentence."""
    kin = [why for engine, why in objections if engine.vectors_only == hasattr(task, "tokens")]
    apt = [why for engine, why in objections if engine.apt(task, network, method)] or kin or [objections[-1][1]]
    what = f"a {type(network).__name__} by {type(method).__name__} on {type(task).__name__}"
    asked = what if model == "auto" else f"model={model!r} cannot represent {what}"
    return f"{asked}: {apt[0]}."
