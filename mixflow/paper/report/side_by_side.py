"""Experiments in processes of their own, several at a time: interpreters do not wait for each other as threads do."""

import contextlib
import multiprocessing
import os
import threading
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool

import mixflow as mf

from ..experiments import experiment
from ..experiments.shape import quiet
from .records import perform

WORTH = 30.0  # seconds of work for which another process is started; it takes about two


def processes(asked, guesses):
    """How many to start for experiments that are thought to take so many seconds; 0 if it is not worth it."""
    if asked is not None:
        mf.checks.whole("workers", asked, most=1024, fix="leave it out for one for each core")
    most = min(asked or os.cpu_count() or 1, len(guesses), int(sum(guesses) / WORTH))
    return most if most > 1 else 0


def side_by_side(folder, jobs, workers, *, full):
    """(name, record) of every job (experiment, settings) as it is finished, those first that take longest.

    MixflowError if a process dies. However this ends, no process is left behind.
    """
    before = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), _begin)
    try:
        longest = sorted(jobs, key=lambda job: -job[0].seconds[full])
        under_way = [pool.submit(_one, folder, each.file or each.name, settings, full) for each, settings in longest]
        for done in as_completed(under_way):
            record = done.result()
            yield record["name"], record
    except BrokenProcessPool:
        raise mf.MixflowError(
            "a process in which an experiment ran has died, perhaps for want of memory; what is finished is kept, the same "
            "command with --workers 1 goes on from there."
        ) from None
    finally:
        for process in set(multiprocessing.active_children()) - before:
            process.terminate()
        pool.shutdown(cancel_futures=True)


def _begin():
    """Of a process: Ctrl-C is for who started it, and it does not outlive that."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()

    def leave():
        with contextlib.suppress(Exception):
            parent.join()
        os._exit(1)

    threading.Thread(target=leave, daemon=True).start()


def _one(folder, name, settings, full):
    return perform(folder, experiment(name), settings, full=full, progress=quiet)
