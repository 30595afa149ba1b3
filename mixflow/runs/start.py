"""Where a run begins: the network's own start, another run's last state, a construction, or given weights; and how it says so."""

import numpy as np

from ..checks import shown
from ..errors import SpecError

# Options on which the shape of a state depends, or which weights its inner products are of.
SHAPE = (
    *("width", "kind", "name", "layers", "heads", "values", "value_neurons", "tie_values", "train_bias", "offset"),
    *("attention", "shared_attention", "shared_keys"),
)


def begin(engine, network, source=None):
    """The state a run begins in; SpecError where the engine cannot begin there."""
    if source is None:
        return engine.start(network)
    if hasattr(source, "dataset"):
        return _end(engine, network, source)
    if hasattr(source, "sectors"):
        offers = [source.sectors]
        if not engine.task.unlisted:
            offers.append({**source.state, "w": source.state["w"][:, None]})  # one value vector in each head
        return engine.take(network, offers)
    if isinstance(source, dict):
        return engine.convert(network, source)
    raise SpecError(f"start = {shown(source)}: expected a Run, a Construction, or weights by name.")


def _end(engine, network, run):
    """The last state of a run; what momentum or Adam remembers goes on where task and rule are the same."""
    spec, own = run.spec, network.spec()
    for name in SHAPE:
        was, now = (each.get("transformer", each).get(name) for each in (spec["transformer"], own))
        if was != now:
            raise SpecError(
                f"start is a run with {name} = {was}, but the network has {name} = {now}: expected the same, its last state has "
                f"no other shape; train a network with {name} = {was}."
            )
    same = spec["model"] == engine.name and spec["task"] == engine.task.spec()
    return engine.after(network, run, same and spec["transformer"].get("kind") == own.get("kind"))


def origin(source):
    """(what `spec["start"]` says of a source, the variables `start_…` that it needs): enough to begin there again.

    A run is told by its spec, steps and switches, a construction by its spec, weights by their names and themselves.
    """
    if source is None:
        return None, {}
    if hasattr(source, "dataset"):
        if source.spec["method"]["kind"] == "construct":
            return source.spec["method"], {}
        steps = {"steps": int(source.dataset.step[-1])} if "step" in source.dataset.coords else {}
        return {"kind": "run", **source.spec, **steps, "switches": source.switches}, kept(source)[1]
    if hasattr(source, "sectors"):
        return source.spec(), {}
    arrays = {name: np.asarray(x, float) for name, x in source.items()}
    named = {f"start_{name}": (tuple(f"{name}_{i}" for i in range(x.ndim)), x) for name, x in arrays.items()}
    return {"kind": "weights", "names": list(arrays)}, named


def kept(run):
    """`origin` of a run that began somewhere, as it recorded it."""
    data = run.dataset
    names = [name for name in data.data_vars if str(name).startswith("start_")]
    return run.spec.get("start"), {name: (data[name].dims, data[name].values) for name in names}
