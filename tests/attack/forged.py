"""Attackers with a right checksum: whole files of somebody else, for `mf.load`, `open_sweep`, `verify` and `prove --check`."""

import contextlib
import copy
import dataclasses
import functools
import hashlib
import json
import sqlite3
import warnings
from unittest import mock

import numpy as np
from hypothesis import strategies as st
from values import anything, made, scalars

import mixflow as mf
from mixflow import sealed, spec
from mixflow.paper.experiments import experiment
from mixflow.paper.report.records import perform
from mixflow.paper.report.reproduce import _report, write_report
from mixflow.paper.report.verify import verify
from mixflow.paper.report.words import comparison
from mixflow.proofs import file as proofs
from mixflow.summary import summary, table
from mixflow.sweeping.manifest import Manifest
from mixflow.sweeping.plan import Plan
from mixflow.sweeping.run import write_header
from mixflow.sweeping.spec import Sweep
from mixflow.sweeping.work import run_batch

TEXTS = [
    "",
    "x",
    "{}",
    "[]",
    "null",
    "3",
    "[3]",
    '{"a": 1}',
    "NaN",
    '"x"',
    "1e999",
    "\ud800".encode("utf-8", "replace").decode(),
]
# What a reader does with a run.
USES = {
    "show": repr, "html": lambda run: run._repr_html_(), "spec": lambda run: run.spec, "task": lambda run: run.task,
    "network": lambda run: run.transformer, "method": lambda run: run.method, "stages": lambda run: run.stages,
    "events": lambda run: run.events, "certificate": lambda run: run.certificate, "switches": lambda run: run.switches,
    "summary": lambda run: json.dumps(summary(run, provenance=True), allow_nan=False), "expand": lambda run: run.expand(),
    "table": lambda run: table(run, provenance=True), "weights": lambda run: run.weights(),
}  # fmt: skip


def _changed(data, dataset):
    """The dataset with one thing about it changed."""
    name = data.draw(st.sampled_from(sorted(map(str, dataset.variables))))
    dim = data.draw(st.sampled_from(sorted(map(str, dataset.dims))))
    attr = data.draw(st.sampled_from(sorted(map(str, dataset.attrs))))
    variable = dataset[name].variable
    how = data.draw(
        st.sampled_from(["drop", "fill", "type", "dims", "empty", "one", "rename", "attr", "no attr", "spec", "spec"])
    )
    if how == "drop":
        return dataset.drop_vars(name)
    if how == "fill":
        value = data.draw(st.sampled_from([np.nan, np.inf, -np.inf, 0.0, -1.0, 1e308]))
        return dataset.assign({name: (variable.dims, np.full(variable.shape, value))})
    if how == "type":
        kind = data.draw(st.sampled_from(["U3", "i8", "f4", "bool", "u1"]))
        return dataset.assign({name: (variable.dims, np.zeros(variable.shape, kind))})
    if how == "dims":
        dims = data.draw(st.sampled_from([(), variable.dims[1:], (*variable.dims, "more"), variable.dims[::-1]]))
        return dataset.drop_vars(name).assign({name: (dims, np.ones([dataset.sizes.get(d, 2) for d in dims]))})
    if how in ("empty", "one"):
        return dataset.isel({dim: slice(0, 0 if how == "empty" else 1)})
    if how == "rename":
        return dataset.rename({dim: "other"})
    if how == "attr":
        return dataset.assign_attrs({attr: data.draw(st.sampled_from([*TEXTS, 3, 2.5, -1]))})
    if how == "no attr":
        return dataset.drop_attrs().assign_attrs({k: v for k, v in dataset.attrs.items() if k != attr})
    if not isinstance(dataset.attrs.get("spec"), str):  # altered before
        return dataset
    return dataset.assign_attrs(spec=json.dumps(_altered(data, json.loads(dataset.attrs["spec"]))))


SMALL = st.sampled_from(["x", "inf", [], {}, [[]], {"kind": "x"}]).map(copy.deepcopy)  # it may be altered again
JSON = st.none() | st.booleans() | st.integers() | st.floats() | SMALL


def _altered(data, whole):
    """Plain data with one entry, at any depth, replaced, dropped or added."""
    table = whole
    while True:
        places = (
            sorted(table, key=str) if isinstance(table, dict) else range(len(table)) if isinstance(table, list) else ()
        )
        if not places:
            return whole
        place = data.draw(st.sampled_from(places))
        if not isinstance(table[place], (dict, list)) or not data.draw(st.integers(0, 3)):
            break
        table = table[place]
    how = data.draw(st.sampled_from(["replace", "drop", "add"]))
    if how == "drop":
        del table[place]
    elif how == "add" and isinstance(table, dict):
        table["more"] = data.draw(JSON)
    else:
        table[place] = data.draw(JSON)
    return whole


