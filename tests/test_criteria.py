"""The criterion of every claim, at its edges: numbers are put in the place of runs, and the verdict must turn where it says."""

import math
from types import SimpleNamespace as Fake

import numpy as np
import pytest
import xarray as xr

import mixflow as mf
from mixflow.measure.stages import Stage
from mixflow.paper.check import Check
from mixflow.paper.theory import claims, run_claims

TASK, NETWORK = mf.Mixture(classes=2), mf.Transformer(omega=0.3, bias=0.5)
TIME = np.linspace(0.0, 20.0, 41)


def verdict(name, data, task=TASK):
    return run_claims.decide(name, data, task, NETWORK).ok


def over_time(**series):
    return xr.Dataset(
        {name: (("time", *dims), np.asarray(x, float)) for name, (dims, x) in series.items()}, {"time": TIME}
    )


def stages(first=5.0, second=9.0, third=9.0, **evidence):
    return [
        Stage("neurons", 0.0, first),
        Stage("attention", first, second),
        Stage("convergence", third, 20.0, evidence),
    ]


@pytest.mark.parametrize(
    ("moved_at", "boundaries", "holds"),
    [(10, {}, True), (2, {}, False), (10, {"first": 12.0}, False), (10, {"third": 5.0}, False)],
)
def test_neurons_first(monkeypatch, moved_at, boundaries, holds):
    """Half of the easy loss is gone at t = 5."""
    monkeypatch.setattr(mf.measure, "detect", lambda data: stages(**boundaries))
    easy, scores = np.exp(-TIME * math.log(2) / 5), TIME[:, None] / moved_at
    assert verdict("neurons-first", over_time(loss_easy=((), easy), A=(("score",), scores))) is holds


@pytest.mark.parametrize(
    ("late", "stray", "holds"), [(0.0, 0, True), (0.02, 0, True), (0.1, 0, False), (-0.1, 0, False), (0.0, 1e-6, False)]
)
def test_neurons_align(monkeypatch, late, stray, holds):
    """9b + 9/2 (e^{2b} − 1) = 12.2322 at b = 1/2."""
    off = 12.232268 * (1 + late)
    monkeypatch.setattr(mf.measure, "detect", lambda data: [Stage("neurons", 0.0, off, {"switch_off": off})])
    data = over_time(w=(("feature",), np.tile([stray, 1.0], (len(TIME), 1))))
    assert verdict("neurons-align", data.assign_coords(feature=["c1", "v1"])) is holds


@pytest.mark.parametrize(
    ("early", "late", "holds"), [(0.0, 0.2, True), (0.019, 0.2, True), (0.03, 0.2, False), (0.0, 0.09, False)]
)
def test_features_separate(monkeypatch, early, late, holds):
    monkeypatch.setattr(mf.measure, "detect", lambda data: stages())
    monkeypatch.setattr(mf.measure, "feature_margin", lambda task, A, samples: A[0, 0, 0])
    A = np.where(TIME < 10, early, late)[:, None, None, None] * np.ones((1, 2, 1, 1))
    assert verdict("features-separate", over_time(A=(("head", "key", "query"), A))) is holds


@pytest.mark.parametrize(
    ("ratio", "bounded", "holds"),
    [(1.0, True, True), (0.66, True, True), (0.64, True, False), (1.2, True, False), (1.0, False, False)],
)
def test_critical_drives(monkeypatch, ratio, bounded, holds):
    system = Fake(driven=[ratio], B=np.ones((1, 4, 4)), defect=np.zeros(1), speed=np.ones(1))
    monkeypatch.setattr(run_claims, "score_of_run", lambda *run: TIME / 20)
    monkeypatch.setattr(run_claims, "critical_of_run", lambda *run: system)
    monkeypatch.setattr(run_claims, "enclosed", lambda system, windows: (bounded, None, None))
    assert verdict("critical-drives", over_time(G_K=((), TIME))) is holds


