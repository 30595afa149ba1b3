"""Programs to be killed, interrupted and spoken to, forked from a server that has everything imported: a start takes no time.

The server itself computes nothing and has no threads, so what is forked from it may.
"""

import contextlib
import hashlib
import multiprocessing
import os
import signal

BATCHES = 200  # of the sweep that `write` finishes
FRESH = multiprocessing.get_context("forkserver")
FRESH.set_forkserver_preload(
    ["jax", "mixflow.commands.train", "mixflow.runs.train", "mixflow.playground.server", "uvicorn"]
)


@contextlib.contextmanager
def started(program, *words):
    """(process, connection) of a program that has said that it is there; it is killed at the end."""
    ours, theirs = FRESH.Pipe()
    process = FRESH.Process(target=program, args=(theirs, *map(str, words)), daemon=True)
    process.start()
    theirs.close()
    try:
        ours.recv()
        yield process, ours
    finally:
        process.kill()
        process.join()
        ours.close()


def write(said, folder):
    """Write a file whole, again and again, and finish the batches of a sweep, one after the other; says how far it is."""
    from mixflow import sealed
    from mixflow.sweeping.manifest import Manifest

    manifest = Manifest.create(folder, {"batches": 0})
    for i in range(10**6):
        content = bytes([i % 256]) * 40_000
        sealed.write_whole(folder + "/file", sealed.pack(content))
        manifest.finish(i % BATCHES, content, hashlib.sha256(content).digest(), 0.1, False)
        said.send(i)


def run(said, errors, *words):
    """`mixflow …` as `python -m mixflow …` runs it, with its words in the file `errors`."""
    from mixflow.cli import main
    from mixflow.ctrl_c import leave

    file = os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(file, stream)
    signal.signal(signal.SIGINT, leave)
    said.send("there")
    raise SystemExit(main(list(words)))


def serve(said, errors, token):
    """The playground, in which every run is over at once; says its port, writes its errors, ends with whoever started it."""
    import threading

    from mixflow.playground import jobs, server

    def nothing(_):
        pass

    def watch():
        with contextlib.suppress(EOFError):
            said.recv()
        os._exit(1)

    def port(wanted):
        found = listen(wanted)
        said.send("there")
        said.send(found.getsockname()[1])
        threading.Thread(target=watch, daemon=True).start()
        return found

    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
    jobs.Job.work = server.compile_ahead = nothing
    listen, server.listen = server.listen, port
    server.serve(0, browser=False, token=token)
