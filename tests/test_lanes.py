"""The arithmetic under the engines: exp to two units in the last place, and the rows in which queries occur."""

import numpy as np
import pytest

import mixflow as mf
from mixflow.engines.attention_tables import Rows
from mixflow.engines.lanes import LANES, exp, logistic
from mixflow.jaxed import jax


@pytest.mark.parametrize("reach", [0.5, 40.0, 700.0])
def test_exp_to_two_units_in_the_last_place(reach):
    x = np.random.default_rng(0).uniform(-reach, reach, 50_000)
    exact = np.exp(x.astype(np.longdouble))
    error = np.abs(np.asarray(jax().jit(exp)(x)) - exact) / np.spacing(exact.astype(float))
    assert error.max() < 2


def test_exp_at_its_ends():
    assert float(exp(np.float64(0.0))) == 1.0
    assert np.isnan(np.asarray(exp(np.array([701.0, -701.0, np.inf, np.nan])))).all()
    assert np.asarray(logistic(np.array([-1e4, 0.0, 1e4]))).tolist() == [1.0, 0.5, pytest.approx(0.0, abs=1e-300)]


def uneven():
    """Different lengths, repeated tokens, general coefficients: types that stand in one atom and in all."""
    atoms = [[("a", 1), ("b", 0.5), ("b", 0.5)], [("a", 1)], [("a", 1), ("b", -2), ("c", 1), ("c", 1)]]
    return mf.FiniteTask(features=("a", "b", "c"), atoms=atoms, labels=[1, -1, 1])


@pytest.mark.parametrize(
    "task", [uneven(), mf.Mixture(2).population(), mf.Mixture(4).population()], ids=["uneven", "2", "4"]
)
def test_sums_over_rows_are_the_sums_over_all_pairs(task):
    M, L = task.count, task.length
    n, T = M.shape
    rows, rng = Rows(M, M, L), np.random.default_rng(1)
    E = rng.standard_normal((T, T, 2 * LANES))
    pairs = np.einsum("ak,kql->aql", M, E)
    ours = np.asarray(rows.sum_keys(E))
    np.testing.assert_allclose(ours, pairs[rows.atom, np.arange(T)], atol=1e-13)
    np.testing.assert_allclose(rows.pool(ours), np.einsum("aq,aql->al", M / L[:, None], pairs), atol=1e-13)
    back = np.einsum("ak,aq,aql->kql", M, M / L[:, None], pairs)
    np.testing.assert_allclose(rows.sum_atoms(rows.weight * ours), back, atol=1e-13)
    if n <= 24:
        assert len(rows.atom) == (M > 0).sum(axis=0).max()  # no row beyond the most frequent type's
