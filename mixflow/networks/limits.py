"""What infinite width does to a network where it is not the ordinary mean-field limit: frozen, random or trapped (§13)."""

from dataclasses import replace

import numpy as np


def limit(network, task=None, flow=False):
    """A sentence on what becomes of a Transformer at infinite width, with what to do instead; None where nothing is special.

    task   whose symmetry may trap the network; not looked at if not given

    flow   whether it moves by the flow, which leaves z = 0 where descent stays

    At any width, a network none of whose neurons is on at the start is told too.
    """
    if dead(network) and not (flow and network.bias == 0):
        fix = "raise bias, or set value_scale"
        return f"with w = 0 and b = {network.bias:g} no neuron is on at the start, and nothing moves; {fix}."
    if not network.mean_field:
        return None
    if network.scaled_scores and network.standard and network.attention == "product":
        return "at infinite width these scores start random and are trained directly, at the rate 2/d."
    if network.scaled_scores and network.standard:
        return "at infinite width these scores start random and are never trained: their rate vanishes like 1/width; set a width."
    if network.scaled_scores:
        return "at infinite width scores divided by √width vanish and attention stays uniform; use initialisation='standard'."
    return None if task is None else _trapped(network, _listed(task))


def _listed(task):
    """The atoms of a task; of a uniform mixture of many classes those of three, which have its symmetry."""
    uniform = getattr(task, "classes", 0) > 3 and task.priors is None and task.gram is None
    return (replace(task, classes=3) if uniform else task).population()


def dead(network):
    """Whether every neuron starts at or below z = 0 with w = 0: its ReLU passes nothing back, and nothing ever moves it.

    >>> import mixflow as mf
    >>> [dead(mf.Transformer(bias=b, value_scale=s)) for b, s in ((0.5, 0.0), (0.0, 0.0), (0.0, 0.1))]
    [False, True, False]
    """
    product = network.value_neurons is not None and network.mean_field
    return (
        network.activation == "relu"
        and network.bias <= 0
        and (product or not (network.value_scale or network.standard))
    )


def _trapped(network, task):
    """The mirror symmetry of a task that a network keeps: then the scores between what it flips and the rest stay 0."""
    flips = mirror(task)
    product = network.value_neurons is not None  # starts from w = 0 whatever its scale
    if flips is None or (network.value_scale and not product) or task.loss == "softmax":
        return None
    if never_off(network, task):
        fix = "lower the bias, or set a width"
        return f"at infinite width every sample is fitted as well as it can be before a neuron switches off (F ≤ 2b); {fix}."
    balanced = network.heads % 2 == 0
    keeps = network.activation == "linear" and (balanced or network.bias == 0)
    if not (keeps or (network.shared_attention and balanced)):
        return None
    of = ["".join(name + " " for name, f in zip(task.features, flips) if f == side).strip() for side in (False, True)]
    which = "a linear output" if keeps else "shared attention"
    fix = "set a width" if product else "perturb the start with value_scale=0.01, or set a width"
    zero = f"scores between {of[0]} and {of[1]} stay 0 for ever"
    return f"at infinite width {which} keeps this task's symmetry: {zero}; only rounding frees them, late: {fix}."


def never_off(network, task):
    """Whether squared loss is least, with every neuron on and attention uniform, where no neuron has reached 0 (§13).

    Then F is a vote of the mean tokens, z = b ± F/2, and descent from F = 0 fits it straight where its curvature is the same in
    all directions, as in a uniform Mixture: F never exceeds its least-squares value. (Attention moves a little where the vote
    leaves a residual, from K = 3 on; seen to K = 8, it does not switch a neuron off.)

    >>> import mixflow as mf
    >>> [never_off(mf.Transformer(bias=b), mf.Mixture(3, loss="squared").population()) for b in (0.4, 0.5)]
    [False, True]
    """
    paper = network.heads == 2 and network.activation == "relu" and network.activate == "after" and network.values == 1
    flips = mirror(task)
    unit = flips is not None and (np.abs(task.token_coefficient[flips[task.token_feature]]) == 1).all()
    if task.loss != "squared" or not unit or not paper or network.queries == "one":
        return False
    length = task.length[:, None]
    tokens = np.zeros((len(task.token_feature), len(task.features)))
    tokens[np.arange(len(tokens)), task.token_feature] = task.token_coefficient
    X = task.count @ tokens / (length if network.queries == "mean" else 1.0)  # (n, F)
    X = X[:, flips]  # w on the others rests by the mirror, and so do a trained bias and an offset
    curvature = X.T @ (task.probabilities[:, None] * X) @ task.gram[np.ix_(flips, flips)]
    if not np.allclose(
        curvature, curvature[0, 0] * np.eye(len(curvature)), rtol=0, atol=1e-9 * np.abs(curvature).max()
    ):
        return False
    F = X @ (X.T @ (task.probabilities * task.labels)) / curvature[0, 0]
    return bool(np.abs(F).max() <= 2 * network.bias * (1 + 1e-12))


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
