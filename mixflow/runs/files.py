"""One run or a batch, one netCDF file: sealed, whole or not at all, verified before it is read."""

from __future__ import annotations

import contextlib
import json
import math
import numbers
import warnings
from typing import TYPE_CHECKING

from .. import sealed
from ..checks import listed, shown
from ..errors import MixflowError, SpecError, StoreError
from .schema import SCHEMA_VERSION

if TYPE_CHECKING:
    from typing import Any

    from ..runs.batch import Runs
    from ..runs.run import Run
    from ..types import PathLike

CODE = ("answer", "neurons", "code")  # what a description says of functions


def load(path: PathLike, *, network: Any = None) -> Run | Runs:
    """Read a run written by `Run.save`, or a batch written by `Runs.save`, verify its checksum and return it.

    path     of the netCDF file
    network  what was trained, where no file brings it, a Network of one's own; for a batch a list of them

    Raises StoreError for a file that is missing, truncated, altered, written by another schema, or no run inside; SpecError
    for a network that the file does not describe.

    >>> import mixflow as mf, pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "run.nc"
    >>> _ = mf.train(mf.Mixture(), mf.Transformer(), mf.GradientDescent(steps=10)).save(path)
    >>> float(mf.load(path).dataset.time[-1])
    1.0
    """
    from .batch import Runs
    from .run import Run

    dataset = open_dataset(path)
    run = Runs(dataset, network) if "run" in dataset.dims else Run(dataset, network)
    with believed(path):
        if network is not None:
            _fits(run, network)
        _look_at(run)
    return run


@contextlib.contextmanager
def believed(path):
    """A right checksum proves that a file is whole, not that it is a run: whatever is missing in it is one sentence, too."""
    try:
        yield
    except MixflowError:
        raise
    except (LookupError, ValueError, TypeError, AttributeError, ArithmeticError) as error:
        what = f"{type(error).__name__}: {' '.join(str(error).split())[:100]}"
        raise StoreError(
            f"{sealed.said(path)} is whole but holds no run that this version understands ({what}): give a file written by "
            "mixflow."
        ) from error


def _fits(run, network):
    """SpecError if a given network is not the one that a run describes, names of functions aside."""
    single = "transformer" in run.spec
    described = [run.spec["transformer"]] if single else run.spec["transformers"]
    networks = [network] if single else listed("network", network, f"a list of {len(described)} networks")
    if len(networks) != len(described):
        raise SpecError(f"network has {len(networks)} networks: expected {len(described)}, one for each run.")
    for one, known in zip(networks, described, strict=True):
        if not hasattr(one, "spec"):
            raise SpecError(f"network = {shown(one)}: expected the Network that was trained.")
        given = json.loads(json.dumps(one.spec()))
        apart = [name for name in {**known, **given} if name not in CODE and known.get(name) != given.get(name)]
        if apart:
            raise SpecError(
                f"network has {apart[0]} = {given.get(apart[0])!r:.60}, but the run was trained with "
                f"{known.get(apart[0])!r:.60}: give the network that was trained."
            )


def _look_at(run):
    """What a reader looks at first; an answer in one sentence is one, too."""
    from ..summary import summary, table
    from .run import Run

    _told(run.dataset)
    one = run if isinstance(run, Run) else run[0]
    looks = (
        lambda: (repr(run), run._repr_html_()),
        lambda: (repr(one), one.events, one.certificate, one.switches),
        lambda: summary(one, provenance=True),
        lambda: table(one, provenance=True),
        lambda: _trained(one) and one.engine.at(one.dataset, -1)["w"],
        lambda: _stepped(one) and _counted(run.dataset.step),
    )
    for look in looks:
        with contextlib.suppress(MixflowError):
            look()


def _told(dataset):
    """ValueError for an attribute that no run has: of another kind, out of its range, or against the others."""
    told, spec = dataset.attrs, json.loads(dataset.attrs["spec"])
    right = {
        "wall_time": lambda x: isinstance(x, numbers.Real) and 0 <= x < math.inf,
        "precision": lambda x: x == "float64",
        "seed": lambda x: isinstance(x, numbers.Real) and x >= 0,  # beyond int64 a float
        "finished": lambda x: isinstance(x, numbers.Integral) and x in (0, 1),
        "steps_done": lambda x: isinstance(x, numbers.Integral) and x == int(dataset["step"].values.max()),
        "model": lambda x: x == spec.get("model", x),
    }
    for name, fits in right.items():
        if name in told and not fits(told[name]):
            raise ValueError(f"{name} = {told[name]!r:.40}")


def _trained(run):
    """Whether a run has a Gram state that was trained: a construction was written down."""
    return hasattr(run.method, "inner") and run.transformer.no_closure is None


def _stepped(run):
    """Whether a run was trained by steps, which its saves are counted in."""
    return hasattr(run.method, "inner") and not run.method.flows


def _counted(step):
    """ValueError unless each save, of a run or of every run of a batch, has the whole number of its step."""
    if step.dims not in (("time",), ("run", "save")) or step.dtype.kind != "i":
        raise ValueError(f"step is {step.dtype} along {', '.join(map(str, step.dims)) or 'nothing'}")
    if step.dims == ("time",) and (step.diff("time") <= 0).any():
        raise ValueError("step does not increase")


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
    if not isinstance(schema, numbers.Integral):
        raise StoreError(f"{path} holds no run: it was not written by Run.save.")
    if schema != SCHEMA_VERSION:
        which = "newer" if schema > SCHEMA_VERSION else "older"
        raise StoreError(f"{path} has schema {schema}, {which} than {SCHEMA_VERSION}: use the version that wrote it.")
    return dataset