def run_file(data, path, datasets, answer):
    """A run with variables, dimensions and attributes of somebody else's, through `mf.load` and all that one does with a run."""
    with warnings.catch_warnings(action="ignore"):  # of xarray, about a dimension that stands twice
        return _run_file(data, path, datasets, answer)


def _run_file(data, path, datasets, answer):
    dataset = data.draw(st.sampled_from(datasets))
    for _ in range(data.draw(st.integers(1, 2))):
        with contextlib.suppress(ValueError, KeyError):  # what xarray itself cannot make, no file holds
            dataset = _changed(data, dataset)
    try:
        path.write_bytes(sealed.pack(bytes(dataset.to_netcdf(engine="h5netcdf"))))
    except Exception:
        return "made"
    verdict, run = answer(lambda: mf.load(path))
    if run is None:
        return verdict
    name = data.draw(st.sampled_from(sorted(USES)))
    member = run if isinstance(run, mf.Run) else answer(lambda: run[0])[1]
    return answer(lambda: USES[name](member))[0] if member is not None else "refused"


# sweeps --------------------------------------------------------------------------------------------------------------

FIELDS = [
    "transformer.omega", "transformer.seed", "transformer.width", "task.classes", "task.priors", "method.steps",
    "method.learning_rate", "method.save_every", "model", "transformer", "task.kind", "omega", "x",
]  # fmt: skip
RULE = ["from", "to", "count", "scale", "low", "high", "whole", "choose", "first"]


def sweep(data, answer):
    """The description of a sweep: axes and output that are right, nearly right, or anything."""
    rule = st.dictionaries(st.sampled_from(RULE), st.one_of(scalars, st.just("log"), anything), max_size=4)
    values = st.one_of(st.lists(scalars, max_size=4), rule, scalars, anything)
    axis = st.dictionaries(st.sampled_from([*FIELDS, "count", "seed"]), values, max_size=3)
    names = st.sampled_from(["reductions", "levels", "series", "batch", "separation_margin", "x"])
    tables = {name: st.one_of(axis, axis, axis, anything) for name in ("grid", "random", "seeds")}
    tables |= {"list": st.one_of(st.lists(axis, max_size=3), anything)}
    tables |= {"output": st.one_of(st.dictionaries(names, values), anything)}
    tables |= dict.fromkeys((*spec.SECTIONS, "model", "name", "x"), anything)
    chosen = data.draw(st.lists(st.sampled_from([*tables]), min_size=1, max_size=3, unique=True))
    given = made({name: data.draw(tables[name]) for name in chosen})
    return answer(lambda: Plan(Sweep(given)))[0]


def small_sweep(folder):
    """The bytes of the file of a finished sweep of three batches."""
    folder.mkdir()
    short = {"method": {"steps": 10}, "transformer": {"width": 4}, "output": {"batch": 8}}
    plan = Plan(Sweep(short | {"seeds": {"transformer.seed": 24}}))
    write_header(folder, plan.sweep, plan)
    manifest = Manifest.writing(folder)
    for batch in range(plan.batches):
        manifest.finish(batch, *run_batch(plan.job(batch)))
    manifest.close()
    return manifest.path.read_bytes()


