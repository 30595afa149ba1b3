"""From what a run recorded to a labelled dataset: named dimensions, long names, provenance (docs/schema.md)."""

import json

import numpy as np

from ..provenance import provenance
from ..variables import LONG_NAMES

SCHEMA_VERSION = 2  # 2: the transformer's spec names its kind and every option


def labelled(labels, variables, *, time, step=None, attrs=None):
    """The Dataset of variables {name: (dimensions, values)} with labels (`Engine.coordinates`) on every dimension in use."""
    import xarray

    dims = {dim for names, _ in variables.values() for dim in ([names] if isinstance(names, str) else names)}
    coords = {"time": np.asarray(time, float)}
    for name, value in labels.items():
        if (value[0] if isinstance(value, tuple) else name) in dims and name not in variables:
            coords[name] = value
    if step is not None:
        coords["step"] = ("time", np.asarray(step, np.int64))

    def variable(
        name, value
    ):  # fastpath: xarray would import Dask, where it is installed, to see that this is none of its arrays
        dims, values = value if isinstance(value, tuple) else (name, value)
        return xarray.Variable(dims, np.asarray(values), fastpath=True)

    variables, coords = ({name: variable(name, value) for name, value in each.items()} for each in (variables, coords))
    data = xarray.Dataset(variables, coords=coords, attrs=attrs)
    for name in data.variables:
        stem = str(name).removesuffix("_test")
        if stem in LONG_NAMES:
            long_name, unit = LONG_NAMES[stem]
            data[name].attrs = {"long_name": long_name + (", held-out samples" if stem != name else ""), "units": unit}
    return data


def attributes(engine, network, method, wall_time, start=None, **more):
    """The full specification and where the run came from; `start` where it did not begin at the network's own start."""
    task = engine.task
    spec = {"task": task.spec(), "transformer": network.spec(), "method": method.spec(), "model": engine.name}
    spec |= {} if start is None else {"start": start}
    found = {"mixflow_schema": SCHEMA_VERSION, "spec": json.dumps(spec), "model": engine.name, "seed": network.seed}
    if network.seed >= 2**63:  # beyond what a netCDF attribute holds; the spec has it as it is
        found["seed"] = str(network.seed)
    return {**found, "wall_time": float(wall_time), **provenance(), **more}


def recorded(engine, network, method, outcome, *, wall_time=0.0, start=(None, {})):
    """The dataset of one run, from what its stages recorded (`methods.loop.Outcome`) and where it began (`start.origin`)."""
    carried, more = ended(engine, method, outcome)
    variables = engine.measure(outcome.history, network) | start[1] | carried | split(engine.task)
    if method.flows:
        more["certificate"] = json.dumps(_certificates(method, outcome), allow_nan=False)
    attrs = attributes(engine, network, method, wall_time, start[0], **more)
    return labelled(engine.coordinates(), variables, time=outcome.time, step=outcome.step, attrs=attrs)


def split(task):
    """The variables that say which atoms a sampled task trains on, and which it holds out."""
    if not hasattr(task, "train_index"):
        return {}
    return {"train_index": ("sample_train", task.train_index), "test_index": ("sample_test", task.test_index)}


def ended(engine, method, outcome):
    """(variables, attributes) of how a run ended, which going on needs: what the last state remembers, events, switches."""
    last = outcome.last
    variables = engine.final(last.state) if last.diverged is None and last.error is None else {}
    if method.flows:
        variables = variables | _events(outcome.events)
    more = {"finished": int(last.ended == "end")}
    if outcome.step is not None and len(outcome.step):
        more["steps_done"] = int(outcome.step[-1])
    if method.staged:
        more |= {
            "switches": json.dumps(outcome.switches),
            "counts": json.dumps([part.counts for part in outcome.parts]),
        }
    return variables, more


def _certificates(method, outcome):
    """The certificate of a flow; of a staged one a list, one for each stage."""
    if not method.staged:
        return outcome.last.certificate
    pairs = zip(outcome.switches, outcome.parts, strict=True)
    return [{"stage": switch["name"], **(part.certificate or {})} for switch, part in pairs]


def _events(events):
    """Every neuron switch as variables along `event`: time, head, atom, before, after."""
    rows = [(event.time, *event.name, event.before, event.after) for event in events]
    columns = dict(zip(("time", "head", "atom", "before", "after"), zip(*rows) if rows else [()] * 5))
    return {
        f"event_{name}": ("event", np.array(column, dtype=float if name == "time" else object if column else "U1"))
        for name, column in columns.items()
    }


def joined(past, data, method):
    """Two datasets of one run along time; the last save of the earlier one is dropped where it is off the grid of saves."""
    import xarray

    every = getattr(method.inner, "save_every", None)
    if every is not None:
        past = past.isel(time=past.step.values % every == 0)
    both = {name: data[name] for name in data.variables if "time" in data[name].dims}
    along = xarray.concat([past[list(both)], data[list(both)]], dim="time", combine_attrs="override")
    events = [name for name in data.data_vars if "event" in data[name].dims]
    if events:
        along = along.merge(xarray.concat([past[events], data[events]], dim="event"))
    rest = [name for name in data.variables if name not in along.variables]
    out = along.assign({name: data[name] for name in rest if name in data.data_vars})
    out.attrs = dict(data.attrs)
    later = out.attrs.pop("certificate", None)
    if later is not None and "certificate" in past.attrs:  # members of a batch have none
        out.attrs["certificate"] = json.dumps(_both(json.loads(past.attrs["certificate"]), json.loads(later)))
    if "switches" in out.attrs:
        out.attrs["switches"] = json.dumps(
            _longer(json.loads(past.attrs["switches"]), json.loads(out.attrs["switches"]))
        )
    return out


def _both(earlier, later):
    """The certificate of two stretches: the worse of each bound, the sum of each count; of stages, the last one goes on."""
    if isinstance(earlier, list):
        return [*earlier[:-1], _both(earlier[-1], later[-1])]
    merged = {**earlier, **later}
    for name in set(earlier) & set(later):
        a, b = earlier[name], later[name]
        if name == "time":
            merged[name] = [a[0], b[1]]
        elif isinstance(a, bool):
            merged[name] = a and b
        elif name == "smallest_eigenvalue":
            merged[name] = min(a, b)
        elif isinstance(a, int):
            merged[name] = a + b
        elif isinstance(a, float):
            merged[name] = max(a, b)
    return merged


def _longer(earlier, later):
    return [*earlier[:-1], {**later[-1], "stage": earlier[-1]["stage"], "start": earlier[-1]["start"]}]
