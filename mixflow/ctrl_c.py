"""Ctrl-C that waits for the compiled call under way, so that it is never lost inside one."""

import contextlib
import signal
import threading


@contextlib.contextmanager
def patient_ctrl_c():
    """Yield a function that raises KeyboardInterrupt if Ctrl-C came; a second Ctrl-C raises at once.

    Python raises it wherever it is, and inside a callback of the compiled call it is swallowed: asked for between two
    calls it cannot be lost. Only in the main thread, and only where nobody else has taken the signal.
    """
    came = []

    def handler(number, frame):
        if came:
            signal.default_int_handler(number, frame)
        came.append(number)

    def check():
        if came:
            raise KeyboardInterrupt

    ours = threading.current_thread() is threading.main_thread() and (
        signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )
    if ours:
        signal.signal(signal.SIGINT, handler)
    try:
        yield check
    finally:
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
