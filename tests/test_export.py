"""Weights that travel: files that other tools read, and networks in them that answer as the run did."""

import json
import sys
import types

import numpy as np
import pytest
from safetensors import safe_open

import mixflow as mf

pytestmark = pytest.mark.as_user


@pytest.fixture(scope="module", params=["orthonormal", "correlated"])
def run(request):
    gram = np.eye(4) + 0.1 * (np.ones((4, 4)) - np.eye(4)) if request.param == "correlated" else None
    network = mf.Transformer(width=6, omega=0.5, seed=3, dimension=5)
    method = mf.GradientDescent(learning_rate=0.5, steps=400, save_every=100)
    return mf.train(mf.Mixture(gram=gram), network, method)  # by the reduction: its weights are found again


def read(path):
    with safe_open(path, "np") as file:
        return {name: file.get_tensor(name) for name in file.keys()}, file.metadata()  # noqa: SIM118 (not a dict)


def tokens(run, E):
    """(n, L, d) the tokens of every atom, from the vectors of the features."""
    population = run.task.population()
    places = {name: i for i, name in enumerate(population.features)}
    return np.array([[c * E[places[f]] for f, c in atom] for atom in run.task.population().spec()["atoms"]])


def answers(X, w, W_K, W_Q, bias):
    """F of every sample, written out sample by sample, head by head."""
    found = []
    for x in X:
        F = 0.0
        for h, sign in enumerate((1.0, -1.0)):
            scores = (x @ W_K[h].T) @ (x @ W_Q[h].T).T
            P = np.exp(scores - scores.max(axis=0))
            P /= P.sum(axis=0)
            F += sign * max(0.0, bias[h] + float(np.mean((x @ w[h]) @ P)))
        found.append(F)
    return np.array(found)


def test_an_independent_network_reads_the_file_and_has_the_runs_margins(run, tmp_path):
    arrays, about = read(mf.export.safetensors(run, tmp_path / "weights.safetensors"))
    assert {name: x.shape for name, x in arrays.items()} == {
        "w": (2, 5), "W_K": (2, 6, 5), "W_Q": (2, 6, 5), "bias": (2,), "embedding": (4, 5)}  # fmt: skip
    assert all(x.dtype == np.float64 for x in arrays.values())
    assert json.loads(about["features"]) == list(run.dataset["feature"].values)
    assert json.loads(about["spec"]) == run.spec
    E = arrays.pop("embedding")
    np.testing.assert_allclose(E @ E.T, run.task.population().gram, atol=1e-14)
    F = answers(tokens(run, E), **arrays)
    np.testing.assert_allclose(run.task.population().labels * F, run.dataset.margin[-1], atol=1e-12)


@pytest.fixture
def torch(monkeypatch):
    """As much of PyTorch as the written module uses, by NumPy: its formulas are tested where PyTorch is not installed."""

    class Module:
        def register_parameter(self, name, x):
            setattr(self, name, x)

        def __call__(self, *arguments):
            return self.forward(*arguments)

    class Tensor(np.ndarray):
        def to(self, dtype):
            return self.astype(dtype)

    def einsum(formula, *arrays):
        return np.einsum(formula, *arrays).view(Tensor)

    def softmax(x, dim):
        e = np.exp(x - x.max(axis=dim, keepdims=True))
        return e / e.sum(axis=dim, keepdims=True)

    made = types.ModuleType("torch")
    made.nn = types.SimpleNamespace(Module=Module, Parameter=lambda x, requires_grad: x)
    made.einsum, made.softmax, made.where = einsum, softmax, np.where
    made.ones = lambda shape, dtype: np.ones(shape, dtype).view(Tensor)
    made.bool, made.inf, made.relu = bool, np.inf, lambda x: np.maximum(x, 0)
    made.tensor = lambda x, dtype: np.array(x, dtype)
    reader = types.ModuleType("safetensors.torch")
    reader.load_file = lambda path: read(path)[0]
    monkeypatch.setitem(sys.modules, "torch", made)
    monkeypatch.setitem(sys.modules, "safetensors.torch", reader)
    return Tensor


def module(path):
    scope = {"__file__": str(path), "__name__": "network"}
    exec(compile(path.read_text(), str(path), "exec"), scope)
    return scope


def test_the_written_module_answers_as_the_run(run, tmp_path, torch):
    folder = mf.export.torch_module(run, tmp_path / "net")
    scope = module(folder / "network.py")
    network = scope["Network"]()
    X = tokens(run, network.embedding)
    margins = run.task.population().labels * network(X)
    np.testing.assert_allclose(margins, run.dataset.margin[-1], atol=1e-12)
    assert scope["FEATURES"] == list(run.dataset["feature"].values)
    body = [line for line in (folder / "network.py").read_text().splitlines() if line.strip()]
    assert len(body) <= 35


def test_padding_changes_no_answer(run, tmp_path, torch):
    network = module(mf.export.torch_module(run, tmp_path) / "network.py")["Network"]()
    X = tokens(run, network.embedding)
    longer = np.concatenate([X, np.full((len(X), 2, X.shape[2]), 7.0)], axis=1)
    present = np.arange(longer.shape[1]) < X.shape[1]
    np.testing.assert_allclose(network(longer, np.tile(present, (len(X), 1)).view(torch)), network(X), atol=1e-12)


