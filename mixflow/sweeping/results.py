"""Finished batches as one labelled dataset over the whole sweep, opened lazily.

While a sweep runs, the dataset is read from its manifest; once every batch is decided, from the one file of `consolidated`.
"""

from __future__ import annotations

import json
import pathlib
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from .. import display, sealed
from ..errors import SpecError, StoreError
from .consolidated import consolidated
from .manifest import DONE, FAILED, Manifest, owner
from .plan import Plan
from .spec import Sweep
from .work import unpack

if TYPE_CHECKING:
    from ..types import PathLike


@dataclass(frozen=True, eq=False)
class SweepResult:
    """A sweep's folder: `dataset`, `grid()`, `trajectories(group)`, `failed`, `status()`."""

    folder: pathlib.Path
    plan: Plan
    manifest: Manifest

    def _repr_html_(self):
        return display.sweep(self)

    def __repr__(self):
        s = self.status()
        return (
            f"<mixflow sweep: {s['runs_done']} of {s['runs']} runs, {len(self.failed)} batches failed, {self.folder}>"
        )

    @cached_property
    def state(self):
        """WAITING, DONE or FAILED of every batch when it was first asked."""
        return self.manifest.state(self.plan.batches)

    @cached_property
    def failed(self):
        """{batch: error} of the batches that were given up."""
        return self.manifest.errors()

    @property
    def complete(self):
        """Whether every batch is finished."""
        return bool((self.state == DONE).all())

    @cached_property
    def dataset(self):
        """One row for each finished run, with every swept field as a coordinate."""
        return consolidated(self.folder) if (self.folder / "results.nc").exists() else self.table()

    def grid(self, *names):
        """The chosen variables with one dimension for each axis of the sweep; NaN where a run is missing."""
        import xarray

        data, sweep = self.dataset, self.plan.sweep
        labels = field_names(sweep)
        for name in names:
            if name not in data:
                raise SpecError(f"{name!r} is not in the results: expected one of {', '.join(data.data_vars)}.")
        dims = [labels[axis.fields[0]] if len(axis.fields) == 1 else axis.kind for axis in sweep.axes]
        coords = {}
        for dim, axis in zip(dims, sweep.axes):
            for field, column in axis.columns.items():
                coords[labels[field]] = (dim, column.labels())
        found = {}
        for name in names or [n for n in data.data_vars if data[n].dims == ("run",) and data[n].dtype.kind in "fib"]:
            values = data[name].values
            full = np.full((int(np.prod(sweep.shape, dtype=np.int64)), *values.shape[1:]), np.nan)
            full[data["run"].values] = values
            self._spread(full, values)
            found[name] = ((*dims, *data[name].dims[1:]), full.reshape(*sweep.shape, *values.shape[1:]))
        extra = {c: data[c] for c in data.coords if c not in coords and "run" not in data[c].dims}
        return xarray.Dataset(found, coords={**coords, **extra})

    def _spread(self, full, values):
        """Points that are the same run (seeds at infinite width) show its numbers everywhere."""
        shape = self.plan.sweep.shape
        cube = full.reshape(*shape, *values.shape[1:])
        for group in self.plan.groups:
            if group.same:
                wide = [np.arange(shape[a]) if a in group.same else i for a, i in enumerate(group.indices)]
                cube[np.ix_(*wide)] = cube[np.ix_(*group.indices)]

    def trajectories(self, group=0):
        """The kept series of one group of runs, (run, time, …), lazily."""
        if not self.plan.sweep.output["series"]:
            raise SpecError(
                "this sweep kept no trajectories: set output.series, for example ['loss'], and sweep again."
            )
        if not 0 <= group < len(self.plan.groups):
            raise SpecError(f"group = {group}: expected 0 to {len(self.plan.groups) - 1}.")
        if not (self.folder / "results.nc").exists():
            raise StoreError(f"{self.folder} is not finished: trajectories can be opened once every batch is decided.")
        return consolidated(self.folder, f"group_{group}")

    def status(self):
        """Counts, rate and time left, JSON-ready."""
        plan, sizes, times = self.plan, self.plan.sizes(), self.manifest.times()
        done, failed = self.state == DONE, self.state == FAILED
        runs = {"runs": plan.runs, "runs_done": int(sizes[done].sum()), "runs_failed": int(sizes[failed].sum())}
        core_seconds = float(sum(seconds for _, _, seconds, _ in times))
        left = float(np.sum(sizes[~done & ~failed])) / max(runs["runs_done"], 1) * core_seconds
        return {
            "folder": str(self.folder),
            "name": plan.sweep.name,
            **runs,
            "batches": plan.batches,
            "batches_done": int(done.sum()),
            "failed": {str(batch): error for batch, error in self.failed.items()},
            "bytes": self.manifest.bytes(),
            "core_seconds": core_seconds,
            "core_seconds_left": left,
            "elapsed": times[-1][1] - times[0][1] if times else 0.0,
            "running": owner(self.folder),
            "consolidated": (self.folder / "results.nc").exists(),
        }

    def table(self):
        """The reductions of every finished run in order, from the manifest; a part that fails its checksum is a StoreError."""
        import xarray

        sweep = self.plan.sweep
        rows = [{name: x for name, x in part.items() if not name.startswith("series_")} for part in self.parts()]
        if not rows:
            fix = f"run mixflow sweep resume {self.folder}."
            for batch, error in self.failed.items():
                why = f"batch {batch} failed with {error.removesuffix('.')}; mend what it names and"
                raise StoreError(f"no batch of {self.folder} could be computed: {why} {fix}")
            raise StoreError(f"{self.folder} has no finished batch yet: {fix}")
        columns = {}
        for name in dict.fromkeys(name for row in rows for name in row):
            columns[name] = np.concatenate([row.get(name, np.full(len(row["run"]), np.nan)) for row in rows])
        order = np.argsort(columns["run"], kind="stable")
        columns = {name: values[order] for name, values in columns.items()}
        run = columns.pop("run")
        positions = np.unravel_index(run, sweep.shape) if sweep.axes else ()
        names = field_names(sweep)
        coords = {"run": run, "model": ("run", columns.pop("model"))}
        for axis, where in zip(sweep.axes, positions):
            for field, column in axis.columns.items():
                coords[names[field]] = ("run", column.labels()[where])
        attrs = {"sweep": json.dumps(sweep.describe()), "fingerprint": sweep.fingerprint, "name": sweep.name}
        return xarray.Dataset({name: ("run", values) for name, values in columns.items()}, coords=coords, attrs=attrs)

    def parts(self, group=None):
        """The arrays of every finished batch, or of one group's, in order."""
        ends = (0, None) if group is None else self.plan.first[group : group + 2]
        for number, content in self.manifest.parts(*ends):
            if content is None:
                raise StoreError(
                    f"batch {number} in {self.manifest.path} does not match its checksum: mixflow sweep resume {self.folder} "
                    "computes it again."
                )
            yield self._part(number, content)

    def _part(self, number, content):
        """The arrays of a batch; whoever forges its checksum, too, is told that it is none of this sweep."""
        try:
            part = unpack(content)
            columns = [x for name, x in part.items() if not name.startswith("series_")]
            if np.array_equal(part["run"], self.plan.numbers(number)) and {x.shape for x in columns} == {
                part["run"].shape
            }:
                return part
        except Exception:  # numpy reports a foreign file through many exception types
            pass
        raise StoreError(
            f"batch {number} in {self.manifest.path} is none of this sweep: restore it, or sweep again elsewhere."
        )

    def export(self, path):
        """Write the table to a .nc or .csv file of its own."""
        path, data = pathlib.Path(path), self.dataset.load()
        if path.suffix == ".csv":
            return sealed.write_whole(path, data.to_dataframe().to_csv().encode())
        if path.suffix == ".nc":
            return sealed.write_whole(path, sealed.pack(bytes(data.to_netcdf(engine="h5netcdf"))))
        raise SpecError(f"cannot export to {path}: its name must end in .nc or .csv.")


