"""Runs in worker threads: shared by everyone who asks for the same, stopped when nobody waits, kept for a while when done."""

import asyncio
import collections
import contextlib
import heapq
import itertools
import math
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from ..engines import choose
from ..errors import MixflowError, ProofError, SpecError
from ..methods.until import limit
from ..proofs import prove
from ..runs.constructed import constructed
from ..runs.train import train
from ..sweeping.plan import nominal_seconds
from . import views
from .frames import encode

WORKERS = 2  # runs at a time, and a quick one beside them
QUICK = 2.0  # nominal seconds of a quick run: it never waits for longer ones, however many they are
WAITING = 100  # runs that may wait for a worker
PROOF_COST = 10.0  # nominal seconds of a proof
SECONDS = 120  # longest a run may take
KEPT_BYTES = 200 * 2**20  # of finished results
PAUSE = 0.2  # seconds between two frames of a running job, or longer: making them may take a fifth of its time
SHARE = 0.2


class Cancelled(Exception):
    """Nobody waits for the job any more."""


class TooLong(MixflowError):
    """The job used up its time."""


class Job:
    """One run: the frames made so far, whether it is over, who follows it. Lives in the event loop; `work` in a thread."""

    def __init__(self, request, loop):
        self.request, self.key, self.cost = request, request.key, _cost(request)
        self.frames, self.over, self.run = [], False, None
        self.followers = 0
        self.stop = threading.Event()
        self._loop, self._changed = loop, asyncio.Event()

    def join(self):
        """Count in one who waits for it; each must `leave`."""
        self.followers += 1

    def leave(self):
        """Count out; the job stops when the last one leaves before the end."""
        self.followers -= 1
        if not self.followers and not self.over:
            self.stop.set()

    async def follow(self):
        """Every frame from the first on, as they come."""
        sent = 0
        while True:
            while sent < len(self.frames):
                sent += 1
                yield self.frames[sent - 1]
            if self.over:
                return
            await self._changed.wait()

    @property
    def size(self):
        """Bytes it occupies, near enough: its frames and the dataset."""
        return sum(map(len, self.frames)) + (self.run.dataset.nbytes if self.run is not None else 0)

    def _publish(self, frame, over=False):
        if frame is not None:
            self.frames.append(frame)
        self.over = self.over or over
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def say(self, frame, over=False):
        """From the worker: make a frame known in the event loop."""
        with contextlib.suppress(RuntimeError):  # the loop is closed: the program is ending
            self._loop.call_soon_threadsafe(self._publish, frame, over)

    def work(self):
        """Train, in a worker thread."""
        began = time.perf_counter()
        try:
            stream = _Stream(self, began)
            stream.begin()
            warning = None
            try:
                run = stream.run()
            except MixflowError as error:
                run = getattr(error, "run", None)  # diverged or chattering: show what there is, and why it ends
                if run is None or len(run.dataset.time) < 2:
                    raise
                warning = str(error)
            frame = stream.end(run, warning)
            self.run = run
            self.say(frame, over=True)
        except Cancelled:
            self.say(None, over=True)
        except MixflowError as error:
            self.say(encode("refused", {"key": self.key, "message": str(error)}), over=True)
        except Exception as error:  # a fault of ours must not take the worker with it
            message = f"the engine failed with {type(error).__name__}: {str(error)[:200]}"
            self.say(encode("failed", {"key": self.key, "message": message}), over=True)


def _cost(request):
    """Nominal seconds of a run, about."""
    if request.constructed:
        return 0.0
    task, network, method = request.spec()
    return nominal_seconds(choose(task, network, method), method) + PROOF_COST * request.proof


