"""Go on with a run."""

from __future__ import annotations

import time as clock
from typing import TYPE_CHECKING

from ..checks import shown
from ..errors import SpecError
from ..jaxed import in_float64
from ..methods.loop import follow
from ..methods.stage import Leg, Member
from ..progress import Progress
from .train import finished, portion, room, watched

if TYPE_CHECKING:
    from ..runs.run import Run
    from ..types import Shown


@in_float64
def extend(run: Run, steps: float, *, progress: Shown = False) -> Run:
    """Go on with a run; for descent the result, a Run, is identical to one long run.

    run       a Run, from `train` or `load`
    steps     number of further steps of descent, or units of time of a flow; of a staged run, the last stage goes on. A flow
              that saves at listed times saves at its new end, too
    progress  True draws a bar on stderr; or a function of (done, total)

    Raises SpecError for a run whose state is not known, DivergedError and Interrupted as `train` does.

    >>> import mixflow as mf
    >>> short = mf.train(mf.Mixture(), mf.Transformer(), mf.GradientDescent(steps=100))
    >>> int(mf.extend(short, 50).dataset.step[-1])
    150
    """
    if not hasattr(run, "method"):
        raise SpecError(f"run = {shown(run)}: expected a Run, as mf.train and mf.load give.")
    if not hasattr(run.method, "longer"):
        raise SpecError("the network was written down, not trained, so it cannot go on: train it with start=run.")
    method, engine, data = run.method, run.engine, run.dataset
    network, end = run.transformer, float(data.time[-1])
    first = int(data.step[-1]) if "step" in data.coords else None
    longer, stages = method.longer(steps, end, first, run.switches)
    member = Member(network=network, state=engine.resume(data))
    room([engine], longer, stages, member.state)
    bar = Progress.of(progress, unit=method.extent[1])
    began = clock.perf_counter()

    def note(share):
        bar(*portion(longer, share))

    leg = Leg(began=end, first=first, record=False, progress=note)
    try:
        (outcome,) = follow(engine, longer, [member], leg=leg, stages=stages, watch=watched(engine))
    finally:
        bar.close()
    wall_time = data.attrs["wall_time"] + clock.perf_counter() - began
    return finished(engine, network, longer, outcome, wall_time, past=run)
