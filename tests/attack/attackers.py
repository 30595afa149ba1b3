"""The attackers: each draws an attack, carries it out and says how it was answered; anything but an answer is an error.

An answer is a result ("made") or one sentence ("refused"), within a few seconds.
"""

import contextlib
import functools
import io
import json
import os
import time
from dataclasses import MISSING
from unittest import mock

import forged
import page
import processes
from hypothesis import strategies as st
from values import NEARLY, anything, made, scalars

import mixflow as mf
from mixflow import sealed, spec
from mixflow.cli import main

PATIENCE = 10.0  # seconds of the processor an answer may take; most take none
SENTENCE = 1500  # characters


def sentence(text):
    """Fail unless the text is one line with an end."""
    assert "\n" not in text, text
    assert text.endswith("."), text
    assert len(text) < SENTENCE, text
    assert text.encode("utf-8", "backslashreplace")


def answer(call):
    """("made", result) or ("refused", None); whatever else happens is an error."""
    began = time.process_time()
    try:
        verdict = "made", call()
    except mf.MixflowError as error:
        sentence(str(error))
        verdict = "refused", None
    assert time.process_time() - began < PATIENCE
    return verdict


def makers():
    """[(section, kind, class or function)] of everything that describes a run."""
    return [(section, kind, maker) for section in spec.HOMES for kind, maker in spec.kinds(section).items()]


def specification(data):
    """A constructor or a function of mf.variants, with fields that are right, nearly right, or anything."""
    section, kind, maker = data.draw(st.sampled_from(makers()))
    given, rough = {}, data.draw(st.booleans())
    for field in spec.fields(section, kind).values():
        if field.default is MISSING or data.draw(st.booleans()):
            right = NEARLY.get(field.name, scalars)
            given[field.name] = data.draw(st.one_of(right, anything) if rough else right)
    given = made(given)
    verdict, built = answer(lambda: maker(**given))
    if hasattr(type(built), "spec"):
        verdict, table = answer(built.spec)  # images that are not there are refused only now
        if table is not None:
            again = json.loads(json.dumps(table, allow_nan=False))
            assert spec.build(spec.kind_of(built)[0], again).spec() == table
    return verdict


def table(data):
    """Tables for `spec.read`, as a file would hold them, nested in one another."""
    words = st.sampled_from([*spec.SECTIONS, "kind", *NEARLY, "model", "grid"])
    kinds = st.sampled_from([kind for _, kind, _ in makers()])
    inside = st.recursive(
        st.one_of(anything, kinds),
        lambda deeper: st.dictionaries(words, st.one_of(deeper, kinds), max_size=4),
        max_leaves=8,
    )
    given = st.dictionaries(st.sampled_from([*spec.SECTIONS, "model", "x"]), inside, max_size=3)
    given = made(data.draw(given))
    return answer(lambda: spec.read(given))[0]


def toml_file(data, folder):
    """A TOML file of anything, and of what is nearly TOML."""
    line = st.tuples(
        st.sampled_from(["kind", *NEARLY]), st.one_of(st.text(max_size=10), scalars.map(str), st.just("{}"))
    )
    lines = st.lists(line.map(lambda pair: f"{pair[0]} = {pair[1]}"), max_size=4)
    parts = st.lists(st.tuples(st.sampled_from([*spec.SECTIONS, "list", "x"]), lines), max_size=3)
    text = parts.map(lambda found: "\n".join(f"[{name}]\n" + "\n".join(inside) for name, inside in found))
    content = data.draw(st.one_of(st.binary(max_size=40), text.map(lambda x: x.encode("utf-8", "surrogatepass"))))
    path = folder / "attack.toml"
    path.write_bytes(content)
    return answer(lambda: spec.read(path))[0]


def no_training(*_, **__):
    """Instead of training: the command line is the target here."""
    raise mf.SpecError("nothing is trained here.")