@pytest.mark.parametrize(
    ("slope", "holds"), [(1.0, True), (0.55, True), (1.45, True), (0.4, False), (1.6, False), (math.nan, False)]
)
def test_one_over_t(monkeypatch, slope, holds):
    monkeypatch.setattr(mf.measure, "detect", lambda data: stages(slope=slope))
    assert verdict("one-over-t", over_time(loss=((), TIME))) is holds


def test_learned():
    right, nearly = (over_time(accuracy=((), TIME * 0 + x), loss=((), TIME)) for x in (1.0, 0.99))
    assert verdict("learned", right)
    assert verdict("learned", nearly) is False


@pytest.mark.parametrize(
    ("drift", "least", "descent", "holds"),
    [
        (0.04, 0, True, True),
        (0.06, 0, True, False),
        (0.04, 0, False, False),
        (1e-7, 0, False, True),
        (1e-7, -1e-6, False, False),
    ],
)
def test_conserved(monkeypatch, drift, least, descent, holds):
    monkeypatch.setattr(mf.measure, "drift", lambda *state: np.array([0.0, drift]))
    monkeypatch.setattr(mf.measure, "smallest_eigenvalue", lambda *state: np.array([1.0, least]))
    data = over_time(A=((), TIME), G_K=((), TIME), G_Q=((), TIME))
    assert verdict("conserved", data.assign_coords(step=("time", TIME)) if descent else data) is holds


@pytest.mark.parametrize(("error", "least", "holds"), [(1e-8, 0.0, True), (1e-5, 0.0, False), (1e-8, -1e-6, False)])
def test_certificate(error, least, holds):
    good = {"relative_difference": 1e-12, "rtol": 1e-9, "smallest_eigenvalue": 0.0}
    stage = {"relative_difference": error, "rtol": 1e-9, "smallest_eigenvalue": least}
    assert run_claims._certified(stage).ok is holds
    assert run_claims._certified([good, stage]).ok is holds  # the worst stage decides


# claims with runs of their own ---------------------------------------------------------------------------------------


def test_every_seed_must_agree(monkeypatch):
    """The mean-field run holds; the claim does only if every seed does."""
    found = {}
    monkeypatch.setattr(claims, "decide", lambda name, data, task, network: found[data])
    batch = Fake(isel=lambda run: run)
    lab = Fake(descent=Fake(dataset="main"), task=TASK, transformer=NETWORK, batch=([NETWORK] * 3, batch), width=8)
    holds, fails = (Check(name="learned", sentence="", measured=1.0, ok=ok) for ok in (True, False))
    found |= {"main": holds, 0: holds, 1: holds, 2: holds}
    assert claims.REGISTRY["learned"](lab).ok
    found[1] = fails
    assert not claims.REGISTRY["learned"](lab).ok
    found |= {"main": fails, 1: holds}
    assert not claims.REGISTRY["learned"](lab).ok


def last(**values):
    """A run whose dataset has these values at its last save."""
    end = Fake(**{name: np.asarray(x) for name, x in values.items()})
    return Fake(dataset=Fake(isel=lambda time: end))


@pytest.mark.parametrize(("power", "holds"), [(-0.5, True), (-0.42, True), (-0.38, False), (-0.7, False)])
def test_width(monkeypatch, power, holds):
    def far(task, networks, method):
        return Fake(A=Fake(values=np.stack([np.full((2, 1, 1, 1), network.width**power) for network in networks])))

    monkeypatch.setattr(claims, "train_batch", far)
    monkeypatch.setattr(mf, "train", lambda *_, **__: Fake(dataset=Fake(A=Fake(values=np.zeros((1, 1, 1, 1))))))
    assert claims.width_slope(claims.Lab(seeds=2)).ok is holds


