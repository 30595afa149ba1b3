"""What can be read linearly from a network's inside, and where its identifiers look (docs/mathematics.md §13)."""

import numpy as np

from ..tasks.positions import padded_tokens

# A direction counts as readable when it carries more than about a tenth of an average point's squared length. Without it
# eight points in sixteen dimensions could be fitted to anything, at the start of training already.
RIDGE = 0.1

PAIRS = ("identifier → own", "identifier → other", "own → identifier", "other → identifier")  # query → key


def linear_probe(points, target, ridge=RIDGE):
    """R² of a ridge regression with intercept of target (n,) on points (..., n, D): (...,), from 0 to 1.

    The penalty is `ridge` times the points' mean squared distance from their mean, so that scale does not matter. Least
    squares rather than logistic regression: it is defined when the points separate, and it is a smooth function of them.
    NaN if the target is constant; 0 if the points are all equal.
    """
    X, y = np.asarray(points, float), np.asarray(target, float)
    X, y = X - X.mean(axis=-2, keepdims=True), y - y.mean()
    total = y @ y
    if total <= 1e-12 * len(y):
        return np.full(X.shape[:-2], np.nan)
    G = X @ X.swapaxes(-1, -2)
    size = np.trace(G, axis1=-2, axis2=-1)[..., None, None] / len(y)
    flat = size <= 1e-300
    penalty = np.where(flat, 1.0, ridge * size) * np.eye(len(y))
    fitted = (G @ np.linalg.solve(G + penalty, np.broadcast_to(y[:, None], (*G.shape[:-1], 1))))[..., 0]
    return 1 - ((y - fitted) ** 2).sum(axis=-1) / total


def signal_probes(task, stream):
    """How well each signal's coefficient can be read off: (..., signal) from the stream (..., n, D), and their names."""
    task = task.population()
    names = [name for name in task.features if name.startswith("v")]
    values = np.zeros((len(names), len(task.atoms)))
    for a, atom in enumerate(task.atoms):
        for name, coefficient in atom:
            if name in names:
                values[names.index(name), a] += coefficient
    return np.stack([linear_probe(stream, each) for each in values], axis=-1), names


def answer_probe(task, stream):
    """How well the label of the hard samples can be read off: (...,) from the stream (..., n, D); NaN without hard samples."""
    task = task.population()
    hard = task.hard
    if not hard.any():
        return np.full(np.shape(stream)[:-2], np.nan)
    return linear_probe(np.asarray(stream)[..., hard, :], task.labels[hard])


def identifier_attention(task, A):
    """Mean attention between an identifier and a signal's token: (..., H, pair) from scores A (..., n, H, key, query).

    Pairs as in PAIRS: "own" is the signal with the identifier's number (c2, v2), "other" every other signal, each token on
    its own. Averaged over the tokens of all atoms by their probability; NaN for a pair that never meets.
    """
    task = task.population()
    feature, _, present = padded_tokens(task)
    names = np.array(task.features)[feature]  # (n, L)
    kind = np.vectorize(lambda name: name[0])(names)
    number = np.vectorize(lambda name: name[1:])(names)
    c, v = (kind == "c") & present, (kind == "v") & present
    same = number[:, :, None] == number[:, None, :]
    S = np.where(present[:, None, :, None], np.asarray(A, float), -np.inf)
    P = np.exp(S - S.max(axis=-2, keepdims=True))
    P /= P.sum(axis=-2, keepdims=True)
    found = []
    for own in (True, False):
        own_pairs = (same if own else ~same) & v[:, :, None] & c[:, None, :]  # key signal, query identifier
        found.append(_average(P, own_pairs, task.probabilities))
        found.append(_average(P, own_pairs.swapaxes(1, 2), task.probabilities))
    query_own, key_own, query_other, key_other = found
    return np.stack([query_own, query_other, key_own, key_other], axis=-1)


def _average(P, pairs, probability):
    """Mean of P (..., n, H, key, query) over pairs (n, key, query) -> (..., H)."""
    weight = pairs * probability[:, None, None]
    if not weight.any():
        return np.full((*P.shape[:-4], P.shape[-3]), np.nan)
    return np.einsum("...nhkq,nkq->...h", P, weight) / weight.sum()
