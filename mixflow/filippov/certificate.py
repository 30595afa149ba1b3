"""What a flow can prove about itself: a tighter solution of the same flow, and the quantities that must not move."""

from dataclasses import replace

import numpy as np

from .flow import flow

TIGHTER = 0.01


def certify(field, y0, method, result, *, start_time=0.0):
    """The certificate of a flow, as plain numbers: the same flow at a tolerance 100 times tighter, and what must not move.

    time                 the interval [start, end] of the flow
    difference           the largest |difference| of the saved states, and relative to the largest entry of the state
    drift                of each head's or sector's conserved tr(C²), tr(C): absolute, and relative to the size of the terms
    smallest_eigenvalue  of [[G_K, A], [Aᵀ, G_Q]] over all saved states
    """
    difference, again = _resolved(field, y0, method, result, start_time)
    scale = np.abs(result.states).max(axis=1, keepdims=True)
    C = field.invariants(result.states)
    drift = {name: np.abs(C[name] - C[name][:1]) for name in ("tr C2", "tr C")}
    return {
        "time": [float(start_time), float(result.time)],
        "rtol": method.rtol,
        "difference": float(difference.max()),
        "relative_difference": float((difference / scale).max()),
        "drift_tr_C2": float(drift["tr C2"].max()),
        "relative_drift_tr_C2": float((drift["tr C2"] / C["size C2"]).max()),
        "drift_tr_C": float(drift["tr C"].max()),
        "relative_drift_tr_C": float((drift["tr C"] / C["size C"]).max()),
        "smallest_eigenvalue": float(field.smallest_eigenvalue(result.states).min()),
        "surface_error": float(result.surface_error),
        **{name: int(count) for name, count in result.counts.items()},
        "tight_evaluations": int(again.counts["evaluations"]),
        "same_events": bool([e[1:] for e in again.events] == [e[1:] for e in result.events]),
    }


def _resolved(field, y0, method, result, start_time):
    """|difference| of the saved states from the tighter flow, and that flow."""
    if result.time <= start_time:  # a stage whose end was reached before it began
        return np.zeros_like(result.states), result
    same_times = replace(method, until=result.time, save_at=tuple(result.times))
    again = flow(field, y0, same_times, start_time=start_time, tighten=TIGHTER)
    if again.ended == "interrupted":
        raise KeyboardInterrupt
    return np.abs(again.states - result.states), again
