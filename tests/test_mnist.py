"""Images as tokens: the files and every way they can be wrong, the split, the gradient, and a short training that learns."""

import functools
import gzip
import http.server
import json
import struct
import threading
from pathlib import Path

import numpy as np
import pytest

import mixflow as mf
from mixflow.cli import main
from mixflow.dynamics.descent import descend
from mixflow.models.full import Full
from mixflow.models.tokens import TokenModel
from mixflow.models.transformer import embedding
from mixflow.tasks import download, idx
from mixflow.tasks.tokens import Part, Tokens

OFFICIAL = Path(__file__).parents[2] / "shared" / "data" / "mnist"
needs_files = pytest.mark.skipif(not OFFICIAL.is_dir(), reason="the official test files are not beside the repository")


def idx_bytes(array, magic):
    return struct.pack(f">{1 + array.ndim}I", magic, *array.shape) + array.astype(np.uint8).tobytes()


def write(folder, images, labels, *, stem="t10k", change=lambda content: content):
    folder.mkdir(exist_ok=True)
    for name, array, magic in (("images-idx3", images, idx.IMAGES), ("labels-idx1", labels, idx.LABELS)):
        (folder / f"{stem}-{name}-ubyte.gz").write_bytes(change(gzip.compress(idx_bytes(array, magic), mtime=0)))
    return folder


@pytest.fixture
def digits(tmp_path):
    rng = np.random.default_rng(0)
    images, labels = rng.integers(1, 256, size=(40, 28, 28)), np.tile([1, 2], 20)
    return write(tmp_path / "digits", images, labels), images, labels


# files ---------------------------------------------------------------------------------------------------------------


def test_hand_made_files_are_read_pixel_for_pixel(digits):
    folder, images, labels = digits
    found = idx.read_folder(folder, checksums=False)
    assert np.array_equal(found.pixels, images.reshape(40, 784))
    assert np.array_equal(found.labels, labels)
    assert found.test is None
    assert set(found.sha256) == set(idx.TEST)


def test_train_and_test_files_keep_the_official_split(digits):
    folder, images, labels = digits
    write(folder, images[:10], labels[:10], stem="train")
    found = idx.read_folder(folder, checksums=False)
    assert found.test.tolist() == [False] * 10 + [True] * 40


@needs_files
def test_official_test_files():
    found = idx.read_digits(str(OFFICIAL))
    assert found.pixels.shape == (10_000, 784)
    assert np.bincount(found.labels).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert found.sha256 == idx.TEST
    task = mf.Mnist(source=str(OFFICIAL), digits=(3, 8, 5), samples=30, test_samples=30)
    assert task.tokens.train.tokens.shape == (30, 4, 787)


def test_embedded_digits():
    found = idx.read_digits()
    assert np.bincount(found.labels).tolist() == [500] * 10
    assert found.pixels.min() == 0
    assert found.pixels.max() == 255


def one_line(error, *words):
    message = str(error.value)
    assert "\n" not in message
    assert all(word in message for word in words), message


