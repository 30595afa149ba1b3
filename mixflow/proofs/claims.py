"""What a tube says about learning: enclosures of the times at which something happens (docs/proofs.md)."""

import numpy as np

from ..errors import ProofError
from ..intervals import Interval, around, interval, norm
from .approximate import TICK
from .bounds import CHUNK, Curves, margins_on, point
from .hessian import curvature
from .network import gradient, loss, margins, preactivations
from .tube import FRAMED, chunks

QUARTERS = (0.25, 0.5, 0.75, 1.0)


def ball(tube, t):
    """x̂(t) and every x in the tube at time t, as intervals (n,), and the radius."""
    cell = tube.cell(t)
    middle = tube.placed(point(tube.pieces[tube.owner[cell]], t))
    return middle, middle + around(0.0, tube.radius[cell]), tube.radius[cell]


def loss_at(tables, tube, bias, t):
    """ℓ at time t: at x̂(t), plus or minus radius · |∂ℓ| on the ball."""
    middle, box, radius = ball(tube, t)
    z = preactivations(tables, box, bias)
    gates = Interval(np.where(z.lo > 0, 1.0, 0.0), np.where(z.hi < 0, 0.0, 1.0))
    room = (interval(norm(gradient(tables, box, bias, gates))) * radius).hi
    return loss(tables, middle, bias) + Interval(-room, room)


def margins_at(tables, tube, bias, t):
    """The margins (N,) at time t: at x̂(t), plus or minus radius · |∂m| on the ball."""
    middle, _, radius = ball(tube, t)
    room = (interval(margin_slopes(tables, middle, bias, radius)) * radius).hi
    return margins(tables, middle, bias) + Interval(-room, room)


def margin_slopes(tables, box, bias, radius):
    """A bound (..., N) of |∂m| on balls around boxes: the two neurons of a sample, each with gate 0, 1 or between."""
    slopes = curvature(tables, box, bias, radius).slopes()
    return (interval(slopes[..., : tables.samples]) + slopes[..., tables.samples :]).hi


def switch_off(tube):
    """[low, high]: all neurons are on until low, one is off at high; None if no neuron is proven off."""
    all_on, some_off = (tube.z.lo > 0).all(-1), (tube.z.hi < 0).any(-1)
    if not some_off.any():
        return None
    return float(tube.times[np.argmin(all_on), 0]), float(tube.times[np.argmax(some_off), 0])


def loss_time(tables, tube, bias, level):
    """[low, high]: ℓ is above the level (an interval) until low and below it from high on, since it falls along the flow."""
    end = tube.times[-1, 1]
    low, high = 0.0, end

    def at(t):
        return loss_at(tables, tube, bias, t)

    if not at(end).hi < level.lo:
        raise ProofError(
            f"the loss at t = {end:.6g} is not proven below {float(level.mid):g}: {at(end).hi:.6g}; prove a longer run."
        )
    below, above = end, 0.0
    while high - low > 2 * TICK:  # the earliest tick that is proven below
        middle = round((low + high) / 2 / TICK) * TICK
        if at(middle).hi < level.lo:
            below = high = middle
        else:
            low = middle
    low, high = 0.0, below
    while high - low > 2 * TICK:  # the latest that is proven above
        middle = round((low + high) / 2 / TICK) * TICK
        if at(middle).lo > level.hi:
            above = low = middle
        else:
            high = middle
    return above, below


def right_from(tables, tube, bias):
    """The beginning of the first cell from which on every margin is proven positive to the end; None if there is none."""
    some = chunks(tube.pieces, tube.owner, CHUNK if tube.frame is None else FRAMED)
    positive = np.concatenate([(_margins(tables, tube, bias, cells).lo > 0).all(-1) for cells in some])
    if not positive[-1]:
        return None
    wrong = np.flatnonzero(~positive)
    return float(tube.times[wrong[-1] + 1 if len(wrong) else 0, 0])


def wrong_at(tables, tube, bias, before):
    """The latest end of a cell before a time at which some margin is proven negative; None if there is none."""
    for t in tube.times[::-1, 0]:
        if t < before and (margins_at(tables, tube, bias, t).hi < 0).any():
            return float(t)
        if t < before - 1.0:
            return None
    return None


def _margins(tables, tube, bias, cells):
    """The margins (C, N) in the tube on a slice of cells."""
    curves = tube.placed(Curves.of([tube.pieces[i] for i in tube.owner[cells]], tube.times[cells]))
    gates, radius, z = tube.gates(cells), tube.radius[cells], tube.z[cells]
    if tube.frame is None:
        room = interval(margin_slopes(tables, curves.box(), bias, radius)) * radius[:, None]
    else:
        gate = Interval(np.where(z.lo > 0, 1.0, 0.0), np.where(z.hi < 0, 0.0, 1.0))
        box, loose, room = curves.box(), tube.loose[cells][:, None], interval(0.0)
        for share in QUARTERS:  # m(x̂ + v) − m(x̂) = ∫ ∂m(x̂ + sv) v ds, quarter by quarter
            slopes = curvature(tables, box, bias, (interval(radius) * share).hi).slopes
            room = room + (interval(slopes(gate)) * loose + slopes(gate, tube.frame[cells])) * 0.25
    return margins_on(tables, curves, bias, gates) + Interval(-room.hi, room.hi)
