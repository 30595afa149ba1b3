"""One codec: every specification survives JSON and TOML, every table is one object or one sentence."""

import json
import math
import tomllib
from dataclasses import dataclass

import numpy as np
import pytest

import mixflow as mf
from mixflow import spec
from mixflow.spec import build, complete, filled, leaves, part, setting, tables, toml

EACH = [
    mf.Mixture(3, priors=[0.2, 0.3, 0.5]),
    mf.Mixture(2, gram=0.9 * np.eye(4) + 0.1),
    mf.Mixture(2).sample(30, seed=1),
    mf.variants.NoisyMixture(0.5, samples=16, test_samples=8),
    mf.variants.label_noise(mf.Mixture(1), probability=0.1),
    mf.Mnist(digits=(3, 7), samples=20, test_samples=10, images=5),
    mf.FiniteTask(features=["a"], atoms=[[("a", 2.0)]], labels=[-1], query=[("a", 0.5)], loss="linear"),
    mf.GradientDescent(0.2, 7, batch_size=3),
    mf.GradientFlow(until=5, save_at=[1.0, 2.0]),
    mf.Optimizer(kind="adamw", weight_decay=0.5),
    mf.ThreeStage(mf.GradientFlow(), neurons=3, attention=mf.Until("loss", 0.3)),
    mf.Until("loss", 0.1),
]


@pytest.mark.parametrize("made", EACH, ids=lambda made: type(made).__name__)
def test_json_and_toml_bring_back_the_object(made):
    section, kind = spec.kind_of(made)
    table = made.spec()
    assert table["kind"] == kind
    for read in (json.loads(json.dumps(table, allow_nan=False)), tomllib.loads(toml({section: table}))[section]):
        again = build(section, read)
        assert type(again) is type(made)
        assert again.spec() == table
    assert type(made).from_spec(table).spec() == table


@pytest.mark.parametrize("section", ["task", "transformer", "method"])
def test_every_kind_has_fields_with_a_meaning(section):
    for kind, maker in spec.kinds(section).items():
        for field in spec.fields(section, kind).values():
            assert field.help or callable(maker), (kind, field)
    assert {"mixture", "finite", "sample", "noisy", "mnist", "label_noise", "repeated"} <= set(spec.kinds("task"))


def test_every_function_of_variants_is_a_kind_of_task():
    functions = {name for name in mf.variants.__all__ if name != "NoisyMixture"}
    assert functions <= set(spec.kinds("task"))


def test_read_takes_tables_toml_and_json(tmp_path):
    given = {
        "name": "nested",
        "task": {
            "kind": "label_noise",
            "probability": 0.1,
            "task": {"kind": "coherent", "coherence": 0.3, "pairs": "own"},
        },
        "transformer": {"width": "inf"},
        "method": {"kind": "three-stage", "method": {"kind": "flow", "until": 9}, "neurons": "easy_margin:2"},
    }
    (tmp_path / "run.toml").write_text(toml(given))
    (tmp_path / "run.json").write_text(json.dumps(given))
    for source in (given, tmp_path / "run.toml", str(tmp_path / "run.json")):
        task, network, method = spec.read(source)
        assert len(task.labels) == 16
        assert task.gram[0, 2] == 0.3
        assert network == mf.Transformer(width=math.inf)
        assert method == mf.ThreeStage(mf.GradientFlow(until=9), neurons=mf.Until("easy_margin", 2))
    assert spec.read({}) == (mf.Mixture(), mf.Transformer(), mf.GradientDescent())


def test_complete_writes_out_defaults_and_takes_what_moves():
    table = complete(
        "task", {"kind": "label_noise", "task": {"kind": "sample", "n": 9, "seed": 1}}, {"task.probability": 0.2}
    )
    assert table["probability"] == 0.2
    assert table["task"]["task"] == mf.Mixture().spec()
    assert set(leaves(table, "task")) == {
        "task.probability", "task.task.n", "task.task.seed", "task.task.test_fraction",
        "task.task.task.classes", "task.task.task.priors", "task.task.task.gram", "task.task.task.loss",
    }  # fmt: skip
    numbers = complete("method", {"steps": 2e4, "learning_rate": 1})
    assert (repr(numbers["steps"]), repr(numbers["learning_rate"])) == ("20000", "1.0")
    inner = complete("task", {"kind": "sample", "task": {"kind": "coherent", "coherence": 0.1}, "n": 9, "seed": 1})
    assert inner["task"]["coherence"] == 0.1
    moved = filled({"task": table}, {"task.task.task.classes": 3})
    assert build("task", moved["task"]).features[2] == "c3"
    assert table["task"]["task"]["classes"] == 2


