"""Where a run begins: the network's own start, another run's last state, a construction, or given weights."""

from ..engines.series import resumed
from ..errors import SpecError


def begin(engine, network, source=None):
    """The state a run begins in; SpecError where the engine cannot begin there."""
    if source is None:
        return engine.start(network)
    if hasattr(source, "dataset"):
        same = source.dataset.attrs["model"] == engine.name and source.spec["task"] == engine.task.spec()
        if same and source.spec["transformer"].get("kind") == network.spec().get("kind"):
            return engine.resume(source.dataset)
        return engine.take(network, [resumed(source.expand().dataset, network)])
    if hasattr(source, "sectors"):
        offers = [source.sectors]
        if not engine.task.unlisted:
            offers.append({**source.state, "w": source.state["w"][:, None]})  # one value vector in each head
        return engine.take(network, offers)
    if isinstance(source, dict):
        return engine.convert(network, source)
    raise SpecError(f"start = {source!r:.60}: expected a Run, a Construction, or weights by name.")
