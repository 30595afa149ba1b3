"""A finite task in which nothing is regular, for what must work on any."""

import numpy as np

import mixflow as mf

# Tokens that repeat, atoms of different lengths, a coefficient that is no sign, features that are not orthogonal.
ODD = mf.FiniteTask(
    features=("c1", "c2", "v1", "v2"),
    atoms=[
        [("c1", 1), ("v1", 1), ("v2", -1)],
        [("c1", 1), ("v1", -1), ("v1", -1), ("v2", 1)],
        [("c2", 1), ("v2", 0.5)],
        [("c2", 1), ("c1", 1), ("v1", 1), ("v2", -1)],
    ],
    labels=[1, -1, 1, -1],
    probabilities=[0.4, 0.3, 0.2, 0.1],
    gram=np.eye(4) + 0.2 * (np.ones((4, 4)) - np.eye(4)),
    hard=[True, False, False, True],
)
