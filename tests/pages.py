"""A running playground and a browser for tests: started once, bounded in every wait, stopped at the end."""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import time

import pytest

TOKEN = "the-token-of-the-tests"

# Everything the browser could want from elsewhere is off: it must not look for updates or fetch lists.
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-extensions", "--disable-default-apps",
]  # fmt: skip


def find_browser():
    """The path of a Chromium, or None."""
    chosen = os.environ.get("MIXFLOW_BROWSER")
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    return chosen or next(filter(None, map(shutil.which, names)), None)


def require_browser():
    """The browser's path; without one the test is skipped, or fails where a browser is required."""
    path = find_browser()
    if path is None:
        reason = "no Chromium on the path (set MIXFLOW_BROWSER to one)"
        (pytest.fail if os.environ.get("MIXFLOW_REQUIRE_BROWSER") == "1" else pytest.skip)(reason)
    return path


@contextlib.contextmanager
def playground(port=0):
    """`mixflow playground` in a process of its own; yields (address without the token, process)."""
    words = [sys.executable, "-m", "mixflow", "playground", "--port", str(port), "--no-browser", "--token", TOKEN]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        said = process.stdout.readline()
        address = re.search(r"http://[\d.:]+/", said)
        if not address:
            raise AssertionError(f"the playground did not start: {said!r} {process.communicate(timeout=10)}")
        wait_until(lambda: _answers(address[0]), 20)
        yield address[0], process
    finally:
        stop(process)


def stop(process):
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(5)
    process.stdout.close()
    process.stderr.close()


def cookie(address):
    """The header with which a page shows the token."""
    return {"Cookie": f"mixflow-{address.rsplit(':', 1)[1].rstrip('/')}={TOKEN}"}


def get(address, path="", **options):
    """The server's answer to one who knows the token."""
    import httpx

    headers = {**cookie(address), **options.pop("headers", {})}
    return httpx.get(address + path, headers=headers, timeout=5, **options)


def _answers(address):
    import httpx

    try:
        return get(address, "status.json").status_code == 200
    except httpx.HTTPError:
        return False


def wait_until(condition, seconds, *, every=0.05, what="the condition"):
    """The first true value of `condition()`; an AssertionError after `seconds`."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"{what} did not come true within {seconds} s")
        time.sleep(every)


def open_socket(server, **headers):
    address = server.replace("http", "ws") + "socket"
    origin = headers.pop("origin", server.rstrip("/"))
    from websockets.sync.client import connect

    return connect(address, origin=origin, additional_headers=headers or cookie(server), max_size=None)


def ask(page, **message):
    page.send(json.dumps({"id": 1, **message}))


def answers(page, last=("done", "refused", "failed"), seconds=60):
    """(header, arrays) of every frame up to one of the kinds in `last`."""
    from mixflow.playground.frames import decode

    found, end = [], time.monotonic() + seconds
    while not found or found[-1][0]["kind"] not in last:
        found.append(decode(page.recv(timeout=max(0.1, end - time.monotonic()))))
    return found


def run(page, **controls):
    ask(page, type="run", controls=controls)
    return answers(page)


def arrays_of(frames, name):
    import numpy as np

    return np.concatenate([arrays[name] for _, arrays in frames if name in arrays])


def status(server):
    return get(server, "status.json").json()
