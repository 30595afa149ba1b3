"""The loop over unfinished batches: send, receive, write, record; stop anywhere, go on with the same command."""

from __future__ import annotations

import itertools
import json
import pathlib
import sys
import tempfile
import time
from importlib import metadata
from typing import TYPE_CHECKING

import numpy as np

from ..checks import real
from ..errors import Interrupted, StoreError
from ..extras import needs
from ..guest import unchanged
from ..progress import Progress
from ..provenance import provenance
from ..sealed import as_path, make_folder
from .cluster import Place, connected
from .consolidated import consolidate, consolidated
from .cost import estimate, pilots, refuse_absurd
from .manifest import DONE, Manifest, begun, lock
from .plan import Plan
from .results import SweepResult, described_in
from .spec import Sweep
from .work import attempt

if TYPE_CHECKING:
    from typing import Any

    from ..types import PathLike, Shown

ATTEMPTS = 3
VERSIONS = ("mixflow", "jax", "jaxlib", "llvmlite", "numpy")  # what decides the bits of a run
LOG_SECONDS = 30  # between progress lines when stderr is a file
PILOT_SECONDS = 60  # after which the cost is judged even if pilots are still running
TICK = 1.0  # seconds between looks at the clock while nothing arrives


@unchanged()
def sweep(
    description: PathLike | dict[str, Any],
    out: PathLike,
    *,
    workers: int | None = None,
    scheduler: str | None = None,
    tls_ca: str | None = None,
    tls_cert: str | None = None,
    tls_key: str | None = None,
    dashboard: int | None = None,
    max_core_hours: float = 100.0,
    force: bool = False,
    progress: Shown = False,
) -> SweepResult:
    """Run every unfinished batch of a sweep in the folder `out`; returns the results, also of earlier calls.

    description     a dictionary of the form of the TOML file (docs/sweeps.md), the file's path, or a Sweep
    out             the sweep's folder, made if it is missing
    workers         number of local processes, one for each core if not given
    scheduler       address of an existing Dask cluster, used instead of local processes
    tls_ca, tls_cert, tls_key  paths of the files for a tls:// scheduler
    dashboard       port of Dask's own page on the loopback interface; none if not given
    max_core_hours  refuse a plan that by its first batches needs more core-hours than this
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
    needs("sweep")
    place = Place(workers, scheduler, tls_ca, tls_cert, tls_key, dashboard)
    limit = real("max_core_hours", max_core_hours, above=0, fix="force=True (--force) lifts the limit")
    out, described = as_path(out), Sweep.of(description)
    plan = Plan(described)
    if not force:
        refuse_absurd(estimate(plan, out, place.cores), limit)
    make_folder(out)
    with lock(out):
        if begun(out):
            check_header(Manifest(out), described, force)
        else:
            write_header(out, described, plan)
        return _finish(plan, out, place, progress, None if force else limit)


def resume(folder, *, max_core_hours=100.0, force=False, progress=False, **place):
    """Go on with the sweep in a folder, from its own description."""
    place, limit = Place(**place), real("max_core_hours", max_core_hours, above=0)
    manifest = Manifest(folder)
    described = described_in(manifest)
    check_header(manifest, described, force)
    with lock(folder):
        return _finish(Plan(described), folder, place, progress, None if force else limit)


def price(plan, folder, place):
    """What the plan will cost, told by its pilots, which are run for this alone."""
    found = []

    def note(cost):
        found.append(cost)
        return False

    with tempfile.TemporaryDirectory(prefix="mixflow-plan-") as aside:
        write_header(aside, plan.sweep, plan)
        manifest = Manifest.writing(aside)
        try:
            _Work(plan, manifest, folder, note).run(place, False)
        finally:
            manifest.close()
    return found[0]


def _finish(plan, folder, place, progress, limit):
    folder = pathlib.Path(folder)
    manifest = Manifest.writing(folder)
    try:
        damaged = manifest.verify()
        if damaged:
            names = ", ".join(map(str, damaged[:5])) + (", …" if len(damaged) > 5 else "")
            _say(f"{len(damaged)} batches do not match their checksums and are computed again: {names}")
        waiting = (manifest.state(plan.batches) != DONE).any()
        if waiting or not _sound(folder):
            (folder / "results.nc").unlink(missing_ok=True)  # out of date from here on
        if waiting:

            def judge(cost):
                refuse_absurd(cost, limit)
                manifest.note("accepted", True)  # a sweep that was let through once goes on

            judged = limit is None or manifest.fact("accepted")
            _Work(plan, manifest, folder, None if judged else judge).run(place, progress)
        if not (folder / "results.nc").exists():
            consolidate(SweepResult(folder, plan, manifest))
    finally:
        manifest.close()
    return SweepResult(folder, plan, Manifest(folder))


def _sound(folder):
    """Whether results.nc is there as it was written."""
    try:
        consolidated(folder).close()
    except StoreError as error:
        if (folder / "results.nc").exists():
            _say(str(error))
        return False
    return True


def _say(text):
    print(text, file=sys.stderr, flush=True)


class _Work:
    """A few batches for each worker in flight; everything else is an iterator, so memory does not grow.

    judge  called once with the Estimate, when the pilots are in; may raise, or return False to stop there
    """

    def __init__(self, plan, manifest, folder, judge=None):
        self.plan, self.manifest, self.folder, self.judge = plan, manifest, folder, judge
        self.flight, self.attempts = {}, {}  # future -> batch, batch -> how often it was sent

    def run(self, place, progress):
        """Until every waiting batch is decided."""
        from distributed import CancelledError
        from distributed.comm import CommClosedError

        waiting = self.manifest.state(self.plan.batches) != DONE
        bar = _Bar(progress, int(self.plan.sizes()[waiting].sum()))
        began = time.perf_counter()
        try:
            with connected(place) as self.client, self.client.as_current():
                self.startup = time.perf_counter() - began
                if self.judge:
                    first = [batch for batch in pilots(self.plan, self._workers()) if waiting[batch]]
                    if self._loop(iter(first), bar, time.monotonic() + PILOT_SECONDS) is False:
                        return
                    waiting[first] = False
                self._loop(map(int, np.flatnonzero(waiting)), bar)
        except KeyboardInterrupt:
            done = int((self.manifest.state(self.plan.batches) == DONE).sum())
            raise Interrupted(
                f"interrupted with {done} of {self.plan.batches} batches finished and kept; the same command goes on from there."
            ) from None
        except (CancelledError, CommClosedError):
            raise StoreError(
                "the scheduler went away; finished batches are kept, the same command goes on from there."
            ) from None
        finally:
            bar.close()

    def _loop(self, todo, bar, deadline=None):
        """Send and receive until `todo` is decided, or the time of the pilots is over: then those in flight stay there."""
        self._fill(todo)
        while self.flight:
            if deadline and time.monotonic() > deadline:
                break
            for future in self._arrived():
                self._receive(future, bar)
            self._fill(todo)
        if deadline:
            waited = PILOT_SECONDS if self.flight else 0.0
            times = self.manifest.times()
            return self.judge(estimate(self.plan, self.folder, self._workers(), times, self.startup, waited))
        return True

    def _workers(self):
        return max(1, sum(self.client.nthreads().values()))

    def _fill(self, todo):
        for batch in itertools.islice(todo, max(0, 2 * self._workers() + 2 - len(self.flight))):
            self._send(batch)

    def _send(self, batch):
        self.attempts[batch] = count = self.attempts.get(batch, 0) + 1
        # Named by the sweep, because other clients of the same scheduler name theirs, too.
        key = f"mixflow-{self.plan.sweep.fingerprint[:16]}-{batch}-{count}"
        self.flight[self.client.submit(attempt, self.plan.job(batch), key=key, pure=False)] = batch

    def _arrived(self):
        from distributed import TimeoutError as DaskTimeout
        from distributed import wait

        try:
            return wait(list(self.flight), timeout=TICK, return_when="FIRST_COMPLETED").done
        except (DaskTimeout, TimeoutError):
            return ()

    def _receive(self, future, bar):
        batch = self.flight.pop(future)
        if future.status == "finished":
            kind, *answer = future.result()
        else:
            why = type(future.exception()).__name__
            kind, answer = "failed", (f"{why}: a worker process died every time it ran this batch", True)
        if kind == "done":
            self.manifest.finish(batch, *answer)
        elif answer[1] and self.attempts[batch] < ATTEMPTS:
            return self._send(batch)
        else:
            self.manifest.fail(batch, answer[0])
        del self.attempts[batch]
        bar.advance(self.plan.size(batch))


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
            _say(f"{self.done} of {self.total} runs, {rate:.3g} runs/s, {left:.0f} s left")

    def close(self):
        self.bar.close()


def write_header(folder, described, plan):
    """Write down what this folder is; its presence means the sweep has begun."""
    header = {
        "fingerprint": described.fingerprint,
        "batches": plan.batches,
        "runs": plan.runs,
        "versions": _versions(),
        "provenance": provenance(),
        "sweep": described.describe(),
    }
    Manifest.create(folder, header).close()


def check_header(manifest, described, force=False):
    """Refuse to mix two sweeps, or two versions of the arithmetic, in one folder."""
    if manifest.fact("fingerprint") != described.fingerprint:
        difference = _difference(manifest.fact("sweep"), described.describe())
        raise StoreError(f"this folder holds another sweep ({difference}): choose another --out.")
    now, then = _versions(), manifest.fact("versions")
    if not isinstance(then, dict):
        raise StoreError(f"{manifest.path} names no versions: restore it, or sweep into a new folder.")
    for name, before in then.items():
        if before != now.get(name) and not force:
            raise StoreError(
                f"this sweep was begun with {name} {before} and this is {name} {now.get(name)}: results would not be identical; "
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
    old, new = (text if len(text := json.dumps(x)) < 60 else text[:57] + "…" for x in (old, new))
    return f"{path or 'it'} was {old}, is {new}"