class _Stream:
    """Saved states, gathered into frames, which are made beside the run: it does not wait for them."""

    def __init__(self, job, began):
        self.job, self.began = job, began
        self.spec = job.request.spec()
        self.model = None if job.request.constructed else choose(*self.spec).name
        self.times, self.datasets, self.sent = [], [], []
        self.next, self.making = 0.0, None

    def begin(self):
        until = 0.0  # the time at which the run will end, at the latest, to scale the axis from the start
        if not self.job.request.constructed:
            _, network, method = self.spec
            until = sum(limit(stage.end) for stage in method.stages(network))
        self.job.say(encode("start", {"key": self.job.key, "until": until, "model": self.model}))

    def run(self):
        if self.job.request.constructed:
            return constructed(*self.spec)
        with ThreadPoolExecutor(1) as self.maker:
            run = train(*self.spec, progress=self.progress, on_save=self.on_save)
        self._check()
        return run

    def progress(self, done, total):
        if self.job.stop.is_set():
            raise Cancelled
        if time.perf_counter() - self.began > SECONDS:
            raise TooLong(f"the run took longer than {SECONDS} s: take fewer steps, a smaller K or infinite width.")

    def on_save(self, times, dataset):
        self.progress(0, 0)
        self.times.append(times)
        self.datasets.append(dataset)
        if self.making is not None and not self.making.done():
            return
        if sum(map(len, self.times)) >= 2 and time.perf_counter() > self.next:
            self._check()
            self.making = self.maker.submit(self._chunk, self.times, self.datasets)
            self.times, self.datasets = [], []

    def _check(self):
        """Raise what making the last frame raised."""
        if self.making is not None:
            self.making.result()

    def _chunk(self, times, datasets):
        began = time.perf_counter()
        times = np.concatenate(times)
        stretches = [dataset() for dataset in datasets]
        parts = [views.series(data) for data in stretches]
        arrays = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        header = {"key": self.job.key, **({} if self.sent else {"names": views.names(stretches[0], self.spec[0])})}
        self.job.say(encode("chunk", header, arrays))
        self.sent.append(times)
        now = time.perf_counter()
        self.next = now + max(PAUSE, (now - began) / SHARE)

    def end(self, run, warning):
        """What is still missing, the facts and the neurons' modes; everything again if the saves were not as streamed.

        (They are not when descent is stopped between saves or a stage begins with the state the one before ended with.)
        """
        data = run.dataset
        sent = np.concatenate(self.sent) if self.sent else np.empty(0)
        same = np.array_equal(sent, data.time.values[: len(sent)])
        rest = data.isel(time=slice(len(sent) if same else 0, None))
        arrays = views.series(rest) if rest.sizes["time"] else {}
        if run.events:
            arrays["all_modes"] = views.modes(run)
        proof, doubt = self.proof()
        header = {
            "key": self.job.key,
            "proof": proof,
            "replace": not same or not len(sent),
            "names": views.names(data, run.task),
            "warning": warning or doubt,
            "seconds": time.perf_counter() - self.began,
            **views.facts(run),
        }
        return encode("done", header, arrays)

    def proof(self):
        """The theorem about the flow in words, if it is asked for, and why there is none where the argument breaks."""
        if not self.job.request.proof:
            return None, None
        task, network, _ = self.spec
        self.job.say(encode("proving", {"key": self.job.key}))
        try:
            return prove(task, network, progress=self.progress).statement(), None
        except ProofError as error:
            return None, str(error)


class _Line:
    """Jobs that wait for a worker, the cheapest first."""

    def __init__(self):
        self._jobs, self._numbers, self._changed = [], itertools.count(), threading.Condition()
        self._closed = False

    def put(self, job):
        with self._changed:
            heapq.heappush(self._jobs, (job.cost, next(self._numbers), job))
            self._changed.notify_all()

    def take(self, most):
        """The next job of at most this cost, when there is one; None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or (self._jobs and self._jobs[0][0] <= most))
            return None if self._closed else heapq.heappop(self._jobs)[-1]

    def close(self):
        with self._changed:
            self._closed = True
            self._changed.notify_all()


class Jobs:
    """All jobs: WORKERS and a quick one at work, WAITING in line, the cheapest first; finished ones are kept up to KEPT_BYTES."""

    def __init__(self, loop):
        self.loop = loop
        self.active, self.kept = {}, collections.OrderedDict()
        self.unfinished = 0  # in line or at work, cancelled ones included until their worker lets go
        self.first_done = threading.Event()
        self._line = _Line()
        # Daemon threads: a compilation cannot be interrupted, and leaving the program must not wait for it.
        for most in [math.inf] * WORKERS + [QUICK] * bool(WORKERS):
            threading.Thread(target=self._worker, args=(most,), daemon=True).start()

    def ask(self, request):
        """The job for this request: kept, under way, or new; SpecError if the line is too long."""
        key = request.key
        if key in self.kept:
            self.kept.move_to_end(key)
            return self.kept[key]
        job = self.active.get(key)
        if job is not None and not job.stop.is_set():
            return job
        if self.unfinished >= WORKERS + WAITING:
            raise SpecError(
                f"{self.unfinished} runs are under way or waiting, more than this server takes: try again soon."
            )
        job = self.active[key] = Job(request, self.loop)
        self.unfinished += 1
        self._line.put(job)
        return job

    def find(self, key):
        """A finished job, or None; its last frame may reach the page before its worker has put it among the kept ones."""
        job = self.kept.get(key) or self.active.get(key)
        return job if job is not None and job.run is not None else None

    def status(self):
        """Counts, for tests and for people who look."""
        working = sum(not job.stop.is_set() for job in self.active.values())
        kept = {"kept": len(self.kept), "kept_bytes": self._kept_bytes, "kept_bytes_limit": KEPT_BYTES}
        return {"unfinished": self.unfinished, "wanted": working, **kept}

    @property
    def _kept_bytes(self):
        return sum(job.size for job in self.kept.values())

    def close(self):
        """Stop everything."""
        for job in self.active.values():
            job.stop.set()
        self._line.close()

    def _worker(self, most):
        while (job := self._line.take(most)) is not None:
            if not job.stop.is_set():
                job.work()
            try:
                self.loop.call_soon_threadsafe(self._finished, job)
            except RuntimeError:  # the loop is closed: the program is ending
                return

    def _finished(self, job):
        self.unfinished -= 1
        self.first_done.set()
        if self.active.get(job.key) is job:
            del self.active[job.key]
        if not job.over:
            job._publish(None, over=True)
        if job.run is not None:
            self.kept[job.key] = job
            while len(self.kept) > 1 and self._kept_bytes > KEPT_BYTES:
                self.kept.popitem(last=False)
