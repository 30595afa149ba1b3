"""Files that are written whole or not at all, and believed only after their own bytes were hashed.

A sealed file is its content, a mark and the SHA-256 of everything before the digest. HDF5 ignores what stands
behind its own end, so that a sealed netCDF file is one for every other tool. The hash is looked at before any parser is: a
damaged file must not be able to hang HDF5.
"""

import hashlib
import os
import pathlib
import secrets
import stat
from typing import TYPE_CHECKING, Any

from .errors import StoreError

if TYPE_CHECKING:
    import xarray

Path = str | os.PathLike

MARK = b"\n-- mixflow 01 --"
SEAL = len(MARK) + hashlib.sha256().digest_size
CHUNK = 2**20
LARGEST = 2**33  # bytes of a file that is read into memory; no record is half as long
GROWTH = (
    64  # bytes of arrays for each byte of the file, at most: we write hardly compressed, a bomb is a thousand to one
)


def pack(content: bytes) -> bytes:
    """The bytes of the sealed file with this content.

    >>> unpack(pack(b"loss")) == b"loss", len(pack(b"loss")) - len(b"loss") == SEAL
    (True, True)
    """
    marked = content + MARK
    return marked + hashlib.sha256(marked).digest()


def unpack(sealed: bytes, name: Any = "the file") -> bytes:
    """The content of a sealed file, or a StoreError that names what is wrong; nothing is parsed before the hash is right.

    >>> unpack(pack(b"loss")[1:])
    Traceback (most recent call last):
    mixflow.errors.StoreError: the file does not match its checksum: it was damaged or altered after it was written; make it \
again, or restore a copy.
    """
    _check_seal(sealed[-SEAL:], hashlib.sha256(sealed[: max(0, len(sealed) - 32)]), name)
    return sealed[:-SEAL]


def read(path: Path) -> bytes:
    """The content of the sealed file at `path`; raises StoreError for anything else, devices and folders included."""
    path = regular(path)
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - SEAL))
            end = file.read()
            file.seek(0)
            # What nobody has sealed, or no record is as long as, is not read.
            sealed = file.read() if end.startswith(MARK) and size <= LARGEST else None
    except OSError as error:
        raise _unreadable(path, error) from None
    except MemoryError:
        raise StoreError(
            f"{said(path)} has {size} bytes, more than fit into memory: read it on a larger machine."
        ) from None
    _check_mark(end, path)
    if sealed is None:
        raise StoreError(f"{said(path)} has {size} bytes: expected a file of at most {LARGEST}, as mixflow writes.")
    return unpack(sealed, path)


def plain(path: Path, most: int) -> bytes:
    """The content of a file without a seal, of at most so many bytes; raises StoreError for anything else, devices included."""
    path = regular(path)
    try:
        with open(path, "rb") as file:
            content = file.read(most + 1)
    except OSError as error:
        raise _unreadable(path, error) from None
    if len(content) > most:
        raise StoreError(f"{said(path)} has more than {most} bytes: expected fewer, as mixflow writes.")
    return content


def verify(path: Path) -> pathlib.Path:
    """The path of a sealed file whose hash is right, read piece by piece: for files that are opened lazily after it."""
    path = regular(path)
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            left = max(0, size - 32)
            file.seek(0)
            while left and (piece := file.read(min(CHUNK, left))):
                digest.update(piece)
                left -= len(piece)
            file.seek(max(0, size - SEAL))
            end = file.read()
    except OSError as error:
        raise _unreadable(path, error) from None
    _check_seal(end, digest, path)
    return path


def seal(path):
    """Seal the file that another program wrote at `path`, piece by piece, and bring it to the disk."""
    with open(path, "rb+") as file:
        digest = hashlib.file_digest(file, "sha256")
        digest.update(MARK)
        file.seek(0, os.SEEK_END)
        file.write(MARK + digest.digest())
        file.flush()
        os.fsync(file.fileno())


def _check_seal(end, digest, name):
    _check_mark(end, name)
    if end[len(MARK) :] != digest.digest():
        raise StoreError(
            f"{said(name)} does not match its checksum: it was damaged or altered after it was written; make it again, or "
            "restore a copy."
        )


def _check_mark(end, name):
    if len(end) < SEAL or not end.startswith(MARK):
        raise StoreError(
            f"{said(name)} carries no mixflow checksum: it is truncated or damaged, or was not written by mixflow."
        )


