"""`mixflow train`: train one transformer and print what it learned."""

import argparse
import math
import pathlib
import sys

from .common import DONE, JSON, check_writable, numbers, show, width

SUMMARY = "Train one transformer and print what it learned."
EXAMPLE = "mixflow train --classes 2 --width inf --omega 0.3 --method gd --learning-rate 0.1 --steps 20000 --out run.nc"


def flags():
    return [
        *_spec_flags(),
        *_method_flags(),
        (
            ["--continue"],
            {"dest": "continued", "metavar": "RUN", "help": "go on with this run file for --steps more steps"},
        ),
        (["--out"], {"metavar": "FILE", "help": "write the run to this netCDF file"}),
        (["--plot"], {"metavar": "FILE", "help": "write the run's figure (.svg, .pdf or .png)"}),
        *JSON,
    ]


def run(options):
    from .. import Mixture, Transformer, extend, load, train
    from ..errors import DivergedError, Interrupted

    check_writable(options.out)
    check_writable(options.plot, suffixes=(".svg", ".pdf", ".png"))
    try:
        if options.continued:
            run = extend(load(options.continued), options.steps, progress=True)
        else:
            run = train(
                Mixture(classes=options.classes, priors=options.priors),
                Transformer(
                    width=options.width, omega=options.omega, bias=options.bias, tie_values=options.tie_values,
                    seed=options.seed, dimension=options.dimension,
                ),
                _method(options),
                model=options.model,
                progress=True,
            )  # fmt: skip
    except (DivergedError, Interrupted) as stopped:
        if options.out and stopped.run is not None:
            stopped.run.save(options.out)
            print(f"kept {options.out}", file=sys.stderr)
        raise
    if options.out:
        run.save(options.out)
    if options.plot:
        _plot(run, options.plot)
    show(run, options.json)
    if options.out and not options.json:
        print(f"\nwritten to {options.out}")
    return DONE


def _spec_flags():
    from ..running import MODELS

    return [
        (["--classes"], {"type": int, "default": 2, "metavar": "K", "help": "number of mixtures"}),
        (["--priors"], {"type": numbers, "metavar": "P1,P2,…", "help": "class probabilities (default: uniform)"}),
        (["--width"], {"type": width, "default": math.inf, "metavar": "M", "help": "width m, or inf for mean-field"}),
        (["--omega"], {"type": float, "default": 0.3, "help": "scale ω of the initial W_K, W_Q"}),
        (["--bias"], {"type": float, "default": 0.5, "help": "fixed bias b of the neurons"}),
        (["--tie-values"], {"action": "store_true", "help": "force w_- = -w_+"}),
        (["--seed"], {"type": int, "default": 0, "help": "seed of the initial weights"}),
        (["--dimension"], {"type": int, "metavar": "D", "help": "dimension d of the tokens (default: the smallest, 2K)"}),
        (["--model"], {"choices": MODELS, "default": "auto", "help": "force a model; auto takes the cheapest exact one"}),
    ]  # fmt: skip


def _method_flags():
    return [
        (["--method"], {"choices": ["gd", "flow"], "default": "gd", "help": "gradient descent, or true gradient flow"}),
        (["--three-stage"], {"action": "store_true", "help": "the paper's Algorithm 1 with --method inside"}),
        (
            ["--neurons"],
            {"type": _switch, "metavar": "END", "help": "end of stage 1: a duration, or easy_margin:VALUE"},
        ),
        (
            ["--attention"],
            {"type": _switch, "metavar": "END", "help": "end of stage 2: a duration, or feature_margin:VALUE"},
        ),
        (["--converge"], {"type": _switch, "metavar": "END", "help": "end of stage 3: a duration, or loss:VALUE"}),
        (["--until"], {"type": float, "default": 2000.0, "metavar": "T", "help": "end time of the flow"}),
        (["--rtol"], {"type": float, "default": 1e-9, "help": "relative accuracy of the flow"}),
        (["--learning-rate"], {"type": float, "default": 0.1, "metavar": "ETA", "help": "learning rate of gd"}),
        (["--steps"], {"type": int, "default": 20_000, "help": "number of steps of gd"}),
        (["--save-every"], {"type": int, "default": 10, "help": "record the state every so many steps"}),
        (["--batch-size"], {"type": int, "metavar": "B", "help": "minibatch size (default: the whole population)"}),
        (["--batch-seed"], {"type": int, "default": 0, "help": "seed of the minibatches"}),
    ]


def _method(options):
    """The method the flags describe."""
    from .. import GradientDescent, GradientFlow, SpecError, ThreeStage

    if options.method == "flow":
        method = GradientFlow(until=options.until, rtol=options.rtol)
    else:
        method = GradientDescent(
            learning_rate=options.learning_rate, steps=options.steps, save_every=options.save_every,
            batch_size=options.batch_size, batch_seed=options.batch_seed,
        )  # fmt: skip
    ends = {name: getattr(options, name) for name in ("neurons", "attention", "converge")}
    ends = {name: end for name, end in ends.items() if end is not None}
    if ends and not options.three_stage:
        raise SpecError(
            f"--{next(iter(ends))} ends a stage of --three-stage, which was not asked for; add --three-stage."
        )
    return ThreeStage(method, **ends) if options.three_stage else method


def _switch(text):
    """A stage's end: "100" is a duration, "loss:1e-3" an event."""
    from ..errors import SpecError
    from ..methods.three_stage import Until

    try:
        if ":" not in text:
            return float(text)
        quantity, threshold = text.split(":", 1)
        return Until(quantity, float(threshold))
    except SpecError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither a duration like 100 nor an event like loss:1e-3"
        ) from None


def _plot(run, path):
    from ..plot.run import plot_run
    from ..plot.style import save

    path = pathlib.Path(path)
    save(plot_run(run), path.with_suffix(""), kinds=[path.suffix[1:]])
