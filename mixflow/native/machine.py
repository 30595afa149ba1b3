"""From a graph of operations to machine code, by LLVM: one instruction on a vector over lanes for each, with the loop over steps.

Compiled programs lie in the cache, sealed, under the hash of all they depend on: our source, JAX, LLVM, the processor. A file
is believed only if its bytes are those that were written and nobody but this user may write to it.
"""

import ctypes
import functools
import hashlib
import os
import pathlib
import stat
import struct
import sys

import numpy as np

from ..errors import StoreError
from ..jaxed import cache_directory, jax
from ..sealed import make_folder, pack, read, write_whole
from .graph import Graph, Untranslated

INSTRUCTIONS = {
    "neg": "fneg {V} {0}",
    "round": "call {V} @llvm.roundeven.v{n}f64({V} {0})",
    "abs": "call {V} @llvm.fabs.v{n}f64({V} {0})",
    "sqrt": "call {V} @llvm.sqrt.v{n}f64({V} {0})",
    "max": "call {V} @llvm.maximum.v{n}f64({V} {0}, {V} {1})",
    "min": "call {V} @llvm.minimum.v{n}f64({V} {0}, {V} {1})",
    "select": "select {B} {0}, {V} {2}, {V} {1}",
    "cast_int": "bitcast {V} {0} to {I}",
    "cast_float": "bitcast {I} {0} to {V}",
    "shl": "shl {I} {0}, {1}",
    "add_int": "add {I} {0}, {1}",
}
INSTRUCTIONS |= {name: f"fcmp o{name} {{V}} {{0}}, {{1}}" for name in ("le", "lt", "ge", "gt")}
# `contract`: a product and a sum may be one instruction, as in XLA; which ones is decided here, once, for all lanes alike.
INSTRUCTIONS |= {name: f"f{name} contract {{V}} {{0}}, {{1}}" for name in ("add", "sub", "mul", "div")}

PROGRAM = """
declare {V} @llvm.roundeven.v{n}f64({V})
declare {V} @llvm.fabs.v{n}f64({V})
declare {V} @llvm.sqrt.v{n}f64({V})
declare {V} @llvm.maximum.v{n}f64({V}, {V})
declare {V} @llvm.minimum.v{n}f64({V}, {V})
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

define void @record(
  ptr noalias %state, ptr noalias %parameters, ptr noalias %drawn, ptr noalias %rows, i64 %saves, i64 %stride
) {attributes} {{
entry:
  %s = alloca {V}, i64 {numbers}, align 64
  %p = alloca {V}, i64 {given}, align 64
  call void @llvm.memcpy.p0.p0.i64(ptr align 64 %s, ptr align 8 %state, i64 {bytes}, i1 false)
  call void @llvm.memcpy.p0.p0.i64(ptr align 64 %p, ptr align 8 %parameters, i64 {given_bytes}, i1 false)
  br label %save
save:
  %j = phi i64 [0, %entry], [%j.next, %saved]
  %d.save = phi ptr [%drawn, %entry], [%d.saved, %saved]
  %any = icmp sgt i64 %stride, 0
  br i1 %any, label %step, label %saved
step:
  %i = phi i64 [0, %save], [%i.next, %step]
  %d = phi ptr [%d.save, %save], [%d.next, %step]
{body}
  %i.next = add i64 %i, 1
  %d.next = getelementptr i8, ptr %d, i64 {drawn_bytes}
  %on = icmp slt i64 %i.next, %stride
  br i1 %on, label %step, label %saved
saved:
  %d.saved = phi ptr [%d.save, %save], [%d.next, %step]
  %offset = mul i64 %j, {bytes}
  %row = getelementptr i8, ptr %rows, i64 %offset
  call void @llvm.memcpy.p0.p0.i64(ptr align 8 %row, ptr align 64 %s, i64 {bytes}, i1 false)
  %j.next = add i64 %j, 1
  %more = icmp slt i64 %j.next, %saves
  br i1 %more, label %save, label %end
end:
  call void @llvm.memcpy.p0.p0.i64(ptr align 8 %state, ptr align 64 %s, i64 {bytes}, i1 false)
  ret void
}}
"""


