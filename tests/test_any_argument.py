"""Every argument of a public function may be anything: the answer is a result or one sentence, soon."""

import fractions
import inspect
import itertools

import numpy as np
import pytest

import mixflow as mf


class Silent:
    """Answers no question."""

    def _refuse(self, *_):
        raise RuntimeError("I do not answer")

    __repr__ = __iter__ = __len__ = __eq__ = __bool__ = __float__ = __array__ = _refuse
    __hash__ = object.__hash__


DEEP: list = []
for _ in range(5000):
    DEEP = [DEEP]

ANYTHING = (
    lambda: None,
    lambda: True,
    lambda: -1,
    lambda: 10**100_000,
    lambda: float("inf"),
    lambda: float("nan"),
    lambda: 1j,
    lambda: "",
    lambda: "x" * 10**4,
    lambda: b"x",
    dict,
    lambda: {"a": 1},
    list,
    lambda: [None],
    lambda: ["a"],
    lambda: [[1], [1, 2]],
    lambda: DEEP,
    lambda: range(10**9),
    itertools.count,
    Silent,
    lambda: [Silent()],
    lambda: mf.Mixture,
    lambda: np.zeros(0),
    lambda: np.array(3),
    lambda: np.eye(2),
    lambda: np.full((4, 4), np.nan),
    lambda: np.array([None]),
    lambda: fractions.Fraction(10**400),
    lambda: mf.variants.NoisyMixture(sigma=0.1, samples=8, test_samples=8),
)


@pytest.fixture(scope="module")
def valid():
    """{name: (function, its arguments by name)}: calls that are right, one argument of which is then replaced."""
    task = mf.Mixture()
    run = mf.train(task, mf.Transformer(8), mf.GradientDescent(steps=4, save_every=1))
    data, population, measure, intervals = run.dataset, task.population(), mf.measure, mf.intervals
    w, A, z = (data[name].values for name in ("w", "A", "z"))
    times, loss, margin = (data[name].values for name in ("time", "loss", "margin"))
    grams = {"A": A, "G_K": data.G_K.values, "G_Q": data.G_Q.values}
    weight, hard = population.probabilities, population.hard
    points, labels = measure.feature_points(task, A)
    seen, one = {"loss": loss, "loss_easy": loss, "loss_hard": loss}, intervals.interval(np.ones(3))
    relay = mf.filippov.Field(velocity=lambda c, y, gates: 1 - 2 * gates, surface=lambda c, y: y, gates=("relay",))
    calls = [
        (measure.Samples, {"task": task}),
        (measure.Trajectory, {"time": times, **seen, "w": w, "A": A, "z": z, "margin": margin}),
        (measure.above_least, {"series": seen, "least": 0 * weight, "weight": weight, "hard": hard}),
        (measure.alignment, {"task": task, "w": w}),
        (measure.attention_features, {"task": task, "A": A, "ask": None}),
        (measure.attention_probabilities, {"task": task, "A": A}),
        (measure.attention_scores, {"task": task, "A": A}),
        (measure.conserved, {**grams, "gram": None, "order": 2}),
        (measure.deciding, {"task": task}),
        (measure.detect, {"run": data}),
        (measure.drift, {**grams, "gram": None, "order": 2}),
        (measure.falls_to, {"time": times, "series": loss, "level": 0.5}),
        (measure.feature_margin, {"task": task, "A": A, "samples": "hard", "heads": "both", "network": None}),
        (measure.feature_points, {"task": task, "A": A, "samples": "hard", "heads": "both", "network": None}),
        (measure.loss_of_each, {"task": task, "z": z}),
        (measure.margin, {"task": task, "z": z}),
        (measure.max_margin, {"points": points[-1], "labels": labels}),
        (measure.mean_accuracy, {"margin": margin, "weight": weight}),
        (measure.mean_interval, {"values": [1.0, 2.0], "level": 0.95}),
        (measure.mean_loss, {"margin": margin, "weight": weight}),
        (measure.mean_losses, {"each": margin, "weight": weight, "hard": hard}),
        (measure.observe, {"dataset": data, "task": task}),
        (measure.preactivation, {"task": task, "w": w, "A": A, "bias": 0.5, "ask": None}),
        (measure.separating_plane, {"task": task, "A": A, "samples": "hard", "network": None}),
        (measure.smallest_eigenvalue, grams),
        (measure.stage_intervals, {"stage_lists": [measure.detect(data)], "level": 0.95}),
        (measure.switch_off, {"time": times, "z": z}),
        (intervals.around, {"x": 1.0, "radius": 0.1}),
        (intervals.concatenate, {"intervals": [one, one], "axis": -1}),
        (intervals.from_fraction, {"value": fractions.Fraction(1, 3)}),
        (intervals.interval, {"x": 1.0}),
        (intervals.matmul, {"X": np.eye(2), "Y": np.eye(2)}),
        (intervals.norm, {"x": np.ones(3), "axis": -1}),
        (intervals.stack, {"intervals": [one, one], "axis": 0}),
        (mf.export.tensors, {"run": run, "time": None}),
        (mf.export.safetensors, {"run": run, "path": "w.safetensors", "time": 0.0}),
        (mf.export.torch_module, {"run": run, "folder": "module", "time": 0.0}),
        (mf.export.checkpoints, {"run": run, "folder": "weights", "times": [0.0]}),
        (mf.filippov.certify, {"result": mf.filippov.solve(relay, [-1.0], 3.0)}),
    ]
    return {f"{call.__module__.split('.')[-1]}.{call.__name__}": (call, given) for call, given in calls}