def test_truncated_gzip(digits):
    folder, images, labels = digits
    write(folder, images, labels, change=lambda content: content[: len(content) // 2])
    with pytest.raises(mf.StoreError) as error:
        idx.read_folder(folder)
    one_line(error, "truncated gzip", "t10k-images")


def test_not_gzip_at_all(digits):
    folder, images, labels = digits
    write(folder, images, labels, change=lambda content: b"<html>not here</html>")
    with pytest.raises(mf.StoreError) as error:
        idx.read_folder(folder)
    one_line(error, "not a readable gzip file")


def test_wrong_magic_number(digits):
    folder = digits[0]
    path = folder / "t10k-images-idx3-ubyte.gz"
    path.write_bytes((folder / "t10k-labels-idx1-ubyte.gz").read_bytes())
    with pytest.raises(mf.StoreError) as error:
        idx.read_folder(folder)
    one_line(error, "0x00000801", "expected 0x00000803")


def test_header_that_promises_more_than_the_file_holds(digits, tmp_path):
    content = idx_bytes(digits[1], idx.IMAGES)[:-7]
    (tmp_path / "short.gz").write_bytes(gzip.compress(content))
    with pytest.raises(mf.StoreError) as error:
        idx.read_idx(tmp_path / "short.gz", idx.IMAGES)
    one_line(error, "damaged")


def test_images_and_labels_that_do_not_belong_together(digits):
    folder, images, labels = digits
    write(folder, images, labels[:-1])
    with pytest.raises(mf.StoreError) as error:
        idx.read_folder(folder)
    one_line(error, "40 images", "39 labels")


def test_wrong_checksum(digits):
    with pytest.raises(mf.StoreError) as error:
        idx.read_folder(digits[0])
    one_line(error, "SHA-256", idx.TEST["t10k-images-idx3-ubyte.gz"])


def test_half_a_pair_and_an_empty_folder(digits, tmp_path):
    (digits[0] / "t10k-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(mf.StoreError) as error:
        idx.read_folder(digits[0])
    one_line(error, "cannot read", "t10k-labels")
    with pytest.raises(mf.StoreError) as error:
        mf.Mnist(source=tmp_path / "nowhere").tokens  # noqa: B018
    one_line(error, "holds no MNIST file", "mixflow data mnist")


# the task ------------------------------------------------------------------------------------------------------------


def test_train_and_test_share_no_image():
    task = mf.Mnist(samples=50, test_samples=50)
    train, test = (np.concatenate(task.split[side]) for side in ("train", "test"))
    assert not set(train) & set(test)
    assert len(train) == 800
    assert len(test) == 200
    assert set(idx.read_digits().labels[np.concatenate([train, test])]) == {1, 2}


def test_samples_are_what_they_say():
    task = mf.Mnist(digits=(1, 2, 7), samples=60, test_samples=40, images=20)
    part = task.tokens.train
    X = part.tokens
    assert X.shape == (60, 4, 787)
    assert np.allclose(np.linalg.norm(X, axis=2), 1)
    k, s = part.index[:, 0], part.sign[:, 1:]
    assert np.array_equal(part.labels, s[np.arange(60), k])
    assert np.array_equal(part.hard, part.labels * s.sum(axis=1) <= 0)
    for j in range(3):
        pixels = idx.read_digits().pixels[task.split["train"][j][part.index[:, 1 + j]]].astype(float)
        assert np.allclose(X[:, 1 + j, :784], s[:, [j]] * pixels / np.linalg.norm(pixels, axis=1, keepdims=True))
        assert np.bincount(part.index[:, 1 + j], minlength=20).tolist() == [3] * 20  # every image equally often
    assert np.allclose(task.tokens.directions[3], part.vectors[1].mean(axis=0))


def test_centring_turns_one_digit_into_minus_the_other():
    cosine = lambda a, b: a @ b / np.linalg.norm(a) / np.linalg.norm(b)  # noqa: E731
    v1, v2 = mf.Mnist(centre=False).tokens.directions[2:]
    assert cosine(v1, v2) > 0.5
    v1, v2 = mf.Mnist(centre=True).tokens.directions[2:]
    assert cosine(v1, v2) < -0.95


def test_identifiers_among_the_pixels():
    t = mf.Mnist(identifiers="pixels", samples=20, test_samples=20).tokens
    assert t.dimension == 784
    assert np.allclose(t.directions[:2] @ t.directions[:2].T, np.eye(2))


def test_checksum_tells_splits_apart_and_a_spec_brings_its_task_back():
    task = mf.Mnist(samples=50, test_samples=50, seed=3)
    spec = json.loads(json.dumps(task.spec()))
    assert mf.Mnist.from_spec(spec) == task
    assert mf.Mnist(samples=50, test_samples=50, seed=3).checksum == task.checksum
    assert mf.Mnist(samples=50, test_samples=50, seed=4).checksum != task.checksum
    with pytest.raises(mf.StoreError, match="was trained on"):
        mf.Mnist.from_spec({**spec, "checksum": "0" * 64})


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"digits": (1,)}, "at least two digits"),
        ({"digits": (1, 1)}, "each once"),
        ({"digits": (1, 12)}, "digits\\[1\\] = 12"),
        ({"digits": 5}, "expected distinct digits"),
        ({"samples": 0}, "samples = 0"),
        ({"centre": 1}, "centre = 1"),
        ({"identifiers": "pixel"}, "did you mean 'pixels'"),
        ({"test_fraction": 1.0}, "test_fraction = 1.0"),
    ],
)
def test_bad_arguments(options, says):
    with pytest.raises(mf.SpecError, match=says):
        mf.Mnist(**options)


