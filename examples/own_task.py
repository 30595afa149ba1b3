"""A task of one's own: two switches and a lamp that lights when they differ; no vote of the switches can tell."""

import itertools

import mixflow as mf

atoms = [[("c", 1), ("left", x), ("right", y)] for x, y in itertools.product((1, -1), repeat=2)]
task = mf.FiniteTask(
    features=("c", "left", "right"),
    atoms=atoms,
    labels=[-x * y for (_, _), (_, x), (_, y) in atoms],
    hard=[True] * 4,
)
run = mf.train(task, mf.Transformer(width=32, omega=0.9, seed=1), mf.GradientDescent(0.5, 20_000))
print(f"accuracy {float(run.dataset.accuracy[-1]):g}, loss {float(run.dataset.loss[-1]):.4f}")
mf.plot_run(run).savefig("own_task.svg")
