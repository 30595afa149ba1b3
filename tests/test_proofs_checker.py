"""A proof as a file, the independent program that checks it, and the command."""

import copy
import importlib.resources
import json
import operator
import pathlib
import re
import types

import numpy as np
import pytest
from altered import alter, refused

import mixflow as mf
from mixflow.cli import main
from mixflow.proofs import checker, cover, hessian
from mixflow.proofs.file import contents, seal, verdict

TASK, TRANSFORMER = mf.Mixture(classes=2), mf.Transformer(omega=0.3)


@pytest.fixture(scope="module")
def staged():
    """Three stages of K = 2, the first ending at an event, in some sixty cells."""
    ends = {"neurons": mf.Until("easy_margin", 0.02), "attention": 0.1, "converge": 0.25}
    return mf.prove(TASK, TRANSFORMER, mf.ThreeStage(mf.GradientFlow(), **ends))


@pytest.fixture(scope="module")
def short():
    """The contents of a proof of twelve cells, which the checker reads in a tenth of a second."""
    return json.loads(json.dumps(contents(mf.prove(TASK, TRANSFORMER, until=3))))


def test_a_file_reads_back(staged, tmp_path):
    path = tmp_path / "proof.json"
    staged.save(path)
    again = mf.Proof.load(path)
    assert again.facts() == staged.facts()
    assert again.loss(staged.end) == staged.loss(staged.end)
    assert again.statement() == staged.statement()
    assert verdict(path) is None
    path.write_text(path.read_text().replace('"classes":2', '"classes":3'))
    with pytest.raises(mf.StoreError, match="altered"):
        mf.Proof.load(path)
    with pytest.raises(mf.StoreError, match="no-such-proof"):
        mf.Proof.load(tmp_path / "no-such-proof.json")


def test_the_checker_stands_alone():
    text = pathlib.Path(checker.__file__).read_text()
    assert len(text.splitlines()) <= 300
    assert "import mixflow" not in text
    assert "from ." not in text


def test_a_reader_can_go_from_each_line_of_the_argument_to_its_function():
    """Every name in the table of docs/proofs.md and every pointer of docs/mathematics.md §14 is there, and each line has one."""
    docs, room = pathlib.Path(__file__).parents[1] / "docs", importlib.resources.files("mixflow.proofs")
    table = (docs / "proofs.md").read_text().split("| line of the argument |")[1].split("\n\n")[0].splitlines()[2:]
    section = (docs / "mathematics.md").read_text().split("## 14. ")[1].split("\n## ")[0]
    names = re.findall(r"`([a-z]+\.[\w.]+)`", section)
    assert len(table) > 15
    assert len(names) > 10
    for line in table:
        prover, in_checker = line.replace("\\|", " ").split("|")[2:4]
        found = re.findall(r"`([^`]+)`", prover)
        assert found, line
        names += [name for name in found if "/" not in name]
        assert all((room.parent / name).is_file() for name in found if "/" in name), line
        for name in re.findall(r"`([\w.]+)`", in_checker):
            assert operator.attrgetter(name)(checker), line
    for name in names:
        module, _, rest = name.removeprefix("mf.").partition(".")
        place = importlib.import_module("mixflow" if name.startswith("mf.") else f"mixflow.proofs.{module}")
        assert operator.attrgetter(rest or module)(place), name


def test_altered_proofs_are_refused_even_with_a_fresh_checksum(short):
    assert refused(short) is None
    rng = np.random.default_rng(5)
    for _ in range(24):
        name, altered = alter(short, rng)
        assert refused(altered) is not None, name
        with pytest.raises(checker.Refused, match="checksum"):
            checker.check(altered, print)


