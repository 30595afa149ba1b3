"""A user's program, read by the type checker (`make lint`): public names have their types, not Any."""

from typing import assert_type

import numpy as np

import mixflow as mf

task = mf.Mixture(classes=2)
assert_type(task, mf.Mixture)
network = mf.Transformer(omega=0.3, bias=0.5)
assert_type(network, mf.Transformer)
assert_type(mf.GradientDescent(learning_rate=0.1, steps=100), mf.GradientDescent)
assert_type(mf.GradientFlow(until=20.0), mf.GradientFlow)
assert_type(mf.__version__, str)


def calls() -> None:
    run = mf.train(task, network, mf.GradientDescent(steps=10))
    assert_type(run, mf.Run)
    assert_type(run.extend(10), mf.Run)
    assert_type(run.weights(), dict[str, np.ndarray])
    assert_type(mf.train_many(task, [network], progress=True), mf.Runs)
    assert_type(mf.prove(task, network).loss(1.0), tuple[float, float])
    assert_type(mf.measure.mean_interval([1.0, 2.0]), tuple[float, float, float])
    assert_type(mf.Mixture().sample(10, 0), mf.Sample)


def names(run: mf.Run) -> list[str]:
    return [stage.name for stage in run.stages]


def careful() -> str:
    try:
        mf.load("run.nc")
    except mf.StoreError as error:
        return str(error)
    except mf.DivergedError as error:
        return str(error.run)
    return "loaded"
