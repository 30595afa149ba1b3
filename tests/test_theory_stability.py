"""Symmetry types are a decomposition, and three independent measurements of their growth agree."""

import numpy as np
import pytest

import mixflow as mf
from mixflow.theory import stability as S

NETWORK = mf.Transformer(omega=0.3)


@pytest.mark.parametrize("K", [2, 3, 4])
def test_types_decompose_every_state(K):
    rng = np.random.default_rng(K)
    parts = {"w": rng.normal(size=(2, 2 * K)), "A": rng.normal(size=(2, 2 * K, 2 * K))}
    found = {kind: S.project(parts, K, kind) for kind in S.TYPES}
    for name, x in parts.items():
        np.testing.assert_allclose(sum(part[name] for part in found.values()), x, atol=1e-13)
        for kind, part in found.items():
            np.testing.assert_allclose(S.project(part, K, kind)[name], part[name], atol=1e-13)
            others = [S.project(part, K, other)[name] for other in S.TYPES if other != kind]
            assert max(np.abs(other).max() for other in others) < 1e-13
    assert (S.perturbation(K, 0.3, ("pairs", "mirror"), 0) is None) == (K == 2)


def test_equal_and_mirror_is_the_symmetric_model():
    from mixflow.models.symmetric import expand

    rng = np.random.default_rng(0)
    sectors = {"w": rng.normal(size=2), **{name: rng.normal(size=(2, 2, 2)) for name in ("A", "G_K", "G_Q")}}
    state = expand(sectors, 3)
    kept = S.project(state, 3, ("equal", "mirror"))
    for name in state:
        np.testing.assert_allclose(kept[name], state[name], atol=1e-13)


def test_tangent_flow_and_descent_agree():
    task, times = mf.Mixture(classes=2), np.linspace(0, 240, 13)
    descent, at = S.descent_growth(task, NETWORK, 2400, saves=12)
    np.testing.assert_allclose(at, times)
    for kind in (("unequal", "mirror"), ("unequal", "apart")):
        linear, finite = S.tangent(task, NETWORK, kind, times), S.growth(task, NETWORK, kind, times)
        np.testing.assert_allclose(finite, linear, rtol=0.01)
        np.testing.assert_allclose(descent[kind], finite, rtol=0.02)
        assert finite.max() > 4


def test_asymmetry_of_seeds_is_measured_by_type():
    task = mf.Mixture(classes=2)
    networks = [mf.Transformer(omega=0.3, width=4096, seed=seed) for seed in range(3)]
    A = mf.train_many(task, networks, mf.GradientDescent(0.1, 1500, 1500)).A.values
    found = S.seed_growth(task, A[:, 0], A[:, -1])
    assert set(found) == {("equal", "apart"), ("unequal", "mirror"), ("unequal", "apart")}
    assert all((ratio > 1).all() for ratio in found.values())
    assert S.growth(task, NETWORK, ("pairs", "mirror"), [0.0, 1.0]) is None
    assert S.tangent(task, NETWORK, ("pairs", "mirror"), [0.0, 1.0]) is None
