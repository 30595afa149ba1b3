"""The symmetries of the uniform mixture against its list of atoms: types, their multiplicities, sectors written out."""

from collections import Counter

import numpy as np
import pytest

import mixflow as mf
from mixflow.tasks.symmetry import atom_types, binomial, expand


@pytest.mark.parametrize("K", [1, 2, 3, 5])
def test_types_count_the_atoms_they_stand_for(K):
    task = mf.Mixture(K).population()
    kinds = Counter()
    for atom, label in zip(task.atoms, task.labels):
        own = atom[0][0].replace("c", "v")
        kinds[int(label), sum(sign > 0 for name, sign in atom[1:] if name != own)] += 1
    names, y, n, multiplicity = atom_types(K)
    assert {(int(a), int(b)): m for a, b, m in zip(y, n, multiplicity)} == kinds
    assert names == [f"y={'+' if a > 0 else '-'} n={b}" for a, b in zip(y, n)]
    assert np.tile(binomial(K), 2) / 2 == pytest.approx(multiplicity / (K * 2**K))


def test_sectors_written_out():
    """On (1, 1, 1) a block is the common sector, on (1, −1, 0) the contrast; head − is head + with v → −v."""
    K, rng = 3, np.random.default_rng(0)
    state = {"w": rng.normal(size=2), **{name: rng.normal(size=(2, 2, 2)) for name in ("A", "G_K", "G_Q")}}
    found = expand(state, K)
    assert found["w"] == pytest.approx(np.array([np.repeat(state["w"], K), np.repeat(state["w"] * [1, -1], K)]))
    for name in ("A", "G_K", "G_Q"):
        blocks = found[name].reshape(2, 2, K, 2, K)
        for i, j in np.ndindex(2, 2):
            common, contrast = state[name][:, i, j]
            np.testing.assert_allclose(blocks[0, i, :, j] @ np.ones(K), common * np.ones(K))
            np.testing.assert_allclose(blocks[0, i, :, j] @ [1, -1, 0], contrast * np.array([1, -1, 0]), atol=1e-14)
            np.testing.assert_allclose(blocks[1, i, :, j], blocks[0, i, :, j] * (1 if i == j else -1))
