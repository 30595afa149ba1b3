"""The call: follow a field from a start to an end (docs/mathematics.md §7)."""

from __future__ import annotations

import itertools
from contextlib import closing
from typing import TYPE_CHECKING

import numpy as np

from ..checks import array, flag, function, listed, real
from ..ctrl_c import patient_ctrl_c
from ..errors import DivergedError, SpecError
from ..jaxed import in_float64
from ..progress import Progress
from .field import prepare
from .gates import NAMES, ChatteringError
from .result import Result
from .walk import Walk

if TYPE_CHECKING:
    from typing import Any

    from ..types import Array, Callable, Sequence, Shown
    from .field import Field


@in_float64
def solve(
    field: Field,
    y0: Any,
    until: float,
    *,
    start: float = 0.0,
    rtol: float = 1e-9,
    atol: float | None = None,
    save_at: Sequence[float] | None = None,
    keep_events: bool = False,
    stop: Callable[[float, Array], float] | None = None,
    progress: Shown = False,
    on_save: Callable[[Array, Array], object] | None = None,
    dense: bool = True,
) -> Result:
    """Follow a Field from y0 to the time `until`, through every surface, by Filippov's convention.

    field        a Field
    y0           (size,) the start; a Result continues from where it ended; None takes the field's own y0
    until        the end time
    start        the time at the start
    rtol         relative accuracy of the trajectory, 1e-11 to 1e-3; `certify` measures what was reached
    atol         absolute accuracy of small entries; rtol / 1000 if not given
    save_at      None: the end of every step; a list of times: exactly those
    keep_events  whether to save the states at events besides those at `save_at`
    stop         None, or stop(t, y) that is negative while the flow should go on; it ends where that rises to 0
    progress     True for a bar, or progress(t, until), called after every few steps
    on_save      None, or on_save(t (k,), y (k, size)), given what is saved as it is computed
    dense        whether to keep the steps, so that `result(t)` is known at any time

    Returns a Result; Ctrl-C ends it early with `ended == "interrupted"`. Raises SpecError for a field whose functions do not fit
    or arguments out of range, DivergedError where the state leaves float64, ChatteringError where gates switch without
    end or not exactly one choice of gates fits; the last two hold the Result so far as `.run`.

    >>> import mixflow as mf
    >>> relay = mf.filippov.Field(velocity=lambda c, y, gates: 1 - 2 * gates, surface=lambda c, y: y, gates=("relay",))
    >>> result = mf.filippov.solve(relay, [-1.0], 3.0)
    >>> [(round(e.time, 9), e.name, e.before, e.after) for e in result.events]
    [(1.0, 'relay', 'off', 'sliding')]
    """
    earlier = y0 if isinstance(y0, Result) else None
    start = earlier.time if earlier is not None else start
    y0 = earlier.state if earlier is not None else getattr(field, "y0", None) if y0 is None else y0
    y0 = _state(y0)
    until = real("until", until, fix="it is the time at which the flow ends")
    start = real("start", start, below=until, fix="the flow ends at until")
    rtol = real("rtol", rtol, least=1e-11, most=1e-3, fix="1e-9 is a good choice")
    atol = rtol / 1000 if atol is None else atol
    atol = real("atol", atol, least=1e-16, most=1e-3, fix="leave it out for rtol / 1000")
    function("stop", stop, "a function of (time, state)")
    function("on_save", on_save, "a function of (times, states)")
    flag("keep_events", keep_events)
    asked = {"start": start, "rtol": rtol, "atol": atol, "stop": stop}
    kept = {"grid": _grid(save_at, start, until), "keep_events": keep_events, "on_save": on_save, "dense": dense}
    with closing(Progress.of(progress, unit="unit")) as bar:
        return follow(field, y0, until, progress=bar, earlier=earlier, **asked, **kept)


def follow(field, y0, until, *, start, rtol, atol, progress=None, earlier=None, **given):
    """`solve` without its checks of arguments, for tolerances below those it admits."""
    y0 = np.array(y0, float)
    walk = Walk(field=field, ready=prepare(field, y0), until=until, rtol=rtol, atol=atol, t=start, y=y0, **given)
    if earlier is not None:
        walk.mode = np.array([NAMES.index(name) for name in earlier.gates])
    try:
        walk.begin()
        with patient_ctrl_c() as check:
            while not walk.ended:
                check()
                walk.advance()
                if progress is not None:
                    progress(walk.t, until)
    except KeyboardInterrupt:
        walk.ended = "interrupted"
    except (ChatteringError, DivergedError) as error:
        walk.ended = "failed"
        error.run = walk.result()
        raise
    return walk.result()


def _state(y0):
    y = array("y0", y0, "a list of at least one number") if y0 is not None else None
    if y is None or y.ndim != 1 or not len(y):
        got = "None" if y is None else f"an array of shape {y.shape}"
        raise SpecError(f"y0 is {got}: expected a list of at least one number; flatten the state.")
    return y


def _grid(save_at, start, until):
    if save_at is None:
        return None
    given = listed("save_at", save_at, "a list of times")
    times = np.array([real(f"save_at[{i}]", t, least=start, most=until) for i, t in enumerate(given)])
    if not len(times) or any(a >= b for a, b in itertools.pairwise(times)):
        raise SpecError("save_at must list at least one time, in increasing order; sort it and drop repetitions.")
    return times