RUN = """
[task]
kind = "sample"
"""


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"task": {"kind": "mixtur"}}, "task.kind = 'mixtur': expected one of .*did you mean 'mixture'"),
        ({"task": {"clases": 2}}, "task.'clases' is unknown: expected one of classes.*did you mean 'classes'"),
        ({"task": {1: 2}}, "task.1 is unknown"),
        ({"task": {"classes": 0}}, "task: classes = 0"),
        ({"task": {"kind": "sample", "n": 3}}, "task.seed is missing: a task of kind 'sample' needs it"),
        ({"task": {"kind": "sample", "task": 3, "n": 3, "seed": 0}}, "task.task = 3: expected a task"),
        ({"task": {"kind": "sample", "task": {"kind": "mnist"}, "n": 3, "seed": 0}}, "expected a task of kind mixture"),
        ({"task": {"kind": "label_noise"}}, "task.probability is missing"),
        ({"task": mf.Transformer()}, "task = Transformer.*expected a task"),
        ({"task": [1]}, r"task = \[1\]"),
        ({"method": {"kind": "three-stage", "method": {"kind": "three-stage"}}}, "kind descent or flow or optimizer"),
        ({"method": {"kind": "three-stage", "neurons": "soon:1"}}, "quantity = 'soon'"),
        ({"method": {"kind": "three-stage", "neurons": "loss:"}}, "neurons"),
        ({"methods": {}}, "'methods' is unknown: expected .*did you mean 'method'"),
        ({"grid": {}}, "belongs to a sweep"),
    ],
)  # fmt: skip
def test_tables_that_describe_nothing(given, says):
    with pytest.raises(mf.SpecError, match=says) as caught:
        spec.read(given)
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"[task\n", "not valid TOML"),
        (b"\xff\xfe", "not valid TOML"),
        (b"x = 1979-05-27", "'x' is unknown"),
        (b"[task]\nclasses = 1979-05-27", "classes = datetime.date"),
        (b"[task]\nclasses = " + b"9" * 5000, "not valid TOML"),
        (b"[task]\nclasses = " + b"[" * 5000, "not valid TOML"),
        (b"task = " + b"{task = " * 200 + b"1" + b"}" * 200, "'kind'|task"),
        (b" " * (10**7 + 1), "more than 10000000 bytes"),
    ],
)
def test_files_that_describe_nothing(tmp_path, content, says):
    path = tmp_path / "run.toml"
    path.write_bytes(content)
    with pytest.raises(mf.SpecError, match=says) as caught:
        spec.read(path)
    assert "\n" not in str(caught.value)


def test_a_task_of_a_task_without_end():
    given = {"kind": "label_noise", "probability": 0.1}
    given["task"] = given
    with pytest.raises(mf.SpecError, match="without an end"):
        spec.read({"task": given})


def test_files_of_a_sweep_are_named():
    with pytest.raises(mf.SpecError, match="mixflow sweep"):
        tables({"seeds": {"transformer.seed": 3}})


def test_a_changed_checksum_is_noticed():
    table = mf.Mixture(2).sample(30, seed=1).spec()
    with pytest.raises(mf.StoreError, match="checksum"):
        build("task", {**table, "checksum": "0"})


def test_a_class_declares_its_fields_once(monkeypatch):
    from mixflow.checks import whole

    monkeypatch.setattr(spec, "_KINDS", {"task": {}, "method": {}, "transformer": {}, "until": {}})
    monkeypatch.setattr(spec, "import_module", lambda *_: None)

    @dataclass(frozen=True)
    class Inner(spec.Spec, section="method", kind="inner"):
        """A part.

        size  how large
              it is
        """

        size: int = setting(1, whole)

    @dataclass(frozen=True)
    class Outer(spec.Spec, section="task", kind="outer"):
        """A whole."""

        inner: Inner = setting(Inner(), part("method", "inner"))
        other: int | None = setting(None, whole, key="another", flag=False)

        def check(self):
            if self.other == 13:
                raise mf.SpecError("other = 13: expected another one.")

    assert spec.fields("method", "inner")["size"].help == "how large it is"
    assert spec.fields("task", "outer")["another"].flag is False
    assert Outer(Inner(2), 3).spec() == {"kind": "outer", "inner": {"kind": "inner", "size": 2}, "another": 3}
    assert build("task", {"kind": "outer", "inner": {"kind": "inner", "size": 2}, "another": 3}) == Outer(Inner(2), 3)
    for wrong in ({"inner": {"size": 0}}, {"inner": 5}, {"another": 13}, {"other": 1}):
        with pytest.raises(mf.SpecError):
            build("task", {"kind": "outer", **wrong})
