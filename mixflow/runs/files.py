"""One run or a batch, one netCDF file: sealed, whole or not at all, verified before it is read."""

import warnings

from .. import sealed
from ..errors import StoreError
from .schema import SCHEMA_VERSION


def load(path):
    """Read a run written by `Run.save`, or a batch written by `Runs.save`, verify its checksum and return it.

    path  of the netCDF file

    Raises StoreError for a file that is missing, truncated, altered or written by another schema.

    >>> import mixflow as mf, pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "run.nc"
    >>> _ = mf.train(mf.Mixture(), mf.Transformer(), mf.GradientDescent(steps=10)).save(path)
    >>> float(mf.load(path).dataset.time[-1])
    1.0
    """
    from .batch import Runs
    from .run import Run

    dataset = open_dataset(path)
    return Runs(dataset) if "run" in dataset.dims else Run(dataset)


def save(dataset, path):
    """Write `dataset`, sealed, to `path`, whole or not at all; returns the path."""
    return sealed.write_whole(path, packed(dataset))


def packed(dataset):
    """The bytes of the netCDF file, checksum included."""
    return sealed.pack(bytes(dataset.to_netcdf(engine="h5netcdf")))


def open_dataset(path):
    """The dataset in `path`, in memory, after the checksum of the file's bytes was verified."""
    with warnings.catch_warnings():  # xarray adds a filter of its own whenever it reads
        dataset = sealed.dataset(sealed.read(path), path)
    schema = dataset.attrs.get("mixflow_schema")
    if schema is None:
        raise StoreError(f"{path} holds no run: it was not written by Run.save.")
    if schema != SCHEMA_VERSION:
        which = "newer" if schema > SCHEMA_VERSION else "older"
        raise StoreError(f"{path} has schema {schema}, {which} than {SCHEMA_VERSION}: use the version that wrote it.")
    return dataset
