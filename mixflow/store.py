"""One run, one labelled dataset, one netCDF file: named dimensions, full provenance, a checksum verified on load."""

import functools
import json
import warnings
from dataclasses import dataclass
from typing import NamedTuple

from . import display, sealed
from .dataset import SCHEMA_VERSION, expanded
from .errors import SpecError, StoreError
from .methods import method_from_spec
from .networks.specs import network_from_spec
from .sealed import make_folder, write_whole  # noqa: F401 (other rooms take them from here)
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

    def _repr_html_(self):
        return display.run(self)

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

        return display.Rows(detect(self.dataset), display.stages)

    @property
    def events(self):
        """Flow only: every neuron switch (time, head, atom, before, after), in order of time; empty for descent."""
        data = self.dataset
        if "event_time" not in data:
            return []
        columns = [data[f"event_{name}"].values.tolist() for name in ("time", "head", "atom", "before", "after")]
        return display.Rows([Event(*row) for row in zip(*columns)], display.events)

    @property
    def certificate(self):
        """Flow only: the error bound, the drift of the conserved quantities, the work done; None for descent.

        A dictionary; for three-stage flows a list of them, one for each stage.
        """
        return display.facts(json.loads(self.dataset.attrs.get("certificate", "null")))

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

    def weights(self, time=None):
        """The weights after the last step of a run with model="full", by name: w (head, d), W_K and W_Q (head, m, d).

        Raises SpecError for runs that keep inner products only, and for another time than the last.
        """
        data, last = self.dataset, float(self.dataset.time[-1])
        if "final_W_K" not in data:
            raise SpecError("the run keeps inner products, no weights: train it at finite width with model='full'.")
        if time is not None and float(time) != last:
            raise SpecError(f"time = {float(time):g}: the weights of this run are kept at its end, {last:g}, only.")
        return {name: data[f"final_{name}"].values for name in ("w", "W_K", "W_Q")}

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
    """Write `dataset`, sealed, to `path`, whole or not at all; returns the path."""
    return write_whole(path, packed(dataset))


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
    if not schema <= SCHEMA_VERSION:
        raise StoreError(f"{path} has schema {schema}, newer than {SCHEMA_VERSION}: update mixflow.")
    return dataset
