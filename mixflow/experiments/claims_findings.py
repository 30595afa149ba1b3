"""Three surprises, each by its own small run: a branch decided by the learning rate, a sample that dies, classes that part.

python -m mixflow.experiments.claims_findings branch     K = 5: descent with rate ≥ 0.004 leaves the flow's trajectory
python -m mixflow.experiments.claims_findings stall      K = 8: one sample in 128 is never learned
python -m mixflow.experiments.claims_findings classes    K = 3, 4: equal and unequal classes at width 4096
"""

import sys

import numpy as np

from ..dynamics.descent import GradientDescent
from ..dynamics.flow import GradientFlow, flow
from ..models.symmetric_field import symmetric_field
from ..models.transformer import Transformer
from ..tasks.mixture import Mixture
from ..theory.finding import interval
from ..training import train, train_many

NETWORK = Transformer(omega=0.3, bias=0.5)


def branch(rates=(0.1, 0.01, 0.004, 0.002, 0.001), classes=5, time=200.0):
    """{learning rate: loss at `time`} of descent, and the flow's loss and the two neurons' z there."""
    found = {}
    for rate in rates:
        steps = round(time / rate)
        run = train(Mixture(classes=classes), NETWORK, GradientDescent(rate, steps, steps))
        found[rate] = float(run.dataset.loss.values[-1])
    field = symmetric_field(Mixture(classes=classes), NETWORK)
    end = flow(field, field.y0, GradientFlow(until=time, save_at=2)).state
    names = [name for _, name in field.gate_names]
    z = dict(zip(names, field.z(end).tolist(), strict=True))
    return {"descent": found, "flow": float(field.loss(end)), "z": {name: z[name] for name in ("y=- n=1", "y=+ n=0")}}


def stall(classes=8, times=(1e5, 2e5, 1e6)):
    """Loss along the flow, its distance from the floor log 2 / 2^(K−1), and the dead sample's two neurons."""
    field = symmetric_field(Mixture(classes=classes), NETWORK)
    states = flow(field, field.y0, GradientFlow(until=times[-1], save_at=times, rtol=1e-8)).states
    floor = float(np.log(2) / 2 ** (classes - 1))
    z = field.z(states).reshape(len(times), 2, classes)[:, :, 0]  # the sample y = +, every other sign −
    return [
        {"time": t, "loss": float(field.loss(y)), "floor": floor, "z_plus": float(a), "z_minus": float(b)}
        for t, y, (a, b) in zip(times, states, z, strict=True)
    ]


def classes(K, time, *, width=4096, seeds=7):
    """Spread of A_+[c_k,v_k] over the classes relative to its mean, and the final accuracy, over seeds."""
    networks = [Transformer(omega=0.3, width=width, seed=seed) for seed in range(seeds)]
    steps = round(time / 0.1)
    batch = train_many(Mixture(classes=K), networks, GradientDescent(0.1, steps, steps)).isel(time=-1)
    own = np.array([np.diagonal(A[0, :K, K:]) for A in batch.A.values])
    spread = np.ptp(own, axis=1) / own.mean(axis=1)
    return {"classes": K, "spread": interval(spread), "accuracy": interval(batch.accuracy.values), "own": own.tolist()}


if __name__ == "__main__":
    chosen = {"branch": branch, "stall": stall, "classes": lambda: [classes(3, 1200.0), classes(4, 2000.0)]}
    for name in sys.argv[1:] or chosen:
        print(name, chosen[name]())