def test_more_images_than_there_are():
    with pytest.raises(mf.SpecError, match="at most 400"):
        mf.Mnist(images=401).split  # noqa: B018


@pytest.mark.parametrize(
    ("width", "method", "model", "says"),
    [
        (np.inf, None, "auto", "width = inf"),
        (8, mf.GradientDescent(steps=1), "gram", "use model='full'"),
        (8, mf.GradientFlow(until=1.0), "auto", "GradientDescent"),
        (8, mf.GradientDescent(steps=1, batch_size=5), "auto", "batch_size"),
        (8, mf.ThreeStage(mf.GradientDescent()), "auto", "feature_margin"),
    ],
)
def test_what_images_cannot_be_trained_with(width, method, model, says):
    with pytest.raises(mf.SpecError, match=says):
        mf.train(mf.Mnist(samples=20, test_samples=20, images=10), mf.Transformer(width=width), method, model=model)


# the model -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tie", [False, True])
def test_orthonormal_images_are_the_synthetic_task(tie):
    """With basis vectors for images the token model is `Full`, step for step; also with one part frozen."""
    task = mf.Mixture(classes=2).population()
    who = mf.Transformer(width=6, omega=0.6, seed=4, tie_values=tie)
    old, new = Full(task, tie), TokenModel(Tokens.of(task, embedding(task).T), tie)
    start = old.start(who)
    assert all(np.array_equal(start[name], x) for name, x in new.start(who).items())
    for rates in ((0.1, 0.1), (0.1, 0.0), (0.0, 0.1)):
        rate = [np.array([r]) for r in rates]
        a, b = (descend(m, [start], m.parameters([who], *rate), 200, 100) for m in (old, new))
        for name in ("w", "A", "G_K", "G_Q"):
            assert np.allclose(a.saved[name], b.saved[name], rtol=0, atol=1e-9), (name, rates)
        end, other = old.final(a.state), new.final(b.state)
        assert all(np.allclose(end[name], other[name], rtol=0, atol=1e-9) for name in end)


def naive_loss(state, part, probabilities, bias):
    """The definition, sample by sample."""
    total = 0.0
    for X, y, p in zip(part.tokens, part.labels, probabilities):  # X (L, d)
        z = []
        for h in (0, 1):
            S = X @ state["W_K"][h].T @ state["W_Q"][h] @ X.T  # (key, query)
            P = np.exp(S) / np.exp(S).sum(axis=0)
            z.append(bias + np.mean(state["w"][h] @ X.T @ P))
        total += p * np.logaddexp(0, -y * (max(z[0], 0) - max(z[1], 0)))
    return total


def test_a_step_follows_the_gradient_of_the_definition():
    """Finite differences of the definition, on random tokens that overlap, along random directions of every weight."""
    rng = np.random.default_rng(1)
    vectors = (rng.normal(size=(2, 7)), rng.normal(size=(4, 7)), rng.normal(size=(3, 7)))
    n = 9
    part = Part(
        vectors=vectors,
        index=np.column_stack([rng.integers(len(x), size=n) for x in vectors]),
        sign=rng.choice([-1.0, 1.0], size=(n, 3)),
        labels=rng.choice([-1.0, 1.0], size=n),
        hard=np.zeros(n, bool),
    )
    p = rng.dirichlet(np.ones(n))
    model = TokenModel(Tokens(train=part, probabilities=p, features=("c1",), directions=vectors[0][:1]))
    who = mf.Transformer(width=3, omega=1.0, seed=2)
    state = {**model.start(who), "w": 0.3 * rng.normal(size=(2, 7))}
    eta = 1e-3
    run = descend(model, [state], model.parameters([who], np.array([eta]), np.array([eta])), 1, 1)
    moved = model.final(run.state)
    for name in state:
        for _ in range(3):
            direction = rng.normal(size=state[name].shape)
            at = lambda t, name=name, d=direction: naive_loss({**state, name: state[name] + t * d}, part, p, 0.5)  # noqa: E731
            slope = (at(1e-5) - at(-1e-5)) / 2e-5
            assert np.sum((state[name] - moved[name]) / eta * direction) == pytest.approx(slope, rel=1e-6, abs=1e-9)


