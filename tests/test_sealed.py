"""Sealed files: hashed before they are parsed, written whole or not at all, and nothing but a file is ever replaced."""

import contextlib
import io
import os
import threading

import h5py
import numpy as np
import pytest

import mixflow as mf
from mixflow import sealed


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    run = mf.train(mf.Mixture(2), mf.Transformer(width=8), mf.GradientDescent(0.1, 50))
    return run.save(tmp_path_factory.mktemp("sealed") / "run.nc").read_bytes()


def test_zeroed_bytes_that_hung_hdf5_are_refused(content, tmp_path):
    path = tmp_path / "run.nc"
    for at in range(0, len(content) - 64, 997):
        damaged = content[:at] + bytes(64) + content[at + 64 :]
        if damaged == content:  # there were zeros already
            continue
        path.write_bytes(damaged)
        with pytest.raises(mf.StoreError, match=r"does not match|carries no"):
            mf.load(path)


def test_hdf5_reads_a_sealed_file_as_any_other(content):
    with h5py.File(io.BytesIO(content)) as file:
        assert file["loss"].shape == (6,)


def test_verify_reads_piece_by_piece_what_unpack_reads_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(sealed, "CHUNK", 7)
    path = tmp_path / "file"
    for content in (b"", b"abc", bytes(1000)):
        path.write_bytes(sealed.pack(content))
        assert sealed.verify(path) == path
        assert sealed.read(path) == content
        path.write_bytes(path.read_bytes()[:-1])
        with pytest.raises(mf.StoreError):
            sealed.verify(path)


def bomb(**settings):
    file = io.BytesIO()
    with h5py.File(file, "w") as made:
        made.create_dataset("loss", shape=(2**28,), dtype="f8", **settings)
    return file.getvalue()


def test_a_small_file_that_unpacks_to_gigabytes_is_refused(tmp_path):
    path = tmp_path / "bomb.nc"
    path.write_bytes(sealed.pack(bomb(chunks=(2**16,), compression="gzip")))
    assert path.stat().st_size < 2**17
    with pytest.raises(mf.StoreError, match="unpacks to 2147483648"):
        mf.load(path)


def test_groups_are_refused(content, tmp_path):
    file = io.BytesIO(content[: -sealed.SEAL])
    with h5py.File(file, "a") as opened:
        opened.create_group("more")
    path = tmp_path / "groups.nc"
    path.write_bytes(sealed.pack(file.getvalue()))
    with pytest.raises(mf.StoreError, match="holds groups"):
        mf.load(path)


def test_what_is_no_file_is_neither_read_nor_replaced(tmp_path):
    (tmp_path / "there").write_bytes(b"kept")
    (tmp_path / "link").symlink_to(tmp_path / "there")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "locked").write_bytes(b"kept")
    (tmp_path / "locked").chmod(0o444)
    for name, what in [("link", "a link"), ("dangling", "a link"), ("pipe", "a pipe"), ("locked", "read-only")]:
        before = os.lstat(tmp_path / name)
        with pytest.raises(mf.StoreError, match=what):
            sealed.write_whole(tmp_path / name, b"new")
        assert os.lstat(tmp_path / name) == before
    with pytest.raises(mf.StoreError, match="a device"):
        sealed.write_whole("/dev/null", b"new")
    for path, what in [("/dev/zero", "a device"), (tmp_path / "pipe", "a pipe"), (tmp_path, "a folder")]:
        with pytest.raises(mf.StoreError, match=what):
            mf.load(path)
    assert sorted(os.listdir(tmp_path)) == ["dangling", "link", "locked", "pipe", "there"]


@pytest.mark.parametrize("path", ["a\0b", "x" * 300, "\ud800", "", b"bytes", 5, None, np.zeros(2)])
def test_paths_that_are_none(path):
    for call in (mf.load, lambda path: sealed.write_whole(path, b"")):
        with pytest.raises(mf.StoreError) as caught:
            call(path)
        assert "\n" not in str(caught.value)


def test_the_umask_is_obeyed_and_never_set(tmp_path, monkeypatch):
    before = os.umask(0o027)
    try:
        monkeypatch.setattr(os, "umask", None)  # to ask for it is to set it for every thread
        threads = [threading.Thread(target=sealed.write_whole, args=(tmp_path / f"{i}", b"x")) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        monkeypatch.undo()
        os.umask(before)
    assert {(tmp_path / name).stat().st_mode & 0o777 for name in os.listdir(tmp_path)} == {0o640}
    assert len(os.listdir(tmp_path)) == 8


def test_a_file_of_many_gigabytes_is_refused_without_reading_it(tmp_path):
    path = tmp_path / "sparse.nc"
    for end, says in ((b"", "carries no mixflow checksum"), (sealed.MARK + bytes(32), "expected a file of at most")):
        with open(path, "wb") as file:
            file.truncate(2**40)  # holes: more than any memory
            file.seek(2**40)
            file.write(end)
        with pytest.raises(mf.StoreError, match=says):
            mf.load(path)


@pytest.mark.parametrize(
    ("name", "value"),
    [("wall_time", np.nan), ("seed", "x"), ("steps_done", -5), ("steps_done", "many"), ("finished", "maybe"), ("model", "full"),
     ("precision", "float32")],
)  # fmt: skip
def test_attributes_that_no_run_has_are_refused_under_a_right_checksum(content, tmp_path, name, value):
    path = tmp_path / "run.nc"
    data = sealed.dataset(sealed.unpack(content))
    for attributes, refused in ((data.attrs | {name: value}, True), (data.attrs, False)):
        data.attrs = attributes
        path.write_bytes(sealed.pack(bytes(data.to_netcdf(engine="h5netcdf"))))
        with pytest.raises(mf.StoreError, match=f"{name} = ") if refused else contextlib.nullcontext():
            mf.load(path)


def test_numbers_are_no_dates(content, tmp_path):
    data = sealed.dataset(sealed.unpack(content))
    data.loss.attrs["units"] = "days since 2000-01-01"
    path = tmp_path / "run.nc"
    path.write_bytes(sealed.pack(bytes(data.to_netcdf(engine="h5netcdf"))))
    np.testing.assert_array_equal(mf.load(path).dataset.loss.values, data.loss.values)
