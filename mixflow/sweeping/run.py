"""The loop over unfinished batches: send, receive, write, record; stop anywhere, go on with the same command."""

import contextlib
import itertools
import json
import os
import pathlib
import sys
import time
from importlib import metadata

import numpy as np

from ..errors import Interrupted, StoreError
from ..guest import unchanged
from ..progress import Progress
from ..provenance import provenance
from ..store import write_whole
from .cluster import Connection, Place
from .consolidated import consolidate
from .cost import SMALL, estimate, nominal_core_seconds, refuse_absurd
from .manifest import DONE, Manifest, lock, remove_leftovers, sync_folder
from .plan import Plan
from .results import SweepResult
from .spec import Sweep
from .work import attempt

FORMAT = 2  # 2: runs that differ in their learning rate share batches
ATTEMPTS = 3
VERSIONS = ("mixflow", "jax", "jaxlib", "numpy")  # what decides the bits of a run
LOG_SECONDS = 30  # between progress lines when stderr is a file


@unchanged()
def sweep(
    description, out, *, workers=None, scheduler=None, tls_ca=None, tls_cert=None, tls_key=None, dashboard=None,
    max_core_hours=100.0, force=False, progress=False,
):  # fmt: skip
    """Run every unfinished batch of a sweep in the folder `out`; returns the results, also of earlier calls.

    description     a dictionary of the form of the TOML file (docs/sweeps.md), the file's path, or a Sweep
    out             the sweep's folder, made if it is missing
    workers         number of local processes, one for each core if not given
    scheduler       address of an existing Dask cluster, used instead of local processes
    tls_ca, tls_cert, tls_key  paths of the files for a tls:// scheduler
    dashboard       port of Dask's own page on the loopback interface; none if not given
    max_core_hours  refuse a plan estimated above this many core-hours
    force           True runs an absurd plan, and goes on under other library versions
    progress        True draws a bar on stderr; or a function of (done, total) runs

    The same call after any interruption goes on where it stopped and ends in the same bits. Batches that keep failing are
    named in `.failed` and do not stop the others.

    Returns a SweepResult: `dataset`, `grid()`, `trajectories()`, `failed`. Raises SpecError for a bad description or an absurd
    plan, StoreError for a folder that cannot be used, Interrupted on Ctrl-C with everything finished kept.

    >>> import mixflow as mf
    >>> mf.sweep({"grid": {"transformer.omega": []}}, "nowhere")
    Traceback (most recent call last):
    mixflow.errors.SpecError: the axis transformer.omega is empty: give at least one value, or leave the axis out.
    """
    place = Place(workers, scheduler, tls_ca, tls_cert, tls_key, dashboard)
    described = Sweep.of(description)
    plan = Plan(described)
    folder = pathlib.Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"cannot make the folder {folder}: {error.strerror}; choose another --out.") from None
    with lock(folder), Connection(place) as connection:
        header = folder / "sweep.json"
        if header.exists():
            check_header(read_header(folder), described, force)
        else:
            if not force:
                small = nominal_core_seconds(plan) < SMALL
                refuse_absurd(_priced(plan, folder, connection, measure=not small), max_core_hours)
            write_header(folder, described, plan)
        return _finish(plan, folder, connection, progress)


def price(plan, folder, place):
    """What the plan will cost, measured on the workers, which takes some seconds."""
    with Connection(place) as connection:
        return _priced(plan, folder, connection, measure=True)


def _priced(plan, folder, connection, *, measure):
    nominal = estimate(plan, folder, connection.place.cores)
    if not measure or nominal.bytes > nominal.free:
        return nominal
    client = connection.client
    return estimate(plan, folder, sum(client.nthreads().values()), client, startup=connection.seconds)


def resume(folder, *, force=False, progress=False, **place):
    """Go on with the sweep in a folder, from its own description."""
    header = read_header(folder)
    described = Sweep.rebuild(header["sweep"])
    check_header(header, described, force)
    with lock(folder), Connection(Place(**place)) as connection:
        return _finish(Plan(described), pathlib.Path(folder), connection, progress)


def _finish(plan, folder, connection, progress):
    remove_leftovers(folder)
    manifest = Manifest(folder, plan.batches).scan()
    damaged = manifest.verify()
    if damaged:
        names = ", ".join(map(str, damaged[:5])) + (", …" if len(damaged) > 5 else "")
        print(
            f"{len(damaged)} part files do not match their checksums and are computed again: batches {names}",
            file=sys.stderr,
        )
    manifest.open()
    try:
        if (manifest.state != DONE).any():
            with contextlib.suppress(FileNotFoundError):  # a store of an incomplete sweep is out of date from here on
                os.unlink(folder / "results.nc")
            _work(plan, manifest, connection, progress)
            connection.close()
        result = SweepResult(folder, plan, manifest)
        if not (folder / "results.nc").exists():
            consolidate(result)
    finally:
        manifest.close()
    return result


