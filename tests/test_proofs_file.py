"""Files of proofs that somebody else wrote: answered in one sentence, or by the checker's verdict."""

import json
import os

import pytest

import mixflow as mf
from mixflow.cli import main
from mixflow.proofs import checker
from mixflow.proofs.file import LARGEST, contents, seal, verdict

TASK, TRANSFORMER = mf.Mixture(classes=2), mf.Transformer(omega=0.3)
LONG = "9" * 100_000  # more digits than Python turns into a number


@pytest.fixture(scope="module")
def texts():
    """The files of a proof in one stage and of one in three, as JSON."""
    ends = {"neurons": 0.5, "attention": 0.25, "converge": 0.25}
    proofs = mf.prove(TASK, TRANSFORMER, until=2), mf.prove(TASK, TRANSFORMER, mf.ThreeStage(mf.GradientFlow(), **ends))
    return [json.dumps(contents(proof)) for proof in proofs]


def forged(text, place, *value):
    """The file with one field replaced, or dropped where no value is given, under a fresh checksum."""
    content = json.loads(text)
    *way, last = place
    table = content
    for step in way:
        table = table[step]
    if value:
        table[last] = value[0]
    else:
        del table[last]
    return json.dumps({**content, "checksum": seal(content)})


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


STAGE = ("stages", 0)
FORGED = [
    (("omega",), 10**18),
    (("omega",), [[3, 10], [3, 0]]),
    (("bias", 0), [10**399, 1]),
    (("classes",), True),
    (("tick_bits",), 33),
    (("stages",), [None]),
    (("stages",), [[]] * 2),
    (("claims",), 0.5),
    (("claims", "silent"), [None, 0]),
    (("claims", "right"),),
    ((*STAGE, "moves"),),
    ((*STAGE, "name"), "x"),
    ((*STAGE, "end"), {"quantity": "x", "level": [1, 10]}),
    ((*STAGE, "end"), {"quantity": "loss", "level": [0, 1]}),
    ((*STAGE, "held"), 10**301),
    ((*STAGE, "pieces", 0, "gates"), "nan"),
    ((*STAGE, "pieces", 0, "x", 2, 1), 10**29),
    ((*STAGE, "pieces", 0, "x", 2), [0]),
    ((*STAGE, "cells", "piece", 3), 99),
    ((*STAGE, "cells", "mu"), [0.1]),
    ((*STAGE, "cells", "delta", 2), "0.1"),
]


@pytest.mark.parametrize(("place", "value"), [(each[0], each[1:]) for each in FORGED], ids=str)
def test_a_field_that_no_proof_has_is_named(texts, tmp_path, capsys, place, value):
    path = tmp_path / "proof.json"
    path.write_text(forged(texts[0], place, *value))
    words = [step for step in place if isinstance(step, str)]
    said = refusal(path, capsys)
    assert "has not the form of a proof" in said
    assert words[-1] in said


def test_a_stage_must_say_when_it_ends(texts, tmp_path, capsys):
    path = tmp_path / "proof.json"
    path.write_text(forged(texts[1], ("stages", 1, "time"), None))
    assert "stages[1].time = None: expected a list of 2 entries" in refusal(path, capsys)
    path.write_text(texts[1])
    assert verdict(path) is None


@pytest.mark.parametrize(
    "text",
    [
        "[" * 200_000,
        '{"format": ' + "[" * 200_000,
        '{"a": ' * 200_000,
        '{"format": "mixflow proof 2", "classes": NaN}',
        '{"format": "mixflow proof 2", "classes": -Infinity}',
        f'{{"format": "mixflow proof 2", "classes": {LONG}}}',
        "\ud800",
        "",
        "[]",
        "3",
    ],
    ids=range(10),
)
def test_what_is_no_proof_is_refused(tmp_path, capsys, text):
    path = tmp_path / "proof.json"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    assert "cannot read" in refusal(path, capsys)


def test_a_number_beyond_floats_is_no_number(texts, tmp_path, capsys):
    content = json.loads(texts[0])
    content["stages"][0]["held"] = float("inf")  # as 1e999 is read
    path = tmp_path / "proof.json"
    path.write_text(json.dumps({**content, "checksum": seal(content)}).replace("Infinity", "1e999"))
    assert "stages[0].held = inf: expected a finite number" in refusal(path, capsys)


def test_a_file_in_form_gets_a_verdict(texts, tmp_path, capsys):
    """The file is read, its numbers are monstrous: the checker says no, and nothing of it is told as a fact."""
    path = tmp_path / "proof.json"
    path.write_text(forged(texts[0], (*STAGE, "cells", "mu", 2), 1e299))
    assert main(["prove", "--check", str(path), "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["accepted"] is False
    assert told["reason"]
    assert "every_sample_right" not in told


def test_balls_too_wide_to_divide_by_are_a_verdict(texts, tmp_path):
    path = tmp_path / "proof.json"
    path.write_text(forged(texts[0], ("bias", 0, 0), 43))
    assert verdict(path) == "a number is too uncertain to divide by it"


def test_a_broken_checker_does_not_look_like_a_bad_file(texts, tmp_path, monkeypatch):
    def broken(*_):
        raise TypeError("of the checker")

    path = tmp_path / "proof.json"
    path.write_text(texts[0])
    monkeypatch.setattr(checker, "length", broken)
    with pytest.raises(TypeError, match="of the checker"):
        verdict(path)


def test_pipes_devices_folders_and_long_files_are_refused_unread(tmp_path, capsys):
    os.mkfifo(tmp_path / "pipe")
    with open(tmp_path / "long", "wb") as file:
        file.truncate(LARGEST + 1)
    for path, why in ((tmp_path / "pipe", "a pipe"), ("/dev/zero", "a device"), (tmp_path, "a folder")):
        assert f"it is {why}" in refusal(path, capsys)
    assert f"more than {LARGEST} bytes" in refusal(tmp_path / "long", capsys)
