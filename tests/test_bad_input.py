"""Every mistake a user can make gets one clear sentence with the fix."""

import math

import numpy as np
import pytest

import mixflow as mf

INDEFINITE = np.eye(4) - 2 * np.ones((4, 4))


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: mf.Mixture(0), "classes = 0: expected a whole number from 1 to 100000"),
        (lambda: mf.Mixture(-3), "classes = -3"),
        (lambda: mf.Mixture(2.5), "classes = 2.5"),
        (lambda: mf.Mixture(True), "classes = True"),
        (lambda: mf.Mixture("2"), "classes = '2'"),
        (lambda: mf.Mixture(2, priors=[0.5, 0.6]), "priors sum to 1.1: expected 1"),
        (lambda: mf.Mixture(2, priors=[1.0]), "priors has 1 entries: expected 2"),
        (lambda: mf.Mixture(2, priors=[1.5, -0.5]), r"priors\[1\] = -0.5"),
        (lambda: mf.Mixture(2, priors=0.5), "priors = 0.5: expected a list of numbers"),
        (lambda: mf.Mixture(2, gram=INDEFINITE), "negative eigenvalue"),
        (lambda: mf.Mixture(2, gram=np.eye(3)), r"shape \(3, 3\): expected \(4, 4\)"),
        (lambda: mf.Mixture(2, gram=np.triu(np.ones((4, 4)))), "not a symmetric matrix"),
        (lambda: mf.Mixture(2, gram=np.full((4, 4), math.nan)), r"gram\[0\]\[0\] = .*nan.*: expected a finite number"),
        (lambda: mf.Mixture(30).population(), r"30·2\^30 atoms, above the limit of 4096.*symmetric"),
        (lambda: mf.Mixture(2).sample(1, seed=0), "n = 1"),
        (lambda: mf.Mixture(2).sample(10, seed=-1), "seed = -1"),
        (lambda: mf.Mixture(2).sample(10, seed=0, test_fraction=1.0), "test_fraction = 1.0"),
        (lambda: mf.Mixture(2).sample(10, seed=0, test_fraction=0.01), "empty side"),
        (lambda: mf.Transformer(width=0), "width = 0.*math.inf"),
        (lambda: mf.Transformer(width=10**14), "width = 100000000000000: expected a whole number from 1 to 10000000"),
        (lambda: mf.Transformer(omega=1e300), "omega = 1e.300.*at most"),
        (lambda: mf.Transformer(width=-math.inf), "width = -inf"),
        (lambda: mf.Transformer(width=math.nan), "width = nan"),
        (lambda: mf.Transformer(omega=math.nan), "omega = nan: expected a finite number"),
        (lambda: mf.Transformer(omega=math.inf), "omega = inf"),
        (lambda: mf.Transformer(omega=-0.1), "omega = -0.1"),
        (lambda: mf.Transformer(bias=math.nan), "bias = nan"),
        (lambda: mf.Transformer(tie_values=1), "tie_values = 1: expected True or False"),
        (lambda: mf.Transformer(seed=-1), "seed = -1"),
        (lambda: mf.GradientDescent(learning_rate=0), "learning_rate = 0.0: expected a finite number above 0"),
        (lambda: mf.GradientDescent(learning_rate=-1), "learning_rate = -1"),
        (lambda: mf.GradientDescent(learning_rate=math.nan), "learning_rate = nan"),
        (lambda: mf.GradientDescent(steps=0), "steps = 0"),
        (lambda: mf.GradientDescent(save_every=0), "save_every = 0"),
        (lambda: mf.GradientDescent(batch_size=0), "batch_size = 0"),
        (lambda: mf.train(mf.Mixture(2), model="grim"), "model = 'grim'.*did you mean 'gram'"),
        (lambda: mf.train("mixture"), "task = 'mixture'"),
        (lambda: mf.train(mf.Mixture(2), mf.GradientDescent()), "transformer = GradientDescent"),
        (lambda: mf.train(mf.Mixture(2), mf.Transformer(width=8), model="symmetric"), "width = 8 breaks the symmetry"),
        (lambda: mf.train(mf.Mixture(2, priors=[0.3, 0.7]), model="symmetric"), "uniform priors"),
        (lambda: mf.train(mf.Mixture(2), model="full"), "infinitely many weights"),
        (lambda: mf.train(mf.Mixture(12), mf.Transformer(width=8)), "limit of 4096.*symmetric"),
        (lambda: mf.train(mf.Mixture(2), mf.Transformer(width=8, dimension=3)), "dimension = 3: expected at least 4"),
        (lambda: mf.train(mf.Mixture(2), method=mf.GradientDescent(batch_size=2)), "finite width"),
        (
            lambda: mf.train(mf.Mixture(2), mf.Transformer(width=8), mf.GradientDescent(batch_size=2), model="gram"),
            "model='full'",
        ),
        (lambda: mf.FiniteTask(features=[], atoms=[], labels=[]), "features"),
        (lambda: mf.FiniteTask(features=["a"], atoms=[], labels=[]), "at least one atom"),
        (lambda: mf.FiniteTask(features=["a"], atoms=[[("b", 1)]], labels=[1]), "the feature 'b': expected one of 'a'"),
        (lambda: mf.FiniteTask(features=["a"], atoms=[[]], labels=[1]), "needs at least one"),
        (lambda: mf.FiniteTask(features=["a"], atoms=[[("a", 1)]], labels=[0]), "labels must be"),
        (lambda: mf.FiniteTask(features=["a"], atoms=[[("a", math.inf)]], labels=[1]), "coefficient of 'a'"),
    ],
)
def test_one_clear_sentence(call, says):
    with pytest.raises(mf.SpecError, match=says) as caught:
        call()
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, ValueError)
