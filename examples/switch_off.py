"""The switch-off: until the first neuron falls silent, at t = 12.197, w·c is exactly 0; then the identifiers gain value."""

import matplotlib.pyplot as plt

import mixflow as mf

run = mf.train(mf.Mixture(classes=2), mf.Transformer(omega=0.3), mf.GradientFlow(until=60))
data, off = run.dataset.sel(head="+"), run.events[0].time
print(
    f"first neuron off at t = {off:.3f}; w·c until then: {float(abs(data.w.sel(feature='c1', time=slice(0, off))).max()):g}"
)

figure, (above, below) = plt.subplots(2, sharex=True, figsize=(6, 4.6), layout="constrained")
for atom, words in (("c1 +v1 +v2", "++"), ("c1 +v1 -v2", "+−"), ("c1 -v1 +v2", "−+"), ("c1 -v1 -v2", "−−")):
    above.plot(data.time, data.z.sel(atom=atom), label=f"signs {words}")
above.set_ylabel("z of head +")
for feature, words in (("v1", "w·v"), ("c1", "w·c")):
    below.plot(data.time, data.w.sel(feature=feature), label=words)
below.set(xlabel="time of the flow", ylabel="head +")
for axes in (above, below):
    axes.axvline(off, color="#999999", ls=":")
    axes.axhline(0, color="#999999", lw=0.6)
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
figure.savefig("switch_off.svg")