def test_checkpoints_have_a_manifest(run, tmp_path):
    last = float(run.dataset.time[-1])
    folder = mf.export.checkpoints(run, tmp_path / "all", times=[last])
    manifest = json.loads((folder / "manifest.json").read_text())
    (row,) = manifest["checkpoints"]
    assert row["step"] == 400
    assert row["loss"] == float(run.dataset.loss[-1])
    assert set(read(folder / row["file"])[0]) == {"w", "W_K", "W_Q", "bias", "embedding"}
    assert (folder / manifest["module"]).exists()


def test_tokens_with_noise(tmp_path):
    """The directions without noise are the vectors of the features; the weights answer as the run did on its own samples."""
    task = mf.variants.NoisyMixture(0.1, samples=20, test_samples=10)
    run = mf.train(task, mf.Transformer(width=4, omega=0.5), mf.GradientDescent(steps=20, save_every=20))
    for time in (0.0, None):
        arrays = mf.export.tensors(run, time)
        np.testing.assert_array_equal(arrays.pop("embedding"), task.tokens.directions)
        F = answers(task.tokens.train.tokens, **arrays)
        saved = run.dataset.margin[-1 if time is None else 0]
        np.testing.assert_allclose(task.tokens.train.labels * F, saved, rtol=0, atol=1e-12)
    _, about = read(mf.export.safetensors(run, tmp_path / "noisy.safetensors"))
    assert json.loads(about["features"]) == list(run.dataset["feature"].values)
    assert (mf.export.torch_module(run, tmp_path / "net") / "network.py").exists()


@pytest.mark.parametrize(
    ("options", "shapes"),
    [
        ({"train_bias": True}, {"bias": (2,), "w": (2, 4)}),
        ({"values": 3, "value_scale": 0.1}, {"w": (2, 3, 4), "bias": (2, 3), "read_out": (2, 3)}),
        ({"value_neurons": 2}, {"W_V": (2, 1, 6, 4), "value_neurons": (2, 1, 2, 6), "bias": (2,)}),
        ({"shared_attention": True}, {"W_K": (1, 6, 4), "W_Q": (1, 6, 4)}),
        ({"shared_keys": True, "offset": True}, {"W_K": (1, 6, 4), "W_Q": (2, 6, 4), "offset": ()}),
        ({"attention": "direct"}, {"W_KQ": (2, 4, 4)}),
    ],
)
def test_shapes_of_options_are_those_that_the_docstring_names(options, shapes):
    run = mf.train(mf.Mixture(2), mf.Transformer(width=6, **options), mf.GradientDescent(steps=2, save_every=2))
    found = {name: x.shape for name, x in mf.export.tensors(run, 0.0).items()}
    assert shapes.items() <= found.items()


def test_a_flow_leaves_no_folder_behind(tmp_path):
    run = mf.train(mf.Mixture(2), mf.Transformer(width=4), mf.GradientFlow(until=1.0))
    with pytest.raises(mf.SpecError, match="only descent has weights"):
        mf.export.checkpoints(run, tmp_path / "flow")
    assert list(tmp_path.iterdir()) == []


def test_a_time_that_was_not_saved_is_refused(run, tmp_path):
    with pytest.raises(mf.SpecError, match="times is empty"):
        mf.export.checkpoints(run, tmp_path, times=[])
    with pytest.raises(mf.SpecError, match="not saved"):
        mf.export.checkpoints(run, tmp_path, times=[0.123])
    with pytest.raises(mf.SpecError, match="weights"):
        mf.export.safetensors(mf.train(mf.Mixture(), mf.Transformer(), mf.GradientDescent(steps=10)), tmp_path / "none")


def test_what_network_py_is_not_is_refused(tmp_path):
    """One that is no Transformer, one with options, and one with a head for each class."""
    method = mf.GradientDescent(steps=4, save_every=4)
    with pytest.raises(mf.SpecError, match="a run of Vanilla: expected one of a Transformer"):
        mf.export.torch_module(mf.train(mf.Mixture(), mf.Vanilla(width=4), method), tmp_path / "a")
    with pytest.raises(mf.SpecError, match=r"has activation: network\.py"):
        mf.export.torch_module(
            mf.train(mf.Mixture(), mf.Transformer(width=4, activation="linear"), method), tmp_path / "b"
        )
    names = ("a", "b", "c")
    task = mf.FiniteTask(features=names, atoms=[[(name, 1.0)] for name in names], labels=[0, 1, 2], loss="softmax")
    run = mf.train(task, mf.Transformer(width=4), method)
    with pytest.raises(mf.SpecError, match="one head for each class"):
        mf.export.torch_module(run, tmp_path / "c")
    folder = mf.export.checkpoints(run, tmp_path / "d")
    assert not (folder / "network.py").exists()
    assert list(tmp_path.iterdir()) == [folder]
