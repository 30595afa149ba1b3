"""Every kind of task, network and method, on tiny settings: the list behind the table of what works."""

import math
from dataclasses import dataclass

import numpy as np

import mixflow as mf
from mixflow.engines import choose


@dataclass(frozen=True)
class Vote(mf.Network):
    """A network of one's own, without attention."""

    seed: int = 0

    def start(self, task):
        return {"w": np.zeros((len(task.heads), len(task.features)))}

    def answer(self, weights, task):
        tokens = np.eye(len(task.features))[task.token_feature] * task.token_coefficient[:, None]
        each = weights["w"] @ (task.count / task.length[:, None] @ tokens).T
        return each if task.loss == "softmax" else each[0] - each[1]

    def observe(self, weights, task):
        return {"w": weights["w"], "A": np.zeros((1, 1)), "z": self.answer(weights, task)}


def difference(O, parameters):
    """A read-out of one's own: what the queries read, averaged; the difference of two heads, or one logit for each of more."""
    each = parameters["scale"] * O.mean(axis=-1)
    return each[0] - each[1] if len(each) == 2 else each


G = np.eye(4) + 0.2 * (np.ones((4, 4)) - np.eye(4))
OPTIONS = {
    "heads": 2,
    "values": 2,
    "value_scale": 0.1,
    "train_bias": True,
    "activate": "before",
    "shared_attention": True,
}
TASKS = {
    "Mixture": mf.Mixture(2),
    "Mixture, K = 20": mf.Mixture(20),
    "priors": mf.Mixture(2, priors=(0.7, 0.3)),
    "coherent": mf.Mixture(2, gram=G),
    "Sample": mf.Mixture(2).sample(20, seed=0),
    "label noise": mf.variants.label_noise(mf.Mixture(2), probability=0.1),
    "regression": mf.variants.regression(2, values=(-1.0, 1.0)),
    "multiclass": mf.variants.multiclass(2, values=3),
    "noisy tokens": mf.variants.NoisyMixture(sigma=0.3, samples=4, test_samples=4),
    "Mnist": mf.Mnist(samples=4, test_samples=4, images=2),
}
NETWORKS = {
    "finite": mf.Transformer(width=4),
    "infinite": mf.Transformer(width=math.inf),
    "options, finite": mf.Transformer(width=4, **OPTIONS),
    "options, infinite": mf.Transformer(**OPTIONS),
    "products": mf.Transformer(width=4, value_neurons=3, shared_keys=True),
    "products, infinite": mf.Transformer(value_neurons=3, value_scale=0.3, shared_keys=True, activate="before"),
    "Vanilla": mf.Vanilla(width=4, mlp_width=4),
    "own read-out": mf.Network(difference, mf.Transformer(width=4), parameters={"scale": 1.0}),
    "own Network": Vote(),
}
DESCENT = mf.GradientDescent(0.1, 4, save_every=2)
METHODS = {
    "descent": DESCENT,
    "minibatches": mf.GradientDescent(0.1, 4, save_every=2, batch_size=2),
    "flow": mf.GradientFlow(until=0.4, save_at=3),
    "three stages": mf.ThreeStage(DESCENT, 0.2, 0.2, 0.2),
    "three stages, events": mf.ThreeStage(DESCENT, mf.Until("loss", 1e-9, 0.2), 0.2, mf.Until("loss", 1e-9, 0.2)),
    "three stages of flow": mf.ThreeStage(mf.GradientFlow(until=1.0, save_at=3), 0.2, 0.2, 0.2),
    "Adam": mf.Optimizer(kind="adam", steps=4, save_every=2),
    "momentum, decay": mf.GradientDescent(0.1, 4, save_every=2, momentum=0.5, weight_decay=0.01),
}


def cells():
    """(task, network, method) by name, all of them."""
    return [(task, network, method) for task in TASKS for network in NETWORKS for method in METHODS]


def refusal(task, network, method):
    """Why the combination is refused, or "" if it works."""
    try:
        choose(TASKS[task], NETWORKS[network], METHODS[method])
    except mf.SpecError as error:
        return str(error)
    return ""


def table():
    """The table of the handbook, in Markdown: for each network and method the tasks that are refused."""
    lines = ["| network | " + " | ".join(METHODS) + " |", "|---" * (1 + len(METHODS)) + "|"]
    for network in NETWORKS:
        row = []
        for method in METHODS:
            out = [task for task in TASKS if refusal(task, network, method)]
            row.append("all" if not out else "none" if len(out) == len(TASKS) else f"all but {', '.join(out)}")
        lines.append(f"| {network} | " + " | ".join(row) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
    reasons = {}
    for cell in cells():
        if why := refusal(*cell):
            reasons.setdefault(why.split(": ", 1)[1], []).append(cell)
    print(len(cells()) - sum(map(len, reasons.values())), "of", len(cells()))
    for why, which in reasons.items():
        print(len(which), why)
