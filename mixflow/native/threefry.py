"""The generator of minibatches in machine code: Threefry-2×32 (Salmon et al. 2011), sixteen at a time.

NumPy would pass a hundred times over its arrays, and XLA, which fuses the rounds, computes what is used twice twice.
"""

import ctypes
import functools
import math

import numpy as np

from .machine import built, hashed

TURNS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = 0x1BD11BDA
MANY = 16
V = f"<{MANY} x i32>"

PROGRAM = """
declare {V} @llvm.fshl.v{MANY}i32({V}, {V}, {V})

define void @encrypt(ptr %key0, ptr %key1, ptr noalias %x, ptr noalias %y, i64 %blocks) "prefer-vector-width"="512" {{
entry:
  br label %block
block:
  %i = phi i64 [0, %entry], [%next, %block]
{body}
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %blocks
  br i1 %more, label %block, label %done
done:
  ret void
}}
"""


def encrypted(key0, key1, y):
    """The words (0, y), each encrypted under its key of two words, as two arrays; arrays of uint32 of any shapes that fit."""
    shape = np.broadcast_shapes(np.shape(key0), np.shape(key1), np.shape(y))
    count = math.prod(shape)
    blocks = -(-count // MANY)
    rows = np.zeros((4, blocks * MANY), np.uint32)
    parts = [row[:count].reshape(shape) for row in rows]
    parts[0][...], parts[1][...], parts[3][...] = key0, key1, y
    _encrypt()(*(row.ctypes.data for row in rows), blocks)
    return parts[2], parts[3]


@functools.cache
def _encrypt():
    text = _text()
    return built("encrypt", (ctypes.c_void_p,) * 4 + (ctypes.c_int64,), hashed(text), lambda: text)


def _text():
    """The program: a block of each array is loaded, goes through five turns of four rounds, and is stored."""
    lines, names = [], iter(range(1000))

    def now(instruction):
        lines.append(f"  %t{(number := next(names))} = {instruction}")
        return f"%t{number}"

    def at(array):
        return now(f"getelementptr {V}, ptr %{array}, i64 %i")

    def all_of(value):
        return f"<{', '.join([f'i32 {value}'] * MANY)}>"

    def apply(operation, a, b):
        return now(f"{operation} {V} {a}, {b}")

    places = {array: at(array) for array in ("key0", "key1", "x", "y")}
    keys = [now(f"load {V}, ptr {places[array]}, align 4") for array in ("key0", "key1")]
    keys.append(apply("xor", apply("xor", *keys), all_of(PARITY)))
    x, y = keys[0], apply("add", now(f"load {V}, ptr {places['y']}, align 4"), keys[1])
    for turn in range(5):
        for by in TURNS[turn % 2]:
            x = apply("add", x, y)
            turned = now(f"call {V} @llvm.fshl.v{MANY}i32({V} {y}, {V} {y}, {V} {all_of(by)})")
            y = apply("xor", turned, x)
        x = apply("add", x, keys[(turn + 1) % 3])
        y = apply("add", apply("add", y, keys[(turn + 2) % 3]), all_of(turn + 1))
    for word, array in ((x, "x"), (y, "y")):
        lines.append(f"  store {V} {word}, ptr {places[array]}, align 4")
    return PROGRAM.format(V=V, MANY=MANY, body="\n".join(lines))
