"""A finished sweep in one netCDF file, `results.nc`, sealed: whatever is altered in it later is noticed.

One writer, one file to copy, read by anything, and lazily by xarray; a zarr store would serve many writers at once, which a
sweep does not have, at the price of a tree of small files. Trajectories stand in one netCDF group for each group of runs,
because their lengths and features differ between groups.
"""

import os

import numpy as np

from .. import sealed
from ..engines import choose
from ..errors import StoreError
from .spec import objects


def consolidate(result):
    """Write results.nc, whole or not at all."""
    path = result.folder / "results.nc"
    temporary = result.folder / ".results.nc"
    try:
        result.table().to_netcdf(temporary, engine="h5netcdf")
        if result.plan.sweep.output["series"]:
            for g in range(len(result.plan.groups)):
                _write_series(result, g, temporary)
        sealed.seal(temporary)
        os.replace(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, StoreError):
            raise
        raise StoreError(
            f"cannot write {path}: {error.strerror or error}; finished batches are kept, make room and resume."
        ) from None


def consolidated(folder, group=None):
    """The dataset in results.nc, or in one of its groups, lazily; a StoreError where it is not what was written."""
    import xarray

    path = folder / "results.nc"
    fix = f"mixflow sweep resume {folder} writes it again"
    try:
        return xarray.open_dataset(sealed.verify(path), engine="h5netcdf", group=group, chunks={})
    except StoreError as error:
        raise StoreError(f"{str(error).removesuffix('.')}; {fix}.") from None
    except Exception as error:  # HDF5 reports a foreign file through many exception types
        raise StoreError(f"{path} is not a sweep's results ({type(error).__name__}); {fix}.") from None


def _write_series(result, g, path):
    """Append one group's trajectories to the file, a part at a time."""
    import h5netcdf

    longest, count, shared, clock = 0, 0, True, None
    for part in result.parts(g):  # first pass: how long the longest run is, and whether all runs share their times
        t = part["series_time"]
        clock = t if clock is None else clock
        shared = shared and t.ndim == 1 and np.array_equal(t, clock)
        longest, count = max(longest, t.shape[-1]), count + len(part["run"])
    if not count:
        return
    plan = result.plan
    engine = choose(*objects(plan.sweep.settings(plan.positions(plan.first[g])[0])))
    dimensions, labels = engine.variables(), engine.coordinates()
    with h5netcdf.File(path, "a") as file:
        group = file.create_group(f"group_{g}")
        along = "time" if shared else "save"
        group.dimensions = {"run": count, along: longest}
        group.create_variable("run", ("run",), np.int64)
        group.create_variable("time", ("time",) if shared else ("run", along), np.float64, fillvalue=np.nan)
        if shared:
            group.variables["time"][:] = clock
        at = 0
        for part in result.parts(g):
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
                    extra = () if dimensions[name] == "time" else dimensions[name][1:]
                    for dim, size in zip(extra, x.shape[2:], strict=True):
                        _write_coordinate(group, dim, labels.get(dim, range(size)))
                    group.create_variable(name, ("run", along, *extra), np.float64, fillvalue=np.nan)
                group.variables[name][rows, : x.shape[1]] = x
            at = rows.stop


def _write_coordinate(group, dim, labels):
    """A dimension with its labels, once."""
    import h5py

    if dim in group.dimensions:
        return
    group.dimensions[dim] = len(labels)
    group.create_variable(dim, (dim,), h5py.string_dtype(), data=np.array([str(label) for label in labels], object))
