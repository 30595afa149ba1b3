"""Descent tends to the flow: the distance between them is proportional to the learning rate, kinks included."""

import matplotlib.pyplot as plt

import mixflow as mf

rates = (0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001)
sides = mf.compare(mf.Mixture(classes=2), mf.Transformer(omega=0.3), until=100, learning_rates=rates, points=100)
print(f"order of convergence: {float(sides.order):.2f}")

figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
for rate in rates:
    axes.plot(sides.time[1:], sides.distance.sel(trajectory=f"descent {rate:g}")[1:], label=f"learning rate {rate:g}")
axes.set(yscale="log", xlabel="time", ylabel="largest difference from the flow")
figure.legend(loc="outside right upper", frameon=False)
figure.savefig("descent_and_flow.svg")