def answered(call, given):
    """Call it; a refusal must be one sentence, anything else that is raised is a mistake."""
    try:
        call(**given)
    except mf.MixflowError as error:
        text = str(error)
        assert text.endswith("."), text
        assert "\n" not in text, text
        assert len(text) < 1500, text


@pytest.mark.filterwarnings("ignore")
def test_any_argument_is_answered(valid, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for call, given in valid.values():
        inspect.signature(call).bind(**given)
        for name in given:
            for make in ANYTHING:
                answered(call, {**given, name: make()})


@pytest.mark.parametrize("name", ["measure", "intervals"])
def test_every_public_function_is_asked(name, valid):
    module, asked = getattr(mf, name), {call for call, _ in valid.values()}
    plain = {"Interval", "Stage"}  # records: they keep what they are given
    assert (
        not {each for each in module.__all__ if callable(getattr(module, each)) and getattr(module, each) not in asked}
        - plain
    )


SMALL = mf.GradientDescent(steps=2)


@pytest.mark.parametrize(
    "call",
    [
        lambda run: mf.compare(10**100_000),
        lambda run: mf.compare(DEEP),
        lambda run: mf.compare(mf.Mixture(), learning_rates=None),
        lambda run: mf.train(10**100_000),
        lambda run: mf.train(Silent()),
        lambda run: mf.train(mf.Mixture(), mf.Transformer(), SMALL, start=Silent()),
        lambda run: mf.train(mf.Mixture(), mf.Transformer(), SMALL, progress=-1),
        lambda run: mf.train(mf.Mixture(), mf.Transformer(), SMALL, progress=np.array([])),
        lambda run: mf.train(mf.Mixture(), mf.Transformer(), SMALL, on_save=5),
        lambda run: mf.train_many(mf.Mixture(), None),
        lambda run: mf.train_many(mf.Mixture(), [None]),
        lambda run: mf.train_many(mf.Mixture(), itertools.count()),
        lambda run: mf.train_many(mf.Mixture(), [mf.Transformer()], SMALL, progress=np.array([])),
        lambda run: mf.extend(run, 5, progress=-1),
        lambda run: mf.extend(run, 5, progress=np.array([])),
        lambda run: mf.view(10**100_000),
        lambda run: mf.view(run, shown=5),
        lambda run: mf.field(None, mf.Transformer()),
        lambda run: mf.field(mf.Mixture(), None),
        lambda run: mf.field(mf.variants.NoisyMixture(sigma=0.1), mf.Transformer()),
        lambda run: mf.export.checkpoints(run, "weights", times=range(10**9)),
        lambda run: mf.export.checkpoints(run, "weights", times=itertools.count()),
        lambda run: mf.export.checkpoints(run, "weights", times=True),
        lambda run: mf.export.checkpoints(run, "weights", times="loss"),
        lambda run: mf.filippov.Field(velocity=10**100_000, surface=len, gates=("a",)),
        lambda run: mf.plot.plot_columns({}),
        lambda run: mf.plot.plot_columns("x" * 10**4),
        lambda run: mf.plot.plot_events(None, {}),
        lambda run: mf.plot.plot_events(run, itertools.count()),
        lambda run: mf.plot.plot_scores({"a": None}, ["a"]),
        lambda run: mf.plot.plot_sweep(None),
        lambda run: mf.plot.plot_tube(None),
        lambda run: mf.plot.save(None, "figure"),
        lambda run: mf.plot.shade(None, [5]),
        lambda run: mf.filippov.solve("x" * 10**4, [1.0], 1.0),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(call, valid, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(mf.MixflowError, match=r"^[^\n]{10,1500}\.$"):
        call(valid["export.tensors"][1]["run"])
    assert not any(tmp_path.iterdir())
