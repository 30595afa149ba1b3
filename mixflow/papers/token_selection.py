"""Max-margin token selection and its norms: Tarzanagh, Li, Zhang, Oymak, NeurIPS 2023; Sheen, Chen, Wang, Zhou, 2024.

From the sources: one query for each sample, a fixed linear head v, normalised descent; trained directly, W_KQ goes in direction
to the separator of the chosen tokens with the least Frobenius norm, W_K and W_Q to that with the least nuclear norm. Our choices:
n = 6 samples of T = 8 Gaussian tokens in d = 10 dimensions, the first token asks, labels + − + …, logistic loss, 8 random heads v
on one set of tokens; width 100, ω = 0.3; 2,000 steps, of a length that ends before e^(−margin) is too small for a double.
"""

import numpy as np

import mixflow as mf

from .. import papers as kit
from .separators import cosine, least_frobenius, least_nuclear

CONFIG = {
    "samples": kit.Setting(6, "n, small enough for eight solved problems"),
    "tokens": kit.Setting(8, "T, tokens of a sample"),
    "dimension": kit.Setting(10, "d: 60 numbers of W against 42 inequalities"),
    "heads": kit.Setting(8, "random heads v, one run each"),
    "steps": kit.Setting(2000, "of normalised descent"),
    "lengths": kit.Setting({"direct": 0.05, "product": 0.015}, "of a step: margins of hundreds, below 745"),
}
NORMS = ("Frobenius", "nuclear")
FIXED = {"heads": 1, "queries": "one", "activation": "linear", "bias": 0.0, "value_scale": 1.0}


def run(settings, progress):
    """Both parametrisations for every head; at the end the separators of the tokens that were chosen."""
    n, T, d = settings["samples"], settings["tokens"], settings["dimension"]
    X = np.random.default_rng(0).standard_normal((n * T, d))
    names = [f"x{i}" for i in range(n * T)]
    atoms = [[(name, 1) for name in names[i * T : (i + 1) * T]] for i in range(n)]
    known = {"labels": [(-1) ** i for i in range(n)], "query": [atom[0] for atom in atoms], "identifiers": []}
    task = mf.FiniteTask(features=names, atoms=atoms, gram=X @ X.T, **known)
    asking, back = np.linalg.qr(X[::T].T)[0], np.linalg.pinv(X)  # W matters on the span of the queries only
    values, ends = {}, {}
    for attention, length in settings["lengths"].items():
        nets = [
            mf.Transformer(100, attention=attention, seed=seed, dimension=d, **FIXED)
            for seed in range(settings["heads"])
        ]
        method = mf.GradientDescent(length, settings["steps"], save_every=50, normalised=True, neurons_rate=0.0)
        # 48 tokens in 10 dimensions: the weights themselves are fewer numbers than the inner products.
        data = mf.train_many(task, nets, method, model="full", progress=progress).dataset.isel(head=0)
        W = back @ data.A.values @ (back.T @ asking)  # (run, time, d, n)
        found = []
        for A in data.A.values[:, -1]:
            best = [i * T + int(A[i * T : (i + 1) * T, i * T].argmax()) for i in range(n)]
            C = [
                np.outer(X[best[i]] - X[i * T + t], X[i * T] @ asking)
                for i in range(n)
                for t in range(T)
                if best[i] != i * T + t
            ]
            found.append((least_frobenius(np.array(C)), *least_nuclear(np.array(C))))
        for norm, place in zip(NORMS, (0, 1)):
            says = f"{attention}: cosine with the least {norm} norm"
            cosines = np.array([[cosine(w, each[place]) for w in path[1:]] for path, each in zip(W, found)])
            values[f"{attention}_{norm}"] = (f"{says}, mean", cosines.mean(axis=0))
            ends[f"{attention}_{norm}"] = (says, cosines[:, -1])
        ends[f"{attention}_gap"] = ("duality gap of the least nuclear norm, relative", [each[2] for each in found])
    series = {
        "path": kit.labelled("step", data.step.values[1:], values),
        "ends": kit.labelled("run", range(len(nets)), ends),
    }
    return kit.Results(series=series)


def verdict(results):
    """Each parametrisation is nearer to its own norm's separator than to the other's."""
    ends, checks = results.series["ends"], []
    own = kit.paper("W_KQ converges in direction to the least Frobenius norm, W_K and W_Q to the least nuclear norm")
    twin = kit.stored("another program, 8 other sets of tokens", after=True)
    dual = kit.theory("weak duality: no gap, no smaller norm")
    for name, norm, other, found in (("direct", *NORMS, (0.998, 0.863)), ("product", *NORMS[::-1], (0.977, 0.850))):
        mine, theirs, gap = (ends[f"{name}_{each}"].values for each in (norm, other, "gap"))
        mean, low, high = mf.measure.mean_interval(mine - theirs)
        spread = {"low": low, "high": high, "over": f"{len(mine)} heads"}
        says = f"{name}: cosine with the least {norm} norm, beyond that with the least {other} norm"
        checks.append(kit.between(f"{name} nearer", says, mean, 0.0, None, **spread, **own))
        for which, x, before in ((norm, mine, found[0]), (other, theirs, found[1])):
            says = f"{name}: mean cosine with the least {which} norm"
            checks.append(kit.near(f"{name} {which}", says, x.mean(), before, 0.035, **twin))
        says, worst = f"{name}: largest duality gap of the least nuclear norm", np.abs(gap).max()
        checks.append(kit.between(f"{name} gap", says, worst, None, 1e-4, tolerance=1e6, **dual))
    return checks


def answer(results):
    """What is confirmed, and how far."""
    mean = {name: float(x.mean()) for name, x in results.series["ends"].data_vars.items()}
    return (
        f"Yes: trained directly, W_KQ has the cosine {mean['direct_Frobenius']:.3f} with the least Frobenius norm and "
        f"{mean['direct_nuclear']:.3f} with the least nuclear norm; trained as a product {mean['product_Frobenius']:.3f} and "
        f"{mean['product_nuclear']:.3f}, after {results.series['path'].step.values[-1]} steps."
    )


def figures(results):
    """Cosines along the path, one panel for each parametrisation."""
    path = results.series["path"]
    with kit.panels(2) as (figure, row):
        for axes, name in zip(row, ("direct", "product")):
            for norm, dash, (colour, _) in zip(NORMS, ("-", "--"), mf.plot.SERIES):
                axes.plot(path.step, path[f"{name}_{norm}"], dash, color=colour, label=f"least {norm} norm")
            axes.set(title={"direct": "W_KQ trained directly", "product": "W_K and W_Q trained"}[name], xlabel="step")
            axes.set(ylim=(0.7, 1.01), ylabel="mean cosine")
    caption = "Which separator of the chosen tokens training tends to is a matter of how its weights are written."
    alt = "Cosines over 2,000 steps: W_KQ tends to the Frobenius separator, the product to the nuclear one."
    return [kit.Picture("cosines", caption, alt, figure)]


EXPERIMENT = kit.Experiment(
    name="token-selection",
    title="Max-margin token selection, and in which norm",
    question="Does attention select tokens with the largest margin, in the norm of its parametrisation?",
    section="§16, Other published results",
    config=CONFIG,
    run=run,
    verdict=verdict,
    figures=figures,
    answer=answer,
    seconds=(8.0, 8.0),
)
