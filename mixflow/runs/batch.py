"""A batch of runs as one labelled dataset with a leading dimension `run`."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .. import display
from ..checks import shown
from ..errors import SpecError
from ..measure.stages import stamped
from ..provenance import provenance
from .files import save
from .run import Run
from .schema import SCHEMA_VERSION, ended, labelled, split

if TYPE_CHECKING:
    from typing import Any

    import xarray

    from ..measure.stages import Stage
    from ..types import Path, PathLike, Sequence


@dataclass(frozen=True, eq=False)
class Runs:
    """A batch of runs of one task and method; `runs[i]` is member i as a Run, `runs[:2]` the first two as Runs.

    dataset   as a Run's, A (time, head, key, query), with a leading dimension `run`: loss (run, time), …; and for each member
              its seed, width, omega, bias, model, the number of its events and, where it diverged, the step (else -1).
              Where members end at different times (stages that end at events) the saves are numbered instead, loss (run, save),
              with time (run, save). What only some members record is NaN for the others, and missing in `runs[i]`.
    networks  the very networks that were trained, if known, as of a Run

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
        if isinstance(i, slice):
            return self._some(np.arange(len(self))[i])
        if not -len(self) <= i < len(self):
            raise IndexError(f"run {i} of a batch of {len(self)}")
        one = self.dataset.isel(run=i)
        i = int(one.run)
        members = json.loads(self.dataset.attrs.get("members", "{}"))  # files of earlier versions have none
        about = members[i] if members else {"lacks": [], "sizes": {}}
        sizes = {dim: slice(size) for dim, size in about.pop("sizes").items()}
        one = one.drop_vars(about.pop("lacks")).isel(sizes, missing_dims="ignore")
        used = {dim for name in one.data_vars for dim in one[name].dims}
        one = one.drop_vars([name for name in one.coords if not used.issuperset(one[name].dims)])
        for name in one.data_vars:
            if one[name].dtype == object and not one[name].size:  # of which a file could not know that it is of strings
                one[name] = one[name].astype("U1")
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
        seed = own["transformer"].get("seed", int(one.seed))  # a read-out's is its network's
        one = one.drop_vars(names)
        one.attrs = {
            **{name: value for name, value in self.dataset.attrs.items() if name != "members"},
            **about,
            "spec": json.dumps(own),
            "model": model,
            "seed": str(seed) if seed >= 2**63 else seed,
        }
        if "stages" in one.attrs:
            one.attrs["stages"] = json.dumps(json.loads(one.attrs["stages"])[i])
        return Run(one, None if self.networks is None else self.networks[i])

    def _some(self, chosen):
        """The members with these numbers as a batch of their own."""
        if not len(chosen):
            raise SpecError(f"the slice has none of the {len(self)} runs: expected at least one of them.")
        data = self.dataset.isel(run=chosen)
        data.attrs = dict(data.attrs)
        chosen, spec = data.run.values, self.spec
        spec["transformers"] = [spec["transformers"][i] for i in chosen]
        data.attrs["spec"] = json.dumps(spec)
        for name in {"members", "stages"} & set(data.attrs):
            each = json.loads(data.attrs[name])
            data.attrs[name] = json.dumps([each[i] for i in chosen])
        networks = None if self.networks is None else [self.networks[i] for i in chosen]
        return Runs(data.assign_coords(run=np.arange(len(chosen))), networks)

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


def one_schema(engines):
    """SpecError, before anything is computed, where two of them name the same variable's dimensions or labels differently."""
    kinds = {engine.key: i for i, engine in reversed(list(enumerate(engines)))}
    known = {}
    for i in sorted(kinds.values()) if len(kinds) > 1 else ():
        labels = engines[i].coordinates()
        for name, dims in engines[i].variables().items():
            dims = (dims,) if isinstance(dims, str) else dims
            used = {dim: list(labels[dim]) for dim in dims if dim in labels}
            first, others, theirs = known.setdefault(name, (i, dims, used))
            if (others, theirs) != (dims, used):
                what = f"{name} has dimensions {others} and {dims}"
                for dim in used if others == dims else ():
                    if theirs[dim] != used[dim]:
                        what = f"{dim} is {shown(theirs[dim])} and {shown(used[dim])}"
                raise SpecError(
                    f"networks[{first}] and networks[{i}] record different things, {what}: expected networks whose variables "
                    "have the same labels; call train_many once for each kind."
                )


