"""A read-out of one's own: the paper's network written as one, a smooth one against every weight, files, refusals."""

import math
import re
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from test_options import COHERENT

import mixflow as mf

READS = mf.Transformer(width=5, seed=3, omega=0.5, dimension=6, value_scale=0.3)
START = {"scale": 1.0, "shift": [0.1, 0.2]}
DESCENT = mf.GradientDescent(0.05, 80, save_every=40, momentum=0.5, weight_decay=0.01, normalised=True)


def inputs(O, parameters):
    return 0.5 + O.mean(axis=-1)


def difference(on, parameters):
    return on[0] - on[1]


def gated(O, parameters):
    what, how_much = O.mean(axis=-1)
    return parameters["scale"] * what * jnp.tanh(1 + how_much) + parameters["shift"].sum()


def in_numpy(O, parameters):
    return np.asarray(O).mean(axis=-1)[0]


def lopsided(O, parameters):
    return O


@pytest.mark.parametrize("method", [DESCENT, mf.GradientFlow(until=8.0, save_at=5)])
def test_the_papers_network_as_a_read_out(method):
    """Kinks included: the flow passes the same switches."""
    twin = mf.Network(difference, READS, neurons=inputs)
    own, paper = (mf.train(COHERENT, network, method) for network in (twin, READS))
    assert own.dataset.attrs["model"] == "gram"
    assert "width 5, " in repr(own)
    assert own.dataset.z.dims == ("time", "head", "atom")
    for name in ("w", "A", "z", "loss"):
        np.testing.assert_allclose(own.dataset[name], paper.dataset[name], rtol=0, atol=1e-12)
    np.testing.assert_allclose([e.time for e in own.events], [e.time for e in paper.events], rtol=1e-9)


@pytest.fixture(scope="module")
def smooth():
    return mf.Network(gated, READS, parameters=START)


def test_a_smooth_read_out_equals_every_weight(smooth):
    staged = mf.ThreeStage(DESCENT, 1.0, 1.0, 1.0)
    gram, full = (mf.train(COHERENT, smooth, staged, model=model).dataset for model in ("gram", "full"))
    for name in ("w", "A", "loss", "scale", "shift"):
        np.testing.assert_allclose(gram[name], full[name], rtol=0, atol=1e-11)
    assert abs(gram.scale[-1] - 1) > 0.01


def test_infinite_width_and_flow_are_limits(smooth):
    """Wide networks approach the infinite one, small rates the flow."""
    method = mf.GradientDescent(0.02, 200, save_every=200)

    def end(width, method):
        reads = mf.Transformer(width=width, seed=3, omega=0.5, value_scale=0.3)
        return mf.train(mf.Mixture(2), mf.Network(gated, reads, parameters=START), method).dataset.A.values[-1]

    limit = end(math.inf, method)
    far = [np.abs(end(width, method) - limit).max() for width in (256, 65536)]
    assert 10 < far[0] / far[1] < 26  # √256 = 16
    flow = end(math.inf, mf.GradientFlow(until=4.0, save_at=[4.0]))
    small = end(math.inf, mf.GradientDescent(0.01, 400, save_every=400))
    assert 1.7 < np.abs(limit - flow).max() / np.abs(small - flow).max() < 2.3


def test_its_run_goes_on_after_loading(smooth, tmp_path):
    short = mf.train(COHERENT, smooth, DESCENT)
    path = short.save(tmp_path / "run.nc")
    longer = mf.train(COHERENT, smooth, mf.GradientDescent(**{**vars(DESCENT), "steps": 120})).dataset
    extended = mf.extend(mf.load(path), 40).dataset
    for name in ("w", "A", "loss", "scale", "shift"):
        np.testing.assert_array_equal(extended[name], longer[name])


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: mf.Network(3), "answer = 3: expected a function"),
        (lambda: mf.Network(gated, mf.Vanilla()), "expected a Transformer, whose queries read"),
        (lambda: mf.Network(gated, mf.Transformer(offset=True)), "offset of the Transformer is part of a read-out"),
        (lambda: mf.Network(gated, parameters={"A": 1.0}), "parameters has 'A': expected a name of its own"),
        (
            lambda: mf.train(mf.Mixture(2), mf.Network(in_numpy)),
            r"in_numpy fails \(TracerArrayConversionError.*: write it with jax.numpy, for O .* of shape \(2, 8, 3\)",
        ),
        (
            lambda: mf.train(mf.variants.multiclass(2, values=3), mf.Network(gated, parameters=START)),
            r"gated fails \(ValueError: too many values to unpack",
        ),
        (lambda: mf.train(mf.Mixture(2), mf.Network(lopsided)), r"lopsided gives shape .*expected \(8,\)"),
        (
            lambda: mf.train(mf.Mixture(2), mf.Network(gated, parameters=START), mf.Optimizer(kind="adam")),
            "width = inf: Adam looks at every weight by itself.*set the width",
        ),
    ],
)
def test_bad_input(call, says):
    with pytest.raises(mf.SpecError, match=says):
        call()