def dataset(content: bytes, name: Any = "the file") -> "xarray.Dataset":
    """The xarray.Dataset in the bytes of a netCDF file, in memory; a StoreError where it holds groups or unpacks to much more."""
    import io

    import h5py
    import xarray

    try:
        with h5py.File(io.BytesIO(content)) as file:
            sizes = [part.nbytes for part in file.values() if isinstance(part, h5py.Dataset)]
            whole = len(sizes) == len(file)
        if whole and sum(sizes) <= GROWTH * len(content):
            return xarray.load_dataset(io.BytesIO(content), engine="h5netcdf", decode_times=False)
    except Exception as error:  # HDF5 reports a foreign file through many exception types
        why = type(error).__name__
        raise StoreError(
            f"{said(name)} is not a readable netCDF file ({why}): give a file written by mixflow."
        ) from None
    if not whole:
        raise StoreError(f"{said(name)} holds groups besides the variables of a run: give a file written by mixflow.")
    raise StoreError(
        f"{said(name)} has {len(content)} bytes but unpacks to {sum(sizes)}: no file of mixflow does that."
    )


def said(path: Path) -> str:
    """A path in a message: as it is, or shortened and with its odd characters written out."""
    from .checks import shown

    text = str(path)
    return text if len(text) <= 200 and text.isprintable() else shown(text)


def as_path(path: Path) -> pathlib.Path:
    """`path` as a pathlib.Path that the system can take, or a StoreError in one sentence."""
    from .checks import shown

    try:
        found = pathlib.Path(path)
        if b"\0" in os.fsencode(found) or not os.fspath(path):
            raise ValueError
    except (TypeError, ValueError):
        raise StoreError(
            f"path = {shown(path)}: expected a path as text, not empty and without null characters."
        ) from None
    return found


def regular(path: Path) -> pathlib.Path:
    """The path of an ordinary file that is there to be read, or a StoreError; links are followed, devices refused."""
    path = as_path(path)
    try:
        kind = _kind(path.stat())
    except OSError as error:
        raise _unreadable(path, error) from None
    if kind:
        raise StoreError(f"cannot read {said(path)}: it is a {kind}; give the path of a file written by mixflow.")
    return path


def writable(path: Path) -> pathlib.Path:
    """The path of a file that may be written or replaced, or a StoreError: nothing but a writable file is ever replaced."""
    path = as_path(path)
    try:
        there = path.lstat()
    except FileNotFoundError:
        return path
    except OSError as error:
        raise StoreError(
            f"cannot write {said(path)}: {error.strerror}; nothing was written, choose another place."
        ) from None
    kind = "link" if stat.S_ISLNK(there.st_mode) else _kind(there)
    if kind:
        raise StoreError(
            f"cannot write {said(path)}: a {kind} stands there; nothing was written, choose another place."
        )
    if not there.st_mode & 0o222:  # the superuser could, but whoever took the right away meant it
        raise StoreError(f"cannot write {said(path)}: it is read-only; nothing was written, choose another place.")
    return path


def write_whole(path: Path, content: bytes) -> pathlib.Path:
    """Write bytes by way of a temporary file in the same folder, synced and renamed: never half a file; returns the path."""
    path = writable(path)
    temporary = path.with_name(f".{path.name[:200]}.{secrets.token_hex(4)}")
    try:
        # The kernel applies the umask by itself; asking for it would mean setting it, for every thread at once.
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        try:
            with open(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(descriptor)
            os.replace(temporary, path)
        except BaseException:  # a full disk, or Ctrl-C between two writes
            temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        why = error.strerror or str(error)
        raise StoreError(f"cannot write {said(path)}: {why}; nothing was written, choose another place.") from None
    return path


def make_folder(folder: Path) -> pathlib.Path:
    """Make an output folder and return its path, or say in one sentence why not."""
    folder = as_path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"cannot make the folder {said(folder)}: {error.strerror}; choose another one.") from None
    return folder


def _kind(status):
    """What stands at a path if it is no ordinary file: "folder", "device", "pipe" or "socket"; "" for a file."""
    mode = status.st_mode
    if stat.S_ISREG(mode):
        return ""
    if stat.S_ISDIR(mode):
        return "folder"
    return "pipe" if stat.S_ISFIFO(mode) else "socket" if stat.S_ISSOCK(mode) else "device"


def _unreadable(path, error):
    return StoreError(f"cannot read {said(path)}: {error.strerror}; give the path of a file written by mixflow.")
