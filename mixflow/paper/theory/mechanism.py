"""How a network solves the task: its signs, who attends to whom, which route carries the margin (docs/mathematics.md §9).

The closed-form transformer has one route, the identifier as query: column c of A, with the value of the identifier. A trained
network has another one besides, the identifier as key: row c of A under the signals' queries. Each is measured by leaving
it out.
"""

import numpy as np

import mixflow as mf

BLOCKS = ("cc", "cv", "vc", "vv")
# The construction's signs in head +: entries it needs and their sign; it leaves all others at 0.
NEEDED = {"w c": 1, "A[c_k,c_k]": 1, "A[v_k,c_k]": -1}
# Which scores a route is made of, from the mask c of the identifiers: key by query.
ROUTES = {
    "identifier as query": lambda c: np.outer(np.ones_like(c), c),  # whom the identifier looks at
    "identifier as key": lambda c: np.outer(c, ~c),  # which signals look at the identifier
    "signals among themselves": lambda c: np.outer(~c, ~c),
}


def final_state(run):
    """w (2, 2K), A (2, 2K, 2K) of a run's last save; a SpecError if it is no mixture or its features cannot be listed."""
    task = run.task
    if not hasattr(task, "classes"):
        raise mf.SpecError(
            f"the run's task is {run.spec['task']['kind']!r}: its features are no identifiers and signals; use a "
            "Mixture."
        )
    data = run.expand().dataset.isel(time=-1)
    return data.w.values, data.A.values


def entries(w, A):
    """Class averages of head +: w c, w v, and the own-class and other-class entry of each block of A, by name."""
    K = w.shape[-1] // 2
    own = np.eye(K, dtype=bool)
    found = {"w c": w[0, :K].mean(), "w v": w[0, K:].mean()}
    part = {"c": slice(0, K), "v": slice(K, 2 * K)}
    for key, query in BLOCKS:
        block = A[0, part[key], part[query]]
        found[f"A[{key}_k,{query}_k]"] = block[own].mean()
        if K > 1:
            found[f"A[{key}_k,{query}_j]" if key == "c" else f"A[{key}_j,{query}_k]"] = block[~own].mean()
    return {name: float(value) for name, value in found.items()}


def signs(w, A):
    """{entry: (construction's sign, this network's value)} for the entries the construction needs."""
    found = entries(w, A)
    return {name: (sign, found[name]) for name, sign in NEEDED.items()}


def distance(w, A):
    """How far the network is from the closed form after optimal scaling, both heads together, in [0, 1].

    The closed forms are a cone: w = β·(identifiers), A = C·P + B·Q with orthogonal patterns P, Q. The nearest member has
    C = ⟨A, P⟩/⟨P, P⟩ and so on (0 where negative); the distance is what is left of the norm. `w` and `A` apart, because
    their units differ.
    """
    K = w.shape[-1] // 2
    unit = mf.construct(classes=K, beta=1.0, B=1.0, C=1.0)
    P = np.where(unit.A > 0, unit.A, 0.0) * _diagonal(K, "c")
    Q = unit.A * _diagonal(K, "v")

    def scale(X, U):
        return max(float((X * U).sum() / (U * U).sum()), 0.0)

    beta, C, B = scale(w, unit.w), scale(A, P), scale(A, Q)

    def left(X, best):
        return float(np.linalg.norm(X - best) / max(np.linalg.norm(X), 1e-300))

    return {"w": left(w, beta * unit.w), "A": left(A, C * P + B * Q), "beta": beta, "B": B, "C": C}


def _diagonal(K, key):
    """(2K, 2K) mask of the entries [key_k, c_k]."""
    mask = np.zeros((2 * K, 2 * K))
    k = np.arange(K)
    mask[(0 if key == "c" else K) + k, k] = 1
    return mask


def routes(task, w, A, bias):
    """{route left out: loss, accuracy, smallest margin}, with "nothing" for the whole network.

    Leaving a route out sets its scores to 0 in both heads: those queries then look at all tokens alike.
    """
    c = np.array([name.startswith("c") for name in task.population().features])
    found = {"nothing": _outcome(task, w, A, bias)}
    for name, scores in ROUTES.items():
        found[name] = _outcome(task, w, np.where(scores(c), 0.0, A), bias)
    silent = np.where(c, 0.0, w)
    found["value of the identifiers"] = _outcome(task, silent, A, bias)
    found["value of the signals"] = _outcome(task, w - silent, A, bias)
    return found


