"""Images as signals: handwritten ones and twos play v_1 and v_2; accuracy on held-out images, easy and hard."""

import matplotlib.pyplot as plt

import mixflow as mf

task = mf.Mnist(digits=(1, 2), samples=200, test_samples=400, images=40, seed=0)
run = mf.train(task, mf.Transformer(width=32, omega=0.8, seed=0), mf.GradientDescent(0.3, 2_000, save_every=25))
data = run.dataset

figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
for kind, colour in (("easy", "#0072B2"), ("hard", "#D55E00")):
    axes.plot(data.time, data[f"accuracy_{kind}_test"], color=colour, label=f"{kind} samples")
    print(f"held-out accuracy, {kind} samples: {float(data[f'accuracy_{kind}_test'][-1]):.3f}")
axes.set(xlabel="time", ylabel="held-out accuracy", ylim=(0.35, 1.02))
axes.legend(frameon=False)
figure.savefig("digits.svg")