def test_lowering_everything_consistently_is_refused_by_the_mathematics(short):
    """δ or μ divided by ten in every cell, with the radii that follow from it: only the network itself can object."""
    for name, reason in (("delta", "residual"), ("mu", "Hessian")):
        new = copy.deepcopy(short)
        cells = new["stages"][0]["cells"]
        cells[name] = [value / 10 for value in cells[name]]
        r = new["stages"][0]["first_radius"]
        for k, (begin, end) in enumerate(zip(cells["begin"], cells["end"])):
            h = (end - begin) / 2**34
            x = h * cells["mu"][k]
            r = (r + h * cells["delta"][k]) * (1 + x + x * x) * (1 + 1e-12)
            cells["radius"][k] = r
        assert reason in refused(new)


def test_a_prover_with_the_hessians_sign_flipped_gives_no_accepted_proof(monkeypatch):
    true = hessian.Curvature.hessian
    monkeypatch.setattr(hessian.Curvature, "hessian", lambda self, gates: -true(self, gates))
    content = contents(mf.prove(TASK, TRANSFORMER, until=1))
    assert refused(content) is not None


def test_the_command_proves_draws_and_checks(tmp_path, capsys, monkeypatch):
    path, figure = tmp_path / "proof.json", tmp_path / "tube.svg"
    assert main(["prove", "--time", "1", "--out", str(path), "--figure", str(figure), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert {"time", "every_sample_right", "radius", "cells"} <= set(facts)
    assert facts["cells"] == 4
    assert "<svg" in figure.read_text()
    assert main(["prove", "--check", str(path)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("accepted")
    assert "Theorem (computer-assisted)" in out
    content = json.loads(path.read_text())
    content["stages"][0]["cells"]["delta"][2] /= 3
    path.write_text(json.dumps({**content, "checksum": seal(content)}))
    assert main(["prove", "--check", str(path), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["accepted"] is False
    box = types.SimpleNamespace(right_from=1.0, end=20.0, classes=2, cells=3, radius=0.1)
    monkeypatch.setattr(cover, "proved", lambda question: box)
    assert main(["prove", "--time", "20", "--cover", "--omega-radius", "1e-9"]) == 0
    assert "every ω in [0.299999999, 0.300000001]" in capsys.readouterr().out
    assert main(["prove", "--cover"]) == 2
    assert main(["prove", "--time", "1", "--loss", "0.1"]) == 2
    assert main(["prove", "--classes", "1"]) == 2
    assert main(["prove", "--neurons", "3"]) == 2
    assert main(["prove", "--three-stage", "--time", "3"]) == 2


def test_the_command_proves_three_stages(capsys):
    stages = ["--neurons", "1", "--attention", "1", "--converge", "easy_margin:0.2"]
    assert main(["prove", "--three-stage", *stages]) == 0
    said = capsys.readouterr().out
    assert (
        "w for 1.0 units of time; then W_K and W_Q for 1.0 units of time; then w until the easy margins reach 0.2."
        in said
    )
    assert "The stage of attention, for 1.0 units of time, ends between t = 2 and t = 2." in said


def test_altered_stages_are_refused(staged):
    """What only stages have: when and why each ends, what moves, how well the rest is known, and the claims about all of them."""
    content = json.loads(json.dumps(contents(staged)))

    def changed(number, **values):
        new = copy.deepcopy(content)
        new["stages"][number].update(values)
        return refused(new)

    neurons, attention, last = content["stages"]
    high = neurons["time"][1]
    assert "another time" in changed(0, time=[high, high])
    assert "another time" in changed(0, end={"quantity": "easy_margin", "level": [2001, 100000]})
    assert "another time" in changed(1, end={"duration": [101, 1000]})
    assert "others" in changed(1, moves="w")
    for number, stage in ((1, attention), (2, last)):
        assert "first ball" in changed(number, held=stage["held"] / 2)
    new = copy.deepcopy(content)
    new["stages"][1]["pieces"][0]["x"][1][0] += 1
    assert refused(new) == "what stands still moves"
    assert "silent" in refused({**content, "claims": {**content["claims"], "silent": [0, high]}})
    assert "right" in refused({**content, "claims": {**content["claims"], "right": [None, 0]}})
