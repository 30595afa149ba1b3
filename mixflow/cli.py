"""The command line: thin, flags -> the same calls a script would make."""

import argparse
import json
import math
import pathlib
import sys

DONE, FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130


def main(arguments=None):
    """Run one command; returns the exit code."""
    from .errors import Interrupted, MixflowError

    parser = _parser()
    options = parser.parse_args(arguments)
    if not hasattr(options, "command"):
        parser.print_help()
        return DONE
    try:
        return options.command(options)
    except MixflowError as error:
        print(f"mixflow {options.name}: {error}", file=sys.stderr)
        return BAD_INPUT
    except Interrupted as stopped:
        print(f"\nmixflow {options.name}: {stopped}", file=sys.stderr)
        return INTERRUPTED
    except KeyboardInterrupt:
        print(f"\nmixflow {options.name}: interrupted.", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output went away, for example `| head`
        sys.stderr.close()
        return DONE


class _Parser(argparse.ArgumentParser):
    """Bad usage in one line that names the fix."""

    def error(self, message):
        print(f"{self.prog}: {message}; see {self.prog} --help.", file=sys.stderr)
        sys.exit(BAD_INPUT)


def _parser():
    from . import __version__

    parser = _Parser(
        prog="mixflow",
        description="The laboratory for watching a transformer learn a hidden correspondence, exactly.",
        epilog="example: mixflow train --classes 2 --omega 0.3 --steps 20000 --out run.nc",
    )
    parser.add_argument("--version", action="version", version=f"mixflow {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", parser_class=_Parser)
    for name, (function, summary, example, flags) in COMMANDS.items():
        command = commands.add_parser(
            name, help=summary, description=summary, epilog=f"example: {example}", formatter_class=_Help
        )
        for words, settings in flags():
            command.add_argument(*words, **settings)
        command.set_defaults(command=function, name=name)
    return parser


class _Help(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    def _get_help_string(self, action):
        if (
            action.default in (None, False)
            or action.default is argparse.SUPPRESS
            or "%(default)" in (action.help or "")
        ):
            return action.help
        return super()._get_help_string(action)


# train ---------------------------------------------------------------------------------------------------------------


def _spec_flags():
    from .running import MODELS

    return [
        (["--classes"], {"type": int, "default": 2, "metavar": "K", "help": "number of mixtures"}),
        (["--priors"], {"type": _numbers, "metavar": "P1,P2,…", "help": "class probabilities (default: uniform)"}),
        (["--width"], {"type": _width, "default": math.inf, "metavar": "M", "help": "width m of W_K and W_Q, or inf for mean-field"}),
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


def _train_flags():
    return [
        *_spec_flags(),
        *_method_flags(),
        (
            ["--continue"],
            {"dest": "continued", "metavar": "RUN", "help": "go on with this run file for --steps more steps"},
        ),
        (["--out"], {"metavar": "FILE", "help": "write the run to this netCDF file"}),
        (["--plot"], {"metavar": "FILE", "help": "write the run's figure (.svg, .pdf or .png)"}),
        *_JSON,
    ]


_JSON = [(["--json"], {"action": "store_true", "help": "print one JSON object instead of a table"})]


def _train(options):
    from . import Mixture, Transformer, extend, load, train
    from .errors import DivergedError, Interrupted

    _check_writable(options.out)
    _check_writable(options.plot, suffixes=(".svg", ".pdf", ".png"))
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
    _show(run, options.json)
    if options.out and not options.json:
        print(f"\nwritten to {options.out}")
    return DONE


def _method(options):
    """The method the flags describe."""
    from . import GradientDescent, GradientFlow, SpecError, ThreeStage

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
    from .dynamics.three_stage import Until
    from .errors import SpecError

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


def _info(options):
    from . import load

    _show(load(options.run), options.json, provenance=True)
    return DONE


def _info_flags():
    return [(["run"], {"metavar": "RUN", "help": "a run file"}), *_JSON]


def _show(run, as_json, provenance=False):
    from .summary import summary, table

    print(
        json.dumps(summary(run, provenance=provenance), allow_nan=False)
        if as_json
        else table(run, provenance=provenance)
    )


def _plot(run, path):
    from .plot.run import plot_run
    from .plot.style import save

    path = pathlib.Path(path)
    save(plot_run(run), path.with_suffix(""), kinds=[path.suffix[1:]])


# reproduce -----------------------------------------------------------------------------------------------------------


def _reproduce_flags():
    return [
        (["--out"], {"metavar": "DIR", "default": "results", "help": "folder for the figure and the run file"}),
        *_JSON,
    ]


def _reproduce(options):
    from .experiments.simultaneous import reproduce

    return DONE if reproduce(options.out, as_json=options.json) else FAILED


# sweep ---------------------------------------------------------------------------------------------------------------


def _sweep_flags():
    text = lambda name, help, **more: ([name], {"metavar": more.pop("metavar", "X"), "help": help, **more})  # noqa: E731
    return [
        (["spec"], {"metavar": "SPEC|status|resume|export|plot", "help": "a TOML file; or a word and the folder of a sweep"}),
        (["folder"], {"metavar": "DIR", "nargs": "?", "help": "the sweep's folder, after status, resume, export or plot"}),
        text("--out", "folder for the sweep; the same command goes on where it stopped", metavar="DIR"),
        (["--plan"], {"action": "store_true", "help": "print runs, core-hours, wall time and bytes; run nothing"}),
        text("--workers", "local processes (default: one for each core)", metavar="N", type=int),
        text("--scheduler", "use the Dask cluster at this address instead", metavar="ADDRESS"),
        *(text(f"--tls-{name}", f"{name} file for a tls:// scheduler", metavar="FILE") for name in ("ca", "cert", "key")),
        text("--dashboard", "show Dask's own page on this port of the loopback interface", metavar="PORT", type=int),
        text("--max-core-hours", "refuse plans above this", type=float, default=100.0),
        (["--force"], {"action": "store_true", "help": "run absurd plans, mix library versions"}),
        text("--to", "export: file to write (.nc, .csv); plot: figure (.svg, .pdf, .png)", metavar="FILE"),
        text("--figure", "curves, heat or threshold", default="curves", metavar="KIND"),
        *(text(f"--{name}", f"plot: the {what}") for name, what in (("x", "field along x"), ("by", "field of lines or rows"))),
        text("--y", "plot: the result shown", default="loss"),
        text("--level", "threshold: a run counts where y is below it", type=float),
        *_JSON,
    ]  # fmt: skip


def _sweep(options):
    from .errors import SpecError
    from .sweeping.results import open_sweep, status_text

    if options.spec in ("status", "resume", "export", "plot"):
        if not options.folder:
            raise SpecError(f"which sweep: mixflow sweep {options.spec} DIR.")
    elif options.folder:
        raise SpecError(
            f"{options.spec!r} is not a word I know: mixflow sweep status|resume|export|plot DIR, or SPEC --out DIR."
        )
    if options.spec in ("export", "plot"):
        suffixes = (".nc", ".csv") if options.spec == "export" else (".svg", ".pdf", ".png")
        if not options.to:
            raise SpecError(f"where to: add --to FILE, ending in {', '.join(suffixes)}.")
        _check_writable(options.to, suffixes=suffixes)
        result = open_sweep(options.folder)
        if options.spec == "export":
            result.export(options.to)
        else:
            _plot_sweep(result, options)
        print(f"written to {options.to}")
        return DONE
    if options.spec == "status":
        status = open_sweep(options.folder).status()
        print(json.dumps(status) if options.json else status_text(status))
        return DONE
    return _run_sweep(options)


def _run_sweep(options):
    from .errors import SpecError
    from .sweeping import run as running
    from .sweeping.cluster import Place
    from .sweeping.plan import Plan
    from .sweeping.results import status_text
    from .sweeping.spec import Sweep

    place = {
        name: getattr(options, name) for name in ("workers", "scheduler", "tls_ca", "tls_cert", "tls_key", "dashboard")
    }
    if options.plan:
        cost = running.price(Plan(Sweep.read(options.spec)), options.out or ".", Place(**place))
        print(json.dumps(cost.to_dict()) if options.json else cost)
        return DONE
    if options.spec == "resume":
        result = running.resume(options.folder, force=options.force, progress=True, **place)
    else:
        if not options.out:
            raise SpecError("where to: add --out DIR, or --plan to see the cost first.")
        result = running.sweep(
            options.spec,
            options.out,
            max_core_hours=options.max_core_hours,
            force=options.force,
            progress=True,
            **place,
        )
    status = result.status()
    print(json.dumps(status) if options.json else status_text({**status, "running": None}))
    return FAILED if result.failed else DONE


def _plot_sweep(result, options):
    from .plot.style import save
    from .plot.sweep import plot_sweep

    path = pathlib.Path(options.to)
    figure = plot_sweep(
        result.dataset.load(), options.figure, x=options.x, y=options.y, by=options.by, level=options.level
    )
    save(figure, path.with_suffix(""), kinds=[path.suffix[1:]])


# -------------------------------------------------------------------------------------------------------------------


def _width(text):
    if text in ("inf", "infinity", "∞"):
        return math.inf
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number or inf") from None


def _numbers(text):
    try:
        return [float(word) for word in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of numbers like 0.5,0.5") from None


def _check_writable(path, suffixes=None):
    """Refuse an impossible output before hours of work, not after."""
    import os

    from .errors import StoreError

    if path is None:
        return
    path = pathlib.Path(path)
    folder = path.parent
    if path.is_dir():
        raise StoreError(f"cannot write {path}: it is a folder; name a file in it.")
    if suffixes and path.suffix not in suffixes:
        raise StoreError(f"cannot write {path}: its name must end in {', '.join(suffixes)}.")
    if not folder.is_dir():
        raise StoreError(f"cannot write {path}: the folder {folder} does not exist; make it first.")
    if not os.access(folder, os.W_OK):
        raise StoreError(f"cannot write {path}: no permission in {folder}; choose another place.")


COMMANDS = {
    "reproduce": (
        _reproduce,
        "Run the paper's experiment and write its figure.",
        "mixflow reproduce --out results",
        _reproduce_flags,
    ),
    "train": (
        _train,
        "Train one transformer and print what it learned.",
        "mixflow train --classes 2 --width inf --omega 0.3 --method gd --learning-rate 0.1 --steps 20000 --out run.nc",
        _train_flags,
    ),
    "sweep": (
        _sweep,
        "Run many trainings from one description, on every core or on a Dask cluster; resume, inspect, export, plot.",
        "mixflow sweep omega.toml --out omega        (then: mixflow sweep status omega)",
        _sweep_flags,
    ),
    "info": (_info, "Show what a run file contains and where it came from.", "mixflow info run.nc", _info_flags),
}


if __name__ == "__main__":
    sys.exit(main())
