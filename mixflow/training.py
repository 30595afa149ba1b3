"""The public calls: train one, train many, go on with one. Everything else is in `running`."""

from .checks import whole
from .errors import SpecError
from .jaxed import in_float64
from .methods.flow import GradientFlow
from .methods.three_stage import ThreeStage
from .progress import Progress
from .running.choose import checked, choose
from .running.descent import extend_descent, run_descent
from .running.flow import run_flow
from .running.many import run_many
from .running.three_stage import run_three_stage


@in_float64
def train(task, transformer=None, method=None, *, model="auto", progress=False, on_save=None):
    """Train `transformer` on `task` by `method` and return the Run.

    task         a Mixture, a Sample, a FiniteTask or Mnist
    transformer  what is trained; Transformer(), of infinite width, if not given
    method       GradientDescent (the default), GradientFlow or ThreeStage
    model        "auto" takes the cheapest exact one; "full", "gram" or "symmetric" forces it
    progress     True draws a bar on stderr; or a function of (done, total)
    on_save      a function of (time, history), given each stretch of saved states as it is computed, for a live display;
                 the history is what `dataset.build` takes, and a state at the switch of two stages comes twice

    What either function raises ends the run.
    Raises SpecError for arguments that do not fit together, DivergedError (with the history in `.run`) when the run
    leaves float64, Interrupted (a KeyboardInterrupt, with the history in `.run`) on Ctrl-C.

    >>> import mixflow as mf
    >>> run = mf.train(mf.Mixture(classes=2), mf.Transformer(omega=0.3), mf.GradientDescent(learning_rate=0.1, steps=200))
    >>> round(float(run.dataset.loss[-1]), 4)
    0.4853
    """
    transformer, method = checked(task, transformer, method)
    engine = choose(task, transformer, method, model)
    if isinstance(method, GradientFlow):
        return run_flow(task, transformer, method, engine.name, progress=progress, on_save=on_save)
    if isinstance(method, ThreeStage):
        return run_three_stage(task, transformer, method, engine, progress=progress, on_save=on_save)
    start = engine.start(transformer)
    return run_descent(engine, task, transformer, method, start, progress=progress, on_save=on_save)


@in_float64
def extend(run, steps, *, progress=False):
    """Go on with a descent run for `steps` more steps; the result, a Run, is identical to one long run.

    run       a Run of GradientDescent, from `train` or `load`
    steps     number of further steps, at least 1
    progress  True draws a bar on stderr; or a function of (done, total)

    Raises SpecError for a run that is not descent, DivergedError and Interrupted as `train` does.

    >>> import mixflow as mf
    >>> short = mf.train(mf.Mixture(), mf.Transformer(), mf.GradientDescent(steps=100))
    >>> int(mf.extend(short, 50).dataset.step[-1])
    150
    """
    return extend_descent(run, whole("steps", steps), progress=progress)


@in_float64
def train_many(task, models, method=None, *, model="auto", progress=False):
    """Train many transformers on one task; returns one dataset with a leading `run` dimension.

    task      a Mixture, a Sample, a FiniteTask or Mnist
    models    a list of Transformer; they may differ in everything
    method    one method for all; stages of a ThreeStage must then end after durations, not at events
    model     "auto", "full", "gram" or "symmetric", as in `train`
    progress  True draws a bar on stderr; or a function of (done, total)

    Each member equals its single run bit for bit: runs share a compiled program, lane by lane, and never each other's
    numbers. A member that diverges is NaN from its last good save on, with its step in `diverged_step`. Flows share their
    save times, so a member's own event times are not among them, and come without a certificate.

    Raises SpecError for an empty list and for arguments that do not fit together.

    >>> import mixflow as mf
    >>> seeds = [mf.Transformer(width=8, seed=seed) for seed in range(3)]
    >>> mf.train_many(mf.Mixture(), seeds, mf.GradientDescent(steps=100, save_every=50)).loss.shape
    (3, 3)
    """
    models = list(models)
    if not models:
        raise SpecError("models is empty: give at least one Transformer.")
    methods = [checked(task, transformer, method)[1] for transformer in models]
    engines = [choose(task, transformer, methods[0], model) for transformer in models]
    bar = Progress.of(progress, unit="run" if isinstance(methods[0], (GradientFlow, ThreeStage)) else "step")
    try:
        return run_many(task, models, methods[0], engines, bar)
    finally:
        bar.close()
