"""MNIST as tokens: the files and every way they can be wrong, the split, the download."""

import gzip
import http.server
import json
import struct
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import mixflow as mf
from mixflow.cli import main
from mixflow.tasks import download
from mixflow.tasks import mnist_files as idx

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
        ({"digits": 5}, "expected at least two digits"),
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


def test_validation_images_are_neither_trained_on_nor_tested_on():
    task = mf.Mnist(validation=0.25, images=30)
    aside = replace(task, held_out="validation")
    for digit in range(2):
        train, test, chosen = (
            set(x[digit].tolist()) for x in (task.split["train"], task.split["test"], aside.split["test"])
        )
        assert set(aside.split["train"][digit].tolist()) == train
        assert not (train & test) | (train & chosen) | (test & chosen)
        assert len(chosen) == 100  # a quarter of the 400 that are not the test's
    with pytest.raises(mf.SpecError, match="give validation"):
        mf.Mnist(held_out="validation")


@pytest.mark.parametrize(
    ("width", "method", "model", "says"),
    [
        (np.inf, None, "full", "width = inf"),
        (8, mf.GradientDescent(steps=1, batch_size=5), "full", "batch_size"),
        (8, mf.ThreeStage(mf.GradientDescent()), "auto", "feature_margin"),
    ],
)
def test_what_images_cannot_be_trained_with(width, method, model, says):
    with pytest.raises(mf.SpecError, match=says):
        mf.train(mf.Mnist(samples=20, test_samples=20, images=10), mf.Transformer(width=width), method, model=model)


# download ------------------------------------------------------------------------------------------------------------


class Server(http.server.BaseHTTPRequestHandler):
    """Serves `files`; breaks off after `limit` bytes once."""

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


def test_a_broken_download_is_dropped_and_what_is_whole_is_kept(server, tmp_path):
    to, name = tmp_path / "mnist", "train-images-idx3-ubyte.gz"
    Server.limit = 10_000
    with pytest.raises(mf.StoreError) as error:
        download.download(to, mirror=server)
    one_line(error, "could not fetch", "run the command again")
    assert not list(to.iterdir())
    assert main(["data", "mnist", "--to", str(to), "--base-url", server]) == 0
    assert [path for path, _ in Server.ranges].count(f"/{name}") == 2
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