def function(engine, one, *given):
    """The compiled record(state, parameters, drawn, rows, saves, stride), pointers and counts; None if JAX must serve.

    one    the engine with one lane
    given  its state, its parameters, and what a step draws: their shapes
    """
    place = cache_directory() / "native" / f"{_name(engine)}.o"
    if (code := _kept(place)) is None:
        try:
            code = _compiled(_text(*traced(one, *given), engine.lanes))
        except Untranslated:
            return None
        _keep(place, code)
    return _loaded(code)


def traced(one, state, parameters, drawn):
    """Graph of `one.step`, the numbers that replace the state, and how many numbers are parameters and drawn."""
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
    return graph, numbers, *(sum(map(np.size, J.tree.leaves(x))) for x in (parameters, drawn))


def _text(graph, numbers, given, drawn, lanes):
    """The program whose step replaces the first of the given numbers by `numbers`."""
    types = {"n": lanes, "V": f"<{lanes} x double>", "I": f"<{lanes} x i64>", "B": f"<{lanes} x i1>"}
    body = []

    def named(number):
        node = graph.nodes[number]
        if node[0] == "float":
            bits = struct.unpack("<Q", struct.pack("<d", graph.value(number)))[0]
            return f"<{', '.join([f'double 0x{bits:016X}'] * lanes)}>"
        return f"<{', '.join([f'i64 {node[1]}'] * lanes)}>" if node[0] == "int" else f"%v{number}"

    parts = ("%s", len(numbers), 64), ("%p", given, 64), ("%d", drawn, 8)  # where they begin, how many, how aligned
    places = [(base, at, aligned) for base, many, aligned in parts for at in range(many)]

    def pointer(place):
        return f"getelementptr {types['V']}, ptr {places[place][0]}, i64 {places[place][1]}"

    for number in ordered(graph, numbers):
        operation, *operands = graph.nodes[number]
        if operation == "given":
            body += [
                f"%a{number} = {pointer(operands[0])}",
                f"%v{number} = load {types['V']}, ptr %a{number}, align {places[operands[0]][2]}",
            ]
            continue
        if operation == "add" and graph.kind(number) == "int":
            operation = "add_int"
        body.append(f"%v{number} = {INSTRUCTIONS[operation].format(*map(named, operands), **types)}")
    for place, number in enumerate(numbers):
        body += [f"%o{place} = {pointer(place)}", f"store {types['V']} {named(number)}, ptr %o{place}, align 64"]
    attributes = '"prefer-vector-width"="512"'
    sizes = {
        "numbers": len(numbers),
        "bytes": 8 * lanes * len(numbers),
        "given": given,
        "given_bytes": 8 * lanes * given,
        "drawn_bytes": 8 * lanes * drawn,
    }
    return PROGRAM.format(body="\n".join(f"  {line}" for line in body), attributes=attributes, **sizes, **types)


def ordered(graph, numbers):
    """All that is needed for `numbers`, each after what it needs, and near its first reader."""
    seen, order, waiting = set(), [], [(number, False) for number in reversed(numbers)]
    while waiting:
        number, ready = waiting.pop()
        operation, *operands = graph.nodes[number]
        if ready:
            order.append(number)
        elif number not in seen and operation not in ("float", "int", "bool"):
            seen.add(number)
            waiting.append((number, True))
            if operation != "given":
                waiting += [(each, False) for each in reversed(operands)]
    return order


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


def _machine():
    """A new machine for this processor: whatever executes code owns the one it is given."""
    name, features = _processor()
    return _llvm().Target.from_default_triple().create_target_machine(cpu=name, features=features, opt=2, jit=True)


def _compiled(text):
    """The object code of a program."""
    module, machine = _llvm().parse_assembly(text), _machine()
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    return machine.emit_object(module)


def _loaded(code):
    """The function in object code; it keeps what it needs."""
    llvm = _llvm()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _machine())
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    record = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4, *[ctypes.c_int64] * 2)(
        engine.get_function_address("record")
    )
    record.engine = engine
    return record


def _name(engine):
    """The hash of everything that the machine code of an engine depends on; a step that someone has replaced is another."""
    step = type(engine).step
    whose = step.__module__, step.__qualname__, step.__code__.co_code
    facts = engine.key, engine.lanes, whose, _processor(), sys.platform, _sources()
    return hashlib.sha256(repr(facts).encode()).hexdigest()


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
