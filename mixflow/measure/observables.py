"""What one looks at in a run: losses, accuracy, alignment, attention (docs/mathematics.md §5).

Each quantity is a function of a task and plain arrays with any leading axes; `observe` gives them all for a stored
dataset, with names on every axis.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np

from ..checks import array, shown
from ..engines import forward
from ..engines.forward import features as attention_features  # φ_h(a), (..., head, atom, F)
from ..errors import SpecError
from ..networks.readout import asking
from ..spec import build
from ..tasks.finite import finite_population
from ..tasks.means import averages, mean_accuracy

if TYPE_CHECKING:
    from ..tasks.finite import FiniteTask
    from ..types import Array, xarray


def losses(task, margin, each=None):
    """Mean loss over "all", "easy" and "hard" samples from y·F (..., n); NaN where there are none.

    each  (..., n) the loss of every atom, as `forward.loss_of_each` gives it; logistic from the margin if not given
    """
    task = task.population()
    if each is None and task.loss != "logistic":
        raise SpecError(f"loss = {task.loss!r}: the margin does not give it; pass each=forward.loss_of_each(task, z).")
    found = averages(margin, task.probabilities, task.hard, each)
    return {"all": found["loss"], "easy": found["loss_easy"], "hard": found["loss_hard"]}


def accuracy(task, margin):
    """Probability that the margin (y·F) is positive, from margins (..., n); F = 0 counts as half."""
    return mean_accuracy(margin, task.population().probabilities)


def alignment(task: FiniteTask, w: Array) -> dict[str, Array]:
    """⟨w_h, feature⟩ and its cosine, each (..., h, F), for w in feature coordinates (which are these products already).

    ‖w_h‖² = wᵀ Γ⁺ w and ‖feature‖² = Γ_ff: descent from 0 never leaves the span of the features. The cosine of 0 is 0.
    """
    task = finite_population("alignment", task)
    w = array("w", w, "products with the features of the task", ends=(len(task.features),))
    inverse = np.linalg.pinv(task.gram, hermitian=True)
    norm = np.sqrt(np.maximum(np.einsum("...i,ij,...j->...", w, inverse, w), 0))
    scale = norm[..., None] * np.sqrt(np.diag(task.gram))
    return {"w": w, "cosine": np.divide(w, scale, out=np.zeros_like(w), where=scale > 0)}


def identifiers(task):
    """(F,) booleans: which features are class identifiers, as the task says."""
    if not hasattr(type(task), "population"):
        raise SpecError(f"task = {shown(task)}: expected a Mixture, a Sample or a FiniteTask.")
    return task.population().is_identifier


def attention_scores(task: FiniteTask, A: Array) -> dict[str, Array]:
    """The score of every key and query, and its two readings of the identifier.

    all                  (..., h, F, F), ⟨W_K key, W_Q query⟩ = A[key, query]
    identifier_as_key    (..., h, K, F), rows c_k: who looks at the identifier
    identifier_as_query  (..., h, F, K), columns c_k: what the identifier looks at
    """
    c = identifiers(task)
    A = array("A", A, "key by query features of the task", ends=(len(c), len(c)))
    return {"all": A, "identifier_as_key": A[..., c, :], "identifier_as_query": A[..., c]}


def attention_probabilities(task: FiniteTask, A: Array) -> Array:
    """Probability that the query feature of an atom attends to the key feature: (..., h, n, key F, query F).

    Tokens of one feature are taken together: keys are summed, queries averaged by their number. 0 for a key that is not
    in the atom, NaN for a query that is not.
    """
    task = finite_population("attention_probabilities", task)
    P = forward.attention(task, A)
    onehot = np.eye(len(task.features))[task.token_feature]  # (T, F)
    number = task.count @ onehot  # (n, F) how many tokens of each feature
    weight = np.divide(task.count, number @ onehot.T, out=np.zeros_like(task.count), where=task.count > 0)  # (n, T)
    P = onehot.T @ (P * weight[:, None, :]) @ onehot
    return np.where(number[:, None, :] > 0, P, np.nan)


def observe(dataset: xarray.Dataset, task: FiniteTask) -> xarray.Dataset:
    """Every observable of a dataset with `w`, `A` and `margin` (atoms listed), as a Dataset on the same time.

    Losses and accuracy are the dataset's own where it has them, as every run's has; else those of the paper's network. `phi` is
    what the queries of the run's own network read; of the paper's, where the dataset names none.

    Raises SpecError for weights without names of features and heads, and for a task that is not the dataset's.

    >>> import mixflow as mf
    >>> run = mf.train(mf.Mixture(), mf.Transformer(width=4, queries="one"), mf.GradientDescent(steps=2, save_every=1))
    >>> seen = mf.measure.observe(run.dataset, run.task)
    >>> bool(abs(0.5 + (seen.phi * seen.w).sum("feature") - run.dataset.z).max() < 1e-12)
    True
    """
    import xarray as xr

    task = _own_task(dataset, task)
    lead = tuple(sorted(dim for dim in dataset["margin"].dims if dim != "atom"))  # time, or run and time for a batch

    def order(name, *dims):
        return dataset[name].transpose(*lead, *dims).values

    neurons = ("head", *(dim for dim in ("value",) if dim in dataset["w"].dims), "feature")
    margin, w = order("margin", "atom"), order("w", *neurons)
    A = order("A", "head", "key", "query")
    align, kinds = alignment(task, w), ("all", "easy", "hard")
    if "loss" in dataset:
        loss = {kind: order("loss" if kind == "all" else f"loss_{kind}") for kind in kinds}
    else:
        each = None if task.loss == "logistic" else forward.loss_of_each(task, order("z", "head", "atom"))
        loss = losses(task, margin, each)
    c = np.array(task.features)[identifiers(task)]
    variables = {
        "loss": (lead, loss["all"]),
        "loss_easy": (lead, loss["easy"]),
        "loss_hard": (lead, loss["hard"]),
        "accuracy": (lead, accuracy(task, margin)),
        "w": ((*lead, *neurons), align["w"]),
        "cosine": ((*lead, *neurons), align["cosine"]),
        "score": ((*lead, "head", "key", "query"), A),
        "attention": ((*lead, "head", "atom", "key", "query"), attention_probabilities(task, A)),
        "phi": ((*lead, "head", "atom", "feature"), _features_read(dataset, task, A)),
    }
    coords = {name: dataset[name] for name in (*lead, *neurons[:-1]) if name in dataset.coords}
    coords |= {"feature": list(task.features), "key": list(task.features), "query": list(task.features)}
    coords |= {"atom": list(task.names)}
    result = xr.Dataset(variables, coords=coords)
    result["score_identifier_as_key"] = result["score"].sel(key=c).rename(key="identifier")
    result["score_identifier_as_query"] = result["score"].sel(query=c).rename(query="identifier")
    return result


def _own_task(dataset, task):
    """The population of the task, whose features and atoms are the dataset's; SpecError otherwise."""
    if not all(hasattr(dataset, each) for each in ("dims", "coords", "attrs")) or isinstance(dataset, type):
        raise SpecError(f"dataset = {shown(dataset)}: expected the dataset of a run, run.dataset.")
    if not hasattr(type(task), "unlisted"):
        raise SpecError(f"task = {shown(task)}: expected the task of the run, run.task.")
    wanted = {"w": ("head", "feature"), "A": ("head", "key", "query"), "margin": ("atom",)}
    for name, dims in wanted.items():
        if name not in dataset or not set(dims) <= set(dataset[name].dims):
            raise SpecError(
                f"the dataset has no {name} along {', '.join(dims)}: observe reads a Transformer's weights by the names of its "
                "features; up to 8 classes run.expand().dataset writes them out."
            )
    if task.unlisted is not None:
        raise SpecError(
            f"task = {shown(task)}: the dataset lists its atoms, and this task has no such list; give run.task."
        )
    task = task.population()
    for name, known in (("feature", task.features), ("atom", task.names)):
        if name in dataset.coords and dataset[name].values.tolist() != list(known):
            raise SpecError(
                f"the {name}s of the dataset are {shown(dataset[name].values.tolist())} and those of the task "
                f"{shown(list(known))}: give run.task."
            )
    return task


def _features_read(dataset, task, A):
    """φ_h(a) of the networks that the dataset's spec names, (..., head, atom, F)."""
    spec = json.loads(dataset.attrs.get("spec", "{}"))
    if "transformers" not in spec:
        return attention_features(task, A, _ask(spec.get("transformer"), task))
    runs = [_ask(spec["transformers"][int(i)], task) for i in np.atleast_1d(dataset["run"].values)]
    if dataset["run"].ndim == 0:
        return attention_features(task, A, runs[0])
    return np.stack([attention_features(task, each, ask) for each, ask in zip(A, runs, strict=True)])


def _ask(table, task):
    """How the queries of a network in a spec ask; as the paper's where it is no Transformer."""
    plain = table is None or table["kind"] != "transformer"
    return None if plain else asking(build("transformer", table), task)
