"""What is finished: one SQLite file in the sweep's folder, and the lock on the folder.

    DIR/sweep.sqlite   the description with its fingerprint and versions; each decided batch, its bytes and their SHA-256
    DIR/results.nc     everything in one netCDF file, once every batch is decided
    DIR/lock           held by the client while it works

A batch is finished when its transaction is in the write-ahead log on the disk, so whatever is killed at whatever moment, each
batch is there whole or not at all. SQLite guards its own structure, not the bytes in it: those have checksums of ours.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import pathlib
import socket
import sqlite3
import time

import numpy as np

from ..errors import StoreError
from ..sealed import said

FORMAT = 4  # 4: other batches, sized by the time a step takes now; 3: one SQLite file
WAITING, DONE, FAILED = 0, 1, 2
TABLES = (
    "CREATE TABLE fact (name TEXT PRIMARY KEY, value TEXT) STRICT",
    "CREATE TABLE batch (number INTEGER PRIMARY KEY, at REAL, seconds REAL, warm INTEGER, error TEXT, sha256 BLOB, "
    "content BLOB) STRICT",
)
PATIENCE = 10  # seconds to wait for another process that reads or writes at the same moment


class Manifest:
    """The file of one sweep, for reading; `writing` and `create` are for the one client that holds the folder's lock.

    A reader opens the file for each question, so that it is never in the way.
    """

    def __init__(self, folder):
        self.path, self._db = pathlib.Path(folder) / "sweep.sqlite", None
        if not begun(folder):
            raise StoreError(f"{said(folder)} holds no sweep: expected a folder written by mixflow sweep … --out.")
        found = self.fact("format")
        if found != FORMAT:
            raise StoreError(
                f"{self.path} has format {found}, this mixflow has {FORMAT}: use the version that began it."
            )

    @classmethod
    def writing(cls, folder):
        """The manifest of a sweep that goes on."""
        self = cls(folder)
        self._open("rw")
        return self

    @classmethod
    def create(cls, folder, facts):
        """A new one; its facts are written with its tables, all or nothing."""
        self = cls.__new__(cls)
        self.path = pathlib.Path(folder) / "sweep.sqlite"
        self._open("rwc")
        with self._transaction():
            for statement in TABLES:
                self._db.execute(statement)
            rows = [(name, json.dumps(value)) for name, value in {"format": FORMAT, **facts}.items()]
            self._db.executemany("INSERT INTO fact VALUES (?, ?)", rows)
        return self

    def close(self):
        """Stop writing; unless somebody reads just now, the log is folded in and one plain file is left."""
        with contextlib.suppress(sqlite3.Error):  # what is in the log counts, folded in or not
            self._db.execute("PRAGMA journal_mode = DELETE")
        self._db.close()
        self._db = None

    def fact(self, name):
        """A fact of the header, or None."""
        with self._reading() as db:
            row = db.execute("SELECT value FROM fact WHERE name = ?", (name,)).fetchone()
            return json.loads(row[0]) if row else None

    def note(self, name, value):
        """Write a fact down."""
        with self._transaction():
            self._db.execute("INSERT OR REPLACE INTO fact VALUES (?, ?)", (name, json.dumps(value)))

    def state(self, batches):
        """WAITING, DONE or FAILED of every batch, as an array: a million batches take a megabyte."""
        found = np.zeros(batches, np.uint8)
        with self._reading() as db:
            for number, failed in db.execute("SELECT number, error IS NOT NULL FROM batch"):
                if 0 <= number < batches:
                    found[number] = FAILED if failed else DONE
        return found

    def errors(self):
        """{batch: message} of the batches that were given up, in order."""
        with self._reading() as db:
            return dict(db.execute("SELECT number, error FROM batch WHERE error IS NOT NULL ORDER BY number"))

    def times(self):
        """[(batch, when it was finished, seconds it took, whether its program had run in that process before)], in time."""
        with self._reading() as db:
            # a row that somebody else wrote may have no numbers
            numbers = "number, COALESCE(at, 0.0), COALESCE(seconds, 0.0), COALESCE(warm, 0)"
            rows = db.execute(f"SELECT {numbers} FROM batch WHERE error IS NULL ORDER BY at, number")
            return rows.fetchall()

    def bytes(self):
        """Of all finished batches."""
        with self._reading() as db:
            return db.execute("SELECT COALESCE(SUM(LENGTH(content)), 0) FROM batch").fetchone()[0]

    def parts(self, first=0, last=None):
        """(number, bytes) of the finished batches first ≤ number < last, in order; bytes that do not match are None."""
        last = 2**62 if last is None else last
        with self._reading() as db:
            where = "error IS NULL AND number >= ? AND number < ?"
            for row in db.execute(
                f"SELECT number, sha256, content FROM batch WHERE {where} ORDER BY number", (first, last)
            ):
                number, digest, content = row
                yield number, content if content and hashlib.sha256(content).digest() == digest else None

    def verify(self):
        """Compare every finished batch with its checksum; those that differ wait again. Returns their numbers."""
        bad = [number for number, content in self.parts() if content is None]
        if bad:
            with self._transaction():
                self._db.executemany("DELETE FROM batch WHERE number = ?", [(number,) for number in bad])
        return bad

    def finish(self, batch, content, digest, seconds, warm):
        """Write a finished batch: it is on the disk when this returns."""
        self._decide(batch, seconds, int(warm), None, digest, content)

    def fail(self, batch, message):
        """Record that a batch was given up."""
        self._decide(batch, None, None, message, None, None)

    def _decide(self, batch, *row):
        with self._transaction():
            self._db.execute("INSERT OR REPLACE INTO batch VALUES (?, ?, ?, ?, ?, ?, ?)", (batch, time.time(), *row))

    def _open(self, mode):
        with self._writing():
            self._db = _connect(self.path, mode)
            try:
                self._db.execute("PRAGMA journal_mode = WAL")
                self._db.execute("PRAGMA synchronous = FULL")  # the log is on the disk before a batch counts
            except sqlite3.Error:
                self._db.close()
                raise

    @contextlib.contextmanager
    def _transaction(self):
        with self._writing():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):  # SQLite may have rolled back by itself
                    self._db.execute("ROLLBACK")
                raise

    @contextlib.contextmanager
    def _writing(self):
        try:
            yield
        except sqlite3.OperationalError as error:
            full = error.sqlite_errorname.startswith(("SQLITE_FULL", "SQLITE_IOERR"))
            fix = "make room" if full else "correct that"
            raise StoreError(
                f"cannot write {self.path}: {error}; finished batches are kept, {fix} and resume."
            ) from None
        except sqlite3.DatabaseError as error:
            raise _damaged(self.path, error) from None

    @contextlib.contextmanager
    def _reading(self):
        try:
            with contextlib.nullcontext(self._db) if self._db else contextlib.closing(_connect(self.path, "ro")) as db:
                yield db
        except (sqlite3.DatabaseError, ValueError) as error:
            raise _damaged(self.path, error) from None


def _connect(path, mode):
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode={mode}", uri=True, isolation_level=None, timeout=PATIENCE)


def _damaged(path, error):
    return StoreError(f"cannot read {path} ({error}): restore it, or sweep into a new folder.")


def begun(folder):
    """Whether the folder holds a sweep; a StoreError for one of an older mixflow, and for a file that is no database."""
    folder = pathlib.Path(folder)
    if os.path.exists(folder / "sweep.json"):  # False for a name that no folder can have, too
        raise StoreError(
            f"{folder} holds a sweep in the format of an older mixflow: finish it with that version, or sweep again into a new "
            "folder."
        )
    path = folder / "sweep.sqlite"
    if not os.path.exists(path):
        return False
    try:
        with contextlib.closing(_connect(path, "ro")) as db:
            # A client that is killed before its first transaction leaves a file without tables.
            return db.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0] > 0
    except sqlite3.DatabaseError as error:
        raise _damaged(path, error) from None


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
        with contextlib.suppress(OSError):  # on a full disk the lock holds without a name
            file.truncate(0)
            os.write(file.fileno(), f"process {os.getpid()} on {socket.gethostname()}\n".encode())
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
