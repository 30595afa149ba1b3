"""Separation: at first hard samples of both labels have the same attention features; attention pulls them apart."""

import matplotlib.pyplot as plt

import mixflow as mf
from mixflow.engines.forward import features

task = mf.Mixture(classes=2)
run = mf.train(task, mf.Transformer(omega=0.3), mf.GradientDescent(0.1, 20_000))
hard, label = task.population().hard, task.population().labels

figure, panels = plt.subplots(1, 3, sharex=True, sharey=True, figsize=(7.6, 3.0), layout="constrained")
for panel, t in zip(panels, (0, run.stages[1].end, 2000)):
    at = run.dataset.sel(time=t, method="nearest")
    phi = features(task, at.A.values)[0]  # head +: (atom, feature) over c1, c2, v1, v2
    for y, marker, size in ((1, "^", 90), (-1, "v", 40)):
        for kind, chosen in (("easy", ~hard), ("hard", hard)):
            pick = chosen & (label == y)
            colour = "#D55E00" if kind == "hard" else "#0072B2"
            name = f"{kind}, label {'+' if y > 0 else '−'}"
            panel.scatter(
                phi[pick, :2].sum(1), phi[pick, 2:].sum(1), size, colour, marker=marker, alpha=0.7, label=name
            )
    panel.set(title=f"t = {float(at.time):.0f}", xlabel="attention on c", ylim=(-1.1, 1.1))
panels[0].set_ylabel("weighted sum of signs")
figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
figure.savefig("separation.svg")
