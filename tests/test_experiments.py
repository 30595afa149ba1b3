"""Experiments: all of one shape, settings with reasons, and verdicts that a wrong number cannot pass."""

import dataclasses
import json
import math

import numpy as np
import pytest

from mixflow.paper import experiments
from mixflow.paper.check import Check, between, equal, near, printed, shown, tally, theory
from mixflow.paper.experiments.shape import Results, quiet
from mixflow.paper.files import csv_table, write_series

ALL = [experiments.experiment(name) for name in experiments.NAMES]


@pytest.mark.parametrize("each", ALL, ids=lambda each: each.name)
def test_every_experiment_has_the_shape(each):
    assert each.question.endswith("?")
    assert each.section.startswith("§")
    assert len(each.seconds) == 2
    for full in (False, True):
        assert json.loads(json.dumps(each.settings(full))) == each.settings(full)
    assert all(len(entry.why) > 8 for entry in each.config.values()), "every setting says why"


def test_full_settings_differ_only_where_stated():
    each = experiments.experiment("simultaneous")
    quick, full = each.settings(), each.settings(full=True)
    assert {name for name in quick if quick[name] != full[name]} == {"seeds"}


def test_an_unknown_name_suggests_the_nearest():
    from mixflow import SpecError

    with pytest.raises(SpecError, match="did you mean 'width'"):
        experiments.experiment("widht")


def small(name, **changes):
    each = experiments.experiment(name)
    settings = {**each.settings(), **changes}
    results = each.run(settings, quiet)
    return each, results, {check.name: check for check in each.verdict(results)}


def test_simultaneous_verdict_holds_and_a_shifted_loss_does_not():
    each, results, checks = small("simultaneous", seeds=2)
    assert all(check.ok is not False for check in checks.values())
    assert checks["neurons end"].low < checks["neurons end"].measured < checks["neurons end"].high
    series = results.series["mean-field"]
    wrong = series.assign(loss=series.loss * 1.00001)
    moved = dataclasses.replace(results, series={**results.series, "mean-field": wrong})
    assert [check.name for check in each.verdict(moved) if check.ok is False] == ["loss"]
    (picture,) = each.figures(results)
    assert len(picture.alt) > 60


def test_width_slope_has_an_interval_over_seeds():
    _, results, checks = small("width", widths=[8, 64, 512, 4096], seeds=4, steps=500, compare_at=[10.0, 50.0])
    slope = checks["slope 50"]
    assert slope.ok
    assert slope.low < slope.measured < slope.high
    assert results.series["width"].distance.dims == ("width", "seed", "at")


def test_mnist_says_where_its_images_come_from_and_whether_the_target_was_met():
    tiny = {
        "samples": 16,
        "test_samples": 16,
        "images": 4,
        "until": 5.0,
        "ends": [2.0, 2.0, 1.0],
        "width": 4,
        "spacing": 1.0,
    }
    few = {
        "seeds": [0],
        "choice_seeds": [0],
        "staged_seeds": [0],
        "omegas": [0.6, 0.8],
        "curve": [4, 8],
        "pairs": [[0, 1]],
    }
    each, results, checks = small("mnist", **tiny, **few)
    (source,) = results.sources
    assert "CC BY-SA" in source.licence
    assert len(source.sha256.split()[-1]) == 64
    assert "held out for the test" in source.split
    assert results.facts["omega"] in (0.6, 0.8)
    trained = {run.task.held_out for members in results.facts["runs"].values() for run in members}
    assert trained == {"test"}  # opened by the runs of the chosen setting only
    assert len(results.tables[0].rows) == 1
    assert len(each.figures(results)) == 2
    assert checks["simultaneous hard"].ok is False  # five units of time teach nothing
    assert "is missed" in each.answer(results)


def test_checks():
    known = theory("because")
    assert near("a", "", 1.05, 1, 0.1, **known).ok
    assert not near("a", "", math.nan, 1, 0.1, **known).ok
    assert near("a", "", 0.5, 2, 0.1, relative=True, **known).predicted == "2 ± 10 %"
    assert between("a", "", 3, None, 2, **known).ok is False
    assert between("a", "", 1e-3, 1e-4, None, **known).predicted == "at least 0.0001"
    assert equal("a", "", 3, 3, **known).ok
    assert shown("a", "", 3).ok is None
    assert printed(-1e-5) == "−10⁻⁵"


def test_a_prediction_says_what_it_rests_on():
    with pytest.raises(ValueError, match="what its prediction rests on"):
        Check(name="a", sentence="", measured=1.0, ok=True, kind="theory")


def test_kinds_are_counted_apart():
    made = [near("a", "", 1, 1, 0.1, **theory("x")), near("b", "", 3, 1, 0.1, **theory("x")), shown("c", "", 1)]
    assert tally([check.to_dict() for check in made]) == {
        "theory": [1, 2],
        "paper": [0, 0],
        "regression": [0, 0],
        "shown": 1,
    }


def test_csv_names_every_axis(tmp_path):
    import xarray

    data = xarray.Dataset(
        {
            "a": ("time", [0.1, np.nan]),
            "b": (("time", "head"), [[1.0, 2.0], [3.0, 4.0]]),
            "e": ("event", ["on", "off"]),
        },
        coords={"time": [0.0, 1.0], "head": ["+", "-"]},
    )
    assert csv_table(data, "time") == "time,a,b[+],b[-]\n0.0,0.1,1.0,2.0\n1.0,nan,3.0,4.0\n"
    names = {path.name for path in write_series(data, tmp_path / "s")}
    assert names == {"s.nc", "s.csv", "s-event.csv"}


def test_results_start_empty():
    assert Results().runs == {}
