"""A batch of runs as one labelled dataset with a leading dimension `run`."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .. import display
from ..measure.stages import stamped
from ..provenance import provenance
from .files import save
from .run import Run
from .schema import SCHEMA_VERSION, labelled

if TYPE_CHECKING:
    from typing import Any

    import xarray

    from ..measure.stages import Stage
    from ..types import Path, PathLike, Sequence


@dataclass(frozen=True, eq=False)
class Runs:
    """A batch of runs of one task and method; `runs[i]` is member i as a Run.

    dataset  as a Run's, A (time, head, key, query), with a leading dimension `run`: loss (run, time), …; and for each member
             its seed, width, omega, bias, model, the number of its events and, where it diverged, the step (else -1).
             Where members end at different times (stages that end at events) the saves are numbered instead, loss (run, save),
             with time (run, save).
    networks the very networks that were trained, if known, as of a Run

    Raises StoreError where a file cannot be written.

    >>> import mixflow as mf
    >>> seeds = [mf.Transformer(width=8, seed=seed) for seed in range(3)]
    >>> runs = mf.train_many(mf.Mixture(), seeds, mf.GradientDescent(steps=100, save_every=50))
    >>> runs.dataset.loss.shape, len(runs), runs[2].transformer.seed
    ((3, 3), 3, 2)
    """

    dataset: xarray.Dataset
    networks: Sequence[Any] | None = None

    def __len__(self):
        return self.dataset.sizes["run"]

    def _repr_html_(self):
        return display.runs(self)

    def __repr__(self):
        d, spec = self.dataset, self.spec
        loss = d.loss.values.reshape(len(self), -1)
        last = [row[np.isfinite(row)][-1] if np.isfinite(row).any() else np.nan for row in loss]
        return (
            f"<{len(self)} mixflow runs: {spec['task']['kind']}, {spec['method']['kind']}, "
            f"loss {np.nanmin(last):.4g} to {np.nanmax(last):.4g}>"
        )

    def __getitem__(self, i):
        if not -len(self) <= i < len(self):
            raise IndexError(f"run {i} of a batch of {len(self)}")
        one = self.dataset.isel(run=i)
        i = int(one.run)
        if "save" in one.dims:
            one = (
                one.swap_dims(save="time").reset_coords("save", drop=True)
                if "save" in one.coords
                else one.swap_dims(save="time")
            )
        one = one.isel(time=np.isfinite(one.loss.values))
        spec = self.spec
        model = str(one.model.values)
        own = {"task": spec["task"], "transformer": spec["transformers"][i], "method": spec["method"], "model": model}
        names = [name for name in one.coords if name not in one.dims and one[name].dims == () and name != "step"]
        one = one.drop_vars(names)
        one.attrs = {
            **self.dataset.attrs,
            "spec": json.dumps(own),
            "model": model,
            "seed": own["transformer"].get("seed", 0),
        }
        if "stages" in one.attrs:
            one.attrs["stages"] = json.dumps(json.loads(one.attrs["stages"])[i])
        return Run(one, None if self.networks is None else self.networks[i])

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    @property
    def spec(self) -> dict[str, Any]:
        """The full specification, a dictionary: task, transformers, method."""
        return json.loads(self.dataset.attrs["spec"])

    @functools.cached_property
    def stages(self) -> list[list[Stage]]:
        """The detected stages of each run."""
        return [run.stages for run in self]

    def save(self, path: PathLike) -> Path:
        """Write the batch to one netCDF file, whole or not at all; returns the path. Raises StoreError if it cannot."""
        return save(self.dataset, path)


def batch(engines, networks, outcomes, method, *, wall_time):
    """The dataset of a batch: what every member measures, stacked along `run`, NaN where a member has ended before others."""
    whole = [outcome.time for outcome in outcomes if outcome.last.ended == "end"] or [
        outcome.time for outcome in outcomes
    ]
    longest = max(whole, key=len)
    shared = all(np.array_equal(time, longest) for time in whole)
    times, measured = [], []
    for engine, network, outcome in zip(engines, networks, outcomes, strict=True):
        time, history = outcome.time, outcome.history if len(outcome.time) else {}
        if (
            outcome.last.ended != "end" and shared
        ):  # a member that failed has the time of its failure besides the common saves
            kept = np.isin(time, longest)
            time, history = time[kept], {name: x[kept] for name, x in history.items()}
        times.append(time)
        measured.append(engine.measure(history, network) if len(time) else {})
    longest = longest if shared else max(times, key=len)
    names = [name for name in max(measured, key=len) if all(name in each for each in measured if each)]
    variables = {}
    for name in names:
        dims = next(each[name][0] for each in measured if each)
        dims = (dims,) if isinstance(dims, str) else dims
        values = [each[name][1] if each else None for each in measured]
        if dims[:1] == ("time",):
            values = _padded(values, len(longest))
            variables[name] = (("run", *dims), values)
        elif all(value is not None and np.array_equal(value, values[0]) for value in values):
            variables[name] = (dims, values[0])
    data = labelled(engines[int(np.argmax([len(t) for t in times]))], variables, time=longest)
    if shared:
        step = max((outcome.step for outcome in outcomes if outcome.step is not None), key=len, default=None)
        data = data if step is None else data.assign_coords(step=("time", step))
    else:
        own = np.stack([np.append(t, np.full(len(longest) - len(t), np.nan)) for t in times])
        data = data.rename_dims(time="save").drop_vars("time").assign_coords(time=(("run", "save"), own))
    spec = {"task": engines[0].task.spec(), "transformers": [n.spec() for n in networks], "method": method.spec()}
    data.attrs = {"mixflow_schema": SCHEMA_VERSION, "spec": json.dumps(spec), "wall_time": wall_time, **provenance()}
    if method.flows:
        kept = [stamped(outcome.stages, time) for outcome, time in zip(outcomes, times, strict=True)]
        data.attrs["stages"] = json.dumps(kept, allow_nan=False)
    return data.assign_coords(run=np.arange(len(networks)), **_members(engines, networks, outcomes))


def _members(engines, networks, outcomes):
    """What is known of each member, along `run`."""
    numbers = [name for name in ("width", "omega", "bias") if all(hasattr(n, name) for n in networks)]
    found = {name: ("run", [float(getattr(n, name)) for n in networks]) for name in numbers}
    found["seed"] = ("run", [float(n.seed) if n.seed >= 2**63 else n.seed for n in networks])
    found["model"] = ("run", [engine.name for engine in engines])
    found["diverged_step"] = ("run", [_ended(outcome.last) for outcome in outcomes])
    found["events"] = ("run", [len(outcome.events) for outcome in outcomes])
    return found


def _ended(part):
    """The step at which a member diverged, 0 for a flow that did, -1 if none."""
    if part.diverged is not None:
        return part.diverged
    return -1 if part.error is None else 0


def _padded(values, length):
    shape = next(value.shape for value in values if value is not None)[1:]
    out = np.full((len(values), length, *shape), np.nan)
    for row, value in zip(out, values, strict=True):
        if value is not None:
            row[: len(value)] = value
    return out
