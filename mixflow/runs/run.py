"""One run: the labelled dataset, its stages, events, weights, files."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from .. import display
from ..engines import choose
from ..jaxed import in_float64
from ..methods import method_from_spec
from ..networks.specs import network_from_spec
from ..tasks import task_from_spec
from .files import save
from .schema import labelled

if TYPE_CHECKING:
    from typing import Any

    import xarray

    from ..engines.base import Engine
    from ..measure.stages import Stage
    from ..methods.until import Until
    from ..types import Figure, Path, PathLike, Sequence, Shown, Weights


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
    network  the very network that was trained, if known: a file has its description only

    Raises StoreError where a file cannot be written, SpecError where atoms cannot be listed.

    >>> import mixflow as mf
    >>> run = mf.train(mf.Mixture(classes=2), mf.Transformer(omega=0.3), mf.GradientDescent(steps=200, save_every=100))
    >>> run
    <mixflow run: mixture, width inf, descent on symmetric, t = 20, loss 0.485262>
    >>> run.dataset.A.dims, run.dataset.A.shape
    (('time', 'head', 'key', 'query'), (3, 2, 4, 4))
    """

    dataset: xarray.Dataset
    network: Any = None

    def _repr_html_(self):
        return display.run(self)

    def __repr__(self):
        d, spec = self.dataset, self.spec
        network = spec["transformer"]
        who = network.get("transformer", network).get(
            "width"
        )  # a read-out's Transformer; a Network of one's own has none
        who = network["name"] if who is None and "name" in network else f"width {who}"
        return (
            f"<mixflow run: {spec['task']['kind']}, {who}, {spec['method']['kind']} on {d.attrs['model']}, "
            f"t = {float(d.time[-1]):g}, loss {float(d.loss[-1]):.6g}>"
        )

    @property
    def spec(self) -> dict[str, Any]:
        """The full specification, a dictionary: task, transformer, method, model; and `start`, where it began elsewhere.

        `start` is the spec of the run at whose end it began, with its steps, or that of a construction, or the names of weights,
        which the dataset has as `start_…`.
        """
        return json.loads(self.dataset.attrs["spec"])

    @functools.cached_property
    def task(self) -> Any:
        """The task that was trained on, built anew; raises StoreError where its images are no longer the same."""
        return task_from_spec(self.spec["task"])

    @property
    def transformer(self) -> Any:
        """The specification of the network before training: a Transformer, a Vanilla or a Network."""
        return network_from_spec(self.spec["transformer"]) if self.network is None else self.network

    @property
    def method(self) -> Any:
        """The training method: GradientDescent, GradientFlow, ThreeStage or Optimizer."""
        return method_from_spec(self.spec["method"])

    @property
    def engine(self) -> Engine:
        """The engine that computed it, made anew."""
        return choose(self.task, self.transformer, self.method, self.dataset.attrs["model"])

    @functools.cached_property
    def stages(self) -> list[Stage]:
        """The three detected stages: `name`, `start`, `end` (units of time, None if not found), `evidence`, `because`."""
        from ..measure.stages import detect

        return display.Rows(detect(self.dataset), display.stages)

    @property
    def events(self) -> list[Event]:
        """Flow only: every neuron switch (time, head, atom, before, after), in order of time; empty for descent."""
        data = self.dataset
        if "event_time" not in data:
            return []
        columns = [data[f"event_{name}"].values.tolist() for name in ("time", "head", "atom", "before", "after")]
        return display.Rows([Event(*row) for row in zip(*columns)], display.events)

    @property
    def certificate(self) -> Any:
        """Flow only: the error bound, the drift of the conserved quantities, the work done; None for descent.

        A dictionary; for three-stage flows a list of them, one for each stage.
        """
        return display.facts(json.loads(self.dataset.attrs.get("certificate", "null")))

    @property
    def switches(self) -> list[dict[str, Any]]:
        """Three-stage only: a dictionary for each stage, what ended it and at which time; empty otherwise."""
        return json.loads(self.dataset.attrs.get("switches", "[]"))

    @in_float64
    def expand(self) -> Run:
        """A run of many classes with features and atoms written out.

        Raises SpecError where the K·2^K atoms are too many to list (K > 8).
        """
        engine, data = self.engine, self.dataset
        if not (variables := engine.expanded(data)):
            return self
        kept = {name: (data[name].dims, data[name].values) for name in data.data_vars if "event" in data[name].dims}
        step = data.step.values if "step" in data.coords else None
        labels = engine.coordinates(True)
        whole = labelled(labels, variables | kept, time=data.time.values, step=step, attrs=data.attrs)
        return Run(whole, self.network)

    def weights(self, time: float | None = None) -> Weights:
        """The weights by name at a saved time (the last if not given): w (head, d), W_K and W_Q (head, m, d).

        A run that began elsewhere (`start=`) is repeated from there. Raises SpecError for infinite width, for flows and what
        began at the end of one, and for a time that was not saved.
        """
        from .weights import weights

        return weights(self, time)

    def predict(
        self, atoms: Sequence[Any], *, time: float | None = None, query: Sequence[Any] | None = None
    ) -> xarray.DataArray:
        """The answer F to atoms of one's own, a labelled array: its sign is the label; (head, atom) logits for softmax.

        atoms  a list of atoms, each a list of (feature, coefficient) tokens or a name such as "c1 +v1 -v2"
        time   a saved time; the last if not given
        query  for a network with queries="one", the token of each atom that asks: ("c1", 1) or "c1"; atoms of the run's own
               task know theirs

        Raises SpecError for features the task does not have, for a time that was not saved, and for tokens without names.

        >>> import mixflow as mf
        >>> run = mf.train(mf.Mixture(), mf.Transformer(omega=0.3), mf.GradientDescent(steps=4000))
        >>> run.predict(["c1 +v1 -v2", "c2 +v1 -v2 -v2"]).values.round(2).tolist()
        [3.37, -4.04]
        """
        from .predict import predict

        return predict(self, atoms, time, query)

    def extend(self, steps: float, *, progress: Shown = False) -> Run:
        """Go on: so many more steps of a descent, or units of time of a flow (`extend`)."""
        from .extend import extend

        return extend(self, steps, progress=progress)

    @in_float64
    def sensitivity(self, of: Until | float, to: str | Sequence[str] | None = None) -> xarray.Dataset:
        """How the time at which a flow reaches something, or its loss at a time, depends on what it was made of.

        of  an Until (the derivative of the time at which it is reached) or a time (the derivative of the loss there)
        to  parameters: "omega", "bias", "probabilities" of the samples, "priors" of the classes, "gram" for the entries of Γ;
            if not given, the first three as far as the run has them. A bias that is trained is differentiated by its start

        The dataset it returns has `time` (or `loss`) and `time_by_omega`, …, `time_by_probabilities` (atom), exact through
        every kink; making sample a more likely means p → (p + ε e_a)/(1 + ε), ε ≥ 0 for one of probability 0. Where the time
        has a kink as a function of a parameter (equal samples made unequal at infinite width), `one_sided_…` is True and the
        number the mean of both sides.
        Raises SpecError for a run that is no flow or never gets there, and for parameters that it does not have.

        >>> import mixflow as mf
        >>> run = mf.train(mf.Mixture(classes=2), mf.Transformer(omega=0.3), mf.GradientFlow(until=300))
        >>> found = run.sensitivity(of=mf.Until("loss", 0.1), to="omega")
        >>> round(float(found.time), 6), round(float(found.time_by_omega), 3)
        (246.238354, -202.547)
        """
        from .sensitivity import sensitivity

        return sensitivity(self, of, to)

    def plot(self, *, scale: str = "log") -> Figure:
        """The figure of `plot_run`: losses, neurons, attention, stages."""
        from ..plot.run import plot_run

        return plot_run(self, scale=scale)

    def save(self, path: PathLike) -> Path:
        """Write the run to one netCDF file, whole or not at all; returns the path. Raises StoreError if it cannot."""
        return save(self.dataset, path)
