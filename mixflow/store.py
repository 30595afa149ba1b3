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
from .errors import StoreError
from .methods import method_from_spec
from .networks.specs import network_from_spec
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

    dataset  xarray.Dataset with time first: loss (time,), w (time, head, feature), A, G_K, G_Q (time, head, key, query),
             margin (time, atom), z (time, head, atom), …; all of it in docs/schema.md

    Raises StoreError where a file cannot be written, SpecError where atoms cannot be listed.

    >>> import mixflow as mf
    >>> run = mf.train(mf.Mixture(classes=2), mf.Transformer(omega=0.3), mf.GradientDescent(steps=200, save_every=100))
    >>> run
    <mixflow run: mixture, width inf, descent on symmetric, t = 20, loss 0.485262>
    >>> run.dataset.A.dims, run.dataset.A.shape
    (('time', 'head', 'key', 'query'), (3, 2, 4, 4))
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
        """The full specification, a dictionary: task, transformer, method, model."""
        return json.loads(self.dataset.attrs["spec"])

    @property
    def task(self):
        """The task that was trained on, built anew; raises StoreError where its images are no longer the same."""
        return task_from_spec(self.spec["task"])

    @property
    def transformer(self):
        """The specification of the network before training: a Transformer, a Variant, a Vanilla or a Network."""
        return network_from_spec(self.spec["transformer"])

    @property
    def method(self):
        """The training method: GradientDescent, GradientFlow or ThreeStage."""
        return method_from_spec(self.spec["method"])

    @functools.cached_property
    def stages(self):
        """The three detected stages: `name`, `start`, `end` (units of time, None if not found), `evidence`, `because`."""
        from .measure.stages import detect

        return detect(self.dataset)

    @property
    def events(self):
        """Flow only: every neuron switch (time, head, atom, before, after), in order of time; empty for descent."""
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
        """Three-stage only: a dictionary for each stage, what ended it and at which time; empty otherwise."""
        return json.loads(self.dataset.attrs.get("switches", "[]"))

    def expand(self):
        """A symmetric run of many classes with features and atoms written out.

        Raises SpecError where the K·2^K atoms are too many to list (K > 8).
        """
        if self.dataset.attrs["model"] != "symmetric" or "w" in self.dataset:
            return self
        return Run(expanded(self.dataset, self.task, self.transformer.bias))

    def save(self, path):
        """Write the run to one netCDF file, whole or not at all; returns the path. Raises StoreError if it cannot."""
        return save(self.dataset, path)


def load(path):
    """Read a run written by `Run.save`, verify its checksum and return the Run.

    path  of the netCDF file

    Raises StoreError for a file that is missing, truncated, altered or written by a newer schema.

    >>> import mixflow as mf, pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "run.nc"
    >>> _ = mf.train(mf.Mixture(), mf.Transformer(), mf.GradientDescent(steps=10)).save(path)
    >>> float(mf.load(path).dataset.time[-1])
    1.0
    """
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
