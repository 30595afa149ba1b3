"""From the history of a one-layer transformer to the variables of a dataset (docs/schema.md): the same for every engine that has
w, A, … between features.

A history has time first: w (time, H, r, F), A, G_K, G_Q (time, a, F, F), and bias, read_out (time, H, r), offset (time,) where
they are trained, and G_V (time, H, r, F, F), N (time, H, r) where w is a product. Where it
records z (time, H, r, n) itself, that is taken.
"""

import numpy as np

from ..networks.readout import ReadOut, asking
from ..tasks.means import averages, mean, mean_accuracy
from ..tasks.positions import padded_tokens
from . import loss as losses
from .forward import preactivation, readings
from .gram_own import own_response

MATRICES = ("A", "G_K", "G_Q")
BESIDE = ("bias", "read_out", "offset", "G_V", "N")  # what a state may have beside w and the attention


def series(task, network, history):
    """{variable: (dimensions, values)}."""
    population = task.population()
    z, answer = respond(population, network, history)
    found = {**judged(task, answer), **states(population, network, history)}
    if not hasattr(network, "respond"):
        return {**found, "z": _neurons(population, network, z)}
    own = {
        "z": z,
        **{name: history[name] for name in network.parameters},
    }  # numbered axes, the last of z is that of atoms
    dims = {name: ("time", *(f"{name}_{i}" for i in range(1, x.ndim))) for name, x in own.items()}
    if z.shape[-1] == len(population.labels):
        heads = ("head",) if z.ndim == 3 and z.shape[1] == len(network.heads_for(population)) else dims["z"][1:-1]
        dims["z"] = ("time", *heads, "atom")
    return found | {name: (dims[name], x) for name, x in own.items()}


def judged(task, answer):
    """Loss, accuracy and margin of answers (time, n), or logits (time, C, n); with a held-out part also _test."""
    population = task.population()
    kind, labels = population.loss, population.labels
    m, each = losses.right(kind, labels, answer), losses.cost(kind, labels, answer)
    found = {name: ("time", x) for name, x in averages(m, population.probabilities, population.hard, each).items()}
    found["margin"] = (("time", "atom"), m)
    if population.held_out is not None:
        found["loss_test"] = ("time", mean(each, population.held_out))
        found["accuracy_test"] = ("time", mean_accuracy(m, population.held_out))
    return found


def states(population, network, history):
    """w, A, … as the dataset has them: `value` only where there are several, every head with its attention."""
    H = len(network.heads_for(population))
    value = ("value",) if network.values > 1 else ()
    found = {"w": (("time", "head", *value, "feature"), _squeezed(network, history["w"]))}
    for name in MATRICES:
        if name in history:
            X = history[name]
            found[name] = (("time", "head", "key", "query"), np.broadcast_to(X, (len(X), H, *X.shape[2:])))
    if "G_QQ" in history:
        found["G_QQ"] = (("time", "head_pair", "key", "query"), history["G_QQ"])
    for name in BESIDE:
        if name in history:
            x = history[name] if name == "offset" else _squeezed(network, history[name])
            dims = {"offset": ("time",), "G_V": ("time", "head", *value, "key", "query")}
            found[name] = (dims.get(name, ("time", "head", *value)), x)
    return found


def respond(population, network, history):
    """z (time, H, r, n), or (time, H, r, n, T) by query type where the ReLU comes before the pooling, and the answer."""
    if hasattr(network, "respond"):
        return own_response(network, population, history)
    readout, ask = ReadOut.of(network, population), asking(network, population)
    w = history["w"]
    trained = history.get("bias")
    bias = network.bias if trained is None else trained[..., None]
    if "z" in history:
        z = history["z"]
    else:
        A = history["A"]
        A = np.broadcast_to(A[:, :, None], (*w.shape[:-1], *A.shape[-2:]))  # every head and value with its attention
        if readout.before:
            z = readings(population, w, A) + (bias if trained is None else bias[..., None])
        else:
            z = preactivation(population, w, A, 0.0 if trained is not None else bias, ask)
            z = z if trained is None else bias + z
    on = readout.act(z)
    if readout.before:
        on = np.sum(on * (ask[0] / ask[1][:, None]), axis=-1)
    return z, readout.answer(on, history.get("read_out"), history.get("offset", 0.0))