def test_recorded_scores_are_means_over_images():
    task = mf.Mnist(samples=30, test_samples=20, images=10)
    run = mf.train(task, mf.Transformer(width=4, seed=1, omega=0.8), mf.GradientDescent(steps=20, save_every=20))
    W_K, W_Q, w = (run.dataset[f"final_{name}"].values for name in ("W_K", "W_Q", "w"))
    t = task.tokens
    c, x1, x2 = t.train.vectors
    score = lambda x, y: np.array([(x @ K.T) @ (y @ Q.T).T for K, Q in zip(W_K, W_Q)])  # noqa: E731  (2, keys, queries)
    assert np.allclose(run.dataset.A[-1].sel(key="v1", query="v2"), score(x1, x2).mean(axis=(1, 2)))
    assert np.allclose(run.dataset.A[-1].sel(key="c2", query="v1"), score(c[1:], x1).mean(axis=(1, 2)))
    assert np.allclose(run.dataset.w[-1].sel(feature="v2"), (w @ x2.T).mean(axis=1))
    state = {"w": w, "W_K": W_K, "W_Q": W_Q}
    assert float(run.dataset.loss[-1]) == pytest.approx(naive_loss(state, t.train, t.probabilities, 0.5), rel=1e-12)
    held = naive_loss(state, t.test, np.full(20, 1 / 20), 0.5)
    assert float(run.dataset.loss_test[-1]) == pytest.approx(held, rel=1e-12)


# training ------------------------------------------------------------------------------------------------------------

SMALL = {"samples": 400, "test_samples": 200, "images": 40}


@functools.cache
def learned():
    # Few images and half the width of the experiment: 5 s of CPU, about the same accuracy.
    method = mf.GradientDescent(steps=4500, save_every=50)
    return mf.train(mf.Mnist(**SMALL), mf.Transformer(width=32, omega=0.8), method)


def test_training_learns_hard_samples_on_images_it_never_saw():
    data = learned().dataset
    assert float(data.accuracy_hard_test[0]) == 0.5
    assert float(data.accuracy_hard[-1]) > 0.98
    assert float(data.accuracy_hard_test[-1]) > 0.97
    assert float(data.accuracy_easy_test[-1]) == 1.0
    stages = learned().stages
    assert [stage.name for stage in stages if stage.found] == ["neurons", "attention", "convergence"]
    A = data.A[-1].sel(head="+")
    for k, j in ((1, 2), (2, 1)):  # the mechanism of the synthetic task: the identifier is a key for its own signal
        assert float(A.sel(key=f"c{k}", query=f"v{k}")) > float(A.sel(key=f"c{k}", query=f"v{j}")) + 1


def test_a_run_is_saved_loaded_summarised_and_drawn(tmp_path):
    from mixflow.plot.run import plot_run
    from mixflow.summary import summary, table

    path = learned().save(tmp_path / "run.nc")
    again = mf.load(path)
    assert again.dataset.identical(learned().dataset.assign_attrs(again.dataset.attrs))
    assert again.task == mf.Mnist(**SMALL)
    assert summary(again)["accuracy_test"] > 0.9
    assert "2-mixture" in table(again)
    assert np.array_equal(again.dataset.test_images, np.concatenate(again.task.split["test"]))
    assert plot_run(again).axes


def test_the_same_seed_gives_the_same_bytes():
    task, who, method = mf.Mnist(**SMALL), mf.Transformer(width=16), mf.GradientDescent(steps=60, save_every=20)
    one, two = (mf.train(task, who, method).dataset for _ in range(2))
    for name in one.data_vars:
        assert one[name].values.tobytes() == two[name].values.tobytes(), name


