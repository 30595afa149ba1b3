"""What the network of a run answers on atoms of the user's own, at any saved time."""

import re
from dataclasses import replace

import numpy as np

from ..checks import listed, shown
from ..engines.series import respond
from ..errors import SpecError
from ..jaxed import in_float64
from ..tasks import FiniteTask
from .weights import saved

TOKEN = re.compile(r"([+-]?(?:(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)?)(.+)")


@in_float64
def predict(run, atoms, time=None, query=None):
    """The answers, a labelled array; see `Run.predict`."""
    import xarray

    if hasattr(run.task, "tokens"):
        raise SpecError(
            "the run's tokens are vectors, not features with names: train run.task.finite() to ask by name."
        )
    place = saved(run, time)
    task, asked = _task(run, atoms, query)
    answer = _answers(run, task, place)[..., :asked]
    names = list(task.names[:asked])
    dims = ("head", "atom") if answer.ndim == 2 else ("atom",)
    coords = {"atom": names} | ({"head": list(task.heads)} if answer.ndim == 2 else {})
    attrs = {"long_name": "answer of the network", "time": float(run.dataset.time[place])}
    return xarray.DataArray(answer, coords, dims, name="answer", attrs=attrs)


def _task(run, atoms, query):
    """The atoms as a FiniteTask on the features of the run's task, and how many they are."""
    task = run.task
    population = None if task.unlisted else task.population()
    features = task.features if population is None else population.features
    wanted = "a list of atoms, each a list of (feature, coefficient) tokens or a name such as 'c1 +v1 -v2'"
    made = [_tokens(atom, set(features)) if isinstance(atom, str) else atom for atom in listed("atoms", atoms, wanted)]
    if query is not None:
        query = [_asker(each, set(features)) for each in listed("query", query, "the asking token of each atom")]
    asked, labels, loss = len(made), [1.0] * len(made), "linear"
    if population is not None and population.loss == "softmax":
        # The heads are its classes, and a task must show them all: so its own atoms stand behind those asked for.
        made, loss = [*made, *population.atoms], "softmax"
        labels = [0.0] * asked + population.labels.tolist()
        query = query and [*query, *(population.query or ())]
    gram = None if population is None else population.gram
    identifiers = features[: task.classes] if population is None else population.identifiers
    own = {"gram": gram, "loss": loss, "query": query, "identifiers": identifiers}
    return FiniteTask(features=features, atoms=made, labels=labels, **own), asked


def _tokens(text, features):
    """The tokens of a name: 'c1 +v1 -0.5v2'."""
    found = []
    for each in text.split():
        sign, name = ("", each) if each in features else TOKEN.fullmatch(each).groups()
        if name not in features:
            raise SpecError(f"{shown(text)} names the feature {name!r}: expected some of {shown(sorted(features))}.")
        found.append((name, float(f"{sign}1" if sign in ("", "+", "-") else sign)))
    return found


def _asker(token, features):
    """The token that asks, from a tuple or from its name: 'c1'."""
    tokens = _tokens(token, features) if isinstance(token, str) else [token]
    if len(tokens) != 1:
        raise SpecError(f"query has {shown(token)}: expected one token for each atom, for example 'c1'.")
    return tokens[0]


def _asking(run, task):
    """The task with the asking tokens that the atoms have in the run's own task; SpecError for an atom that is not in it."""
    population = None if run.task.unlisted else run.task.population()
    own = {} if population is None else dict(zip(map(_sorted, population.atoms), population.query, strict=True))
    for atom, name in zip(task.atoms, task.names, strict=True):
        if _sorted(atom) not in own:
            raise SpecError(
                f"queries = 'one', and {shown(name)} is no atom of the run's task: say which token of each atom asks, for "
                "example query=['c1']."
            )
    return replace(task, query=[own[_sorted(atom)] for atom in task.atoms])


def _sorted(atom):
    return tuple(sorted(atom))


def _answers(run, task, place):
    """F (n,), or logits (C, n), at one save."""
    network, data = run.transformer, run.dataset
    if network.no_closure is not None:
        if place != data.sizes["time"] - 1:
            raise SpecError(f"a {type(network).__name__} keeps its last weights only: leave out time.")
        return np.asarray(network.answer(run.engine.resume(data)["weights"], task))
    state = run.engine.at(data, place)
    if network.queries == "one" and task.query is None:
        task = _asking(run, task)
    return respond(task, network, {name: x[None] for name, x in state.items()})[1][0]
