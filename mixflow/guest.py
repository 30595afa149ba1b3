"""Libraries that change the process they run in, kept in bounds: what they changed is put back when our call ends."""

import contextlib
import os
import random
import warnings


@contextlib.contextmanager
def unchanged():
    """On leaving, the environment, Python's random numbers and the filters of warnings are what they were on entering.

    Dask sets variables for its workers in the process that starts them and draws from `random`, and both it and xarray add
    filters of warnings. Also a decorator: `@unchanged()`.

    >>> with unchanged():
    ...     os.environ["MIXFLOW_EXAMPLE"] = "1"
    >>> "MIXFLOW_EXAMPLE" in os.environ
    False
    """
    environment, state = dict(os.environ), random.getstate()
    with warnings.catch_warnings():
        try:
            yield
        finally:
            random.setstate(state)
            for name in set(os.environ) - set(environment):
                del os.environ[name]
            for name, value in environment.items():
                if os.environ.get(name) != value:
                    os.environ[name] = value
