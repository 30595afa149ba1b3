"""A read-out of one's own: the paper's network written as one, a smooth one against every weight, files, refusals."""

import math

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
    monkeypatch.setattr("mixflow.networks.reading._KNOWN", {})
    with pytest.raises(mf.SpecError, match=r"test_read_out:gated, which no file brings: make it with mf.Network"):
        _ = mf.load(path).transformer
