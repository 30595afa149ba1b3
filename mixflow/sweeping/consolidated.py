"""A finished sweep in one netCDF file, `results.nc`.

One writer, one file to copy, read by anything, and lazily by xarray; a zarr store would serve many writers at once, which a
sweep does not have, at the price of a tree of small files. Trajectories stand in one netCDF group for each group of runs,
because their lengths and features differ between groups.
"""

import os

import numpy as np

from ..errors import StoreError
from .fields import make
from .manifest import DONE, sync_folder
from .results import table
from .trajectories import coordinate, dimensions
from .work import unpack


def consolidate(result):
    """Write results.nc, whole or not at all."""
    path = result.folder / "results.nc"
    temporary = result.folder / f".results.nc.{os.getpid()}"
    if not (result.manifest.state == DONE).any():
        return None
    try:
        table(result).to_netcdf(temporary, engine="h5netcdf")
        if result.plan.sweep.output["series"]:
            for g in range(len(result.plan.groups)):
                _write_series(result, g, temporary)
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
        sync_folder(result.folder)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, StoreError):
            raise
        raise StoreError(
            f"cannot write {path}: {error.strerror or error}; every batch is kept, make room and run the same command."
        ) from None
    return path


def _write_series(result, g, path):
    """Append one group's trajectories to the file, a part at a time."""
    import h5netcdf

    plan, manifest = result.plan, result.manifest
    batches = [b for b in range(plan.first[g], plan.first[g + 1]) if manifest.state[b] == DONE]
    if not batches:
        return
    longest, shared, clock = 0, True, None
    for batch in batches:  # first pass: how long the longest run is, and whether all runs share their times
        t = unpack(manifest.read(batch))["series_time"]
        clock = t if clock is None else clock
        shared = shared and t.ndim == 1 and np.array_equal(t, clock)
        longest = max(longest, t.shape[-1])
    count = sum(plan.size(batch) for batch in batches)
    task = make("task", plan.job(batches[0])["task"])
    with h5netcdf.File(path, "a") as file:
        group = file.create_group(f"group_{g}")
        along = "time" if shared else "save"
        group.dimensions = {"run": count, along: longest}
        group.create_variable("run", ("run",), np.int64)
        group.create_variable("time", ("time",) if shared else ("run", along), np.float64, fillvalue=np.nan)
        if shared:
            group.variables["time"][:] = clock
        at = 0
        for batch in batches:
            part = unpack(manifest.read(batch))
            rows = slice(at, at + len(part["run"]))
            group.variables["run"][rows] = part["run"]
            t = part["series_time"]
            if not shared:
                group.variables["time"][rows, : t.shape[-1]] = np.broadcast_to(t, (len(part["run"]), t.shape[-1]))
            for name in result.plan.sweep.output["series"]:
                if f"series_{name}" not in part:
                    continue
                x = part[f"series_{name}"]
                if name not in group.variables:
                    extra = dimensions(name, task, plan.groups[g].engine)
                    for dim in extra:
                        _write_coordinate(group, dim, coordinate(dim, task))
                    group.create_variable(name, ("run", along, *extra), np.float64, fillvalue=np.nan)
                group.variables[name][rows, : x.shape[1]] = x
            at = rows.stop


def _write_coordinate(group, dim, labels):
    """A dimension with its labels, once."""
    import h5py

    if dim in group.dimensions:
        return
    group.dimensions[dim] = len(labels)
    group.create_variable(dim, (dim,), h5py.string_dtype(), data=np.array(labels, object))