def batch(engines, networks, outcomes, method, *, wall_time):
    """The dataset of a batch: what members measure, stacked along `run`; NaN where a member does not, or has ended."""
    whole = [outcome.time for outcome in outcomes if outcome.last.ended == "end"] or [
        outcome.time for outcome in outcomes
    ]
    longest = max(whole, key=len)
    shared = all(np.array_equal(time, longest) for time in whole)
    times, measured, ends = [], [], []
    for engine, network, outcome in zip(engines, networks, outcomes, strict=True):
        time, history = outcome.time, outcome.history if len(outcome.time) else {}
        if (
            outcome.last.ended != "end" and shared
        ):  # a member that failed has the time of its failure besides the common saves
            kept = np.isin(time, longest)
            time, history = time[kept], {name: x[kept] for name, x in history.items()}
        times.append(time)
        measured.append(engine.measure(history, network) | split(engine.task) if len(time) else {})
        ends.append(ended(engine, method, outcome))
    longest = longest if shared else max(times, key=len)
    variables, members = _stacked(measured, [carried for carried, _ in ends], len(longest))
    labels = {}
    for engine in {engine.key: engine for engine in engines}.values():
        labels = engine.coordinates() | labels
    data = labelled(labels, variables, time=longest)
    steps = [outcome.step for outcome in outcomes if outcome.step is not None]
    if shared:
        data = data.assign_coords(step=("time", max(steps, key=len))) if steps else data
    else:
        own = {"time": _padded(times, (len(longest),))} | ({"step": _padded(steps, (len(longest),))} if steps else {})
        data = data.rename_dims(time="save").drop_vars("time")
        data = data.assign_coords({name: (("run", "save"), x) for name, x in own.items()})
    spec = {"task": engines[0].task.spec(), "transformers": [n.spec() for n in networks], "method": method.spec()}
    data.attrs = {"mixflow_schema": SCHEMA_VERSION, "spec": json.dumps(spec), "wall_time": wall_time, **provenance()}
    data.attrs["members"] = json.dumps([about | more for about, (_, more) in zip(members, ends, strict=True)])
    if method.flows:
        seen = [stamped(outcome.stages, time) for outcome, time in zip(outcomes, times, strict=True)]
        data.attrs["stages"] = json.dumps(seen, allow_nan=False)
    known = _members(engines, networks, outcomes)
    return data.assign_coords(
        run=np.arange(len(networks)), **{name: x for name, x in known.items() if name not in data}
    )


def _stacked(measured, carried, saves):
    """({variable: (dimensions, values)} of all members, what each lacks of them and the sizes of its own axes)."""
    variables, members = {}, [{"lacks": [], "sizes": {}} for _ in measured]
    for group in (measured, carried):
        for name in dict.fromkeys(name for each in group for name in each):
            found = [each.get(name) for each in group]
            dims = next(each[0] for each in found if each is not None)
            dims = (dims,) if isinstance(dims, str) else dims
            values = [None if each is None else np.asarray(each[1]) for each in found]
            for about, value, each in zip(members, values, group, strict=True):
                if value is None and (each or group is carried):  # a member that failed at once has all, and no time
                    about["lacks"].append(name)
            timed, known = dims[:1] == ("time",), [value for value in values if value is not None]
            if group is measured and not timed and all(np.array_equal(x, known[0]) for x in known):
                variables[name] = (dims, known[0])
                continue
            shape = [max(sizes) for sizes in zip(*(x.shape for x in known))]
            for about, value in zip(members, values, strict=True):
                if value is not None:
                    pairs = zip(dims, value.shape, shape)
                    about["sizes"] |= {dim: size for dim, size, most in pairs if size < most and dim != "time"}
            values = _padded(values, [saves, *shape[1:]] if timed else shape, float if timed else None)
            variables[name] = (("run", *dims), values)
    return variables, members


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


def _padded(values, shape, dtype=None):
    """Arrays of at most this shape as one, (len(values), *shape); beyond the end of each NaN, an empty string, or zero."""
    known = [x.astype(str) if x.dtype == object else x for x in values if x is not None]
    dtype = np.result_type(*known) if dtype is None else np.dtype(dtype)
    if len(known) == len(values) and all(x.shape == tuple(shape) for x in known):
        return np.stack(known).astype(dtype, copy=False)
    out = np.full((len(values), *shape), np.nan if dtype.kind == "f" else dtype.type(), dtype)
    for i, value in enumerate(values):
        if value is not None:
            out[(i, *(slice(size) for size in value.shape))] = value
    return out
