"""`mixflow sweep`: run many trainings from one description, on every core or on a Dask cluster; resume, inspect, export, plot."""

import json
import pathlib

from .common import DONE, FAILED, JSON, check_writable

SUMMARY = "Run many trainings from one description, on every core or on a Dask cluster; resume, inspect, export, plot."
EXAMPLE = "mixflow sweep omega.toml --out omega        (then: mixflow sweep status omega)"


def flags():
    def text(name, help, **more):
        return [name], {"metavar": more.pop("metavar", "X"), "help": help, **more}

    return [
        (
            ["spec"],
            {"metavar": "SPEC|status|resume|export|plot", "help": "a TOML file; or a word and the folder of a sweep"},
        ),
        (
            ["folder"],
            {"metavar": "DIR", "nargs": "?", "help": "the sweep's folder, after status, resume, export or plot"},
        ),
        text("--out", "folder for the sweep; the same command goes on where it stopped", metavar="DIR"),
        (
            ["--plan"],
            {"action": "store_true", "help": "print runs, core-hours, wall time and bytes, told by a few batches"},
        ),
        text("--workers", "local processes (default: one for each core)", metavar="N", type=int),
        text("--scheduler", "use the Dask cluster at this address instead", metavar="ADDRESS"),
        *(
            text(f"--tls-{name}", f"{name} file for a tls:// scheduler", metavar="FILE")
            for name in ("ca", "cert", "key")
        ),
        text("--dashboard", "show Dask's own page on this port of the loopback interface", metavar="PORT", type=int),
        text(
            "--max-core-hours", "stop after the first batches if they tell of more than this", type=float, default=100.0
        ),
        (["--force"], {"action": "store_true", "help": "run absurd plans, mix library versions"}),
        text("--to", "export: file to write (.nc, .csv); plot: figure (.svg, .pdf, .png)", metavar="FILE"),
        text("--figure", "curves, heat or threshold", default="curves", metavar="KIND"),
        *(
            text(f"--{name}", f"plot: the {what}")
            for name, what in (("x", "field along x"), ("by", "field of lines or rows"))
        ),
        text("--y", "plot: the result shown", default="loss"),
        text("--level", "threshold: a run counts where y is below it", type=float),
        *JSON,
    ]


def run(options):
    from ..errors import SpecError
    from ..sweeping.results import open_sweep, status_text

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
        check_writable(options.to, suffixes=suffixes)
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
    from ..errors import SpecError
    from ..sweeping import run as running
    from ..sweeping.cluster import Place
    from ..sweeping.plan import Plan
    from ..sweeping.results import status_text
    from ..sweeping.spec import Sweep

    names = ("workers", "scheduler", "tls_ca", "tls_cert", "tls_key", "dashboard")
    place = {name: getattr(options, name) for name in names}
    if options.plan:
        cost = running.price(Plan(Sweep.read(options.spec)), options.out or ".", Place(**place))
        print(json.dumps(cost.to_dict()) if options.json else cost)
        return DONE
    more = {"max_core_hours": options.max_core_hours, "force": options.force, "progress": True, **place}
    if options.spec == "resume":
        result = running.resume(options.folder, **more)
    elif options.out:
        result = running.sweep(options.spec, options.out, **more)
    else:
        raise SpecError("where to: add --out DIR, or --plan to see the cost first.")
    status = result.status()
    print(json.dumps(status) if options.json else status_text({**status, "running": None}))
    return FAILED if result.failed else DONE


def _plot_sweep(result, options):
    from ..plot.style import save
    from ..plot.sweep import plot_sweep

    path = pathlib.Path(options.to)
    figure = plot_sweep(
        result.dataset.load(), options.figure, x=options.x, y=options.y, by=options.by, level=options.level
    )
    save(figure, path.with_suffix(""), kinds=[path.suffix[1:]])