def _neurons(population, network, z):
    """z with its dimensions; one neuron for each query stands in the order of the atom's tokens, NaN beyond its end."""
    value = ("value",) if network.values > 1 else ()
    z = _squeezed(network, z)
    if not ReadOut.of(network, population).before:
        return ("time", "head", *value, "atom"), z
    kind, present = _types(population)
    by_token = np.take_along_axis(z, np.broadcast_to(kind, (*z.shape[:-2], *kind.shape)), axis=-1)
    return ("time", "head", *value, "atom", "token"), np.where(present, by_token, np.nan)


def _types(population):
    """(n, L) the token type at every position, and which positions are there."""
    feature, coefficient, present = padded_tokens(population)
    place = {
        (int(f), float(c)): i for i, (f, c) in enumerate(zip(population.token_feature, population.token_coefficient))
    }
    kind = [[place.get((int(f), float(c)), 0) for f, c in zip(*row)] for row in zip(feature, coefficient)]
    return np.array(kind), present


def _squeezed(network, x):
    return x[:, :, 0] if network.values == 1 else x


def resumed(dataset, network, time=-1):
    """The Gram state (`networks.initial.start`) at a save of a dataset that `series` made."""
    at = dataset.isel(time=time)
    one = network.values == 1
    state = {}
    for name in ("w", *MATRICES, "G_QQ", *BESIDE):
        if name in at:
            x = at[name].values
            if name in MATRICES and (network.shared_attention or (name == "G_K" and network.shared_keys)):
                x = x[:1]
            state[name] = x[:, None] if one and name not in (*MATRICES, "G_QQ", "offset") else x
    return state | {name: at[name].values for name in getattr(network, "parameters", ()) if name in at}


def token_series(task, network, history):
    """Samples with tokens of their own: the same names, averaged over training samples; held-out ones end in _test.

    w, A, G_K and G_Q are between identifiers and class-mean images: the means over all images of what each image has. The history
    records z (time, H, r, n) of the training samples and z_test of the held-out ones.
    """
    t = task.tokens
    variables = states(t, network, history)
    readout = ReadOut.of(network, t)
    for part, suffix in ((t.train, ""), (t.test, "_test")):
        weight = np.ones(len(part.labels))  # every sample counts once
        z, sample = history[f"z{suffix}"], f"sample{suffix or '_train'}"
        on = readout.act(z)
        if readout.before:  # every sample has as many tokens
            on = on.mean(axis=-1) if network.queries == "mean" else on.sum(axis=-1)
        answer = readout.answer(on, history.get("read_out"), history.get("offset", 0.0))
        m = part.labels * answer
        value, token = ("value",) if network.values > 1 else (), ("token",) if readout.before else ()
        found = {name: ("time", x) for name, x in averages(m, weight, part.hard).items()}
        found |= {
            "accuracy_easy": ("time", mean_accuracy(m, weight * ~part.hard)),
            "accuracy_hard": ("time", mean_accuracy(m, weight * part.hard)),
            "label": (sample, part.labels),
            "hard": (sample, part.hard),
            "margin": (("time", sample), m),
            "z": (("time", "head", *value, sample, *token), _squeezed(network, z)),
        }
        variables |= {f"{name}{suffix}": each for name, each in found.items()}
    # The split of images: which of the source each side may use. Noisy tokens are drawn anew for each side.
    for side in ("train", "test") if hasattr(task, "split") else ():
        variables[f"{side}_images"] = (f"image_{side}", np.concatenate(task.split[side]))
    return variables


def token_coordinates(task, network):
    """Labels of heads and watched directions."""
    names = list(task.tokens.features)
    return {"feature": names, "key": names, "query": names, **network.coordinates(task.tokens)}
