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
    from .train import MODELS

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


def _descent_flags():
    return [
        (["--method"], {"choices": ["gd"], "default": "gd", "help": "gd: gradient descent"}),
        (["--learning-rate"], {"type": float, "default": 0.1, "metavar": "ETA", "help": "learning rate of gd"}),
        (["--steps"], {"type": int, "default": 20_000, "help": "number of steps of gd"}),
        (["--save-every"], {"type": int, "default": 10, "help": "record the state every so many steps"}),
        (["--batch-size"], {"type": int, "metavar": "B", "help": "minibatch size (default: the whole population)"}),
        (["--batch-seed"], {"type": int, "default": 0, "help": "seed of the minibatches"}),
    ]


def _train_flags():
    return [
        *_spec_flags(),
        *_descent_flags(),
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
    from . import GradientDescent, Mixture, Transformer, extend, load, train
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
                GradientDescent(
                    learning_rate=options.learning_rate, steps=options.steps, save_every=options.save_every,
                    batch_size=options.batch_size, batch_seed=options.batch_seed,
                ),
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


# playground ------------------------------------------------------------------------------------------------------------


def _playground_flags():
    return [
        (["--port"], {"type": int, "default": 8765, "help": "port on this machine; 0 takes any free one"}),
        (["--no-browser"], {"action": "store_true", "help": "do not open a browser"}),
    ]


def _playground(options):
    from .checks import whole
    from .playground.server import serve

    serve(whole("port", options.port, least=0, most=65535), browser=not options.no_browser)
    return DONE


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
    "playground": (
        _playground,
        "Open the page on which a transformer can be watched learning.",
        "mixflow playground --port 8765",
        _playground_flags,
    ),
    "info": (_info, "Show what a run file contains and where it came from.", "mixflow info run.nc", _info_flags),
}


if __name__ == "__main__":
    sys.exit(main())
