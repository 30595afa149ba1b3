"""The errors a user can meet; each message is one sentence with the value received, what was expected and the fix."""


class MixflowError(Exception):
    """Base of every error mixflow raises on purpose; the command line prints its message without a traceback.

    Raised itself where a part of mixflow is asked for whose packages are not installed; catch it to catch all but Interrupted.

    >>> import mixflow as mf
    >>> issubclass(mf.SpecError, mf.MixflowError), issubclass(mf.Interrupted, mf.MixflowError)
    (True, False)
    """

    def __str__(self):
        """One line, whatever it repeats: a path may hold a line feed."""
        return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in super().__str__())


class SpecError(MixflowError, ValueError):
    """A bad argument: names the value received, what was expected and the fix. A ValueError.

    Raised by every call that takes arguments, before any work is done.

    >>> import mixflow as mf
    >>> mf.Mixture(classes=0)
    Traceback (most recent call last):
    mixflow.errors.SpecError: classes = 0: expected a whole number from 1 to 100000; classes=2 is the paper's task.
    """


class StoreError(MixflowError, OSError):
    """A file that cannot be read, verified or written. An OSError.

    Raised by `load`, `Run.save`, `sweep`, `open_sweep` and by `Mnist` for its images.

    >>> import mixflow as mf
    >>> mf.load("no-such-run.nc")
    Traceback (most recent call last):
    mixflow.errors.StoreError: cannot read no-such-run.nc: No such file or directory; give the path of a file written by mixflow.
    """


class DivergedError(MixflowError, ArithmeticError):
    """A run left the range of float64. An ArithmeticError.

    step  the first bad step, a whole number; None for a flow
    run   the Run with everything before it, or None

    Raised by `train`, `extend` and `compare`; `train_many` marks the member instead.

    >>> import mixflow as mf
    >>> try:
    ...     mf.train(mf.Mixture(), mf.Transformer(width=8), mf.GradientDescent(learning_rate=300, steps=1000, save_every=1))
    ... except mf.DivergedError as error:
    ...     print(error.step > float(error.run.dataset.step[-1]))
    True
    """

    def __init__(self, message, *, step=None, run=None):
        super().__init__(message)
        self.step = step
        self.run = run


class ProofError(MixflowError, ArithmeticError):
    """A statement that could not be proven: names the time at which the argument breaks and why. An ArithmeticError.

    Raised by `prove`.

    >>> import mixflow as mf
    >>> issubclass(mf.ProofError, mf.MixflowError)
    True
    """


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a run. A KeyboardInterrupt, so that `except Exception` does not swallow it.

    run  the Run with everything computed until then, or None

    Raised by `train`, `extend` and `sweep`.

    >>> import mixflow as mf
    >>> issubclass(mf.Interrupted, KeyboardInterrupt)
    True
    """

    def __init__(self, message, *, run=None):
        super().__init__(message)
        self.run = run
