"""The call: follow the flow of a gated field from a start to an end (docs/mathematics.md §7)."""

import numpy as np

from ..checks import real
from ..ctrl_c import patient_ctrl_c
from ..errors import DivergedError
from .gates import ChatteringError
from .walk import Walk


def flow(field, y0, method, *, start_time=0.0, stop=None, progress=None, on_save=None, tighten=1.0):
    """Follow the gradient flow of a gated field from y0 at `start_time` to `method.until`.

    stop(t, y)           ends the flow where it rises to 0; it is negative while the flow should go on
    progress(t, until)   called after every step
    on_save(t, y)        given the saved times (k,) and states (k, size) as they are computed
    tighten              factor on both tolerances, below what `method` admits (for the certificate)

    Ctrl-C ends the flow with `ended == "interrupted"` and everything computed so far; a state that leaves float64 raises
    DivergedError, endless switching ChatteringError, both with the partial result as `.run`.
    """
    start_time = real("start_time", start_time, least=0, below=method.until, fix="the flow ends at method.until")
    walk = Walk(
        field=field, method=method, t=start_time, y=np.array(y0, float), stop=stop, on_save=on_save, tighten=tighten
    )
    try:
        walk.begin()
        with patient_ctrl_c() as check:
            while not walk.ended:
                check()
                walk.advance()
                if progress is not None:
                    progress(walk.t, method.until)
    except KeyboardInterrupt:
        walk.ended = "interrupted"
    except (ChatteringError, DivergedError) as error:
        walk.ended = "failed"
        error.run = walk.result()
        raise
    return walk.result()
