"""Is every option of the network exact, and what does it cost?

    python benchmarks/options.py [--only NAME …] [--torch-python PATH]

Exact: the reduction against every weight, 2,000 steps of descent at widths 5, 40 and 256 with coherent features, unequal classes
and more dimensions than features; the largest difference of w, A, z and the loss anywhere. Cost: processor time of a step at
K = 2, at a finite width (which one makes no difference to the reduction) and an infinite one, in turns with that of the paper's
network; beside it the operations of its program, in those of the paper's, without what minibatches draw ahead. With PyTorch
(here, or in the interpreter that --torch-python names) also a step of the obvious program: every weight, d = 64, m = 256, the
eight samples as one batch, loss.backward(), SGD. Prints the table of README.md. Exits with an error if an option is not exact.
"""

import argparse
import json
import os
import subprocess
import sys
import time
import warnings

EXACT, WIDTHS, STEPS = 1e-9, (5, 40, 256), 2000
TIMED = {"finite": 40, "infinite": float("inf")}  # widths
WITHOUT_TORCH = 3  # exit code
AIM = 2  # times the step of the paper's network
TOGETHER = {
    "values": 2,
    "activate": "before",
    "queries": "sum",
    "offset": True,
    "train_bias": True,
    "shared_attention": True,
}
# (fields of the Transformer, fields of GradientDescent), and what of the task is changed where it is
OPTIONS = {
    "paper": ({}, {}),
    "tied values": ({"tie_values": True}, {}),
    "trained bias": ({"train_bias": True}, {}),
    "ReLU before the average": ({"activate": "before"}, {}),
    "three values": ({"values": 3}, {}),
    "standard initialisation": ({"initialisation": "standard", "scaled_scores": True}, {}),
    "scaled scores": ({"scaled_scores": True}, {}),
    "one head": ({"heads": 1}, {}),
    "one head, offset": ({"heads": 1, "offset": True}, {}),
    "four heads": ({"heads": 4}, {}),
    "shared attention": ({"shared_attention": True}, {}),
    "W_K = W_Q": ({"attention": "tied"}, {}),
    "shared keys": ({"shared_keys": True}, {}),
    "direct attention": ({"attention": "direct"}, {}),
    "sum over queries": ({"queries": "sum"}, {}),
    "linear": ({"activation": "linear"}, {}),
    "value product": ({"value_neurons": 8}, {}),
    "together": (TOGETHER, {}),
    "identifier asks": ({"queries": "one"}, {}),
    "exponential loss": ({}, {}, {"loss": "exponential"}),
    "squared loss": ({}, {}, {"loss": "squared"}),
    "minibatches": ({}, {"batch_size": 4}),
    "weight decay": ({}, {"weight_decay": 0.01}),
    "momentum": ({}, {"momentum": 0.9}),
    "normalised": ({}, {"normalised": True}),
    "all rules": (
        {"value_neurons": 8, "shared_keys": True},
        {"momentum": 0.9, "weight_decay": 0.01, "normalised": True},
    ),
}


def network_of(options, **base):
    """The option with random values, so that its first step moves everything."""
    import mixflow as mf

    random = {} if options.get("initialisation") == "standard" else {"value_scale": 0.4}
    return mf.Transformer(**{**base, **random, **options})


