"""Algorithm 1 beside simultaneous descent: the paper's proof trains one part at a time; both tell the same story."""

import mixflow as mf

task, transformer = mf.Mixture(classes=2), mf.Transformer(omega=0.3)
descent = mf.GradientDescent(0.1, 20_000)
staged = mf.ThreeStage(descent, neurons=100, attention=500, converge=1400)
runs = {
    "all weights at once": mf.train(task, transformer, descent),
    "one part at a time": mf.train(task, transformer, staged),
}
mf.plot.plot_columns(runs).savefig("three_stage_algorithm.svg")
