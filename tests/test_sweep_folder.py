"""A sweep's folder: its manifest, lock and results, damaged, forged and of other versions."""

import sqlite3

import numpy as np
import pytest
from sweeps import digest, finished

import mixflow as mf
from mixflow.cli import main
from mixflow.errors import StoreError
from mixflow.sweeping.manifest import DONE, FAILED, WAITING, Manifest, lock, owner
from mixflow.sweeping.plan import Plan
from mixflow.sweeping.run import check_header, write_header
from mixflow.sweeping.spec import Sweep
from mixflow.sweeping.work import pack, unpack


def test_another_sweep_or_version_in_the_folder_is_refused(tmp_path):
    one, two = (Sweep({"grid": {"transformer.omega": values}}) for values in ([0.1], [0.2]))
    write_header(tmp_path, one, Plan(one))
    check_header(Manifest(tmp_path), one)
    with pytest.raises(StoreError, match="another sweep"):
        check_header(Manifest(tmp_path), two)
    manifest = Manifest.writing(tmp_path)
    manifest.note("versions", {**manifest.fact("versions"), "jaxlib": "0.0.1"})
    manifest.close()
    with pytest.raises(StoreError, match=r"jaxlib 0\.0\.1"):
        check_header(Manifest(tmp_path), one)
    manifest = Manifest.writing(tmp_path)
    manifest.note("sweep", two.describe())  # forged: the description is not the one that the fingerprint is of
    manifest.close()
    with pytest.raises(StoreError, match="does not describe the sweep it holds"):
        mf.open_sweep(tmp_path)


def test_a_folder_of_an_older_format_is_refused_in_one_sentence(tmp_path, capsys):
    (tmp_path / "sweep.json").write_text('{"format": 2}')
    (tmp_path / "spec.toml").write_text("[grid]\ntransformer.omega = [0.1]\n")
    for words in (["status", tmp_path], ["resume", tmp_path], [tmp_path / "spec.toml", "--out", tmp_path]):
        assert main(["sweep", *map(str, words)]) == 2
        error = capsys.readouterr().err
        assert "older mixflow" in error
        assert error.count("\n") == 1


def test_the_lock_names_its_owner_and_a_stale_file_does_not_block(tmp_path):
    (tmp_path / "lock").write_text("process 1 on a machine that was rebooted\n")
    assert owner(tmp_path) is None
    with lock(tmp_path):
        assert "process" in owner(tmp_path)
        with pytest.raises(StoreError, match="in use by process"), lock(tmp_path):
            pass
    assert owner(tmp_path) is None


def manifest_of(folder, batches):
    manifest = Manifest.create(folder, {"batches": batches})
    for batch in range(batches):
        manifest.finish(batch, b"part", digest(b"part"), 0.1, True)
    return manifest


def test_a_batch_is_there_whole_or_waits(tmp_path):
    manifest = manifest_of(tmp_path, 3)
    manifest.finish(1, b"part", digest(b"other"), 0.1, True)
    manifest.fail(2, "ValueError: no")
    assert manifest.state(5).tolist() == [DONE, DONE, FAILED, WAITING, WAITING]
    assert manifest.errors() == {2: "ValueError: no"}
    assert list(manifest.parts()) == [(0, b"part"), (1, None)]
    assert manifest.verify() == [1]
    assert manifest.state(3).tolist() == [DONE, WAITING, FAILED]
    manifest.finish(2, b"part", digest(b"part"), 0.1, True)  # what failed once may be finished later
    manifest.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["sweep.sqlite"]  # no log is left behind
    assert Manifest(tmp_path).errors() == {}


def test_a_manifest_is_read_while_it_is_written_and_after_its_writer_died(tmp_path):
    manifest = manifest_of(tmp_path, 2)
    assert Manifest(tmp_path).state(2).tolist() == [DONE, DONE]  # from the log: the writer has not closed
    manifest._db.execute("BEGIN IMMEDIATE")
    manifest._db.execute("DELETE FROM batch")
    assert Manifest(tmp_path).state(2).tolist() == [DONE, DONE]  # nothing of a transaction that is not over
    manifest._db.close()  # as a kill would


