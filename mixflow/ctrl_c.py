"""Ctrl-C that is never lost: at once while a program starts, between two compiled calls while it works."""

import contextlib
import os
import signal
import threading

INTERRUPTED = 130


def leave(number, frame):
    """The handler of a program that is starting: nothing is worth keeping yet, so it ends at once.

    An exception would not do: raised inside an import or a callback of the compiler it is printed or swallowed.
    """
    with contextlib.suppress(OSError):
        os.write(2, b"\nmixflow: interrupted.\n")
    os._exit(INTERRUPTED)


def work_begins():
    """Python's own handler again, if `leave` was there: from here on a KeyboardInterrupt finds somebody who keeps the work."""
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)


_after = [signal.default_int_handler]  # the handler once Ctrl-C has ended a `patient_ctrl_c`


@contextlib.contextmanager
def keeping(what: str):
    """Inside, once work was interrupted, a further Ctrl-C does not lose what is being kept: it says so, and the next one does."""
    told: list[int] = []

    def hold(number, frame):
        if told:
            signal.default_int_handler(number, frame)
        told.append(number)
        with contextlib.suppress(OSError):
            os.write(2, f"\nkeeping {what}, a moment; Ctrl-C once more gives it up.\n".encode())

    _after.append(hold)
    try:
        yield
    finally:
        _after.pop()
        if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is hold:
            signal.signal(signal.SIGINT, signal.default_int_handler)


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

    work_begins()
    ours = threading.current_thread() is threading.main_thread() and (
        signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )
    if ours:
        signal.signal(signal.SIGINT, handler)
    try:
        yield check
    finally:
        if ours:
            signal.signal(signal.SIGINT, _after[-1] if came else signal.default_int_handler)