PLACES = [
    "new.nc",
    "no/x.nc",
    ".",
    "/dev/null",
    "/dev/full",
    "pipe",
    "link",
    "locked",
    "run.nc",
    "x" * 300,
    "a\nb",
    "\ud800",
]
WORDS = [
    "2",
    "0",
    "-1",
    "0.5",
    "inf",
    "nan",
    "1e400",
    "9" * 5000,
    "[",
    "{}",
    "a,b",
    "0.5,0.5",
    "loss:0.1",
    "flow",
    "gd",
    "a.toml",
]
SETTINGS = [
    "task.kind=regression",
    "task={}",
    "x=1",
    "task.a.b=1",
    "method.kind=flow",
    "=",
    "transformer.width=[1]",
    "task.classes=3",
]


def command_line(data):
    """A line of words for `mixflow`: flags of a command, with values that are right, nearly right, or text."""
    command = data.draw(st.sampled_from(["train", "train", "train", "info", "check", "construct", "x", "--help"]))
    text = st.text(st.characters(blacklist_characters="\0"), max_size=6)
    value = st.sampled_from(WORDS) | st.sampled_from(PLACES) | st.sampled_from(SETTINGS) | text
    line = [command]
    for _ in range(data.draw(st.integers(0, 5))):
        flag, x = data.draw(st.sampled_from(flags())), data.draw(value)
        line += data.draw(st.sampled_from([[flag, x], [flag], [x], [f"{flag}={x}"]]))
    return run(line)


@functools.cache
def flags():
    """Flags that commands have, and some that none has."""
    from mixflow.commands import construct, info, train

    found = [
        word for module in (train, info, construct) for words, _ in module.flags() for word in words if word[0] == "-"
    ]
    return [*found, "--help", "--jsn", "-x", "--", "--out", "--set"]


def run(line):
    """What `mixflow` answers to a command line; training itself is refused."""
    out, err = io.StringIO(), io.StringIO()
    began = time.process_time()
    with contextlib.ExitStack() as stack:
        for name in ("train", "extend"):
            stack.enter_context(mock.patch.object(mf, name, no_training))
        stack.enter_context(contextlib.redirect_stdout(out))
        stack.enter_context(contextlib.redirect_stderr(err))
        try:
            code = main(line)
        except SystemExit as stopped:
            code = stopped.code
    assert time.process_time() - began < PATIENCE, line
    assert code in (0, 1, 2), (line, code)
    if code == 2:
        assert err.getvalue().count("\n") == 1, (line, err.getvalue())
        assert len(err.getvalue()) < SENTENCE, line
    return "refused" if code == 2 else "made"


def run_file(data, path, content):
    """A run file with bytes changed, cut, repeated, or of something else."""
    at = data.draw(st.integers(0, len(content)))
    size = data.draw(st.integers(1, 200))
    changed = data.draw(
        st.sampled_from(
            [
                content[:at],
                content[at:],
                content[:at] + bytes(size) + content[at + size :],
                content[:at] + bytes([content[at % len(content)] ^ 1]) + content[at + 1 :],
                content[:at] + content[at + size :],
                content[: at + size] + content[at:],
                content + bytes(size),
            ]
        )
    )
    if changed == content:
        return "made"
    path.write_bytes(changed)
    verdict, _ = answer(lambda: mf.load(path))
    assert verdict == "refused", (at, size)
    return verdict


def sealed_file(data, path):
    """A file with a right checksum around bytes that are no run."""
    path.write_bytes(sealed.pack(data.draw(st.binary(max_size=100))))
    verdict, _ = answer(lambda: mf.load(path))
    assert verdict == "refused"
    return verdict


def everyone(folder):
    """{name: attacker of one argument}, with what they need in `folder`, which becomes the current one."""
    os.chdir(folder)
    whole = mf.train(mf.Mixture(2), mf.Transformer(width=4), mf.GradientDescent(0.1, 10)).save("run.nc").read_bytes()
    os.mkfifo("pipe")
    os.symlink("run.nc", "link")
    for name in ("locked", "victim.nc", "a.toml"):
        with open(name, "w"):
            pass
    os.chmod("locked", 0o444)
    return (
        forged.everyone(folder, answer)
        | processes.everyone(folder)
        | {
            "specification": specification,
            "table": table,
            "toml file": functools.partial(toml_file, folder=folder),
            "command line": command_line,
            "run file": functools.partial(run_file, path=folder / "victim.nc", content=whole),
            "sealed file": functools.partial(sealed_file, path=folder / "victim.nc"),
            "page request": page.request,
            "page message": page.message,
        }
    )