def open_sweep(folder: PathLike) -> SweepResult:
    """The results in a sweep's folder, finished or not; reading disturbs nobody who is still working on it.

    folder  path of the sweep's folder, the `out` of `sweep`

    Returns a SweepResult: `dataset` (run, …), `grid()` with one dimension for each axis, `trajectories()`, `failed`, `status()`.
    Raises StoreError where there is no sweep, or one that cannot be read.

    >>> import mixflow as mf
    >>> mf.open_sweep("no-such-folder")
    Traceback (most recent call last):
    mixflow.errors.StoreError: no-such-folder holds no sweep: expected a folder written by mixflow sweep … --out.
    """
    folder = sealed.as_path(folder)
    manifest = Manifest(folder)
    return SweepResult(folder, Plan(described_in(manifest)), manifest)


def described_in(manifest):
    """The sweep that a manifest is of; a StoreError if it is not what was written."""
    try:
        sweep = Sweep(manifest.fact("sweep"))
        if sweep.fingerprint == manifest.fact("fingerprint"):
            return sweep
        why = "another numpy may draw other random values"
    except SpecError as error:
        why = str(error)
    raise StoreError(
        f"{manifest.path} does not describe the sweep it holds ({why}): restore it, or use the versions it names."
    )


def field_names(sweep):
    """{field: name in the dataset}: the last word, or the whole name with underscores where two fields share it."""
    fields = [field for axis in sweep.axes for field in axis.fields]
    short = [field.split(".")[-1] for field in fields]
    taken = {"model", "run", "time", "level", "loss", "accuracy"}
    clash = {word for word in short if short.count(word) > 1 or word in taken}
    return {f: f.replace(".", "_") if s in clash else s for f, s in zip(fields, short)}


def status_text(status):
    """The status for people."""
    s = status
    lines = [f"{s['folder']}{': ' + s['name'] if s['name'] else ''}"]
    lines.append(
        f"runs      {s['runs_done']} of {s['runs']} done" + (f", {s['runs_failed']} failed" if s["runs_failed"] else "")
    )
    lines.append(f"batches   {s['batches_done']} of {s['batches']}, {s['bytes'] / 1e6:.3g} MB")
    rate = s["runs_done"] / s["core_seconds"] if s["core_seconds"] else 0.0
    lines.append(f"rate      {rate:.3g} runs per core-second, {s['core_seconds_left']:.0f} core-seconds left")
    lines.append(f"client    {s['running'] or 'none is working on it'}")
    lines += [f"batch {batch} failed: {error}" for batch, error in s["failed"].items()]
    return "\n".join(lines)
