"""What a live display relies on: states handed out while they are computed, and the plane in which samples part."""

import numpy as np
import pytest

import mixflow as mf
from mixflow.measure.plane import separating_plane
from mixflow.measure.separability import feature_margin

TASK, TRANSFORMER = mf.Mixture(classes=2), mf.Transformer(omega=0.3)


@pytest.mark.parametrize("width", [np.inf, 8])
def test_on_save_hands_out_every_state_of_descent(width):
    parts = []
    method = mf.GradientDescent(steps=300, save_every=7)
    run = mf.train(TASK, mf.Transformer(width=width), method, on_save=lambda t, dataset: parts.append((t, dataset())))
    assert np.array_equal(np.concatenate([t for t, _ in parts]), run.dataset.time)
    for name in ("w", "loss", "margin"):
        assert np.array_equal(np.concatenate([data[name] for _, data in parts]), run.dataset[name])


def test_on_save_gives_a_switch_of_stages_twice():
    times = []
    method = mf.ThreeStage(mf.GradientDescent(save_every=10), neurons=20, attention=20, converge=20)
    run = mf.train(TASK, TRANSFORMER, method, on_save=lambda t, _: times.extend(t))
    assert times.count(20.0) == times.count(40.0) == 2
    assert np.array_equal(np.unique(times), run.dataset.time)


def test_what_on_save_raises_ends_the_run():
    class Enough(Exception):
        pass

    def stop(time, history):
        raise Enough

    with pytest.raises(Enough):
        mf.train(TASK, TRANSFORMER, mf.GradientDescent(steps=1000), on_save=stop)


def test_the_plane_separates_what_is_separable():
    run = mf.train(TASK, TRANSFORMER, mf.GradientDescent(steps=4000, save_every=100))
    A = run.dataset.A.values
    points, labels, margin = separating_plane(TASK, A)
    assert points.shape == (len(A), 4, 2)
    assert margin == pytest.approx(float(feature_margin(TASK, A[-1])))
    assert (labels * points[-1, :, 0]).min() == pytest.approx(margin)  # both labels on their side of the line
    assert np.abs(points[0, :, 0]).max() < 1e-12  # at the start all of them lie on it


def test_the_plane_of_untrained_attention_is_finite():
    points, _, margin = separating_plane(TASK, np.zeros((3, 2, 4, 4)))
    assert margin == 0
    assert np.isfinite(points).all()
