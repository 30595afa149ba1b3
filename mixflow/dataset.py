"""A history of states becomes a labelled dataset: named dimensions, derived series, provenance (docs/schema.md)."""

import json

import numpy as np

from .engines.forward import loss_of_each, margin, preactivation
from .engines.positions import padded_tokens
from .engines.symmetric import type_margin, type_preactivation
from .jaxed import in_float64
from .measure.floor import Samples
from .measure.means import averages, mean, mean_accuracy
from .measure.probes import PAIRS, answer_probe, identifier_attention, signal_probes
from .networks.variant import Variant
from .provenance import provenance
from .tasks import FiniteTask
from .tasks.symmetry import KINDS, SECTORS, atom_types, binomial, expand

SCHEMA_VERSION = 1
HEADS = ("+", "-")
EXPAND_LIMIT = 6  # classes up to which a symmetric run is also written out feature by feature and atom by atom
MATRICES = ("A", "G_K", "G_Q")


@in_float64
def build(
    task,
    transformer,
    method,
    model,
    history,
    *,
    time,
    step=None,
    final=None,
    extra=None,
    wall_time=0.0,
    attributes=None,
):
    """The dataset of one run.

    history  arrays with time first: w (time, 2, F), A, G_K, G_Q (time, 2, F, F); for model "symmetric" the sector form
             w (time, 2), A, G_K, G_Q (time, sector, 2, 2)
    final    arrays of the last state that the history does not determine (the weights of model "full")
    extra    further variables, as (dimensions, values)
    """
    import xarray

    variables = {}
    if model == "symmetric":
        variables |= _sector_variables(history)
        if task.classes <= EXPAND_LIMIT:
            variables |= _feature_variables(task, expand(history, task.classes), transformer.bias)
        else:
            variables |= _type_variables(task, history, transformer.bias)
    elif model in ("tokens", "coordinates"):
        variables |= _token_variables(task, history)
    elif model == "variant":
        variables |= _variant_variables(task, Variant.of(transformer), history)
    elif model == "own":
        variables |= _own_variables(task, history)
    elif model == "vanilla":
        variables |= _vanilla_variables(task, history)
    else:
        variables |= _feature_variables(task, history, transformer.bias)
    for name, value in (final or {}).items():
        variables[f"final_{name}"] = ((*_FINAL_DIMS[name],), value)
    variables |= extra or {}
    coordinates = {"time": np.asarray(time, float), **_coordinates(task, variables)}
    if model == "variant":  # it has its own
        coordinates["head"] = list(Variant.of(transformer).head_names)
    if step is not None:
        coordinates["step"] = ("time", np.asarray(step, np.int64))
    if hasattr(task, "train_index"):
        variables |= {"train_index": ("sample_train", task.train_index), "test_index": ("sample_test", task.test_index)}
    spec = {"task": task.spec(), "transformer": transformer.spec(), "method": method.spec(), "model": model}
    attrs = {
        "mixflow_schema": SCHEMA_VERSION,
        "spec": json.dumps(spec),
        "model": model,
        "seed": transformer.seed,
        "wall_time": float(wall_time),
        **provenance(),
        **(attributes or {}),
    }
    return xarray.Dataset(variables, coords=coordinates, attrs=attrs)


def expanded(dataset, task, bias):
    """A symmetric run's dataset with every feature, head and atom written out, as the standard schema has them."""
    history = {"w": dataset["w_sector"].values, **{name: dataset[f"{name}_sector"].values for name in MATRICES}}
    variables = _sector_variables(history) | _feature_variables(task, expand(history, task.classes), bias)
    kept = {name: dataset.coords[name] for name in ("time", "step") if name in dataset.coords}
    events = {name: dataset[name] for name in dataset.data_vars if "event" in dataset[name].dims}
    return type(dataset)(variables | events, coords={**kept, **_coordinates(task, variables)}, attrs=dataset.attrs)


_FINAL_DIMS = {
    "w": ("head", "coordinate"),
    "W_K": ("head", "neuron", "coordinate"),
    "W_Q": ("head", "neuron", "coordinate"),
}


def _feature_variables(task, history, bias):
    """The standard schema: every feature, head and atom by name."""
    population = task.population()
    z = preactivation(population, history["w"], history["A"], bias)
    m, each = margin(population, z), loss_of_each(population, z)
    variables = {
        **_averages(m, population.probabilities, population.hard, each),
        "w": (("time", "head", "feature"), history["w"]),
        **{name: (("time", "head", "key", "query"), history[name]) for name in MATRICES},
        "margin": (("time", "atom"), m),
        "z": (("time", "head", "atom"), z),
    }
    if population.held_out is not None:
        variables["loss_test"] = ("time", mean(each, population.held_out))
        variables["accuracy_test"] = ("time", mean_accuracy(m, population.held_out))
    return variables


def _variant_variables(task, variant, history):
    """The standard schema where the variant has the same parts; `value` and `token` where there are more neurons."""
    population = task.population()
    value = ("value",) if variant.value_dimension > 1 else ()
    m, z = population.labels * history["answer"], history["z"]
    token = ()
    if variant.relu_per_query:  # one neuron for each query, in the order of the atom's tokens; NaN beyond its end
        token, z = ("token",), np.where(padded_tokens(population)[2], z, np.nan)
    own = {"bias": ("time", "head", *value), "read_out": ("time", "head", *value), "offset": ("time",)}
    return {
        **_averages(m, population.probabilities, population.hard),
        "w": (("time", "head", *value, "feature"), history["w"]),
        **{name: (("time", "head", "key", "query"), history[name]) for name in MATRICES},
        "margin": (("time", "atom"), m),
        "z": (("time", "head", *value, "atom", *token), z),
        **{name: (dims, history[name]) for name, dims in own.items() if name in history},
    }


