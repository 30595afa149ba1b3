"""What attention learned: the scores of head + when the first neuron switches off, at separation, and at the end."""

import mixflow as mf

run = mf.train(mf.Mixture(classes=2), mf.Transformer(omega=0.3), mf.GradientDescent(0.1, 20_000))
neurons, attention, convergence = run.stages
A = run.dataset.A.sel(head="+")
tables = {f"t = {t:.0f}": A.sel(time=t, method="nearest").values for t in (neurons.end, attention.end, convergence.end)}
mf.plot.plot_scores(tables, run.dataset.feature.values).savefig("attention_scores.svg")
