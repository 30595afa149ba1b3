"""The single numbers of docs/findings.md, each by its own run; one line of JSON for each result.

python -m mixflow.paper.experiments.claims_findings branch  K = 5: descent with rate ≥ 0.004 leaves the flow's trajectory
python -m mixflow.paper.experiments.claims_findings stall  K = 8: one sample in 128 is never learned
python -m mixflow.paper.experiments.claims_findings survey  K = 2 … 20, followed to 20 learning times: which samples die?
python -m mixflow.paper.experiments.claims_findings classes  K = 3, 4: equal and unequal classes at width 4096
python -m mixflow.paper.experiments.claims_findings long  K = 4 at width 4096 to t = 20000: are the last samples learned?
python -m mixflow.paper.experiments.claims_findings sign  K = 2 … 6: where the growth entry h_cv is negative
python -m mixflow.paper.experiments.claims_findings plateau  K = 2 … 6: how far stage 1 pushes the hard samples to the wrong side
python -m mixflow.paper.experiments.claims_findings gap  K = 2 … 6: how near a neuron that must stay on comes to silence
python -m mixflow.paper.experiments.claims_findings threshold  K = 4: the width at which the classes stay equal
python -m mixflow.paper.experiments.claims_findings bounds  K = 2 … 6: time to separation, its proven bounds, its prediction
python -m mixflow.paper.experiments.claims_findings average  K = 2, 3, 4: critical sub-system of class averages at finite width
python -m mixflow.paper.experiments.claims_findings influence  K = 2, 3, 4: which samples make it learn sooner
"""

import argparse
import json
from dataclasses import replace

import numpy as np

import mixflow as mf

from ..batch import train_batch
from ..theory.comparison import LEVEL, separation, until_score
from ..theory.critical import CV, critical, plateau_growth
from ..theory.perturbed import seed_growth
from ..theory.run_claims import decide
from .influence import influence
from .learning_time import point

NETWORK = mf.Transformer(omega=0.3, bias=0.5)


def branch(rates=(0.1, 0.01, 0.004, 0.002, 0.001), classes=5, time=200.0):
    """{learning rate: loss at `time`} of descent, and the flow's loss and the two neurons' z there."""
    found = {}
    for rate in rates:
        steps = round(time / rate)
        run = mf.train(mf.Mixture(classes=classes), NETWORK, mf.GradientDescent(rate, steps, steps))
        found[rate] = float(run.dataset.loss.values[-1])
    field = mf.field(mf.Mixture(classes=classes), NETWORK, model="symmetric")
    end = field.flow(mf.GradientFlow(until=time, save_at=2)).state
    names = [name for _, name in field.gate_names]
    z = dict(zip(names, field.z(end).tolist(), strict=True))
    return {"descent": found, "flow": float(field.loss(end)), "z": {name: z[name] for name in ("y=- n=1", "y=+ n=0")}}


def stall(classes=8, times=(1e5, 2e5, 1e6)):
    """Loss along the flow, its distance from the floor log 2 / 2^(K−1), and the dead sample's two neurons."""
    field = mf.field(mf.Mixture(classes=classes), NETWORK, model="symmetric")
    states = field.flow(mf.GradientFlow(until=times[-1], save_at=times, rtol=1e-8)).states
    floor = float(np.log(2) / 2 ** (classes - 1))
    z = field.z(states)[:, :2]  # head + and head − on the sample y = +, every other sign −
    return [
        {"time": t, "loss": float(field.loss(y)), "floor": floor, "z_plus": float(a), "z_minus": float(b)}
        for t, y, (a, b) in zip(times, states, z, strict=True)
    ]


def survey(classes=(2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 17, 20), factor=20.0, rtol=1e-8):
    """For each K the flow at `factor` learning times: the loss, the smallest margin, and the samples left undecided (yF = 0)."""
    found = []
    for K in classes:
        learned = point(K, certificate=False)["time"]
        field = mf.field(mf.Mixture(classes=K), NETWORK, model="symmetric")
        state = field.flow(mf.GradientFlow(until=factor * learned, save_at=2, rtol=rtol)).state
        z = np.maximum(field.z(state), 0)
        margin = z[0::2] - z[1::2]  # gates come in pairs, head + and head − on one sample
        dead = [f"y=+ n={n}" for n in np.flatnonzero(margin < 1e-6)]
        found.append(
            {
                "classes": K,
                "time": factor * learned,
                "loss": float(field.loss(state)),
                "margin": float(margin.min()),
                "dead": dead,
            }
        )
    return found


