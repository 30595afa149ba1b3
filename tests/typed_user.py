"""A user's program, read by the type checker (`make lint`): public names have their types, not Any."""

from typing import assert_type

import mixflow as mf

task = mf.Mixture(classes=2)
assert_type(task, mf.Mixture)
network = mf.Transformer(omega=0.3, bias=0.5)
assert_type(network, mf.Transformer)
assert_type(mf.GradientDescent(learning_rate=0.1, steps=100), mf.GradientDescent)
assert_type(mf.GradientFlow(until=20.0), mf.GradientFlow)
assert_type(mf.__version__, str)


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
