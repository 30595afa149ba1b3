"""`mixflow train`: train one network and print what it learned."""

import pathlib

from .common import DONE, JSON, check_writable, notes, say, show

SUMMARY = "Train one network and print what it learned."
EXAMPLE = "mixflow train --classes 2 --width inf --omega 0.3 --method gd --learning-rate 0.1 --steps 20000 --out run.nc"

# The fields of these have flags of their own; a file or --set reaches every other kind of task, network and method.
FLAGS = {
    "task": ("mixture",),
    "method": ("descent", "flow", "three-stage", "optimizer"),
    "transformer": ("transformer", "vanilla"),
}


def flags():
    from ..engines import MODELS
    from .flags import flags

    return [
        (
            ["spec"],
            {"nargs": "?", "metavar": "SPEC", "help": "a TOML or JSON file with the tables task, transformer, method"},
        ),
        (
            ["--method"],
            {"choices": ["gd", "flow", "optimizer"], "help": "descent (gd), true gradient flow, or a --rule"},
        ),
        (["--network"], {"dest": "transformer.kind", "choices": FLAGS["transformer"], "help": "kind of the network"}),
        (["--three-stage"], {"action": "store_true", "help": "the paper's Algorithm 1 with --method inside"}),
        *flags(FLAGS),
        (["--model"], {"choices": MODELS, "help": "force a model; auto takes the cheapest exact one"}),
        (
            ["--continue"],
            {"dest": "continued", "metavar": "RUN", "help": "go on with this run file for --steps more steps"},
        ),
        (["--out"], {"metavar": "FILE", "help": "write the run to this netCDF file"}),
        (["--plot"], {"metavar": "FILE", "help": "write the run's figure (.svg, .pdf or .png)"}),
        *JSON,
    ]


def run(options):
    from ..ctrl_c import work_begins
    from ..errors import DivergedError, Interrupted

    check_writable(options.out)
    check_writable(options.plot, suffixes=(".svg", ".pdf", ".png"))
    try:
        run = _trained(options)
    except (DivergedError, Interrupted) as stopped:
        work_begins()
        if options.out and stopped.run is not None:
            stopped.run.save(options.out)
            say(f"kept {options.out}")
        raise
    work_begins()  # what is written now is written whole
    if options.out:
        run.save(options.out)
    if options.plot:
        _plot(run, options.plot)
    show(run, options.json)
    if options.out and not options.json:
        print(f"\nwritten to {options.out}")
    return DONE


def _trained(options):
    from .. import extend, load, train
    from ..runs.files import believed
    from ..spec import read, tables
    from .flags import given

    if options.continued:
        steps = vars(options)["method.steps"]
        with believed(options.continued):
            return extend(load(options.continued), 20_000 if steps is None else steps, progress=True)
    tables = dict(tables(options.spec)) if options.spec else {}
    model = options.model or tables.pop("model", "auto")
    tables["method"] = _method(options, tables.get("method"))
    task, network, method = read(given(options, tables))
    with notes():
        return train(task, network, method, model=model, progress=True)


def _method(options, base):
    """The method's table of a file with --method and --three-stage put in, and the flags moved to the method they belong to."""
    from ..errors import SpecError
    from ..spec import fields

    table = dict(base) if isinstance(base, dict) else {} if base is None else base
    if not isinstance(table, dict):
        raise SpecError(f"method = {table!r}: expected a table of fields.")
    kind = {"gd": "descent"}.get(options.method, options.method)
    if options.three_stage and table.get("kind") != "three-stage":
        table = {"kind": "three-stage", "method": table}
    staged = table.get("kind") == "three-stage"
    inner = table.get("method") if staged else table
    inner = dict(inner) if isinstance(inner, dict) else {}
    if kind and inner.get("kind", "descent") != kind:
        inner = {"kind": kind}  # another method than the file's, whose fields are not its own
    own = set(fields("method", "three-stage"))
    flags = {
        name.partition(".")[2]: x for name, x in vars(options).items() if name.startswith("method.") and x is not None
    }
    for name, x in flags.items():
        delattr(options, f"method.{name}")
        if name in own and not staged:
            raise SpecError(f"--{name} ends a stage of --three-stage, which was not asked for; add --three-stage.")
        (table if name in own else inner)[name] = x
    return {**table, "method": inner} if staged else inner


def _plot(run, path):
    from ..plot.run import plot_run
    from ..plot.style import save

    path = pathlib.Path(path)
    save(plot_run(run), path.with_suffix(""), kinds=[path.suffix[1:]])
