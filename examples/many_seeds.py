"""Many seeds at once: finite transformers scatter around the infinitely wide one, less and less as they grow."""

import math

import matplotlib.pyplot as plt

import mixflow as mf

task, method = mf.Mixture(classes=2), mf.GradientDescent(0.1, 6_000, save_every=20)
limit = mf.train(task, mf.Transformer(width=math.inf, omega=0.3), method).dataset

figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
for width, colour in ((16, "#D55E00"), (256, "#0072B2")):
    runs = mf.train_many(
        task, [mf.Transformer(width=width, omega=0.3, seed=seed) for seed in range(64)], method
    ).dataset
    low, high = (runs.loss / limit.loss.values).quantile([0.05, 0.95], "run").values
    axes.fill_between(runs.time, low, high, color=colour, alpha=0.35, lw=0, label=f"width {width}, 64 seeds")
axes.axhline(1, color="black", lw=1, label="infinite width")
axes.set(xlabel="time", ylabel="loss relative to infinite width, 5 % to 95 %")
axes.legend(frameon=False)
figure.savefig("many_seeds.svg")
