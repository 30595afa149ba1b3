"""Three classes: a hard sample of K = 3 has been outvoted, so stage 1 pushes it to the wrong side before attention mends it."""

import matplotlib.pyplot as plt

import mixflow as mf

figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
for K, steps in ((2, 20_000), (3, 20_000), (4, 20_000)):
    data = mf.train(mf.Mixture(classes=K), mf.Transformer(omega=0.3), mf.GradientDescent(0.1, steps)).dataset
    worst = data.margin.isel(atom=data.hard.values.astype(bool)).min("atom")
    axes.plot(data.time[1:], worst[1:], label=f"K = {K}, least {float(worst.min()):.2f}")
axes.axhline(0, color="#999999", lw=0.6)
axes.set(xscale="log", xlabel="time", ylabel="smallest margin of the hard samples")
axes.legend(frameon=False)
figure.savefig("three_classes.svg")
