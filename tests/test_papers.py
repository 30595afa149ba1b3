"""Other papers: each is short, every claim of it holds, and fails where the run is another; a file that is no paper refused."""

import dataclasses
import inspect

import pytest

import mixflow as mf
from mixflow.cli import main
from mixflow.paper import experiments
from mixflow.paper.experiments.shape import quiet

# (series, variable): x → factor · x |x|^power, and the checks that must then fail.
ALTERED = {
    "co-occurrence": {
        ("training", "loss"): (1.5, 0, ["loss"]),
        ("training", "A_21"): (-1, 0, ["rise", "rises by"]),
        ("training", "A_32"): (-1, 0, ["fall", "falls by"]),
        ("training", "A_31"): (1, -0.9, ["attention waits"]),
        ("widths", "time"): (1, 0.1, ["time"]),
        ("widths", "change"): (1, 0.1, ["change"]),
    },
    "even-pairs": {
        ("training", "loss"): (0.9999, 0, ["loss 1", "loss 1000", "loss 10000"]),
        ("training", "attending"): (0.9999, 0, ["attention"]),
        ("training", "first"): (0.9999, 0, ["first step"]),
        ("training", "second"): (1, 0.2, ["power second"]),
        ("training", "norm_W"): (1, -0.6, ["W per ln t"]),
    },
    "single-head": {
        ("deciding", "share"): (0.9999, 0, ["share 1", "share 2", "share 4"]),
        ("deciding", "value"): (1, 0.2, ["value"]),
        ("deciding", "score"): (1, 0.2, ["score"]),
        ("copying", "delay"): (1, 0.2, ["finite width", "later"]),
    },
    "token-selection": {
        ("ends", "direct_Frobenius"): (0.8, 0, ["direct nearer", "direct Frobenius"]),
        ("ends", "product_nuclear"): (0.8, 0, ["product nearer", "product nuclear"]),
        ("ends", "product_gap"): (1e4, 0, ["product gap"]),
    },
}
PAPERS = [name for name in experiments.NAMES if "papers" in experiments.home(name)]


@pytest.fixture(scope="module", params=PAPERS)
def done(request):
    """(experiment, results) of a paper, run once with its quick settings."""
    each = experiments.experiment(request.param)
    return each, each.run(each.settings(), quiet)


def failed(each, results):
    return [check.name for check in each.verdict(results) if check.ok is False]


def test_every_claim_holds_and_every_kind_of_it_is_there(done):
    each, results = done
    assert failed(each, results) == []
    assert {check.kind for check in each.verdict(results)} >= {"theory", "paper", "regression"}
    assert len(each.answer(results)) > 100
    (picture,) = each.figures(results)
    assert len(picture.alt) > 60
    assert all(axes.get_legend() for axes in picture.figure.axes)


def test_a_claim_fails_where_the_run_is_another(done):
    each, results = done
    for (series, variable), (factor, power, names) in ALTERED[each.name].items():
        data = results.series[series]
        other = data.assign({variable: factor * data[variable] * abs(data[variable]) ** power})
        wrong = failed(each, dataclasses.replace(results, series={**results.series, series: other}))
        assert set(names) <= set(wrong), f"{variable}: only {wrong} fail"


def test_a_paper_is_short(done):
    source = inspect.getsource(inspect.getmodule(done[0].run))
    assert source.count("\n") < 150
    assert "Our choice" in source
    assert "From the source" in source


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x = 1", "has no EXPERIMENT: end it with"),
        ("1/0", "cannot be run: ZeroDivisionError"),
        ("from mixflow.paper.experiments.width import EXPERIMENT", "name = 'width': expected a name of its own"),
    ],
)
def test_a_file_that_is_no_paper_is_refused_in_one_sentence(tmp_path, capsys, text, says):
    path = tmp_path / "mine.py"
    path.write_text(text)
    assert main(["reproduce", "--only", str(path), "--out", str(tmp_path)]) == 2
    assert says in capsys.readouterr().err
    assert main(["reproduce", "--only", str(tmp_path / "missing.py"), "--out", str(tmp_path)]) == 2
    with pytest.raises(mf.SpecError, match="did you mean 'even-pairs'"):
        experiments.experiment("even-pair")