def _own_variables(task, history):
    """A network of the user's own: what it shows, along dimensions without names."""
    population = task.population()
    m = population.labels * history["answer"]
    shown = {name: x for name, x in history.items() if name != "answer"}
    return {
        **_averages(m, population.probabilities, population.hard),
        "margin": (("time", "atom"), m),
        **{name: (("time", *(f"{name}_{i}" for i in range(1, x.ndim))), x) for name, x in shown.items()},
    }


def _vanilla_variables(task, history):
    """A standard transformer: no heads with a sign and no values; w, A and z as docs/mathematics.md §13 defines them."""
    population = task.population()
    m = population.labels * history["answer"]
    signals, _ = signal_probes(population, history["stream"])
    attention = identifier_attention(population, history["A"])
    return {
        **_averages(m, population.probabilities, population.hard),
        "margin": (("time", "atom"), m),
        "w": (("time", "feature"), history["w"]),
        "A": (("time", "layer", "atom", "head", "key_token", "query_token"), history["A"]),
        "z": (("time", "layer", "atom"), history["z"]),
        "attention": (("time", "layer", "head", "pair"), attention),
        "probe_signal": (("time", "depth", "signal"), signals),
        "probe_answer": (("time", "depth"), answer_probe(population, history["stream"])),
    }


def _token_variables(task, history):
    """Samples with tokens of their own: the same names, averaged over training samples; held-out ones end in _test.

    w, A, G_K and G_Q are between identifiers and class-mean images: the means over all images of what each image has.
    """
    t = task.tokens
    variables = {
        "w": (("time", "head", "feature"), history["w"]),
        **{name: (("time", "head", "key", "query"), history[name]) for name in MATRICES},
    }
    for part, suffix in ((t.train, ""), (t.test, "_test")):
        weight = np.ones(len(part.labels))  # every sample counts once
        z, sample = history[f"z{suffix}"], f"sample{suffix or '_train'}"
        on = np.maximum(z, 0)
        m = part.labels * (on[:, 0] - on[:, 1])
        found = _averages(m, weight, part.hard)
        found |= {
            "accuracy_easy": ("time", mean_accuracy(m, weight * ~part.hard)),
            "accuracy_hard": ("time", mean_accuracy(m, weight * part.hard)),
            "label": (sample, part.labels),
            "hard": (sample, part.hard),
            "margin": (("time", sample), m),
            "z": (("time", "head", sample), z),
        }
        variables |= {f"{name}{suffix}": value for name, value in found.items()}
    # The split of images: which of the source each side may use. Noisy tokens are drawn anew for each side.
    for side in ("train", "test") if hasattr(task, "split") else ():
        variables[f"{side}_images"] = (f"image_{side}", np.concatenate(task.split[side]))
    return variables


def _averages(m, p, hard, each=None):
    return {name: ("time", series) for name, series in averages(m, p, hard, each).items()}


def _sector_variables(history):
    """The 22 numbers of the symmetric model."""
    matrix = ("time", "sector", "key_kind", "query_kind")
    return {
        "w_sector": (("time", "kind"), history["w"]),
        **{f"{name}_sector": (matrix, history[name]) for name in MATRICES},
    }


def _type_variables(task, history, bias):
    """Many classes: atoms by type (label y, number n of positive signs among the others) instead of one by one."""
    z = type_preactivation(history, task.classes, bias)  # (time, 2, 2K)
    m, p, hard = type_margin(history, task.classes, bias)
    return {
        **_averages(m, p, hard),
        "margin": (("time", "atom_type"), m),
        "z": (("time", "head", "atom_type"), z),
    }


def _coordinates(task, variables):
    """Coordinates of exactly the dimensions in use."""
    dims = {dim for names, _ in variables.values() for dim in ([names] if isinstance(names, str) else names)}
    found = {}
    if "head" in dims and "layer" not in dims:
        found["head"] = list(getattr(task, "heads", HEADS))
    if "feature" in dims:
        features = list(task.population().features)
        found |= {dim: features for dim in ("feature", "key", "query") if dim == "feature" or "key" in dims}
    if "pair" in dims:
        found |= {"pair": list(PAIRS), "signal": [f for f in task.population().features if f.startswith("v")]}
    if "atom" in dims:
        population = task.population()
        found["atom"] = list(population.names)
        found["label"] = ("atom", population.labels)
        found["probability"] = ("atom", population.probabilities)
        found["hard"] = ("atom", population.hard)
        if isinstance(task, FiniteTask) and (least := Samples(task).least_loss).any():
            found["least_loss"] = ("atom", least)
    if "sector" in dims:
        found |= {"sector": list(SECTORS), "kind": list(KINDS), "key_kind": list(KINDS), "query_kind": list(KINDS)}
    if "atom_type" in dims:
        names, y, n, multiplicity = atom_types(task.classes)
        found["atom_type"] = names
        found |= {"label": ("atom_type", y.astype(float)), "positive_others": ("atom_type", n)}
        found["multiplicity"] = ("atom_type", multiplicity)
        found["probability"] = ("atom_type", np.tile(binomial(task.classes), 2) / 2)
        found["hard"] = ("atom_type", y * (y + 2 * n - (task.classes - 1)) <= 0)
    return found
