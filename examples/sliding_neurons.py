"""Sliding neurons: in the flow a neuron can rest on its own kink, z = 0, with a gate between off and on."""

import mixflow as mf

run = mf.train(mf.Mixture(classes=2), mf.Transformer(omega=0.3), mf.GradientFlow(until=2000))
for event in run.events:
    print(f"t = {event.time:9.3f}   {event.atom}   {event.before} → {event.after}")
names = {"y=+ n=1": "signs ++", "y=+ n=0": "signs +−", "y=- n=1": "signs −+", "y=- n=0": "signs −−"}
mf.plot.plot_events(run, names).savefig("sliding_neurons.svg")
