"""`mixflow train`: train one network and print what it learned."""

import contextlib
import pathlib

from .common import DONE, JSON, check_writable, keep, notes, say, show

SUMMARY = "Train one network and print what it learned."
EXAMPLE = "mixflow train --classes 2 --width inf --omega 0.3 --method gd --learning-rate 0.1 --steps 20000 --out run.nc"

# The fields of these have flags of their own; a file or --set reaches every other kind of task, network and method.
FLAGS = {
    "task": ("mixture",),
    "method": ("descent", "flow", "three-stage", "optimizer"),
    "transformer": ("transformer", "vanilla"),
}
SWITCHES = {"method": "--method", "transformer": "--network"}  # which choose a kind
WORDS = {"descent": "gd"}  # for a kind, on the command line
LENGTHS = {"steps": "until", "until": "steps"}


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
            {
                "dest": "continued",
                "metavar": "RUN",
                "help": "go on with this run file as it is: for --steps more steps, or a flow up to the time --until",
            },
        ),
        (["--out"], {"metavar": "FILE", "help": "write the run to this netCDF file"}),
        (["--plot"], {"metavar": "FILE", "help": "write the run's figure (.svg, .pdf or .png)"}),
        *JSON,
    ]


def run(options):
    from ..ctrl_c import keeping, work_begins
    from ..errors import DivergedError, Interrupted

    check_writable(options.out)
    check_writable(options.plot, suffixes=(".svg", ".pdf", ".png"))
    with keeping("the run") if options.out else contextlib.nullcontext():
        try:
            run = _trained(options)
        except (DivergedError, Interrupted) as stopped:
            work_begins()
            if options.out and stopped.run is not None:
                keep(stopped.run.save, options.out, "the run", ".nc")
                say(f"kept {options.out}")
            elif not options.out:
                stopped.args = (
                    f"{str(stopped).partition(';')[0]}; nothing was written, give --out to keep what there is.",
                )
            raise
        work_begins()  # what is written now is written whole
        if options.out:
            keep(run.save, options.out, "the run", ".nc")
    if options.plot:
        _plot(run, options.plot)
    show(run, options.json)
    if options.out and not options.json:
        print(f"\nwritten to {options.out}")
    return DONE


def _trained(options):
    from .. import train
    from ..runs.files import believed
    from ..spec import read, tables
    from .flags import given

    chosen = {
        action.dest: (action.option_strings or [action.metavar])[-1]
        for action in options.parser._actions
        if getattr(options, action.dest, action.default) != action.default
    }
    if options.continued:
        with believed(options.continued):
            return _continued(options, chosen)
    tables = dict(tables(options.spec)) if options.spec else {}
    model = options.model or tables.pop("model", "auto")
    tables["method"] = _method(options, tables.get("method"))
    tables = given(options, tables)
    _check_homes(chosen, tables)
    task, network, method = read(tables)
    with notes():
        return train(task, network, method, model=model, progress=True)


def _continued(options, chosen):
    """The run of --continue, longer by --steps, or by what is missing to --until; SpecError for any other flag."""
    from .. import extend, load
    from ..checks import real
    from ..errors import SpecError
    from ..spec import fields

    run = load(options.continued)
    flows = getattr(run.method, "flows", False)  # a network that was written down has no method
    length, kind = ("until", "flow") if flows else ("steps", "descent")
    taken = {"continued", "out", "plot", "json", f"method.{length}"}
    if others := [word for name, word in chosen.items() if name not in taken]:
        raise SpecError(
            f"{', '.join(others)} with --continue: a run goes on as it is, and this one takes --{length}, --out, --plot and "
            "--json; leave out the rest."
        )
    amount = vars(options)[f"method.{length}"]
    amount = fields("method", kind)[length].default if amount is None else amount
    if flows:
        end = float(run.dataset.time[-1])
        amount = real("until", amount, above=end, fix="the run stands there, and goes on up to --until") - end
    return extend(run, amount, progress=True)


def _check_homes(chosen, tables):
    """SpecError for the flag of a field that only another kind of network or method has; it names the flag to add."""
    from ..errors import SpecError
    from ..spec import DEFAULT_KIND, fields, kinds

    for name, word in chosen.items():
        section, _, field = name.partition(".")
        table = tables.get(section)
        if section not in SWITCHES or field in ("", "kind") or not isinstance(table, dict):
            continue
        if table.get("kind") == "three-stage" and field not in fields(section, "three-stage"):
            table = table["method"]
        kind = table.get("kind", DEFAULT_KIND[section])
        if kind in kinds(section) and field not in fields(section, kind):
            switch = SWITCHES[section]
            homes = [WORDS.get(each, each) for each in FLAGS[section] if field in fields(section, each)]
            use = f"use --{LENGTHS[field]} or " if field in LENGTHS else ""
            raise SpecError(
                f"{word} belongs to {switch} {' and '.join(homes)}, and this is {switch} {WORDS.get(kind, kind)}; "
                f"{use}add {switch} {homes[0]}."
            )


def _method(options, base):
    """The method's table of a file with --method and --three-stage put in, and the flags moved to the method they belong to."""
    from ..errors import SpecError
    from ..spec import fields

    table = dict(base) if isinstance(base, dict) else {} if base is None else base
    if not isinstance(table, dict):
        raise SpecError(f"method = {table!r}: expected a table of fields.")
    kind = {word: kind for kind, word in WORDS.items()}.get(options.method, options.method)
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
            twin = f"--transformer-{name}" if hasattr(options, f"transformer.{name}") else ""
            raise SpecError(
                f"--{name} ends a stage of --three-stage, which was not asked for; add --three-stage"
                f"{f', or say {twin} for what the network has' if twin else ''}."
            )
        if name in LENGTHS and staged:
            raise SpecError(
                f"--{name} bounds nothing with --three-stage, where each stage has its own end; say --neurons, --attention or "
                "--converge."
            )
        (table if name in own else inner)[name] = x
    return {**table, "method": inner} if staged else inner


def _plot(run, path):
    from ..plot.run import plot_run
    from ..plot.style import save

    path = pathlib.Path(path)
    save(plot_run(run), path.with_suffix(""), kinds=[path.suffix[1:]])
