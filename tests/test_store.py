"""Run files: whole or not at all, verified on load, with everything needed to repeat the run inside."""

import json
import os
import pathlib
import resource
import subprocess
import sys

import numpy as np
import pytest

import mixflow as mf
from mixflow import sealed
from mixflow.summary import summary

METHOD = mf.GradientDescent(0.1, 50)


@pytest.fixture(scope="module")
def run():
    return mf.train(mf.Mixture(2), mf.Transformer(width=8), METHOD)


@pytest.mark.parametrize(
    ("task", "transformer"),
    [
        (mf.Mixture(2), mf.Transformer()),
        (mf.Mixture(9), mf.Transformer()),
        (mf.Mixture(2, priors=[0.3, 0.7], gram=0.9 * np.eye(4) + 0.1), mf.Transformer(width=4, tie_values=True)),
        (mf.Mixture(2).sample(30, seed=1), mf.Transformer(width=4)),
        (mf.FiniteTask(features=["a"], atoms=[[("a", 2.0)]], labels=[-1]), mf.Transformer(width=4)),
    ],
)
def test_round_trip(tmp_path, task, transformer):
    run = mf.train(task, transformer, METHOD)
    run.save(tmp_path / "run.nc")
    loaded = mf.load(tmp_path / "run.nc")
    assert loaded.dataset.identical(run.dataset)
    assert loaded.task.spec() == task.spec()
    assert loaded.transformer == transformer
    assert loaded.method == METHOD
    again = mf.train(loaded.task, loaded.transformer, loaded.method, model=loaded.dataset.attrs["model"])
    assert np.array_equal(again.dataset.loss.values, run.dataset.loss.values)
    assert os.listdir(tmp_path) == ["run.nc"]


def test_schema(run):
    data = run.dataset
    assert data.w.dims == ("time", "head", "feature")
    assert data.A.dims == data.G_K.dims == data.G_Q.dims == ("time", "head", "key", "query")
    assert data.margin.dims == ("time", "atom")
    assert data.z.dims == ("time", "head", "atom")
    assert data["head"].values.tolist() == ["+", "-"]
    assert data.feature.values.tolist() == data.key.values.tolist() == ["c1", "c2", "v1", "v2"]
    assert data.atom.values[1] == "c1 +v1 -v2"
    assert all(data[name].dtype == np.float64 for name in data.data_vars)


def test_the_page_of_the_schema_names_what_momentum_remembers():
    page = (pathlib.Path(__file__).parents[1] / "docs" / "schema.md").read_text()
    heavy = mf.GradientDescent(steps=2, momentum=0.9)
    options = [
        {"train_bias": True},
        {"value_neurons": 2, "offset": True},
        {"attention": "direct", "values": 2, "value_scale": 0.1},
    ]
    kept = [mf.train(mf.Mixture(2), mf.Transformer(width=4, **each), heavy).dataset for each in options]
    names = {name for data in kept for name in data.data_vars if name.startswith("final_")}
    assert len(names) == 7
    assert [name for name in names if f"`{name}" not in page] == []


def test_attributes_say_where_it_came_from(run):
    attributes = run.dataset.attrs
    assert json.loads(attributes["versions"])["jax"]
    assert json.loads(attributes["hardware"])["cores"] == os.cpu_count()
    assert attributes["precision"] == "float64"
    assert attributes["seed"] == 0
    assert attributes["model"] == "gram"
    assert attributes["wall_time"] > 0
    assert attributes["commit"]
    assert attributes["command"]


def test_every_single_flipped_byte_of_the_data_is_noticed(run, tmp_path):
    path = run.save(tmp_path / "run.nc")
    content = path.read_bytes()
    loss = run.dataset.loss.values.tobytes()
    at = content.index(loss)
    for offset in (at, at + len(loss) - 1):
        altered = bytearray(content)
        altered[offset] ^= 1
        path.write_bytes(altered)
        with pytest.raises(mf.StoreError, match=r"altered|damaged"):
            mf.load(path)


def test_an_altered_attribute_is_noticed(run, tmp_path):
    path = run.save(tmp_path / "run.nc")
    content = path.read_bytes()
    assert b'"omega": 0.3' in content
    path.write_bytes(content.replace(b'"omega": 0.3', b'"omega": 0.4'))
    with pytest.raises(mf.StoreError, match=r"altered|damaged"):
        mf.load(path)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.99])
def test_a_truncated_file_is_noticed(run, tmp_path, share):
    path = run.save(tmp_path / "run.nc")
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(mf.StoreError, match="damaged"):
        mf.load(path)


def test_files_that_are_not_runs(tmp_path, run):
    with pytest.raises(mf.StoreError, match="No such file"):
        mf.load(tmp_path / "missing.nc")
    (tmp_path / "text.nc").write_text("hello")
    with pytest.raises(mf.StoreError, match="no mixflow checksum"):
        mf.load(tmp_path / "text.nc")
    run.dataset.to_netcdf(tmp_path / "plain.nc", engine="h5netcdf")
    with pytest.raises(mf.StoreError, match="no mixflow checksum"):
        mf.load(tmp_path / "plain.nc")


def test_unwritable_places(run, tmp_path):
    with pytest.raises(mf.StoreError, match="nothing was written"):
        run.save(tmp_path / "no" / "such" / "folder.nc")
    with pytest.raises(mf.StoreError, match="nothing was written"):
        run.save(tmp_path)


def test_a_full_disk_leaves_the_old_file_and_nothing_half_written(run, tmp_path):
    path = run.save(tmp_path / "run.nc")
    before = path.read_bytes()
    # A file-size limit makes the kernel refuse the write part-way, as a full disk does.
    code = (
        "import resource, signal, sys, mixflow as mf\n"
        "run = mf.load(sys.argv[1])\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "try:\n    run.save(sys.argv[1])\n"
        "except mf.StoreError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert "nothing was written" in done.stdout
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["run.nc"]
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 4096


@pytest.mark.parametrize("name", ["A_sector", "G_K_sector"])
def test_a_run_of_many_classes_without_its_state_is_no_run(tmp_path, name):
    """Whoever writes the checksum, too."""
    data = mf.train(mf.Mixture(9), method=mf.GradientDescent(steps=2, save_every=2)).dataset
    path = tmp_path / "run.nc"
    for forged in (data.drop_vars(name), data.assign({name: data[name].isel(key_kind=0)})):
        path.write_bytes(sealed.pack(bytes(forged.to_netcdf(engine="h5netcdf"))))
        with pytest.raises(mf.StoreError, match="holds no run"):
            mf.load(path)


def test_a_descent_without_its_neurons_or_the_steps_of_its_saves_is_no_run(run, tmp_path):
    path, data = tmp_path / "run.nc", run.dataset
    one = data.step.isel(time=0, drop=True)
    wrong = data.assign_coords(step=data.step * np.nan), data.assign_coords(step=one)
    for forged in (data.drop_vars("step"), data.drop_vars("w"), *wrong):
        path.write_bytes(sealed.pack(bytes(forged.to_netcdf(engine="h5netcdf"))))
        with pytest.raises(mf.StoreError, match="holds no run"):
            mf.load(path)


def test_a_whole_number_of_seconds_is_a_number_in_json(run, tmp_path):
    """As netCDF reads it back it is none that JSON knows."""
    path = tmp_path / "run.nc"
    path.write_bytes(sealed.pack(bytes(run.dataset.assign_attrs(wall_time=3).to_netcdf(engine="h5netcdf"))))
    assert json.loads(json.dumps(summary(mf.load(path), provenance=True)))["wall_time"] == 3
