"""Files of proofs that somebody else wrote: answered in one sentence, or by the checker's verdict."""

import os

import pytest

import mixflow as mf
from mixflow.cli import main
from mixflow.proofs.file import LARGEST


def refusal(path, capsys):
    """What `mixflow prove --check` says about a file that cannot be read; `Proof.load` says the same."""
    assert main(["prove", "--check", str(path)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.endswith(".\n")
    with pytest.raises(mf.StoreError) as error:
        mf.Proof.load(path)
    assert said == f"mixflow prove: {error.value}\n"
    return said


def test_pipes_devices_folders_and_long_files_are_refused_unread(tmp_path, capsys):
    os.mkfifo(tmp_path / "pipe")
    with open(tmp_path / "long", "wb") as file:
        file.truncate(LARGEST + 1)
    for path, why in ((tmp_path / "pipe", "a pipe"), ("/dev/zero", "a device"), (tmp_path, "a folder")):
        assert f"it is {why}" in refusal(path, capsys)
    assert f"more than {LARGEST} bytes" in refusal(tmp_path / "long", capsys)
