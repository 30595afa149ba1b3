"""The contrast sector: the score that tells own from other signals grows from exactly nothing, roughly exponentially."""

import matplotlib.pyplot as plt

import mixflow as mf

run = mf.train(mf.Mixture(classes=2), mf.Transformer(omega=0.3), mf.GradientFlow(until=400))
A, off = run.dataset.A_sector, run.events[0].time

figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
for sector, dash in (("contrast", "-"), ("common", "--")):
    score = abs(A.sel(sector=sector, key_kind="c", query_kind="v"))
    axes.plot(A.time, score.where(score > 1e-12), dash, label=f"{sector} sector, |A_cv|")
axes.axvline(off, color="#999999", ls=":", label="first neuron off")
axes.set(yscale="log", ylim=(1e-8, 30), xlabel="time of the flow", ylabel="score of the identifier as key")
axes.legend(frameon=False)
figure.savefig("contrast_sector.svg")
