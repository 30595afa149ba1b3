"""Experiments, or the parts of one, in processes of their own: interpreters do not wait for each other as threads do."""

import contextlib
import multiprocessing
import os
import threading
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from functools import partial

import mixflow as mf

from .records import one_thread

WORTH = 30.0  # seconds of work for which another process is started; it takes about two


def processes(asked, seconds, pieces=1024):
    """How many to start for work that is thought to take so many seconds, in so many pieces; 0 if it is not worth it."""
    if asked is not None:
        mf.checks.whole("workers", asked, most=1024, fix="leave it out for one for each core")
    most = min(asked or mf.provenance.cores(), pieces, int(seconds / WORTH))
    return most if most > 1 else 0


def side_by_side(function, items, workers):
    """(i, function(items[i])) as each is finished; they are begun in their order. Function and items must be picklable.

    MixflowError if a process dies. However this ends, no process is left behind.
    """
    before, context = set(multiprocessing.active_children()), multiprocessing.get_context("spawn")
    shares = context.SimpleQueue()
    for share in _shares(workers):
        shares.put(share)
    pool = ProcessPoolExecutor(workers, context, _begin, (shares,))
    try:
        under_way = {pool.submit(function, item): i for i, item in enumerate(items)}
        for done in as_completed(under_way):
            yield under_way[done], done.result()
    except BrokenProcessPool:
        raise mf.MixflowError(
            "a process in which an experiment ran has died, perhaps for want of memory; what is finished is kept, the same "
            "command with --workers 1 goes on from there."
        ) from None
    finally:
        for process in set(multiprocessing.active_children()) - before:
            process.terminate()
        pool.shutdown(cancel_futures=True)


def spread(workers):
    """The `each` of an experiment in parts (`experiments.shape.in_turn`), over so many processes."""

    def each(function, items, progress):
        found = {}
        with contextlib.closing(side_by_side(partial(_part, function), items, workers)) as finished:
            for i, result in finished:
                found[i] = result
                progress(len(found))
        return [found[i] for i in range(len(items))]

    return each


def _part(function, item):
    with one_thread():
        return function(item)


def _shares(workers):
    """The processors of each process. With its own share XLA starts no threads that would wait for those of the others."""
    if not hasattr(os, "sched_setaffinity"):
        return [None] * workers
    allowed = sorted(os.sched_getaffinity(0))
    return [allowed[i::workers] or allowed for i in range(workers)]


def _begin(shares):
    """Of a process: it keeps to its share of the processors, leaves Ctrl-C to who started it, and does not outlive that."""
    import signal

    if (share := shares.get()) is not None:
        os.sched_setaffinity(0, share)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()

    def leave():
        with contextlib.suppress(Exception):
            parent.join()
        os._exit(1)

    threading.Thread(target=leave, daemon=True).start()
