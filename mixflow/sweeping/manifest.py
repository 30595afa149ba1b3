"""What is finished: an append-only list of checksums beside the part files, and the lock on the folder.

    DIR/sweep.json       the description, its fingerprint, versions; written once
    DIR/manifest.jsonl   one line for each finished or failed batch, synced before the batch counts as finished
    DIR/parts/000/…      the batches, each written whole
    DIR/lock             held by the client while it works

A line counts only if it ends in a newline and is valid JSON, so a crash in the middle of a line costs that line alone.
A batch counts only if its line and its file agree, so every other crash costs that batch alone.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import pathlib
import socket
import time

import numpy as np

from ..errors import StoreError
from ..store import write_whole

WAITING, DONE, FAILED = 0, 1, 2
FILES_PER_FOLDER = 1000


class Manifest:
    """State of every batch of one folder, in arrays: a million batches take 50 MB and one pass over the file."""

    def __init__(self, folder, batches):
        self.folder, self.batches = pathlib.Path(folder), batches
        self.path = self.folder / "manifest.jsonl"
        self.state = np.zeros(batches, np.uint8)
        self.bytes = np.zeros(batches, np.int64)
        self.digest = np.zeros((batches, 32), np.uint8)
        self.seconds = np.zeros(batches, np.float32)
        self.errors = {}  # batch -> message
        self.started = self.latest = None  # times of the first and last line
        self.file = None

    def scan(self):
        """Read every line; later lines win. Returns the manifest itself."""
        try:
            with open(self.path, "rb") as file:
                for line in file:
                    self._take(line)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise StoreError(f"cannot read {self.path}: {error.strerror}.") from None
        return self

    def _take(self, line):
        if not line.endswith(b"\n"):
            return
        try:
            entry = json.loads(line)
            batch = entry["batch"]
            if not 0 <= batch < self.batches:
                return
            if "error" in entry:
                self.state[batch], self.errors[batch] = FAILED, entry["error"]
            else:
                self.digest[batch] = np.frombuffer(bytes.fromhex(entry["sha256"]), np.uint8)
                self.state[batch], self.bytes[batch] = DONE, entry["bytes"]
                self.seconds[batch] = entry["seconds"]
                self.errors.pop(batch, None)
            self.started = entry["at"] if self.started is None else self.started
            self.latest = entry["at"]
        except (ValueError, KeyError, TypeError):
            return  # a damaged line: the batch is done again

    def verify(self, progress=None):
        """Compare every finished part with its checksum; the ones that differ or are gone wait again. Returns them."""
        bad = []
        for count, batch in enumerate(np.flatnonzero(self.state == DONE)):
            if self.read(batch) is None:
                self.state[batch] = WAITING
                bad.append(int(batch))
            if progress and count % 1000 == 0:
                progress(count)
        return bad

    def read(self, batch):
        """The bytes of a finished part, or None if they are not what was written."""
        try:
            content = part_path(self.folder, batch).read_bytes()
        except OSError:
            return None
        if len(content) != self.bytes[batch] or hashlib.sha256(content).digest() != self.digest[batch].tobytes():
            return None
        return content

    def open(self):
        """Begin appending; a torn last line is cut off first."""
        try:
            self.file = open(self.path, "ab", buffering=0)  # noqa: SIM115 (closed by `close`)
            size = self.path.stat().st_size
            if size:
                with open(self.path, "rb") as file:
                    back = min(size, 1 << 16)
                    file.seek(size - back)
                    tail = file.read()
                if not tail.endswith(b"\n"):
                    self.file.truncate(size - back + tail.rfind(b"\n") + 1)
            sync_folder(self.folder)
        except OSError as error:
            raise StoreError(
                f"cannot write {self.path}: {error.strerror}; make room or choose another place."
            ) from None

    def close(self):
        if self.file:
            self.file.close()
            self.file = None

    def finish(self, batch, content, digest, seconds):
        """Write a part, then its line; only after both are on the disk is the batch finished."""
        path = part_path(self.folder, batch)
        if not path.parent.is_dir():
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                sync_folder(path.parent.parent)
            except OSError as error:
                raise StoreError(f"cannot make {path.parent}: {error.strerror}; make room and resume.") from None
        write_whole(path, content)
        sync_folder(path.parent)
        self._append({"batch": batch, "sha256": digest, "bytes": len(content), "seconds": round(seconds, 4)})

    def fail(self, batch, message):
        """Record that a batch was given up."""
        self._append({"batch": batch, "error": message})

    def _append(self, entry):
        line = json.dumps({**entry, "at": round(time.time(), 3)}).encode() + b"\n"
        before = os.fstat(self.file.fileno()).st_size
        try:
            if self.file.write(line) != len(line):  # a full disk may take half a line without an error
                raise OSError(28, "No space left on device")
            os.fsync(self.file.fileno())
        except OSError as error:
            with contextlib.suppress(OSError):
                self.file.truncate(before)
            raise StoreError(
                f"cannot write {self.path}: {error.strerror}; finished batches are kept, make room and resume."
            ) from None
        self._take(line)


def part_path(folder, batch):
    """Where a batch lives: a thousand files to a folder, because some file systems slow down beyond."""
    return pathlib.Path(folder) / "parts" / f"{batch // FILES_PER_FOLDER:03d}" / f"{batch:06d}.npz"


def sync_folder(folder):
    """Make a new name in a folder survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def remove_leftovers(folder):
    """Delete temporary files of an interrupted write; only the holder of the lock may."""
    for path in pathlib.Path(folder).glob("parts/*/.*.npz.*"):
        path.unlink(missing_ok=True)
    for path in [*pathlib.Path(folder).glob(".results.nc*"), *pathlib.Path(folder).glob(".sweep.json.*")]:
        path.unlink(missing_ok=True)


@contextlib.contextmanager
def lock(folder):
    """Hold the folder; a second client is told who has it. The kernel drops the lock with the process, however it dies."""
    path = pathlib.Path(folder) / "lock"
    try:
        file = open(path, "a+")  # noqa: SIM115 (closed below)
    except OSError as error:
        raise StoreError(f"cannot write in {folder}: {error.strerror}; choose another --out.") from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            owner = file.read().strip() or "another process"
            raise StoreError(
                f"{folder} is in use by {owner}: wait for it, or look with mixflow sweep status {folder}."
            ) from None
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        file.flush()
        yield


def owner(folder):
    """Who works on the folder now, or None."""
    try:
        with open(pathlib.Path(folder) / "lock") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                return file.read().strip() or "another process"
    except OSError:
        return None
    return None
