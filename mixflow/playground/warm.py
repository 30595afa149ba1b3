"""Compiling ahead: the programs most visitors ask for next, made in the background while they look at the first run."""

import threading

from ..errors import MixflowError
from ..runs.train import train
from .requests import Request

# Descent is computed in the page itself. Short runs: only their programs are wanted.
AHEAD = ({"method": "flow", "until": 10.0},)
PATIENCE = 2.0  # seconds to wait for the first run, which should not share its processor


def compile_ahead(first_done):
    """Compile in a daemon thread once `first_done` (a threading.Event) is set or patience is over; returns the thread."""

    def work():
        first_done.wait(PATIENCE)
        for asked in AHEAD:
            try:
                train(*Request.of(asked).spec())
            except MixflowError:
                return

    thread = threading.Thread(target=work, name="compile ahead", daemon=True)
    thread.start()
    return thread