@pytest.mark.parametrize(
    ("alone", "tied", "holds"), [(0.75, 1.0, True), (0.9, 1.0, False), (0.5, 0.9, False), (0.5, 1.0, True)]
)
def test_second_head(monkeypatch, alone, tied, holds):
    def train(task, network, method):
        accuracy = tied if network.tie_values else alone if network.heads == 1 and not network.offset else 1.0
        return last(loss=0.1, accuracy=accuracy, margin=np.zeros(2))

    monkeypatch.setattr(mf, "train", train)
    assert claims.second_head(claims.Lab()).ok is holds


@pytest.mark.parametrize(("plateau", "accuracy", "holds"), [(-0.6, 1.0, True), (-0.4, 1.0, False), (-0.6, 0.9, False)])
def test_three_classes(monkeypatch, plateau, accuracy, holds):
    hard, margin = np.array([1.0, 0.0]), np.array([[0.0, 0.0], [plateau, -9.0], [1.0, 1.0]])
    series = {"margin": margin, "hard": hard, "accuracy": np.array([0.5, accuracy]), "loss": np.ones(2)}
    run = Fake(dataset=Fake(**{name: Fake(values=x) for name, x in series.items()}))
    monkeypatch.setattr(mf, "train", lambda *_, **__: run)
    assert claims.three_classes(Fake(transformer=NETWORK, steps=10, descent=run)).ok is holds


ENDS = {"w c": 1.0, "w v": 1.0, "A[c_k,v_k]": 1.0, "A[c_k,v_j]": 0.0, "A[v_k,c_k]": -1.0, "A[v_j,c_k]": 0.0}


@pytest.mark.parametrize(
    ("changed", "reached", "holds"),
    [({}, True, True), ({}, False, False), ({"w c": -1.0}, True, False), ({"A[c_k,v_k]": 0.1}, True, False)],
)
def test_three_stage(monkeypatch, changed, reached, holds):
    ends = iter([ENDS, ENDS | changed])
    monkeypatch.setattr(claims, "entries", lambda w, A: next(ends))
    values = Fake(w=Fake(values=0), A=Fake(values=np.ones(2)))
    run = Fake(dataset=Fake(isel=lambda time: values), switches=[{"reached": True}, {"reached": reached}])
    assert claims.stages_characterise(Fake(descent=run, three_stage=run)).ok is holds


@pytest.mark.parametrize(
    ("changed", "holds"), [({}, True), ({"predicted": 130.0}, False), ({"predicted": 120.0}, True), ({"proven": False}, False),
                           ({"holds": False}, False), ({"upper": None}, False), ({"lower": 101.0}, False)]
)  # fmt: skip
def test_critical_bounded(monkeypatch, changed, holds):
    point = {"holds": True, "proven": True, "lower": 90.0, "actual": 100.0, "upper": 110.0, "predicted": 100.0}
    points = iter([point, point, point | changed, point])
    monkeypatch.setattr(claims, "separation", lambda *_, **__: next(points))
    assert claims.critical_bounded(None).ok is holds


@pytest.mark.parametrize(("power", "holds"), [(-1.0, True), (-0.95, True), (-0.8, False), (-2.0, False)])
def test_rate_far_out(monkeypatch, power, holds):
    loss = Fake(values=np.array([1e5, 1e6]) ** power)
    run = Fake(dataset=Fake(loss=loss), certificate={"relative_difference": 0.0})
    monkeypatch.setattr(mf, "train", lambda *_, **__: run)
    assert claims.flow_rate(claims.Lab()).ok is holds


@pytest.mark.parametrize(("value", "holds"), [(-0.1, True), (0.1, False)])
def test_mechanism(monkeypatch, value, holds):
    signs = {"w c": (1, 1.0), "A[v_k,c_k]": (-1, value)}
    monkeypatch.setattr(claims, "compare", lambda run: {"signs": signs, "distance": {}, "routes": {}})
    assert claims.mechanism(Fake(descent=None)).ok is holds
