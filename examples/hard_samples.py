"""Hard samples: averaging decides the easy samples at once; the hard ones sit at margin 0 until attention has learned."""

import matplotlib.pyplot as plt

import mixflow as mf

data = mf.train(mf.Mixture(classes=2), mf.Transformer(omega=0.3), mf.GradientDescent(0.1, 20_000)).dataset
hard = data.hard.values.astype(bool)

figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
for name, chosen, colour in (("easy", ~hard, "#0072B2"), ("hard", hard, "#D55E00")):
    margin = data.margin.isel(atom=chosen)
    axes.fill_between(data.time[1:], margin.min("atom")[1:], margin.max("atom")[1:], color=colour, alpha=0.3)
    axes.plot(data.time[1:], margin.min("atom")[1:], color=colour, label=f"{name} samples, smallest")
axes.set(xscale="log", xlabel="time", ylabel="margin y·F")
axes.axhline(0, color="#999999", lw=0.6)
axes.legend(frameon=False)
figure.savefig("hard_samples.svg")