def _work(plan, manifest, connection, progress):
    """Keep a few batches for each worker in flight; everything else is an iterator, so memory does not grow."""
    waiting = np.flatnonzero(manifest.state != DONE)
    todo = iter(waiting)
    bar = _Bar(progress, sum(plan.size(batch) for batch in waiting))
    flight, attempts = {}, {}  # future -> batch, batch -> how often it was sent
    try:
        client = connection.client
        from distributed import as_completed

        arriving = as_completed(loop=client.loop)

        def send(batch):
            attempts[batch] = attempts.get(batch, 0) + 1
            future = client.submit(attempt, plan.job(batch), key=f"batch-{batch}-{attempts[batch]}", pure=False)
            flight[future] = batch
            arriving.add(future)

        def fill():
            room = 2 * max(1, sum(client.nthreads().values())) + 2 - len(flight)
            for batch in itertools.islice(todo, max(room, 0)):
                send(int(batch))

        fill()
        for future in arriving:
            batch = flight.pop(future)
            kind, *answer = _answer(future)
            if kind == "done":
                manifest.finish(batch, *answer)
            elif attempts[batch] < ATTEMPTS and answer[1]:
                send(batch)
                continue
            else:
                manifest.fail(batch, answer[0])
            del attempts[batch]
            bar.advance(plan.size(batch))
            fill()
    except KeyboardInterrupt:
        done = int((manifest.state == DONE).sum())
        raise Interrupted(
            f"interrupted with {done} of {plan.batches} batches finished and kept; the same command goes on from there."
        ) from None
    finally:
        bar.close()


class _Bar:
    """Progress in runs: a bar on a terminal, a line now and then in a log file."""

    def __init__(self, choice, total):
        self.bar = Progress.of(choice, unit="run")
        self.done, self.total = 0, total
        self.logs = choice is True and not sys.stderr.isatty()
        self.began = self.last = time.perf_counter()

    def advance(self, runs):
        self.done += runs
        self.bar(self.done, self.total)
        now = time.perf_counter()
        if self.logs and now - self.last > LOG_SECONDS:
            self.last, rate = now, self.done / (now - self.began)
            left = (self.total - self.done) / rate
            print(
                f"{self.done} of {self.total} runs, {rate:.3g} runs/s, {left:.0f} s left", file=sys.stderr, flush=True
            )

    def close(self):
        self.bar.close()


def _answer(future):
    """What a worker sent, or what Dask says about a worker that died over the batch."""
    if future.status == "finished":
        return future.result()
    if future.status == "error":
        return (
            "failed",
            f"{type(future.exception()).__name__}: a worker process died every time it ran this batch",
            True,
        )
    raise StoreError("the scheduler went away; finished batches are kept, the same command goes on from there.")


def write_header(folder, described, plan):
    """Write down what this folder is; its presence means the sweep has begun."""
    header = {
        "format": FORMAT,
        "fingerprint": described.fingerprint,
        "batches": plan.batches,
        "runs": plan.runs,
        "versions": _versions(),
        "provenance": provenance(),
        "sweep": described.describe(),
    }
    write_whole(pathlib.Path(folder) / "sweep.json", json.dumps(header).encode())
    sync_folder(folder)


def read_header(folder):
    """The header of a sweep folder."""
    path = pathlib.Path(folder) / "sweep.json"
    try:
        header = json.loads(path.read_text())
        if header["format"] != FORMAT:  # its batches are cut in another way
            raise StoreError(
                f"{path} has format {header['format']}, this mixflow has {FORMAT}: use the version that began the sweep."
            )
        return header
    except OSError:
        raise StoreError(f"{folder} holds no sweep: expected a folder written by mixflow sweep … --out.") from None
    except (ValueError, KeyError, TypeError):
        raise StoreError(f"{path} is damaged: restore it, or sweep into a new folder.") from None


def check_header(header, described, force=False):
    """Refuse to mix two sweeps, or two versions of the arithmetic, in one folder."""
    if header["fingerprint"] != described.fingerprint:
        raise StoreError(
            f"this folder holds another sweep ({_difference(header['sweep'], described.describe())}): choose another --out."
        )
    now = _versions()
    for name, before in header["versions"].items():
        if before != now[name] and not force:
            raise StoreError(
                f"this sweep was begun with {name} {before} and this is {name} {now[name]}: results would not be identical; "
                "install that version, or mix them with --force."
            )


def _versions():
    return {name: metadata.version(name) for name in VERSIONS}


def _difference(old, new, path=""):
    """Where two descriptions first differ."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new}):
            if old.get(key) != new.get(key) and key != "name":
                return _difference(old.get(key), new.get(key), f"{path}.{key}" if path else key)
    show = lambda x: text if len(text := json.dumps(x)) < 60 else text[:57] + "…"  # noqa: E731
    return f"{path or 'it'} was {show(old)}, is {show(new)}"