def test_a_client_killed_before_its_first_transaction_leaves_no_sweep(tmp_path):
    sqlite3.connect(tmp_path / "sweep.sqlite").execute("PRAGMA journal_mode = WAL").connection.close()
    with pytest.raises(StoreError, match="holds no sweep"):
        mf.open_sweep(tmp_path)
    assert finished(tmp_path, transformer={"width": 4}).complete


def test_damage_to_the_manifest_is_one_sentence(tmp_path):
    import xarray

    output = {"batch": 8, "series": ["w"]}
    with finished(tmp_path, transformer={"width": 4}, seeds={"transformer.seed": 40}, output=output).dataset as data:
        truth = data.load()
    path = tmp_path / "sweep.sqlite"
    sound = path.read_bytes()
    rng = np.random.default_rng(0)
    noticed = 0
    for at in rng.integers(0, len(sound) - 64, 40):
        path.write_bytes(sound[:at] + bytes(64) + sound[at + 64 :])
        (tmp_path / "results.nc").unlink(missing_ok=True)  # the table is then read from the manifest
        try:
            values = mf.open_sweep(tmp_path).dataset
        except StoreError:
            noticed += 1
        else:  # a row that lost its place, or an empty page: never other values
            xarray.testing.assert_identical(values, truth.sel(run=values.run))
    assert noticed > 20
    path.write_bytes(b"no database at all")
    with pytest.raises(StoreError, match="cannot read"):
        mf.open_sweep(tmp_path)


@pytest.mark.parametrize(
    "forged", ["foreign", "other runs", "short column", "no numbers", "no table", "sweep", "versions", "format"]
)
def test_a_forged_manifest_is_one_sentence(tmp_path, capsys, forged):
    """Whoever writes the checksums, too."""
    finished(tmp_path, transformer={"width": 4}, seeds={"transformer.seed": 24}, output={"batch": 8}).dataset.close()
    (tmp_path / "results.nc").unlink()
    part = unpack(dict(Manifest(tmp_path).parts())[1])
    changed = {"foreign": None, "other runs": {"run": part["run"] + 10**9}, "short column": {"loss": part["loss"][:2]}}
    with sqlite3.connect(tmp_path / "sweep.sqlite") as db:
        if forged in changed:
            content = b"PK\3\4" if changed[forged] is None else pack({**part, **changed[forged]})
            db.execute("UPDATE batch SET content = ?, sha256 = ? WHERE number = 1", (content, digest(content)))
        elif forged == "no numbers":
            db.execute("UPDATE batch SET content = NULL, sha256 = NULL, at = NULL, seconds = NULL WHERE number = 1")
        elif forged == "no table":
            db.execute("DROP TABLE batch")
        else:
            db.execute("UPDATE fact SET value = '[3]' WHERE name = ?", (forged,))
    db.close()
    for words in (["status"], ["export", "--to", tmp_path / "t.csv"], ["plot", "--to", tmp_path / "t.svg"]):
        code = main(["sweep", words[0], str(tmp_path), *map(str, words[1:])])
        assert code == 2 or (code == 0 and forged != "no table" and (words == ["status"] or forged == "versions"))
        assert capsys.readouterr().err.count("\n") == (code == 2)
    if forged != "no numbers":  # which are computed again
        assert main(["sweep", "resume", str(tmp_path), "--workers", "1"]) == 2
        assert "Traceback" not in capsys.readouterr().err


def test_an_altered_result_is_noticed_never_served_nor_kept(tmp_path, capsys):
    import h5py

    truth = finished(tmp_path, transformer={"width": 4}, seeds={"transformer.seed": 3}, output={"series": ["loss"]})
    with truth.dataset as data:
        loss = data.loss.values
    for name in ("loss", "group_0/loss"):
        with h5py.File(tmp_path / "results.nc", "r+") as file:
            file[name][0] = 0.0
        with pytest.raises(StoreError, match=r"mixflow sweep resume .* writes it again"):
            _ = mf.open_sweep(tmp_path).dataset
        with pytest.raises(StoreError, match="resume"):
            mf.open_sweep(tmp_path).trajectories()
        assert main(["sweep", "resume", str(tmp_path)]) == 0
        assert "checksum" in capsys.readouterr().err
        with mf.open_sweep(tmp_path).dataset as data:
            np.testing.assert_array_equal(data.loss.values, loss)
