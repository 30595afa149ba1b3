"""From a step to machine code: traced by JAX, taken apart (`graph`), written in LLVM's language (`text`), compiled.

Compiled programs lie in the cache, sealed, under the hash of all they depend on: our source, JAX, LLVM, the processor. A file
is believed only if its bytes are those that were written and nobody but this user may write to it.
"""

import ctypes
import functools
import hashlib
import os
import pathlib
import stat
import sys

import numpy as np

from ..errors import StoreError
from ..jaxed import cache_directory, jax
from ..sealed import make_folder, pack, read, write_whole
from .graph import Graph, Untranslated
from .text import Traced, Writer

# Lines of a program up to which LLVM allocates registers thoroughly: K = 3 has 17,000, takes 0.8 s instead of 0.1 to compile
# and runs at 3.0 µs a step instead of 5. Beyond, where every number goes through the memory anyway, hastily: at K = 4 0.2 s
# instead of 2.9 and 14 µs instead of 12 (JAX: 37), at K = 5 0.6 instead of 11 and 45 instead of 35 (JAX: 150).
THOROUGH = 30_000

RECORD = "record", (ctypes.c_void_p,) * 4 + (ctypes.c_int64,) * 2  # its name and arguments


def function(engine, one, *given):
    """The compiled record(state, parameters, drawn, rows, saves, stride), pointers and counts; None if JAX must serve.

    one    the engine with one lane
    given  its state, its parameters, and what a step draws: their shapes
    """

    def written():
        try:
            return Writer(traced(one, *given), engine.lanes).text()
        except Untranslated:
            return None

    return built(*RECORD, _name(engine), written)


def built(name, arguments, key, written):
    """The compiled function `name` of a program with this key, whose text is `written()`; None where there is no text."""
    place = cache_directory() / "native" / f"{key}.o"
    if (code := _kept(place)) is None:
        text = written()
        code = b"" if text is None else _compiled(text)  # kept too: to find out takes half a second
        _keep(place, code)
    return _loaded(code, name, arguments) if 0 < len(code) <= _stack() // 2 else None


def traced(one, state, parameters, drawn):
    """`one.step` as a graph, one attention after the other: the last axis of every array."""
    J, graph, places = jax(), Graph(), iter(range(sys.maxsize))

    def given(x):
        return np.array([graph.node("given", next(places)) for _ in range(np.size(x))], int).reshape(np.shape(x))

    def step(state, parameters, drawn):
        return one.step(None, state, parameters | drawn)

    arguments = [given(x) for x in J.tree.leaves((state, parameters, drawn))]
    closed, shapes = J.make_jaxpr(step, return_shape=True)(state, parameters, drawn)
    assert J.tree.structure(shapes) == J.tree.structure(state)
    found = graph.evaluate(closed, arguments)
    numbers = [number for array in found for number in array.ravel().tolist()]
    turns = [turn for array in found for turn in np.indices(array.shape)[-1].ravel().tolist()]
    return Traced(graph, numbers, turns, *(sum(map(np.size, J.tree.leaves(x))) for x in (parameters, drawn)))


@functools.cache
def _stack():
    """Bytes of a thread's stack. Numbers that do not fit the registers lie there: of a long program about as much as its code."""
    try:
        import resource
    except ImportError:  # Windows
        return 1 << 20
    limit = resource.getrlimit(resource.RLIMIT_STACK)[0]
    return 2 << 20 if limit == resource.RLIM_INFINITY else limit  # what glibc then gives to a thread


@functools.cache
def _llvm():
    """llvmlite's binding, ready to use."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm


@functools.cache
def _processor():
    """Name and features of the processor."""
    return _llvm().get_host_cpu_name(), _llvm().get_host_cpu_features().flatten()


def _machine(opt=2):
    """A new machine for this processor: whatever executes code owns the one it is given."""
    name, features = _processor()
    return _llvm().Target.from_default_triple().create_target_machine(cpu=name, features=features, opt=opt, jit=True)


def _compiled(text):
    """The object code of a program."""
    module, machine = _llvm().parse_assembly(text), _machine(2 if text.count("\n") <= THOROUGH else 0)
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    return machine.emit_object(module)


def _loaded(code, name, arguments):
    """The function of this name in object code; it keeps what it needs."""
    llvm = _llvm()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _machine())
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    found = ctypes.CFUNCTYPE(None, *arguments)(engine.get_function_address(name))
    found.engine = engine
    return found


def _name(engine):
    """The hash of everything that the machine code of an engine depends on; a step that someone has replaced is another."""
    step = type(engine).step
    whose = step.__module__, step.__qualname__, step.__code__.co_code
    return hashed(engine.key, engine.lanes, whose, _sources())


def hashed(*facts):
    """The hash of facts, on this machine."""
    return hashlib.sha256(repr((*facts, _processor(), sys.platform)).encode()).hexdigest()


@functools.cache
def _sources():
    """Versions and text of what writes programs."""
    from importlib import metadata

    package = pathlib.Path(__file__).parents[1]
    ours = sorted(path for room in ("native", "engines", "networks") for path in (package / room).glob("*.py"))
    texts = [hashlib.sha256(path.read_bytes()).hexdigest() for path in ours]
    return [metadata.version(name) for name in ("jax", "llvmlite", "numpy")], texts


def _kept(place):
    """The object code at a place of the cache, or None: nothing there, damaged, or writable by others."""
    try:
        status = place.stat()
        others = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) or status.st_uid != os.getuid()
        return None if others else read(place)
    except (OSError, StoreError):
        return None


def _keep(place, code):
    """Put object code there; a read-only home costs a compilation per process, nothing else."""
    try:
        make_folder(place.parent)
        write_whole(place, pack(code)).chmod(0o600)
    except (OSError, StoreError):
        return
