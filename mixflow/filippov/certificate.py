"""What a flow can prove about itself: a tighter solution of the same flow, and what its field says must not move."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..errors import SpecError
from ..jaxed import in_float64
from .flow import follow
from .result import Result

if TYPE_CHECKING:
    from typing import Any

TIGHTER = 0.01


@in_float64
def certify(result: Result) -> dict[str, Any]:
    """The certificate of a flow, as plain numbers: the same flow at a tolerance 100 times tighter, and what must not move.

    result  of `solve`

    The dictionary it returns holds `time` ([start, end] of the flow), `difference` (the largest |difference| of the saved
    states, also relative to the largest entry of the state or atol / rtol), the counts, whether the tighter flow has the
    same events, and whatever the field's own `checks` find.
    Raises SpecError for what is no result of `solve`, KeyboardInterrupt on Ctrl-C.

    >>> import mixflow as mf
    >>> relay = mf.filippov.Field(velocity=lambda c, y, gates: 1 - 2 * gates, surface=lambda c, y: y, gates=("relay",))
    >>> proof = mf.filippov.certify(mf.filippov.solve(relay, [-1.0], 3.0))
    >>> proof["same_events"], proof["difference"] < 1e-12
    (True, True)
    """
    if not isinstance(result, Result):
        raise SpecError(f"result is a {type(result).__name__}: expected what mf.filippov.solve returns.")
    difference, again = _resolved(result)
    scale = np.maximum(np.abs(result.states).max(axis=1, keepdims=True), result.atol / result.rtol)
    return {
        "time": [result.start, result.time],
        "rtol": result.rtol,
        "difference": float(difference.max()),
        "relative_difference": float((difference / scale).max()),
        **({} if result.field.checks is None else result.field.checks(result.states)),
        "surface_error": float(result.surface_error),
        **{name: int(count) for name, count in result.counts.items()},
        "tight_evaluations": int(again.counts["evaluations"]),
        "same_events": bool([e[1:] for e in again.events] == [e[1:] for e in result.events]),
    }


def _resolved(result):
    """|difference| of the saved states from the tighter flow, and that flow."""
    if result.time <= result.start:  # a stage whose end was reached before it began
        return np.zeros_like(result.states), result
    again = follow(
        result.field,
        result.origin,
        result.time,
        start=result.start,
        rtol=TIGHTER * result.rtol,
        atol=TIGHTER * result.atol,
        grid=result.times,
        dense=False,
    )
    if again.ended == "interrupted":
        raise KeyboardInterrupt
    return np.abs(again.states - result.states), again
