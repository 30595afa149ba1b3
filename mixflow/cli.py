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
        (["--width"], {"type": _width, "default": math.inf, "metavar": "M", "help": "width m, or inf for mean-field"}),
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


# data ----------------------------------------------------------------------------------------------------------------


def _data_flags():
    return [
        (["name"], {"choices": ["mnist"], "help": "the dataset to fetch: 11.6 MB, checked against pinned checksums"}),
        (["--to"], {"metavar": "DIR", "help": "folder for the files (default: mixflow's cache)"}),
        (["--base-url"], {"metavar": "URL", "help": "another place that holds the same four files"}),
        *_JSON,
    ]


def _data(options):
    from .progress import Progress
    from .tasks.download import MIRROR, download
    from .tasks.idx import read_digits

    bars = {}

    def show(name, done, total):
        if name not in bars:
            bars[name] = Progress(unit="byte", label=f"{name} ")
        bars[name](done, total or done)

    try:
        folder = download(options.to, mirror=options.base_url or MIRROR, progress=show)
    finally:
        for bar in bars.values():
            bar.close()
    digits = read_digits(str(folder))
    if options.json:
        print(json.dumps({"folder": str(folder), "images": len(digits.labels), "sha256": digits.sha256}))
    else:
        print(
            f"{len(digits.labels)} images in {folder}, checksums as published; use them with Mnist(source={str(folder)!r})"
        )
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
    "data": (_data, "Fetch the full MNIST for Mnist(source=…).", "mixflow data mnist --to mnist", _data_flags),
    "info": (_info, "Show what a run file contains and where it came from.", "mixflow info run.nc", _info_flags),
}


if __name__ == "__main__":
    sys.exit(main())
