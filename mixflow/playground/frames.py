"""Binary frames: a JSON header, then the arrays it lists, each aligned so that the browser can view it in place."""

import json
import struct

import numpy as np

MAGIC = b"MXF1"
ALIGN = 8


def encode(kind, header=None, arrays=None):
    """One message to the page.

    Layout: 4 bytes MAGIC, 4 bytes header length (little endian), the header in UTF-8, zeros up to a multiple of 8, the
    arrays, each padded to a multiple of 8. The header lists them as [name, type, shape, offset from the first array].
    """
    listed, parts, at = [], [], 0
    for name, array in (arrays or {}).items():
        array = np.ascontiguousarray(array)
        content = array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
        padded = content + bytes(-len(content) % ALIGN)
        listed.append([name, array.dtype.name, list(array.shape), at])
        parts.append(padded)
        at += len(padded)
    text = json.dumps({"kind": kind, **(header or {}), "arrays": listed}, allow_nan=False).encode()
    text += b" " * (-(len(text) + 8) % ALIGN)
    return b"".join([MAGIC, struct.pack("<I", len(text)), text, *parts])


def decode(frame):
    """(header, {name: array}) of a frame; what the page does in JavaScript, for tests and benchmarks."""
    if frame[:4] != MAGIC:
        raise ValueError("not a mixflow frame")
    (length,) = struct.unpack("<I", frame[4:8])
    header = json.loads(frame[8 : 8 + length])
    arrays = {}
    for name, kind, shape, offset in header["arrays"]:
        count = int(np.prod(shape, dtype=int))
        arrays[name] = np.frombuffer(frame, np.dtype(kind), count, 8 + length + offset).reshape(shape)
    return header, arrays