def method_of(rule, steps):
    """Descent at a rate at which no option chatters about a kink for ever, which would make rounding grow."""
    import mixflow as mf

    rate = 0.05 * (1 - rule.get("momentum", 0.0)) * (0.1 if "normalised" in rule else 1.0)
    return mf.GradientDescent(rate, steps, save_every=steps // 4, **rule)


def task_of(options, changes, **mixture):
    """A mixture of two classes, with another loss, or with the identifier as the token that asks."""
    from dataclasses import replace

    import mixflow as mf

    task = mf.Mixture(classes=2, **mixture).population()
    query = {"query": [atom[0] for atom in task.atoms]} if options.get("queries") == "one" else {}
    return replace(task, **changes, **query)


def difference(option, width, steps=STEPS):
    """The largest difference of the reduction from every weight."""
    import numpy as np

    import mixflow as mf

    options, rule, *changes = option
    gram = np.eye(4) + 0.2 * (np.ones((4, 4)) - np.eye(4))
    task = task_of(options, *(changes or [{}]), gram=gram, priors=(0.6, 0.4))
    network = network_of(options, width=width, omega=0.5, seed=3, dimension=6)
    sides = [mf.train(task, network, method_of(rule, steps), model=model).dataset for model in ("gram", "full")]
    return max(float(np.abs(sides[0][name] - sides[1][name]).max()) for name in ("w", "A", "z", "loss"))


def engine_of(option, width, steps=STEPS):
    """The engine, and its method, at K = 2."""
    from mixflow.engines.gram import Gram

    options, rule, *changes = option
    method = method_of(rule, steps)
    return Gram(task_of(options, *(changes or [{}])), network_of(options, omega=0.3, width=width), method), method


def clock(option, width, steps):
    """A function that gives the microseconds of processor time of a step of all lanes, compiled."""
    import numpy as np

    from mixflow.methods.chunks import descend

    engine, method = engine_of(option, width, steps)
    rates = np.full(engine.lanes, method.learning_rate)
    parameters = engine.parameters([engine.network] * engine.lanes, rates, rates)
    states = [engine.start(engine.network)] * engine.lanes

    def measure():
        start = time.process_time()
        descend(engine, states, parameters, steps, save_every=steps)
        return 1e6 * (time.process_time() - start) / steps

    measure()
    return measure


def cost(option, width, steps=20_000, turns=15):
    """Microseconds of a step, and in those of the paper's network: the best of several runs of both, in turns."""
    from mixflow.jaxed import float64

    with float64():
        sides = [clock(each, width, steps) for each in (option, OPTIONS["paper"])]
        ours, paper = (min(times) for times in zip(*([side() for side in sides] for _ in range(turns)), strict=True))
    return {"us": ours, "times_paper": ours / paper}


def operations(option, width):
    """How many operations on numbers a step is, for one lane; None where its program is JAX's."""
    from mixflow.jaxed import float64
    from mixflow.native import alone
    from mixflow.native.graph import Untranslated
    from mixflow.native.machine import traced

    with float64():
        engine, _ = engine_of(option, width)
        one = alone(engine)
        state, parameters = one.stack([one.start(one.network)]), one.parameters([one.network], [0.0], [0.0])
        try:
            drawn = {name: x[0] for name, x in one.ahead(0, parameters).items()}
            return len(traced(one, state, parameters, drawn).order)
        except Untranslated:
            return None


def torch_program(options, rule, changes=None, steps=200, width=256, d=64):
    """The obvious program; runs in the interpreter that has torch and prints microseconds for a step as JSON."""
    import itertools

    try:
        import torch
    except ImportError:
        sys.exit(WITHOUT_TORCH)
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    H, r, signs = options.get("heads", 2), options.get("values", 1), torch.tensor([1.0, -1.0] * 32)
    a = 1 if options.get("shared_attention") else H
    basis, samples, y = torch.eye(d), [], []
    for k, s in itertools.product(range(2), itertools.product((1, -1), repeat=2)):
        samples.append(torch.stack([basis[k], *(sign * basis[2 + j] for j, sign in enumerate(s))]))
        y.append(s[k])
    X, y = torch.stack(samples), torch.tensor(y, dtype=torch.float64)

    def drawn(*shape, scale):
        return torch.nn.Parameter(scale * torch.randn(*shape))

    kind, scale = options.get("attention", "product"), 0.3 / width**0.5
    W = {"bias": torch.full((H, r), 0.5)}
    if kind == "direct":
        W["W_KQ"] = drawn(a, d, d, scale=scale)
    else:
        W["W_K"] = drawn(1 if options.get("shared_keys") else a, width, d, scale=scale)
        W["W_Q"] = W["W_K"] if kind == "tied" else drawn(a, width, d, scale=scale)
    if neurons := options.get("value_neurons"):
        W |= {"W_V": drawn(H, r, width, d, scale=scale), "neurons": drawn(H, r, neurons, width, scale=scale)}
    else:
        W["w"] = drawn(1 if options.get("tie_values") else H, r, d, scale=0.4)
    if options.get("train_bias"):
        W["bias"] = torch.nn.Parameter(W["bias"])
    if r > 1:
        W["read_out"] = torch.nn.Parameter(torch.full((H, r), r**-0.5))
    if options.get("offset"):
        W["offset"] = torch.nn.Parameter(torch.zeros(()))

    def act(z):
        return z if options.get("activation") == "linear" else torch.relu(z)

    def pool(x):
        return {"sum": x.sum(-1), "one": x[..., 0]}.get(
            options.get("queries"), x.mean(-1)
        )  # the identifier comes first

    def loss_of(F, y):
        kind = (changes or {}).get("loss", "logistic")
        return {
            "logistic": torch.nn.functional.softplus(-y * F),
            "exponential": torch.exp(-y * F),
            "squared": (F - y) ** 2 / 2,
        }[kind]

    def answer(X):
        if kind == "direct":
            S = torch.einsum("nki,hij,nqj->hnkq", X, W["W_KQ"], X)
        else:
            S = torch.einsum("hnkm,hnqm->hnkq", *torch.broadcast_tensors(
                torch.einsum("hmd,nkd->hnkm", W["W_K"], X), torch.einsum("hmd,nqd->hnqm", W["W_Q"], X)))  # fmt: skip
        P = torch.softmax(S / (width**0.5 if options.get("scaled_scores") else 1.0), dim=2)
        if neurons:
            w = torch.einsum("j,hrjm,hrmd->hrd", signs[:neurons], W["neurons"], W["W_V"])
        else:
            w = torch.cat([W["w"], -W["w"]]) if options.get("tie_values") else W["w"]
        O = torch.einsum("hrd,nkd,hnkq->hrnq", w, X, P.expand(H, *P.shape[1:]))
        b = W["bias"][..., None]
        on = pool(act(b[..., None] + O)) if options.get("activate") == "before" else act(b + pool(O))
        on = on * W["read_out"][..., None] if r > 1 else on
        return torch.einsum("h,hrn->n", signs[:H], on) - W.get("offset", 0.0)

    trained = list({id(x): x for x in W.values() if x.requires_grad}.values())
    decay, momentum = rule.get("weight_decay", 0.0), rule.get("momentum", 0.0)
    optimizer = torch.optim.SGD(trained, lr=0.05, momentum=momentum, weight_decay=decay)
    best = float("inf")
    for _ in range(5):
        start = time.process_time()
        for _ in range(steps // 5):
            chosen = torch.randint(8, (rule["batch_size"],)) if "batch_size" in rule else slice(None)
            optimizer.zero_grad()
            loss = loss_of(answer(X[chosen]), y[chosen]).mean()
            loss.backward()
            if rule.get("normalised"):
                length = torch.sqrt(sum((x.grad**2).sum() for x in trained))
                for x in trained:
                    x.grad /= length
            optimizer.step()
        best = min(best, (time.process_time() - start) / (steps // 5))
    print(json.dumps({"us": 1e6 * best, "loss": float(loss)}))


def torch_microseconds(python, name):
    """A step of the obvious program for an option; None without PyTorch."""
    done = subprocess.run([python, __file__, "--torch-program", name], capture_output=True, text=True)
    if done.returncode == WITHOUT_TORCH:
        return None
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout)["us"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=OPTIONS, metavar="NAME", help="these options, by name")
    parser.add_argument(
        "--widths", nargs="+", type=int, default=WIDTHS, help="widths of the comparison with every weight"
    )
    parser.add_argument("--torch-python", default=sys.executable, metavar="PATH", help="an interpreter that has torch")
    parser.add_argument(
        "--torch-program", choices=OPTIONS, metavar="NAME", help="run the obvious program of one option only"
    )
    parser.add_argument("--json", action="store_true", help="print one object")
    asked = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    if asked.torch_program:
        return torch_program(*OPTIONS[asked.torch_program])
    from engine import machine, versions  # also puts the package beside this folder on the path

    warnings.filterwarnings("ignore", message="at infinite width")
    found, counts = {}, {kind: operations(OPTIONS["paper"], width) for kind, width in TIMED.items()}
    for name in asked.only or OPTIONS:
        option = OPTIONS[name]
        found[name] = {
            "difference": {width: difference(option, width) for width in asked.widths},
            "torch_us": torch_microseconds(asked.torch_python, name),
        }
        for kind, width in TIMED.items():
            many = operations(option, width)
            found[name][kind] = cost(option, width) | {"operations": many and many / counts[kind]}
        if not asked.json:
            print("" if len(found) > 1 else head(asked.widths), row(name, found[name]), sep="", flush=True)
    worst = max(max(each["difference"].values()) for each in found.values())
    if asked.json:
        print(json.dumps({"machine": machine(), "versions": versions(), "worst": worst, "options": found}))
    else:
        print(f"{machine()}; {versions()}; largest difference {worst:.1e} (must be below {EXACT:g})")
        beyond = [name for name, each in found.items() if max(each[kind]["times_paper"] for kind in TIMED) > AIM]
        print(f"beyond {AIM} steps of the paper's network: {', '.join(beyond) or 'none'}")
        if all(each["torch_us"] is None for each in found.values()):
            print("PyTorch is not here, so its column is empty: --torch-python PATH names an interpreter that has it.")
    return 0 if worst < EXACT else 1


def head(widths):
    """The first two lines of the table."""
    each = [f"{kind}: {what}" for kind in TIMED for what in ("µs a step", "times paper", "operations")]
    columns = ["option", *(f"width {width}" for width in widths), *each, "PyTorch: µs", "times ours"]
    return f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}\n"


def row(name, each):
    """One line of the table."""
    cells = [name, *(f"{x:.0e}" for x in each["difference"].values())]
    for kind in TIMED:
        counted = each[kind]["operations"]
        cells += [
            f"{each[kind]['us']:.2f}",
            f"{each[kind]['times_paper']:.2f}",
            f"{counted:.2f}" if counted else "JAX's",
        ]
    torch = each["torch_us"]
    cells += ["", ""] if torch is None else [f"{torch:.0f}", f"{torch / each['finite']['us']:.0f}"]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.exit(main())
