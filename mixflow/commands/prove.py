"""`mixflow prove`: prove that a run learns, or check a proof with the independent program."""

import json
import pathlib

from .common import DONE, FAILED, JSON, check_writable, keep

SUMMARY = "Prove that a run learns: enclosures of the gradient flow that hold by theorem; or check such a proof."
EXAMPLE = "mixflow prove --classes 3 --loss 0.1 --out proof.json && mixflow prove --check proof.json"


ENDS = {
    "neurons": "after this time, or QUANTITY:LEVEL (default: as in mixflow train)",
    "attention": "the same",
    "converge": "the same",
}


def _end(text):
    """A duration, or what `ThreeStage` reads as an event."""
    try:
        return float(text)
    except ValueError:
        return text


def _method(options):
    """The staged method that is asked for, or None."""
    from ..errors import SpecError
    from ..methods import GradientFlow, ThreeStage

    ends = {name: getattr(options, name) for name in ENDS if getattr(options, name) is not None}
    if ends and not options.three_stage:
        raise SpecError(
            f"--{next(iter(ends))} ends a stage of --three-stage, which was not asked for; add --three-stage."
        )
    if options.three_stage and (options.cover or options.loss is not None or options.time is not None):
        raise SpecError(
            "--three-stage with --cover, --loss or --time: expected none of them; its stages end themselves."
        )
    return ThreeStage(GradientFlow(), **ends) if options.three_stage else None


def flags():
    number = {"type": float, "metavar": "X"}
    return [
        (["--classes"], {"type": int, "default": 2, "metavar": "K", "help": "number of mixtures"}),
        (["--loss"], {**number, "help": "enclose the time at which the loss passes this level (default: 0.1)"}),
        (["--time"], {**number, "help": "prove up to this time instead, whatever the loss"}),
        (["--omega"], {**number, "default": 0.3, "help": "ω, scale of the initial weights"}),
        (["--bias"], {**number, "default": 0.5, "help": "bias b of the neurons"}),
        (["--omega-radius"], {**number, "default": 0.0, "help": "prove for every ω this near at once"}),
        (["--bias-radius"], {**number, "default": 0.0, "help": "prove for every b this near at once"}),
        (
            ["--distance"],
            {**number, "default": 0.0, "help": "prove for networks of finite width this near to mean-field (K = 2)"},
        ),
        (
            ["--cover"],
            {"action": "store_true", "help": "prove the box of ω and b in parts, until each has every sample right"},
        ),
        (["--three-stage"], {"action": "store_true", "help": "the paper's Algorithm 1 instead of all weights at once"}),
        *(
            ([f"--{name}"], {"type": _end, "metavar": "END", "help": f"stage {number} ends: {what}"})
            for number, (name, what) in enumerate(ENDS.items(), 1)
        ),
        (["--out"], {"metavar": "FILE", "help": "write the proof as JSON"}),
        (["--figure"], {"metavar": "FILE", "help": "draw the proven tube (.png, .pdf or .svg)"}),
        (
            ["--check"],
            {"metavar": "FILE", "help": "verify a proof's file with the independent checker (needs python-flint)"},
        ),
        *JSON,
    ]


def run(options):
    if options.check:
        return _check(options)
    from ..errors import SpecError
    from ..methods import Until
    from ..networks.transformer import Transformer
    from ..progress import Progress
    from ..proofs import prove
    from ..proofs.cover import cover
    from ..tasks import Mixture

    if options.loss is not None and options.time is not None:
        raise SpecError(f"--loss {options.loss:g} --time {options.time:g}: expected one of them; leave the other out.")
    check_writable(options.out, (".json",))
    check_writable(options.figure, (".png", ".pdf", ".svg"))
    method, until = _method(options), options.time
    if until is None and method is None:
        until = Until("loss", 0.1 if options.loss is None else options.loss)
    bar = Progress("share" if options.cover else "cell")
    common = {"omega_radius": options.omega_radius, "bias_radius": options.bias_radius, "progress": bar}
    about = Mixture(classes=options.classes), Transformer(omega=options.omega, bias=options.bias)
    if options.cover:
        if options.time is None or options.out or options.figure or options.distance:
            raise SpecError(
                "--cover: expected a --time, and no --out, --figure or --distance; leave --cover out for one box."
            )
        proof = cover(*about, until=until, **common)
    else:
        proof = prove(*about, method, until=until, distance=options.distance, **common)
    bar.close()
    if options.out:
        keep(proof.save, options.out, "the proof", ".json")
    if options.figure:
        _draw(proof, options.figure)
    print(json.dumps(proof.facts(), allow_nan=False) if options.json else proof.statement())
    return DONE


def _draw(proof, path):
    from ..plot import plot_tube, save

    figure, kind = plot_tube(proof), pathlib.Path(path).suffix
    keep(lambda place: save(figure, pathlib.Path(place).with_suffix(""), kinds=(kind[1:],)), path, "the figure", kind)


def _check(options):
    """Accepted (exit code 0) or refused (1), with the reason."""
    import time

    from ..progress import Progress
    from ..proofs.file import read, verdict

    proof = read(options.check)
    bar, began = Progress("cell"), time.perf_counter()
    reason = verdict(options.check, bar)
    bar.close()
    seconds = time.perf_counter() - began
    if options.json:
        facts = {} if reason else proof.facts()  # what is not proven is no fact
        print(json.dumps({"accepted": reason is None, "reason": reason, "seconds": seconds, **facts}, allow_nan=False))
    else:
        print(
            f"refused: {reason}."
            if reason
            else f"accepted in {seconds:.0f} s by the independent checker.\n{proof.statement()}"
        )
    return FAILED if reason else DONE
