"""Every mistake a user can make gets one clear sentence with the fix."""

import itertools
import math

import numpy as np
import pytest

import mixflow as mf
from mixflow.spec import read

GRID = {"transformer.omega": [0.1, 0.2]}


def finite(**changes):
    """A small valid task with something changed."""
    return mf.FiniteTask(**{"features": ["a"], "atoms": [[("a", 1)]], "labels": [1], **changes})


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
        (lambda: mf.train(mf.Mixture(8), mf.Transformer(width=10**7)), "640000000 numbers to draw, above 200000000"),
        (lambda: mf.train(mf.Mixture(2), model="grim"), "model = 'grim'.*did you mean 'gram'"),
        (lambda: mf.train("mixture"), "task = 'mixture'"),
        (lambda: mf.train(mf.Mixture(2), mf.GradientDescent()), "transformer = GradientDescent"),
        (lambda: mf.train(mf.Mixture(2), mf.Transformer(width=8), model="symmetric"), "width = 8 breaks the symmetry"),
        (lambda: mf.train(mf.Mixture(2, priors=[0.3, 0.7]), model="symmetric"), "uniform priors"),
        (lambda: mf.train(mf.Mixture(2), model="full"), "infinitely many weights"),
        (lambda: mf.train(mf.Mixture(12), mf.Transformer(width=8)), "limit of 4096.*symmetric"),
        (lambda: mf.train(mf.Mixture(2), mf.Transformer(width=8, dimension=3)), "dimension = 3: expected at least 4"),
        (
            lambda: mf.train(mf.Mixture(2), method=mf.GradientDescent(batch_size=2), model="symmetric"),
            "minibatches break the symmetry",
        ),
        (lambda: mf.FiniteTask(features=[], atoms=[], labels=[]), "features"),
        (lambda: mf.FiniteTask(features=["a"], atoms=[], labels=[]), "at least one atom"),
        (lambda: mf.FiniteTask(features=["a"], atoms=[[("b", 1)]], labels=[1]), "the feature 'b': expected one of 'a'"),
        (lambda: mf.FiniteTask(features=["a"], atoms=[[]], labels=[1]), "needs at least one"),
        (lambda: mf.FiniteTask(features=["a"], atoms=[[("a", 1)]], labels=[0]), "labels must be"),
        (lambda: mf.FiniteTask(features=["a"], atoms=[[("a", math.inf)]], labels=[1]), "coefficient of 'a'"),
        (lambda: finite(atoms=[[("a", 1, 2)]]), r"expected a token \(feature, coefficient\)"),
        (lambda: finite(atoms=["ab"]), r"atoms\[0\] = 'ab': expected a list of"),
        (lambda: finite(atoms=[["ab"]]), r"atoms\[0\] = 'ab': expected a token"),
        (lambda: finite(atoms=[{"a": 1}]), r"atoms\[0\] = {'a': 1}: expected a list"),
        (lambda: finite(atoms=5), "atoms = 5: expected a list of atoms"),
        (lambda: finite(atoms=itertools.count()), "expected"),
        (lambda: finite(features=np.eye(2)), r"features\[0\] = array.*expected a name"),
        (lambda: finite(features=itertools.repeat("a")), "more than 1000000 entries"),
        (lambda: finite(features=["a\0"]), "expected a name"),
        (lambda: finite(atoms=[[("a", 10**400)]]), "coefficient of 'a'"),
        (lambda: finite(atoms=[[("a", "1")]]), "coefficient of 'a'"),
        (lambda: finite(labels=[10**400]), r"labels\[0\]"),
        (lambda: finite(labels="1"), "expected a list of numbers"),
        (lambda: finite(labels=[math.nan]), r"labels\[0\] = nan"),
        (lambda: finite(hard=[2]), r"hard\[0\] = 2: expected True or False"),
        (lambda: finite(hard=[True, True]), "one for each of the 1 atoms"),
        (lambda: finite(names=["x", "y"]), "names has 2 entries"),
        (lambda: finite(query=[("b", 1)]), "query names the feature 'b'"),
        (lambda: finite(query=[("a", 1)] * 2), "query has 2 entries"),
        (lambda: finite(held_out=[0.5]), "held_out sum to 0.5"),
        (lambda: finite(identifiers=["b"]), "identifiers names the feature 'b'"),
        (lambda: finite(watched=["b"]), "watched names the feature 'b'"),
        (lambda: finite(gram=[[1e308]]).gram is None or finite(gram=[["x"]]), r"gram\[0\]\[0\] = 'x'"),
        (lambda: finite(gram=[[1], [1, 2]]), "rows of equal length"),
        (lambda: finite(loss="hinge"), "loss = 'hinge': expected one of 'logistic', 'exponential', 'linear'"),
        (lambda: mf.Mixture(np.array([2])), "classes = array"),
        (lambda: mf.Mixture(10**400), "classes = 1000"),
        (lambda: mf.Mixture(10**5000), "classes = a int that cannot be shown"),
        (lambda: mf.Mixture(2).sample(10**12, seed=0), "n = 1000000000000"),
        (lambda: mf.Mixture(2).sample(10, seed=10**20), "seed = 100000000000000000000"),
        (lambda: mf.Sample(task=5, n=10, seed=0), "task = 5: expected a task of kind mixture"),
        (lambda: mf.variants.repeated(signals=2**64), "signals = 18446744073709551616"),
        (lambda: mf.variants.repeated(8, signals=4096), "tokens, above 1000000"),
        (lambda: mf.variants.distractors(mf.Mixture(), kinds=2**64), "kinds = 18446744073709551616"),
        (lambda: mf.variants.distractors(mf.Mixture(), count=2**64), "count = 18446744073709551616"),
        (lambda: mf.variants.distractors(mf.Mixture(), count=1701, kinds=1700), "more than 4096 atoms"),
        (lambda: mf.variants.distractors(mf.Mixture(1), count=1100), "more than 1000000 tokens"),
        (lambda: mf.variants.imbalanced(100), r"100·2\^100 atoms"),
        (lambda: mf.variants.imbalanced(2, positive=None), "positive = None"),
        (lambda: mf.variants.coherent(10**5, coherence=0.1), "classes = 100000"),
        (lambda: mf.variants.composed(itertools.count()), "parts"),
        (lambda: mf.variants.composed((10**300, 1)), r"parts\[0\]"),
        (lambda: mf.variants.label_noise("task", probability=0.1), "label_noise needs"),
        (lambda: mf.GradientDescent(steps=10**400), "steps"),
        (lambda: mf.GradientFlow(save_at=itertools.count()), "more than 1000000 entries"),
        (lambda: mf.ThreeStage(neurons=True), "neurons = True"),
        (lambda: mf.Until([], 1), r"quantity = \[\]"),
        (lambda: mf.Optimizer(kind=np.array("adam")), "kind = array"),
    ],
)
def test_one_clear_sentence(call, says):
    with pytest.raises(mf.SpecError, match=says) as caught:
        call()
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("name", ["a\nb", "a\0b", "x" * 10**4])
def test_a_folder_that_cannot_be_is_told_in_one_short_line(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    calls = {
        "holds no MNIST file|without null": lambda: mf.Mnist(source=name).spec(),
        "holds no sweep|without null": lambda: mf.open_sweep(name),
        "cannot make the folder|without null": lambda: mf.sweep(
            {"grid": {"transformer.omega": [0.3]}}, f"{name}/{'y' * 300}"
        ),
    }
    for says, call in calls.items():
        with pytest.raises(mf.StoreError, match=says) as caught:
            call()
        assert str(caught.value).isprintable()
        assert len(str(caught.value)) < 500


@pytest.mark.parametrize("width", [np.zeros(0), np.array([4, 8]), "inf ", None])
def test_a_width_that_is_no_number_is_told_in_one_sentence(width):
    with pytest.raises(mf.SpecError, match="width"):
        mf.Transformer(width=width)


def test_a_class_is_no_specification():
    with pytest.raises(mf.SpecError, match="expected a task of kind mixture"):
        mf.Sample(task=mf.Mixture, n=3, seed=0)


@pytest.mark.parametrize(
    ("method", "says"),
    [
        (
            mf.GradientDescent(steps=10**9, save_every=1),
            r"^1000000001 saves of \d+ bytes are .* at most \d+ .*save_every",
        ),
        (mf.GradientFlow(save_at=10**6), r"^1000000 saves of .*\(save_at\)\.$"),
        (mf.ThreeStage(mf.GradientDescent(0.001, save_every=1), attention=1e6), r"^1000000001 saves"),
    ],
)
def test_a_record_that_does_not_fit_into_memory_is_refused_before_it_is_made(method, says):
    with pytest.raises(mf.SpecError, match=says):
        mf.train(mf.Mixture(4), mf.Transformer(), method)
    with pytest.raises(mf.SpecError, match=says):
        mf.train_many(mf.Mixture(4), [mf.Transformer()], method)


def test_a_run_does_not_go_on_beyond_what_fits_into_memory():
    run = mf.train(mf.Mixture(2), mf.Transformer(), mf.GradientDescent(steps=10))
    with pytest.raises(mf.SpecError, match=r"^100000002 saves"):
        mf.extend(run, 10**9)


def _read(O, parameters):
    return O.mean(axis=(0, 2))


@pytest.mark.parametrize(
    "call",
    [
        lambda: mf.Network(_read, mf.Transformer(), parameters=5),
        lambda: mf.Network(_read, mf.Transformer(), parameters=np.ones(2)),
        lambda: mf.Network(_read, mf.Transformer(), parameters={"s": "x"}),
        lambda: mf.train(mf.Mixture(), mf.Network(lambda O, p: O.mean(axis=(0, 2)) * 1j), mf.GradientDescent(steps=1)),
        lambda: mf.train(mf.Mixture(), mf.Transformer(4), mf.GradientDescent(steps=1), start={"w": "x"}),
        lambda: mf.train(mf.Mixture(), mf.Transformer(4), mf.GradientDescent(steps=1), start={"w": [[1], [1, 2]]}),
        lambda: mf.open_sweep(5),
        lambda: mf.open_sweep(None),
        lambda: mf.sweep({"grid": {"transformer.omega": [0.3]}}, ""),
        lambda: mf.sweep({"grid": {"transformer.omega": [0.3]}}, None),
        lambda: mf.compare(5, 5),
        lambda: mf.view(5),
        lambda: mf.plot_run(5),
        lambda: mf.extend(5, 5),
        lambda: mf.Transformer(4, heads=1, shared_keys=True),
        lambda: mf.train(mf.Mixture(), mf.Transformer(5_000_000), mf.Optimizer(kind="adam", steps=1)),
    ],
)
def test_public_functions_answer_anything_in_a_sentence(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(mf.MixflowError) as caught:
        call()
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)
    assert not any(tmp_path.iterdir())


def test_scores_that_tables_cannot_hold_are_none_of_the_learning_rates_doing():
    atoms = [[("a", 40), ("b", 1)], [("a", -40), ("b", -1)], [("a", 1), ("b", 2)]]
    task = mf.FiniteTask(features=("a", "b"), atoms=atoms, labels=[1, -1, 1])
    network, method = mf.Transformer(3, omega=2.0, seed=1), mf.GradientDescent(0.001, 10, save_every=5)
    with pytest.raises(mf.DivergedError, match=r"its scores begin at .*: train with model='full'"):
        mf.train(task, network, method)
    assert mf.train(task, network, method, model="full").dataset.loss[-1] < 0.6


def nested(depth, **inner):
    """Label noise on label noise, `depth` times, as a table."""
    for _ in range(depth):
        inner = {"kind": "label_noise", "probability": 0.1, "task": inner}
    return inner


@pytest.mark.parametrize("depth", [14, 300])
@pytest.mark.parametrize(
    "make", [lambda task: read({"task": task}), lambda task: mf.sweep({"task": task, "grid": GRID}, "x")]
)
def test_noise_on_noise_is_refused_before_it_is_built(make, depth, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(mf.SpecError, match=r"at most 4096 atoms|more than 16 deep"):
        make(nested(depth, classes=2))


def test_noise_on_noise_has_an_end_in_python():
    task = mf.Mixture()
    for _ in range(10):
        task = mf.variants.label_noise(task, probability=0.1)
    with pytest.raises(mf.SpecError, match=r"label_noise of 8192 atoms.* at most 4096 atoms; take a smaller task"):
        mf.variants.label_noise(task, probability=0.1)


def test_tables_that_hold_one_another_are_no_sweep(tmp_path):
    task = nested(1)
    task["task"] = task
    with pytest.raises(mf.SpecError, match="without an end"):
        mf.sweep({"task": task, "grid": GRID}, tmp_path / "x")
