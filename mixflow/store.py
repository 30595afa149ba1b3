"""One run, one labelled dataset, one netCDF file: named dimensions, full provenance, a checksum verified on load."""

import functools
import hashlib
import io
import json
import os
import pathlib
import tempfile
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .dataset import SCHEMA_VERSION, expanded
from .dynamics import method_from_spec
from .errors import StoreError
from .models.specs import network_from_spec
from .tasks import task_from_spec


class Event(NamedTuple):
    """One neuron's switch: `before` and `after` are "off", "on" or "sliding"."""

    time: float
    head: str
    atom: str
    before: str
    after: str


@dataclass(frozen=True, eq=False)
class Run:
    """A finished (or interrupted, or diverged) training run.

    dataset  xarray.Dataset with time first: loss, accuracy, w, A, G_K, G_Q, margin, z, …
    """

    dataset: object

    def __repr__(self):
        d, spec = self.dataset, self.spec
        width = spec["transformer"].get("width", "unknown")  # a network of the user's own need not have one
        return (
            f"<mixflow run: {spec['task']['kind']}, width {width}, {spec['method']['kind']} on {d.attrs['model']}, "
            f"t = {float(d.time[-1]):g}, loss {float(d.loss[-1]):.6g}>"
        )

    @property
    def spec(self):
        """The full specification: task, transformer, method, model."""
        return json.loads(self.dataset.attrs["spec"])

    @property
    def task(self):
        """The task that was trained on."""
        return task_from_spec(self.spec["task"])

    @property
    def transformer(self):
        """The specification of the network: a Transformer, or the Variant that was trained."""
        return network_from_spec(self.spec["transformer"])

    @property
    def method(self):
        """The training method."""
        return method_from_spec(self.spec["method"])

    @functools.cached_property
    def stages(self):
        """The detected stages: name, start, end, with the evidence for each boundary."""
        from .measure.stages import detect

        return detect(self.dataset)

    @property
    def events(self):
        """Flow only: every neuron switch (time, head, atom, before, after), in order; empty for descent."""
        data = self.dataset
        if "event_time" not in data:
            return []
        columns = [data[f"event_{name}"].values.tolist() for name in ("time", "head", "atom", "before", "after")]
        return [Event(*row) for row in zip(*columns)]

    @property
    def certificate(self):
        """Flow only: the error bound, the drift of the conserved quantities, the work done; None for descent.

        A dictionary; for three-stage flows a list of them, one for each stage.
        """
        return json.loads(self.dataset.attrs["certificate"]) if "certificate" in self.dataset.attrs else None

    @property
    def switches(self):
        """Three-stage only: what ended each stage, and when; empty otherwise."""
        return json.loads(self.dataset.attrs.get("switches", "[]"))

    def expand(self):
        """A symmetric run of many classes with features and atoms written out; possible while K·2^K atoms can be listed."""
        if self.dataset.attrs["model"] != "symmetric" or "w" in self.dataset:
            return self
        return Run(expanded(self.dataset, self.task, self.transformer.bias))

    def save(self, path):
        """Write the run to one netCDF file, whole or not at all."""
        return save(self.dataset, path)


def load(path):
    """Read a run written by `Run.save`; a truncated or altered file is a StoreError."""
    return Run(open_dataset(path))


def save(dataset, path):
    """Write `dataset` with its checksum to `path`, whole or not at all; returns the path."""
    return write_whole(path, packed(dataset))


def packed(dataset):
    """The bytes of the netCDF file, checksum included."""
    dataset = dataset.copy(deep=False)
    dataset.attrs = {**dataset.attrs, "sha256": checksum(dataset)}
    return bytes(dataset.to_netcdf(engine="h5netcdf"))


def write_whole(path, content):
    """Write bytes by way of a temporary file in the same folder, synced and renamed: never half a file."""
    path = pathlib.Path(path)
    temporary = None
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
            temporary = file.name
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except OSError as error:
        if temporary and os.path.exists(temporary):
            os.unlink(temporary)
        why = error.strerror or str(error)
        raise StoreError(f"cannot write {path}: {why}; nothing was written, choose another place.") from None
    return path


def make_folder(folder):
    """Make an output folder, or say in one sentence why not."""
    try:
        pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"cannot make the folder {folder}: {error.strerror}; choose another with --out.") from None


def open_dataset(path):
    """The dataset in `path`, in memory, after its checksum was verified."""
    import xarray

    path = pathlib.Path(path)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror}; give the path of a file written by mixflow.") from None
    try:
        dataset = xarray.load_dataset(io.BytesIO(content), engine="h5netcdf")
    except Exception as error:  # HDF5 reports a damaged file through many exception types
        raise StoreError(
            f"{path} is not a readable netCDF file ({type(error).__name__}): it is truncated or damaged."
        ) from None
    if "sha256" not in dataset.attrs or "mixflow_schema" not in dataset.attrs:
        raise StoreError(f"{path} carries no mixflow checksum: it was not written by mixflow, or it was altered.")
    stored = dataset.attrs.pop("sha256")
    if checksum(dataset) != stored:
        raise StoreError(f"{path} does not match its checksum: it was altered after it was written.")
    if dataset.attrs["mixflow_schema"] > SCHEMA_VERSION:
        raise StoreError(
            f"{path} has schema {dataset.attrs['mixflow_schema']}, newer than {SCHEMA_VERSION}: update mixflow."
        )
    return dataset


def checksum(dataset):
    """SHA-256 over every variable's name, dimensions, type and bytes and every attribute."""
    digest = hashlib.sha256()
    attributes = {key: _plain(value) for key, value in dataset.attrs.items()}
    digest.update(json.dumps(attributes, sort_keys=True).encode())
    for name in sorted(dataset.variables):
        variable = dataset.variables[name]
        values = np.asarray(variable.values)
        digest.update(json.dumps([name, list(variable.dims), list(values.shape)]).encode())
        if values.dtype.kind in "OUST":
            digest.update(json.dumps([str(x) for x in values.ravel()]).encode())
        else:
            # netCDF has no bool: compare what is stored, not how it is typed
            values = values.astype("i1") if values.dtype.kind == "b" else values
            digest.update(np.ascontiguousarray(values).astype(values.dtype.newbyteorder("<")).tobytes())
    return digest.hexdigest()


def _plain(value):
    return value.item() if isinstance(value, np.generic) else value


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask
