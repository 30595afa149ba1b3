"""The numbers of docs/findings.md that are cheap to compute, from the functions its commands call."""

import numpy as np
import pytest

import mixflow as mf
from mixflow.paper.experiments.claims_findings import _lonely, classes, gap, main, plateau, sign, survey, threshold
from mixflow.paper.experiments.claims_stability import main as stability
from mixflow.paper.experiments.influence import agreeing, alone, hard, learning, shared


def test_at_three_classes_stage_one_spoils_the_hard_samples():
    two, three = plateau(2), plateau(3)
    assert two["hard margin"] == pytest.approx(0, abs=1e-9)
    assert three["hard margin"] == pytest.approx(-0.901, abs=1e-3)
    for found in (two, three):
        assert 0.96 < found["ratio"][0] <= found["ratio"][1] < 1.003  # h_cv = w·c / (2 (K+1)³)


def test_the_growth_entry_is_positive_for_three_classes_and_once_negative_for_six():
    three, six = sign(3, saves=500), sign(6, saves=1000)
    assert three["negative"] is None
    assert six["negative"][0] == pytest.approx(135, abs=5)
    assert six["negative"][1] == pytest.approx(313, abs=5)
    assert six["least"] == pytest.approx(-4.5e-5, rel=0.05)
    assert six["greatest"] == pytest.approx(1.5e-3, rel=0.01)


def test_a_neuron_that_must_stay_on_passes_close_to_silence_at_four_classes():
    three, four = gap(3), gap(4)
    assert three["least z"] == pytest.approx(0.160, abs=1e-3)
    assert four["least z"] == pytest.approx(1.28e-4, rel=0.02)
    assert (four["neuron"], round(four["time"])) == ("y=+ n=0", 152)


def test_no_sample_dies_at_two_and_three_classes():
    for found in survey((2, 3)):
        assert found["dead"] == []
        assert found["margin"] > 6


def test_classes_and_threshold_are_measured_on_seeds():
    found = classes(3, 60.0, width=64, seeds=2)
    assert np.shape(found["own"]) == (2, 3)
    assert found["accuracy"][0] <= 1
    assert [_lonely(atom, "+") for atom in ("c1 +v1 -v2", "c1 +v1 +v2", "c2 +v1 -v2", "c2 -v1 +v2")] == [
        True, False, False, True,
    ]  # fmt: skip
    (narrow,) = threshold(2, widths=(64,), seeds=2, factor=0.5)
    assert narrow["of"] == 4
    assert len(narrow["each"]) == len(narrow["silenced"]) == 2


def test_at_three_classes_more_hard_samples_learn_sooner():
    plain, more = learning(mf.Mixture(classes=3), rate=None), learning(shared(3, hard, 0.35), rate=None)
    assert plain["time"] == pytest.approx(734.637, abs=1e-3)
    assert more["time"] == pytest.approx(674.480, abs=1e-3)
    task = shared(4, alone, 0.1)
    assert task.probabilities[agreeing(task) == 1].sum() == pytest.approx(0.1)
    assert [int((agreeing(task) == k).sum()) for k in (1, 2, 3, 4)] == [8, 24, 24, 8]


def test_bad_input_is_one_sentence(capsys):
    for call, arguments, says in ((main, ["plateu"], "did you mean 'plateau'"), (stability, ["1"], "from 2 to 8")):
        with pytest.raises(SystemExit) as stopped:
            call(arguments)
        assert stopped.value.code == 2
        assert says in capsys.readouterr().err
