"""Which samples, how many hard ones and which priors make it learn sooner? (docs/findings.md §11)

Learning means loss 0.1, at ω = 0.3, b = 1/2 and infinite width.
"""

from dataclasses import replace

import numpy as np

import mixflow as mf

NETWORK, TARGET = mf.Transformer(omega=0.3, bias=0.5), mf.Until("loss", 0.1)


def agreeing(task):
    """(n,) how many of a sample's signs agree with its label, its own among them."""
    signs = [[sign for feature, sign in atom if feature not in task.identifiers] for atom in task.atoms]
    return np.array([sum(sign == label for sign in each) for each, label in zip(signs, task.labels, strict=True)])


def samples(classes):
    """The learning time of the flow, and its derivative by the probability of a sample, by the number of signs that agree."""
    task = mf.Mixture(classes=classes).population()
    run = mf.train(task, NETWORK, mf.GradientFlow(until=TARGET, save_at=2))
    found = run.sensitivity(TARGET, to="probabilities")
    change, count = found.time_by_probabilities.values, agreeing(task)
    rows = [[int(k), float(change[count == k].mean()), float(np.ptp(change[count == k]))] for k in np.unique(count)]
    return {"classes": classes, "time": float(found.time), "agreeing signs, mean, spread": rows}


def shared(classes, chosen, share):
    """The mixture with the share of the chosen samples set; the ratios among them, and among the others, stay."""
    task = mf.Mixture(classes=classes).population()
    chosen, p = chosen(task), task.probabilities
    weight = np.where(chosen, share * p / p[chosen].sum(), (1 - share) * p / p[~chosen].sum())
    return replace(task, probabilities=weight)


def hard(task):
    """The samples that the vote gets wrong."""
    return task.hard


def alone(task):
    """The samples whose own sign stands alone against all others."""
    return agreeing(task) == 1


def learning(task, rate=0.1):
    """When the flow learns, and after how many steps descent does (None: not within half as long again; rate None: not asked)."""
    run = mf.train(task, NETWORK, mf.GradientFlow(until=TARGET, save_at=2))
    time = float(run.dataset.time[-1])
    if rate is None:
        return {"time": time}
    method = mf.GradientDescent(rate, int(1.5 * time / rate), save_every=round(0.1 / rate))
    data = mf.train(task, NETWORK, method).dataset
    reached = data.step.values[data.loss.values < TARGET.threshold]
    return {"time": time, "rate": rate, "steps": int(reached[0]) if len(reached) else None}


def influence():
    """Every result of the section."""
    yield from (samples(K) for K in (2, 3, 4))
    for share in (0.25, 0.35, 0.45):
        yield {"classes": 3, "hard share": share, **learning(shared(3, hard, share))}
    for share, rate in ((0.125, 0.01), (0.1, 0.01), (0.1, 0.1)):
        yield {"classes": 4, "share alone": share, **learning(shared(4, alone, share), rate)}
    for priors in ((0.4, 0.3, 0.3), (0.5, 0.25, 0.25), (0.45, 0.45, 0.1)):
        yield {"classes": 3, "priors": priors, **learning(mf.Mixture(classes=3, priors=priors))}