def classes(K, time, *, width=4096, seeds=8):
    """Spread of A_+[c_k,v_k] over the classes relative to its mean, accuracy and loss, over seeds; mean-field beside."""
    networks = [mf.Transformer(omega=0.3, width=width, seed=seed) for seed in range(seeds)]
    steps = round(time / 0.1)
    method = mf.GradientDescent(0.1, steps, steps)
    batch = train_batch(mf.Mixture(classes=K), networks, method).isel(time=-1)
    limit = mf.train(mf.Mixture(classes=K), NETWORK, method).dataset.isel(time=-1)
    own = np.array([np.diagonal(A[0, :K, K:]) for A in batch.A.values])
    spread = np.ptp(own, axis=1) / own.mean(axis=1)
    accuracy = batch.accuracy.values
    return {
        "classes": K,
        "time": time,
        "spread": mf.measure.mean_interval(spread),
        "accuracy": mf.measure.mean_interval(accuracy),
        "samples wrong in 1000": (1000 * (1 - accuracy)).round(3).tolist(),
        "loss": mf.measure.mean_interval(batch.loss.values),
        "losses": batch.loss.values.tolist(),
        "own": own.tolist(),
        "mean-field": {"accuracy": float(limit.accuracy), "loss": float(limit.loss)},
    }


def sign(K, *, saves=2000):
    """Where h_cv < 0 between the first switch and separation along the flow, its least and its greatest value."""
    field = mf.field(mf.Mixture(classes=K), NETWORK, model="symmetric")
    end = until_score(field, LEVEL).time
    run = field.flow(mf.GradientFlow(until=end, save_at=tuple(np.linspace(0, end, saves))))
    system = critical(field, run.times, run.states)
    h, after = system.H[:, *CV], system.time > run.events[0].time
    negative = np.flatnonzero(after & (h < 0))
    span = [float(system.time[i]) for i in (negative[0], negative[-1])] if len(negative) else None
    return {
        "classes": K,
        "first switch": run.events[0].time,
        "separation": end,
        "negative": span,
        "least": float(h[after].min()),
        "greatest": float(h.max()),
    }


def plateau(K):
    """The smallest margin of a hard sample before separation, and h_cv of an ignorant attention over w·c / (2 (K+1)³).

    The ratio is taken while only the unanimous samples' neurons are silent, as the formula asks; `until` says how long.
    """
    field = mf.field(mf.Mixture(classes=K), NETWORK, model="symmetric")
    end = until_score(field, LEVEL).time
    run = field.flow(mf.GradientFlow(until=end, save_at=tuple(np.linspace(0, end, 1000))))
    z = np.maximum(field.z(run.states), 0)
    margin = z[:, 0::2] - z[:, 1::2]  # of the samples y = +, n other signs +
    hard = 1 + 2 * np.arange(K) - (K - 1) <= 0
    system = critical(field, run.times, run.states)
    later = [event.time for event in run.events[1:]]
    until = later[0] if later else end
    inside = (system.time > run.events[0].time + 1) & (system.time < until)
    w_c = field.unpack(run.states)["w"][:, 0]
    ratio = system.forcing[inside][:, *CV] / (w_c[inside] * plateau_growth(K))
    return {
        "classes": K,
        "hard margin": float(margin[:, hard].min()),
        "until": float(until),
        "ratio": [float(ratio.min()), float(ratio.max())],
    }