def test_three_stages_freeze_what_they_should():
    method = mf.ThreeStage(mf.GradientDescent(save_every=10), neurons=5, attention=5, converge=5)
    run = mf.train(mf.Mnist(**SMALL), mf.Transformer(width=8), method)
    data = run.dataset
    w, A = data.w.values, data.A.values
    first, second, third = data.time <= 5, (data.time >= 5) & (data.time <= 10), data.time >= 10
    assert np.array_equal(A[first], np.broadcast_to(A[0], A[first].shape))
    assert np.ptp(w[second], axis=0).max() == 0
    assert np.ptp(A[third], axis=0).max() == 0
    assert np.ptp(w[third], axis=0).max() > 0
    assert [stage.end for stage in run.stages][:2] == pytest.approx([5, 10])
    assert "final_W_K" in data


def test_extension_is_refused_in_one_sentence():
    run = mf.train(mf.Mnist(**SMALL), mf.Transformer(width=4), mf.GradientDescent(steps=5))
    with pytest.raises(mf.SpecError, match="train again with more steps"):
        mf.extend(run, 5)


# download ------------------------------------------------------------------------------------------------------------


class Server(http.server.BaseHTTPRequestHandler):
    """Serves `files`; breaks off after `limit` bytes once; knows ranges."""

    files, limit, ranges = {}, None, []

    def do_GET(self):
        content = self.files.get(self.path.lstrip("/"))
        if content is None:
            return self.send_error(404)
        start = int(self.headers.get("Range", "bytes=0-")[6:-1])
        type(self).ranges.append((self.path, start))
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        end = len(content) if self.limit is None else start + self.limit
        type(self).limit = None
        self.wfile.write(content[start:end])

    def log_message(self, *_):
        pass


@pytest.fixture
def server(tmp_path, monkeypatch):
    rng = np.random.default_rng(2)
    source = tmp_path / "source"
    for stem in ("train", "t10k"):
        write(source, rng.integers(1, 256, size=(30, 28, 28)), np.tile([1, 2], 15), stem=stem)
    files = {path.name: path.read_bytes() for path in source.iterdir()}
    for table in (idx.TRAIN, idx.TEST):  # pretend that these are the published files
        for name in table:
            monkeypatch.setitem(table, name, idx.digest(source / name))
    Server.files, Server.limit, Server.ranges = files, None, []
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server) as running:
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


def test_download_resumes_and_keeps(server, tmp_path):
    to, name = tmp_path / "mnist", "train-images-idx3-ubyte.gz"
    Server.limit = 10_000
    with pytest.raises(mf.StoreError) as error:
        download.download(to, mirror=server)
    one_line(error, "could not fetch", "run the command again")
    assert (to / f"{name}.part").stat().st_size == 8192
    assert main(["data", "mnist", "--to", str(to), "--base-url", server]) == 0
    assert [start for path, start in Server.ranges if path == f"/{name}"] == [0, 8192]
    assert {path.name for path in to.iterdir()} == {*idx.TRAIN, *idx.TEST}
    served = len(Server.ranges)
    download.download(to, mirror=server)
    assert len(Server.ranges) == served  # everything is there: nothing is asked for again
    task = mf.Mnist(source=to, samples=10, test_samples=10)
    assert len(np.concatenate(task.split["test"])) == 30


def test_download_refuses_other_bytes(server, tmp_path, capsys):
    Server.files["t10k-labels-idx1-ubyte.gz"] = b"something else"
    assert main(["data", "mnist", "--to", str(tmp_path / "mnist"), "--base-url", server]) == 2
    err = capsys.readouterr().err
    assert "SHA-256" in err
    assert err.count("\n") == 1
    assert not (tmp_path / "mnist" / "t10k-labels-idx1-ubyte.gz").exists()


def test_download_without_a_server_or_a_file(server, tmp_path, capsys):
    del Server.files["train-labels-idx1-ubyte.gz"]
    assert main(["data", "mnist", "--to", str(tmp_path / "a"), "--base-url", server]) == 2
    assert "404" in capsys.readouterr().err
    assert main(["data", "mnist", "--to", str(tmp_path / "b"), "--base-url", "http://127.0.0.1:9"]) == 2
    assert "no connection" in capsys.readouterr().err