def test_a_file_never_brings_a_function(smooth, tmp_path, monkeypatch):
    path = mf.train(mf.Mixture(2), smooth, mf.GradientDescent(steps=10)).save(tmp_path / "run.nc")
    monkeypatch.setattr("mixflow.networks.functions._KNOWN", {})
    with pytest.raises(mf.SpecError, match=r"test_read_out:gated, which no file brings: make it with mf.Network"):
        _ = mf.load(path).transformer


def scaled(factor):
    def answer(O, parameters):
        return factor * O.mean(axis=-1)[0]

    return answer


@pytest.fixture(scope="module")
def namesakes():
    """Two functions of one name, and a run of each."""
    networks = [mf.Network(scaled(factor), READS) for factor in (1.0, 3.0)]
    runs = [mf.train(mf.Mixture(2), network, SHORT) for network in networks]
    return networks, runs


SHORT = mf.GradientDescent(0.1, 20, save_every=10)
ATOM = "c1 +v1 -v2"


def answered(run):
    return run.dataset.margin.sel(atom=ATOM).values[-1] * run.dataset.label.sel(atom=ATOM).item()


def test_a_run_keeps_its_own_function(namesakes, tmp_path):
    networks, runs = namesakes
    many = mf.train_many(mf.Mixture(2), networks, SHORT)
    assert [run.dataset.attrs["seed"] for run in many] == [network.seed for network in networks]
    for i, (network, run) in enumerate(zip(networks, runs)):
        assert run.transformer is network
        assert many[i].transformer is network
        longer = run.extend(10)
        assert longer.transformer is network
        assert longer.expand().transformer is network
        saved = mf.load(run.save(tmp_path / "run.nc"))
        for each in (run, many[i], longer, saved):
            assert each.predict([ATOM]).item() == pytest.approx(answered(each), abs=1e-12)
    assert abs(answered(runs[0]) - answered(runs[1])) > 0.01


def test_a_file_is_read_with_the_function_it_was_trained_with(namesakes, tmp_path, monkeypatch):
    from mixflow.networks import functions

    networks, runs = namesakes
    path, name = runs[0].save(tmp_path / "run.nc"), functions.named(networks[0].read_out)
    monkeypatch.setattr(functions, "_KNOWN", {})
    functions.known(networks[1].read_out)
    with pytest.raises(mf.SpecError, match="is another function here: give the one it was trained with"):
        _ = mf.load(path).transformer
    given = mf.load(path, network=networks[0])
    assert given.predict([ATOM]).item() == pytest.approx(answered(runs[0]), abs=1e-12)
    functions.known(scaled(1.0))  # the same function once more
    assert functions.found(name, functions.fingerprint(networks[0].read_out)).__closure__[0].cell_contents == 1.0
    with pytest.raises(mf.SpecError, match="a name of 2 functions here"):  # compiled by another Python
        functions.found(name, "2.7:0")
    other = mf.Network(scaled(1.0), mf.Transformer(width=6))
    with pytest.raises(mf.SpecError, match=r"network has transformer = .*: give the network that was trained"):
        mf.load(path, network=other)


def test_a_fingerprint_sees_what_a_function_reads(monkeypatch):
    from mixflow.networks.functions import fingerprint

    table = np.arange(3.0)
    same = [lambda O, p: O[0] * table[0] for _ in range(2)]
    assert fingerprint(same[0]) == fingerprint(same[1])
    before = fingerprint(same[0]), fingerprint(gated), fingerprint(answered)
    table[0] = 5.0
    assert fingerprint(same[0]) != before[0]
    assert fingerprint(lambda O, p: O[0] * table[1]) != fingerprint(same[0])
    monkeypatch.setitem(globals(), "ATOM", "another")
    assert fingerprint(answered) != before[2]
    assert fingerprint(gated) == before[1]


def test_it_shows_itself(smooth):
    said = repr(smooth)
    assert "test_read_out:gated, Transformer(width=5" in said
    assert said.endswith("parameters={'scale': 1.0, 'shift': [0.1, 0.2]})")


def test_names_that_a_dataset_can_have_are_refused(namesakes):
    """Every name in datasets of several kinds, and in the tables of the page of the schema."""
    networks, _ = namesakes
    sample = mf.train(mf.Sample(mf.Mixture(2), n=12, seed=0), mf.Transformer(width=4), mf.GradientFlow(20.0, save_at=2))
    moving = mf.GradientDescent(0.1, 4, save_every=2, momentum=0.5)
    datasets = [
        sample.dataset,
        mf.train_many(mf.Mixture(2), networks, moving).dataset,
        mf.train(mf.Mixture(8), mf.Transformer(), moving).dataset,
    ]
    names = {str(name) for data in datasets for name in (*data.variables, *data.dims)}
    page = (Path(__file__).parent.parent / "docs" / "schema.md").read_text()
    rows = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    names |= {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert {"accuracy", "margin", "loss_test", "event_head", "final_w_velocity", "head", "run", "atom_type"} <= names
    for name in {*names, "embedding", "read_out", "scale_1"}:
        with pytest.raises(mf.SpecError, match=f"parameters has '{name}': expected a name of its own"):
            mf.Network(gated, READS, parameters={"scale": [1.0], name: 1.0})
    mf.Network(gated, READS, parameters={"scale": 1.0, "shift": 0.0, "layer_2_gain": 1.0, "s1": 1.0})
