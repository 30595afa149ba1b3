"""The attackers: each draws an attack, carries it out and says how it was answered; anything but an answer is an error.

An answer is a result ("made") or one sentence ("refused"), within a few seconds.
"""

import contextlib
import functools
import io
import itertools
import json
import os
import time
from dataclasses import MISSING
from importlib import import_module
from unittest import mock

import forged
import page
import processes
import sockets
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
    began = time.thread_time()
    try:
        verdict = "made", call()
    except mf.MixflowError as error:
        sentence(str(error))
        verdict = "refused", None
    assert time.thread_time() - began < PATIENCE
    return verdict


MAKERS = [(section, kind, maker) for section in spec.HOMES for kind, maker in spec.kinds(section).items()]
KINDS = st.sampled_from([kind for _, kind, _ in MAKERS])


def fields(section, kind):
    """Strategies for the fields of one kind: one of those that may be left out, any of them, and anything for any of them."""
    names = {field.name: field.default is MISSING for field in spec.fields(section, kind).values()}
    right = {name: NEARLY.get(name, scalars) for name in names}
    needed = {name: strategy for name, strategy in right.items() if names[name]}
    yield st.one_of(st.fixed_dictionaries(needed | {name: strategy}) for name, strategy in right.items())
    for strategies in (right, {name: st.one_of(strategy, anything) for name, strategy in right.items()}):
        optional = {name: strategy for name, strategy in strategies.items() if not names[name]}
        yield st.fixed_dictionaries({name: strategies[name] for name in needed}, optional=optional)


SPECIFICATIONS = st.one_of(
    st.tuples(st.just(maker), given) for section, kind, maker in MAKERS for given in fields(section, kind)
)


def specification(data):
    """A constructor or a function of mf.variants, with fields that are right, nearly right, or anything."""
    maker, given = data.draw(SPECIFICATIONS)
    given = made(given)
    verdict, built = answer(lambda: maker(**given))
    if hasattr(type(built), "spec"):
        verdict, table = answer(built.spec)  # images that are not there are refused only now
        if table is not None:
            again = json.loads(json.dumps(table, allow_nan=False))
            assert spec.build(spec.kind_of(built)[0], again).spec() == table
    return verdict


FIELD_NAMES = st.sampled_from([*spec.SECTIONS, "kind", *NEARLY, "model", "grid"])
TABLES = st.dictionaries(
    st.sampled_from([*spec.SECTIONS, "model", "x"]),
    st.recursive(
        st.one_of(anything, KINDS),
        lambda deeper: st.dictionaries(FIELD_NAMES, st.one_of(deeper, KINDS), max_size=4),
        max_leaves=8,
    ),
    max_size=3,
)


def table(data):
    """Tables for `spec.read`, as a file would hold them, nested in one another."""
    given = made(data.draw(TABLES))
    return answer(lambda: spec.read(given))[0]


def toml_lines():
    """A strategy for the text of a TOML file, and of what is nearly one."""
    value = st.one_of(st.text(max_size=10), scalars.map(str), st.just("{}"))
    line = st.tuples(st.sampled_from(["kind", *NEARLY]), value).map(" = ".join)
    part = st.tuples(
        st.sampled_from([*spec.SECTIONS, "list", "x"]).map("[{}]".format), st.lists(line, max_size=4).map("\n".join)
    )
    return st.lists(part.map("\n".join), max_size=3).map("\n".join)


TOML = st.one_of(st.binary(max_size=40), toml_lines().map(lambda text: text.encode("utf-8", "surrogatepass")))


def toml_file(data, folder):
    """A TOML file of anything, and of what is nearly TOML."""
    path = folder / "attack.toml"
    path.write_bytes(data.draw(TOML))
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


COMMANDS = {name: import_module(f"mixflow.commands.{name}") for name in ("train", "info", "check", "construct")}
FLAGS = [word for module in COMMANDS.values() for words, _ in module.flags() for word in words if word[0] == "-"]
TEXT = st.text(st.characters(blacklist_characters="\0"), max_size=6)
VALUES = st.sampled_from(WORDS) | st.sampled_from(PLACES) | st.sampled_from(SETTINGS) | TEXT
PAIRS = st.tuples(st.sampled_from([*FLAGS, "--help", "--jsn", "-x", "--", "--out", "--set"]), VALUES)
ARGUMENTS = PAIRS.map(list) | PAIRS.map(lambda pair: [f"{pair[0]}={pair[1]}"]) | PAIRS.map(lambda pair: [pair[0]])
LINES = st.tuples(
    st.sampled_from(["train", "train", *COMMANDS, "x", "--help"]),
    st.lists(ARGUMENTS | VALUES.map(lambda word: [word]), max_size=5),
)


def command_line(data):
    """A line of words for `mixflow`: flags of a command, with values that are right, nearly right, or text."""
    command, words = data.draw(LINES)
    return run([command, *itertools.chain(*words)])


def run(line):
    """What `mixflow` answers to a command line; training itself is refused."""
    out, err = io.StringIO(), io.StringIO()
    began = time.thread_time()
    with contextlib.ExitStack() as stack:
        for name in ("train", "extend"):
            stack.enter_context(mock.patch.object(mf, name, no_training))
        stack.enter_context(contextlib.redirect_stdout(out))
        stack.enter_context(contextlib.redirect_stderr(err))
        try:
            code = main(line)
        except SystemExit as stopped:
            code = stopped.code
    assert time.thread_time() - began < PATIENCE, line
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
            "page message": functools.partial(page.message, served=sockets.Served(folder)),
        }
    )
