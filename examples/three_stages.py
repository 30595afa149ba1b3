"""Three stages: every weight is trained at once, and still neurons, attention and convergence come one after the other."""

import mixflow as mf

run = mf.train(
    mf.Mixture(classes=2),
    mf.Transformer(omega=0.3, bias=0.5),
    mf.GradientDescent(learning_rate=0.1, steps=20_000),
)
for stage in run.stages:
    print(f"{stage.name:12} {stage.start:8.2f} to {stage.end:8.2f}")
mf.plot_run(run).savefig("three_stages.svg")