def _outcome(task, w, A, bias):
    y_margin = mf.measure.margin(task, mf.measure.preactivation(task, w, A, bias))
    p = task.population().probabilities
    return {
        "loss": float(mf.measure.mean_loss(y_margin, p)),
        "accuracy": float(mf.measure.mean_accuracy(y_margin, p)),
        "smallest_margin": float(y_margin.min()),
    }


def who_attends(task, A):
    """{(head, label): {query: shares}}: mean attention of the queries "c", "own" and "other" to the keys of the same names.

    Averaged over the atoms with that label; "own" is v_k of the atom's class, "other" all other signals together.
    """
    population = task.population()
    P = mf.measure.attention_probabilities(task, A)  # (head, atom, key, query)
    K = task.classes
    k = np.array([population.features.index(atom[0][0]) for atom in population.atoms])
    a = np.arange(len(k))
    kinds = {"c": np.zeros((len(a), 2 * K)), "own": np.zeros((len(a), 2 * K)), "other": np.zeros((len(a), 2 * K))}
    kinds["c"][a, k] = 1
    kinds["other"][:, K:] = 1
    kinds["other"][a, K + k] = 0
    kinds["own"][a, K + k] = 1
    found = {}
    for h, head in enumerate("+-"):
        for y in (1, -1):
            rows = population.labels == y
            found[head, y] = {
                query: {
                    key: float(
                        np.einsum("ak,akq,aq->a", kinds[key], np.nan_to_num(P[h]), kinds[query])[rows].mean()
                        / max(kinds[query][0].sum(), 1)
                    )
                    for key in kinds
                }
                for query in kinds
            }
    return found


def compare(run):
    """A trained run beside the closed form: signs, distance, what each route carries, who attends to whom."""
    w, A = final_state(run)
    task, bias = run.task, run.transformer.bias
    return {
        "entries": entries(w, A),
        "signs": signs(w, A),
        "same_signs": all(sign * value > 0 for sign, value in signs(w, A).values()),
        "distance": distance(w, A),
        "routes": routes(task, w, A, bias),
        "attention": who_attends(task, A),
    }


def construction_facts(arguments):
    """The closed-form transformer in plain numbers, with the check of its formula on the whole population."""
    net = mf.construct(**arguments)
    found = net.evaluate()
    e = {
        f"{head} y={'+' if y > 0 else '-'}": net.attention[y][h].tolist()
        for y in (1, -1)
        for h, head in enumerate("+-")
    }
    return {
        "classes": net.classes,
        "width": net.width,
        "beta": net.beta,
        "B": net.B,
        "C": net.C,
        "bias": net.bias,
        "margin": net.margin,
        "largest_margin": net.beta / (net.classes + 1),
        "largest_difference_from_formula": float(np.abs(found.margin - net.margin).max()),
        "atoms_evaluated": len(found.margin),
        "evaluated_by": "atom" if len(found.margin) == net.classes * 2**net.classes else "atom type",
        "loss": found.loss,
        "accuracy": found.accuracy,
        "attention_of_identifier": e,
    }


def construction_table(facts):
    """The same for people."""
    f = facts
    shares = "   ".join(
        f"{name}: {' '.join(f'{x:.3f}' for x in row)}" for name, row in f["attention_of_identifier"].items()
    )
    return "\n".join(
        [
            f"{f['classes']}-mixture, width {f['width']}:  w = {f['beta']:.6g} on every c_k;  A[c_k,c_k] = "
            f"{f['C']:.6g};  "
            f"A[v_k,c_k] = ∓{f['B']:.6g} in head ±;  b = {f['bias']:g};  all else 0",
            f"margin {f['margin']:.12g} on every sample by the formula (at most β/L = {f['largest_margin']:.6g})",
            f"evaluated on {f['atoms_evaluated']} {f['evaluated_by']}s: largest difference from the formula "
            f"{f['largest_difference_from_formula']:.1e}, accuracy {f['accuracy']:g}, loss {f['loss']:.6g}",
            f"the query c_k attends to (itself, own signal, others):  {shares}",
        ]
    )
