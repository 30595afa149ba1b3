"""What infinite width does to a network where it is not the ordinary mean-field limit: frozen, random or trapped (§13)."""

import numpy as np


def limit(network, task=None):
    """A sentence on what becomes of a Transformer at infinite width, with what to do instead; None where nothing is special.

    task   a FiniteTask, whose symmetry may trap the network; not looked at if not given
    """
    if not network.mean_field:
        return None
    if network.scaled_scores and network.standard and network.attention == "product":
        return "at infinite width these scores start random and are trained directly, at the rate 2/d."
    if network.scaled_scores and network.standard:
        return "at infinite width these scores start random and are never trained: their rate vanishes like 1/width; set a width."
    if network.scaled_scores:
        return "at infinite width scores divided by √width vanish and attention stays uniform; use initialisation='standard'."
    return None if task is None else _trapped(network, task)


def _trapped(network, task):
    """The mirror symmetry of a task that a network keeps: then the scores between what it flips and the rest stay 0."""
    flips = mirror(task)
    product = network.value_neurons is not None  # starts from w = 0 whatever its scale
    if flips is None or (network.value_scale and not product) or task.loss == "softmax":
        return None
    balanced = network.heads % 2 == 0
    keeps = network.activation == "linear" and (balanced or network.bias == 0)
    if not (keeps or (network.shared_attention and balanced)):
        return None
    of = ["".join(name + " " for name, f in zip(task.features, flips) if f == side).strip() for side in (False, True)]
    which = "a linear output" if keeps else "shared attention"
    fix = "set a width" if product else "perturb the start with value_scale=0.01, or set a width"
    return f"at infinite width {which} keeps this task's symmetry: scores between {of[0]} and {of[1]} stay 0 for ever; {fix}."


def mirror(task):
    """(F,) which features change sign in the mirror that turns every label; None if the task has no such symmetry.

    The features that occur with both signs are flipped: an atom must become one of opposite label and equal probability, and
    flipped features be orthogonal to the others.

    >>> import mixflow as mf
    >>> mirror(mf.Mixture(2).population()).tolist()
    [False, False, True, True]
    """
    f, c = task.token_feature, task.token_coefficient
    kinds = list(zip(f.tolist(), c.tolist()))
    flips = np.array([any((i, -x) in kinds for j, x in kinds if j == i and x) for i in range(len(task.features))])
    image = [kinds.index((i, -x)) if flips[i] and (i, -x) in kinds else k for k, (i, x) in enumerate(kinds)]
    lonely = any(flips[i] and (i, -x) not in kinds for i, x in kinds)
    if not flips.any() or flips.all() or lonely or np.any(task.gram[np.ix_(flips, ~flips)]):
        return None
    asks = np.zeros(len(task.labels), int) if task.query_index is None else task.query_index
    weight = {}  # of every atom and of its mirror image; the sum vanishes where they are equally likely
    for row, y, p, q in zip(task.count, task.labels, task.probabilities, asks):
        atom = tuple(row), float(y), int(q)
        weight[atom] = weight.get(atom, 0.0) + p
        turned = tuple(row[image]), -float(y), int(q) if task.query_index is None else image[q]
        weight[turned] = weight.get(turned, 0.0) - p
    return flips if max(map(abs, weight.values())) < 1e-12 else None
