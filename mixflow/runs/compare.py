"""Side by side: descent at several learning rates, flow, three-stage and mean-field from one start, and how far apart."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ..checks import listed, real, shown, whole
from ..errors import SpecError
from ..jaxed import in_float64
from ..methods.descent import GradientDescent
from ..methods.flow import GradientFlow
from ..methods.three_stage import ThreeStage
from ..networks.specs import changed
from .train import checked, train

if TYPE_CHECKING:
    from typing import Any

    from ..networks import AnyNetwork
    from ..tasks import Task
    from ..types import Sequence


@in_float64
def compare(
    task: Task,
    transformer: AnyNetwork | None = None,
    *,
    until: float = 200.0,
    learning_rates: Sequence[float] = (0.1, 0.05, 0.025),
    points: int = 100,
    three_stage: Sequence[float] | None = None,
) -> Any:
    """Run everything from the same start to time `until` and measure its distance from the flow.

    task            a Mixture, a Sample or a FiniteTask
    transformer     the start; Transformer() if not given
    until           the end, in units of time
    learning_rates  each must divide until / points, the spacing at which trajectories are compared
    points          number of times at which trajectories are compared, at least 2
    three_stage     (neurons, attention) durations; the rest of the time is stage 3; a third each if not given

    Returns a dataset over `trajectory` and `time`: `loss`, `distance` (largest difference of w and A from the flow, any
    entry), `accuracy`; `order` is the slope of log(final distance) against log(learning rate), 1 for a first-order method.

    Raises SpecError for a rate that does not divide the spacing and for durations that leave no time, DivergedError for a
    rate that is too large.

    >>> import mixflow as mf
    >>> sides = mf.compare(mf.Mixture(classes=2), until=10.0, points=10)
    >>> round(float(sides.order), 1)
    1.0
    """
    import xarray

    transformer = checked(task, transformer, None)[0]
    until, points = real("until", until, above=0), whole("points", points, least=2)
    given = listed("learning_rates", learning_rates, "a list of learning rates, for example (0.1, 0.05)", most=1000)
    rates = [_divides(real("learning_rate", rate, above=0), until / points, points) for rate in given]
    if not rates:
        raise SpecError("learning_rates is empty: give at least one.")
    durations = (until / 3, until / 3) if three_stage is None else _durations(three_stage, until)
    found = _trajectories(task, transformer, until, rates, points, durations)
    grid = found["flow"].time.values
    w, A = ("w", "A") if "w" in found["flow"] else ("w_sector", "A_sector")

    def distance(data):
        far = [
            np.abs(data[name].values - found["flow"][name].values).reshape(len(grid), -1).max(axis=1) for name in (w, A)
        ]
        return np.maximum(*far)

    names = list(found)
    sides = xarray.Dataset(
        {
            "loss": (("trajectory", "time"), np.stack([found[name].loss.values for name in names])),
            "accuracy": (("trajectory", "time"), np.stack([found[name].accuracy.values for name in names])),
            "distance": (("trajectory", "time"), np.stack([distance(found[name]) for name in names])),
        },
        coords={"trajectory": names, "time": grid},
        attrs={"model": found["flow"].attrs["model"], "spec": found["flow"].attrs["spec"]},
    )
    final = [float(sides.distance.sel(trajectory=f"descent {rate:g}")[-1]) for rate in rates]
    sides["order"] = np.polyfit(np.log(rates), np.log(final), 1)[0] if len(rates) > 1 else math.nan
    return sides


def _trajectories(task, transformer, until, rates, points, durations):
    """{name: dataset} of every way down, on the flow's times; `durations` of the first two stages are rounded to whole steps."""
    first, second = (rates[-1] * round(duration / rates[-1]) for duration in durations)  # so the stages end at `until`
    flow = GradientFlow(until=until, save_at=tuple(np.linspace(0, until, points + 1)))
    model = "auto" if task.unlisted else "gram"

    def run(method, who=transformer):
        return train(task, who, method, model=model).dataset

    found = {"flow": run(flow)}
    for rate in rates:
        steps = round(until / rate)
        found[f"descent {rate:g}"] = run(GradientDescent(rate, steps, save_every=steps // points))
    finest = GradientDescent(rates[-1], 1, save_every=round(until / points / rates[-1]))
    found["three-stage"] = run(ThreeStage(finest, neurons=first, attention=second, converge=until - first - second))
    if not transformer.mean_field:
        found["mean-field flow"] = run(flow, changed(transformer, width=math.inf))
    grid = found["flow"].time.values
    return {name: data.sel(time=grid, method="nearest", tolerance=1e-6 * until) for name, data in found.items()}


def _durations(pair, until):
    """The two durations that were given."""
    expected = f"two durations, of the neurons' stage and the attention's, that end before until = {until:g}"
    found = listed("three_stage", pair, expected)
    if len(found) != 2:
        raise SpecError(f"three_stage = {shown(pair)}: expected {expected}.")
    first, second = (real(f"three_stage[{i}]", x, above=0) for i, x in enumerate(found))
    if first + second >= until:
        raise SpecError(f"three_stage = {shown(pair)}: expected {expected}.")
    return first, second


def _divides(rate, spacing, points):
    many = spacing / rate
    if abs(many - round(many)) > 1e-9 * many or round(many) < 1:
        raise SpecError(
            f"learning_rate = {rate:g} does not divide the spacing {spacing:g} of the {points} points compared; "
            f"choose for example {spacing / max(1, round(many)):g}."
        )
    return rate
