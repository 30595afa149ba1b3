"""Learning time: how long until the loss is 0.1, by exact flow, for K = 2 to 10 classes."""

import matplotlib.pyplot as plt
import numpy as np

import mixflow as mf

classes, times = (2, 3, 4, 6, 10), []
for K in classes:
    until = 40.0 * K**3 + 500
    data = mf.train(mf.Mixture(classes=K), mf.Transformer(omega=0.3), mf.GradientFlow(until=until, rtol=1e-6)).dataset
    times.append(float(np.interp(-0.1, -data.loss, data.time)))
    print(f"K = {K:2}   t = {times[-1]:.4g}")

figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
axes.loglog(classes, times, "o-", label="loss falls to 0.1")
axes.loglog(classes, times[0] * (np.array(classes) / 2) ** 3, "--", color="#999999", label="K³ from K = 2")
axes.set(xlabel="classes K", ylabel="time of the flow", xticks=classes, xticklabels=classes)
axes.minorticks_off()
axes.legend(frameon=False)
figure.savefig("learning_time.svg")