def gap(K):
    """How near a neuron that stays on comes to its surface before separation: the least z, whose, when.

    A neuron pushes itself on by the samples it should answer; once silenced there it stays silent. So this is how far a
    perturbation may push.
    """
    field = mf.field(mf.Mixture(classes=K), NETWORK, model="symmetric")
    end = until_score(field, LEVEL).time
    run = field.flow(mf.GradientFlow(until=end, save_at=tuple(np.linspace(0, end, 20_000))))
    z = field.z(run.states)
    switched = {event.gate for event in run.events}
    stay = [i for i in range(0, 2 * K, 2) if i not in switched]  # of each pair, the gate of the sample with y = +
    i = stay[int(z[:, stay].min(axis=0).argmin())]
    at = int(z[:, i].argmin())
    return {"classes": K, "neuron": field.gate_names[i][1], "least z": float(z[at, i]), "time": float(run.times[at])}


def threshold(K=4, widths=(2**12, 2**14, 2**16, 2**18, 2**20), seeds=3, factor=1.2):
    """For each width the classes' difference (unequal, mirror), and how many neurons of `gap` fell silent, of 2K; by descent.

    growth    of the difference from the start to `factor` learning times, each seed and the interval of the mean
    silenced  at a sixth of that time, each seed
    """
    task = mf.Mixture(classes=K)
    steps = round(factor * point(K, certificate=False)["time"] / 0.1)
    networks = [replace(NETWORK, width=width, seed=seed) for width in widths for seed in range(seeds)]
    batch = train_batch(task, networks, mf.GradientDescent(0.1, steps, steps // 6))
    ratio = seed_growth(task, batch.A.values)["unequal", "mirror"][:, -1]
    lonely = np.array([[_lonely(atom, sign) for atom in batch.atom.values] for sign in "+-"])  # head, atom
    silent = ((batch.z.isel(time=1).values <= 0) & lonely).sum(axis=(1, 2))
    parts = {width: slice(i * seeds, (i + 1) * seeds) for i, width in enumerate(widths)}
    return [
        {
            "classes": K,
            "width": width,
            "growth": mf.measure.mean_interval(ratio[part]),
            "each": ratio[part].tolist(),
            "silenced": silent[part].tolist(),
            "of": int(lonely.sum()),
        }
        for width, part in parts.items()
    ]


def _lonely(atom, sign):
    """Whether an atom's own signal has the sign and all others have the opposite one."""
    identifier, *signals = atom.split()
    return all((signal[0] == sign) == (signal[2:] == identifier[1:]) for signal in signals)


def average(K, width, *, seeds=3, factor=1.2):
    """The critical sub-system of networks' class averages: `critical-drives` of each seed, and what the averaging leaves out."""
    task = mf.Mixture(classes=K)
    steps = round(factor * point(K, certificate=False)["time"] / 0.1)
    networks = [replace(NETWORK, width=width, seed=seed) for seed in range(seeds)]
    batch = train_batch(task, networks, mf.GradientDescent(0.1, steps, 20))
    found = [decide("critical-drives", batch.isel(run=i), task, network) for i, network in enumerate(networks)]
    return {
        "classes": K,
        "width": width,
        "driven over actual": [one.measured for one in found],
        "residual": [one.facts["residual_of_averaging"] for one in found],
        "bounded": [one.facts["bounded"] for one in found],
    }


RUNS = {
    "branch": lambda: [branch()],
    "stall": stall,
    "survey": survey,
    "classes": lambda: [classes(3, 1200.0), classes(4, 2000.0)],
    "long": lambda: [classes(4, 20_000.0)],
    "sign": lambda: [sign(K) for K in (2, 3, 4, 5, 6)],
    "plateau": lambda: [plateau(K) for K in (2, 3, 4, 5, 6)],
    "gap": lambda: [gap(K) for K in (2, 3, 4, 5, 6)],
    "threshold": threshold,
    "bounds": lambda: [separation(K, NETWORK.omega, NETWORK.bias) for K in (2, 3, 4, 5, 6)],
    "average": lambda: [average(K, width) for K in (2, 3, 4) for width in (64, 4096, 2**18)],
    "influence": influence,
}


def main(arguments=None):
    """Run what is asked for and print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"any of {', '.join(RUNS)} (default: all)")
    names = parser.parse_args(arguments).names or RUNS
    try:
        names = [mf.checks.one_of("name", name, tuple(RUNS)) for name in names]
    except mf.SpecError as error:
        parser.error(str(error))
    for name in names:
        for result in RUNS[name]():
            print(name, json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
