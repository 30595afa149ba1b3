"""The errors a user can meet; each message is one sentence with the value received, what was expected and the fix."""


class MixflowError(Exception):
    """Base of every error mixflow raises on purpose; the command line prints its message without a traceback."""


class SpecError(MixflowError, ValueError):
    """A bad argument: names the value received, what was expected and the fix."""


class StoreError(MixflowError, OSError):
    """A run file that cannot be read, verified or written."""


class DivergedError(MixflowError, ArithmeticError):
    """A run left the range of float64; `step` is the first bad step and `run` holds everything before it."""

    def __init__(self, message, *, step=None, run=None):
        super().__init__(message)
        self.step = step
        self.run = run


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a run; `run` holds everything computed until then."""

    def __init__(self, message, *, run=None):
        super().__init__(message)
        self.run = run