def sweep_folder(data, folder, content, answer):
    """A sweep's file with facts, rows and tables that somebody else wrote, checksums and all; a sweep.json of old beside it."""
    path, old = folder / "sweep.sqlite", folder / "sweep.json"
    path.write_bytes(content)
    old.unlink(missing_ok=True)
    if data.draw(st.integers(0, 9)) == 0:
        old.write_text(data.draw(st.sampled_from(TEXTS)))
    cell = st.one_of(
        st.none(), st.integers(-(2**63), 2**63 - 1), st.floats(), st.text(max_size=9), st.binary(max_size=9)
    )
    with contextlib.closing(sqlite3.connect(path)) as db, contextlib.suppress(sqlite3.Error, UnicodeError), db:
        for _ in range(data.draw(st.integers(1, 3))):
            attack = data.draw(st.sampled_from(["fact", "sweep", "cell", "bytes", "drop"]))
            if attack in ("fact", "sweep"):
                known = dict(db.execute("SELECT name, value FROM fact"))
                name = "sweep" if attack == "sweep" else data.draw(st.sampled_from(sorted(known)))
                value = data.draw(st.sampled_from(TEXTS))
                if attack == "sweep":
                    with contextlib.suppress(ValueError, TypeError):  # replaced by a text before
                        value = json.dumps(_altered(data, json.loads(known[name])))
                db.execute("INSERT OR REPLACE INTO fact VALUES (?, ?)", (name, value))
            elif attack == "cell":
                column = data.draw(st.sampled_from(["number", "at", "seconds", "warm", "error", "sha256", "content"]))
                db.execute(f"UPDATE batch SET {column} = ? WHERE number = 1", (data.draw(cell),))
            elif attack == "bytes":
                changed = data.draw(st.binary(max_size=30))
                row = (changed, hashlib.sha256(changed).digest())
                db.execute("UPDATE batch SET content = ?, sha256 = ? WHERE number = 0", row)
            else:
                db.execute(data.draw(st.sampled_from(["DROP TABLE fact", "DROP TABLE batch", "DELETE FROM batch"])))
    verdict, result = answer(lambda: mf.open_sweep(folder))
    if result is not None:
        calls = (result.status, result.table, lambda: result.grid("loss"), lambda: repr(result))
        verdict = max(answer(call)[0] for call in calls)
    return verdict


# reports -------------------------------------------------------------------------------------------------------------


def small_report(folder):
    """A report of one experiment that did not finish, which takes no time, and that experiment."""

    def fails(settings, progress):
        raise mf.SpecError("nothing is run here.")

    each = dataclasses.replace(experiment("construction"), run=fails)
    folder.mkdir()
    record = perform(folder, each, each.settings(False), full=False, progress=None)
    report = _report([record], False, ["construction"])
    write_report(folder, report)
    return json.dumps(report), each


def report(data, folder, text, each, answer):
    """report.json with anything in it replaced, under the page that belongs to it or to another."""
    found = json.loads(text)
    for _ in range(data.draw(st.integers(1, 3))):
        found = _altered(data, found)
    (folder / "report.json").write_text(json.dumps(found))
    with mock.patch("mixflow.paper.report.verify.experiment", return_value=each):
        verdict, rows = answer(lambda: verify(folder))
    if rows is not None:
        assert comparison(rows)
        assert json.dumps(rows, allow_nan=False)
    return verdict


# proofs --------------------------------------------------------------------------------------------------------------


def proof(data, path, texts, answer):
    """A proof with entries replaced, under a right checksum, through all that `mixflow prove --check` does."""
    content = json.loads(data.draw(st.sampled_from(texts)))
    for _ in range(data.draw(st.integers(1, 2))):
        content = _altered(data, content)
    path.write_text(json.dumps({**content, "checksum": proofs.seal(content)}))
    verdict, found = answer(lambda: mf.Proof.load(path))
    if found is not None:
        reason = answer(lambda: proofs.verdict(path))[1]
        assert found.statement()
        assert reason or json.dumps(found.facts(), allow_nan=False)
    return verdict


def small_proofs():
    """The files of a proof in one stage and of one in three."""
    ends = {"neurons": mf.Until("easy_margin", 0.02), "attention": 0.1, "converge": 0.1}
    asked = {"until": 1.0}, {"method": mf.ThreeStage(mf.GradientFlow(), **ends)}
    return [json.dumps(proofs.contents(mf.prove(mf.Mixture(2), mf.Transformer(omega=0.3), **each))) for each in asked]


def everyone(folder, answer):
    """{name: attacker of one argument}, with what they need in `folder`."""
    plain, many = mf.GradientDescent(0.1, 10), [mf.Transformer(width=4, seed=seed) for seed in (0, 1)]
    runs = [
        mf.train(mf.Mixture(2), many[0], plain), mf.train(mf.Mixture(9), mf.Transformer(), plain),
        mf.train(mf.Mixture(2), mf.Transformer(), mf.GradientFlow(until=15.0, save_at=5)),
        mf.train_many(mf.Mixture(2), many, plain),
    ]  # fmt: skip
    path, batches = folder / "forged.nc", small_sweep(folder / "sweep")
    text, each = small_report(folder / "report")
    return {
        "forged run": functools.partial(run_file, path=path, datasets=[run.dataset for run in runs], answer=answer),
        "sweep": functools.partial(sweep, answer=answer),
        "sweep folder": functools.partial(sweep_folder, folder=folder / "sweep", content=batches, answer=answer),
        "report": functools.partial(report, folder=folder / "report", text=text, each=each, answer=answer),
        "forged proof": functools.partial(proof, path=folder / "proof.json", texts=small_proofs(), answer=answer),
    }
