"""The robustness table: how a run is judged, where a picture breaks, and that the page says so."""

import dataclasses
import math

import numpy as np
import pytest

import mixflow as mf
from mixflow.cli import main
from mixflow.measure.stages import Stage, detect
from mixflow.paper import experiments
from mixflow.paper.experiments import robustness, robustness_traps
from mixflow.paper.experiments.robustness_rows import Outcome, Row
from mixflow.paper.experiments.robustness_tasks import DIALS, ROWS, outcomes
from mixflow.paper.experiments.shape import in_turn, quiet
from mixflow.paper.report.side_by_side import spread
from mixflow.tasks.floor import Samples, above_least
from mixflow.tasks.variants import imbalanced, label_noise

SEEN = [Stage("neurons", 0.0, 10.0), Stage("attention", 10.0, 200.0), Stage("convergence", 200.0, 2000.0)]
NONE = Stage("convergence", None, None, {"reason": "the loss stalls near 0.07"})


def good(T2=200.0, loss=0.003):
    return Outcome(SEEN, 1.0, T2, True, loss)


def bad(accuracy=0.75):
    return Outcome([*SEEN[:2], NONE], accuracy, math.nan, False, 0.07)


def trapped():
    return dataclasses.replace(bad(0.5), limit="at infinite width it is trapped", loss=math.log(2) / 2 + 1e-3)


def row(variant, strength, found, base="base", group="task"):
    return Row(variant, group, strength, base, lambda seeds, full: [found(seed or 0) for seed in seeds], "made up")


@dataclasses.dataclass
class FakeDial:
    """The picture holds below `breaks`."""

    breaks: float
    variant: str = "made up"
    search: tuple = (0.0, 0.8)
    tried: list = dataclasses.field(default_factory=list)

    def run(self, seeds, full, *, strength):
        self.tried.append(strength)
        return [good() if strength < self.breaks else bad() for _ in seeds]

    def row(self, strength):
        return row(self.variant, strength, lambda seed: good())


@pytest.mark.parametrize("breaks", [0.01, 0.37, 0.79])
def test_bisection_closes_in_on_where_the_picture_breaks(breaks):
    low, high, how = robustness.search(FakeDial(breaks), range(3), False, 6)
    assert low < breaks <= high
    assert high - low == pytest.approx(0.8 / 2**6)
    assert how == "breaks: no seed learns the hard samples"


def test_what_never_breaks_is_tried_once_at_its_largest_strength():
    dial = FakeDial(math.inf)
    low, high, _ = robustness.search(dial, range(3), False, 6)
    assert (low, math.isnan(high), dial.tried) == (0.8, True, [0.8])


def test_nine_of_ten_seeds_are_enough_and_eight_are_not():
    assert robustness.holds([good()] * 9 + [bad()])
    assert not robustness.holds([good()] * 8 + [bad()] * 2)
    assert not robustness.holds([good()] * 8 + [bad(1.0)] * 2)  # learned by all, but not in order
    late = Outcome([SEEN[0], dataclasses.replace(SEEN[1], evidence={"complete": False}), SEEN[2]], 1.0, 5.0, True, 0.0)
    assert not robustness.in_order(late)


@pytest.fixture
def made_up(monkeypatch):
    """An experiment of made-up rows: the base, one that holds twice as late, one that breaks with fewer seeds, one noisy."""
    entropy = -0.1 * math.log(0.1) - 0.9 * math.log(0.9)
    rows = [
        row("base", "width 64", lambda seed: good(200.0 + seed), base="", group="base"),
        row("slow", 0.5, lambda seed: good(400.0 + 2 * seed)),
        Row("broken", "model", "one head", "base", lambda seeds, full: [bad(), bad(), good(), trapped()], "made up"),
        Row("narrow", "model", "Adam", "base", lambda seeds, full: [good()] * len(seeds), "made up", infinite=False),
        row("label noise", 0.1, lambda seed: good(300.0, entropy + 1e-4)),
    ]
    monkeypatch.setattr(robustness, "ROWS", rows)
    monkeypatch.setattr(robustness, "SEARCHES", [FakeDial(0.37)])
    return rows


def test_table_says_what_holds_and_what_breaks(made_up):
    results = robustness.run({**robustness.EXPERIMENT.settings(), "seeds": 10}, quiet)
    table, thresholds = results.tables
    by_name = {cells[0]: cells[1:] for cells in table.rows}
    assert by_name["base: width 64"][-2:] == ("the picture holds", "holds, T2 = 200")
    assert by_name["slow: 0.5"][4] == "2.00 (1.96–2.04)"
    assert by_name["broken: one head"][:3] == ("1/3", "0.833", "1/3")
    assert by_name["broken: one head"][-2] == "breaks: 2 of 3 seeds do not learn the hard samples"
    assert by_name["broken: one head"][-1] == "breaks: hard accuracy 0.500; at infinite width it is trapped"
    assert by_name["narrow: Adam"][-1] == "–"
    assert robustness.answer(results).endswith("the same in 4 of 4. What only a finite width learns so: nothing.")
    assert thresholds.rows[0][1:3] == ("0.35", "0.4")
    assert all(check.ok is not False for check in robustness.verdict(results))


def test_parts_in_other_processes_give_the_same_table():
    settings = {
        **robustness.EXPERIMENT.settings(),
        "variants": ["one head", "learning rate"],
        "seeds": 2,
        "halvings": 1,
    }
    here, there = (robustness.run(settings, quiet, each=each) for each in (in_turn, spread(2)))
    for name, data in here.series.items():
        assert data.identical(there.series[name])
    assert here.series["thresholds"].variant == "learning rate"


@pytest.mark.parametrize(
    ("change", "fails"),
    [
        ({"hard_accuracy": 0.5}, "base learned"),
        ({"in_order": 0}, "base order"),
        ({"mechanism": 0}, "base signs"),
        ({"separation": -1.0}, "separation"),
    ],
)
def test_a_wrong_base_case_cannot_pass(made_up, change, fails):
    results = robustness.run({**robustness.EXPERIMENT.settings(), "seeds": 4}, quiet)
    data = results.series["rows"].copy(deep=True)
    for name, value in change.items():
        data[name][0] = value
    moved = dataclasses.replace(results, series={**results.series, "rows": data})
    assert [check.name for check in robustness.verdict(moved) if check.ok is False] == [fails]


@pytest.mark.parametrize(
    ("variable", "value", "fails"), [("loss", 0.3, "floor 0.1"), ("relative", 0.9, "slower label noise")]
)
def test_label_noise_cannot_beat_the_entropy_nor_the_base(made_up, variable, value, fails):
    results = robustness.run({**robustness.EXPERIMENT.settings(), "seeds": 4}, quiet)
    data = results.series["rows"].copy(deep=True)
    data[variable][4] = value
    moved = dataclasses.replace(results, series={**results.series, "rows": data})
    assert [check.name for check in robustness.verdict(moved) if check.ok is False] == [fails]


@pytest.mark.parametrize("over", [-1e-6, 0.02])
def test_a_trapped_network_cannot_pass_below_its_floor_nor_far_above_it(made_up, monkeypatch, over):
    monkeypatch.setitem(robustness_traps.TIED, "broken", "it is made so")
    results = robustness.run({**robustness.EXPERIMENT.settings(), "seeds": 4}, quiet)
    assert [check.ok for check in robustness.verdict(results) if check.name == "trap broken one head"] == [True]
    data = results.series["rows"].copy(deep=True)
    data["limit_loss"][2] = math.log(2) / 2 + over
    moved = dataclasses.replace(results, series={**results.series, "rows": data})
    failed = [check for check in robustness.verdict(moved) if check.ok is False]
    assert [(check.name, check.kind) for check in failed] == [("trap broken one head", "theory")]


@pytest.mark.filterwarnings("ignore:at infinite width every sample is fitted")
def test_the_trap_of_label_noise_and_of_squared_loss_is_where_the_formula_says():
    """No neuron of the infinitely wide network ever switches off from y·F = 2b on: log(0.7/0.3) = 0.847, or 1."""
    noisy, exact = label_noise(mf.Mixture(2), probability=0.3), mf.variants.regression(2)
    for task, narrow, wide in ((noisy, 0.40, 0.45), (exact, 0.47, 0.53)):
        pair = [mf.Transformer(omega=0.3, bias=b) for b in (narrow, wide)]
        data = mf.train_many(task, pair, mf.GradientDescent(0.5, 4000, 40)).dataset
        off = (data.z.transpose("run", ...).values <= 0).any(axis=(1, 2, 3))
        assert off.tolist() == [True, False]
    trapped = float(mf.train(noisy, mf.Transformer(omega=0.3), mf.GradientDescent(0.5, 4000, 4000)).dataset.loss[-1])
    assert trapped == pytest.approx(robustness_traps.floor("label noise", 0.3)[0], abs=1e-9)


def test_an_unknown_variant_is_an_error():
    with pytest.raises(mf.SpecError, match="did you mean 'label noise'"):
        robustness.run({**robustness.EXPERIMENT.settings(), "variants": ["label nois"]}, quiet)


def test_report_page_shows_the_table_and_verifies(made_up, tmp_path, capsys):
    assert main(["reproduce", "--only", "robustness", "--workers", "1", "--out", str(tmp_path)]) == 0
    page = (tmp_path / "report.html").read_text()
    assert "breaks: 2 of 3 seeds do not learn the hard samples" in page
    assert "Where the picture breaks" in page
    assert "| slow: 0.5 | 10/10 | 1.000 |" in (tmp_path / "tables" / "robustness-answers.md").read_text()
    assert {path.name for path in (tmp_path / "figures").glob("*.svg")} == {
        "robustness-slow.svg", "robustness-broken.svg", "robustness-narrow.svg", "robustness-label-noise.svg",
    }  # fmt: skip
    assert main(["verify", str(tmp_path)]) == 0


@pytest.mark.parametrize(("words", "there"), [([], False), (["--full"], True), (["--only", "robustness"], True)])
def test_robustness_runs_when_asked_for_or_with_everything(tmp_path, monkeypatch, capsys, words, there):
    ran = []

    def note(folder, each, settings, **_):
        ran.append(each.name)
        raise KeyboardInterrupt if each.name == "robustness" else RuntimeError

    order = sorted(experiments.NAMES, key=lambda name: name != "robustness")  # first, so that nothing else need run
    monkeypatch.setattr("mixflow.paper.report.reproduce.NAMES", tuple(order))
    monkeypatch.setattr("mixflow.paper.report.reproduce.perform", note)
    with pytest.raises(RuntimeError) if not there else pytest.MonkeyPatch.context():
        main(["reproduce", *words, "--workers", "1", "--out", str(tmp_path)])
    assert (ran == ["robustness"]) == there


def test_every_variant_is_in_the_table_with_its_own_words():
    names = [dial.variant for dial in DIALS]
    assert len(set(names)) == len(names)
    assert {row.variant for row in ROWS} == {"base", "base, K = 4", *names}
    assert all(set(dial.more).isdisjoint(dial.strengths) for dial in DIALS)
    for dial in DIALS:  # every task can be built, at every strength and at the ends of its search
        for strength in (*dial.strengths, *dial.more, *(dial.search or ())):
            dial.task(strength)


def test_the_base_case_is_judged_as_stage_detection_does():
    (one,) = outcomes(mf.Mixture(2), [3], until=300.0)
    method = mf.GradientDescent(0.1, 3000, save_every=3)
    run = mf.train(mf.Mixture(2), mf.Transformer(width=64, omega=0.3, seed=3), method)
    assert one.separation == pytest.approx(detect(run.dataset)[1].end, rel=1e-9)
    assert one.loss == float(run.dataset.loss[-1])
    assert (one.hard_accuracy, one.mechanism, one.silent) == (1.0, True, 0.0)


def test_a_silent_class_is_seen():
    """A class of probability 0.2 ends with both neurons off on its hard samples, however long one trains."""
    task = imbalanced(2, priors=(0.8, 0.2))
    (one,) = outcomes(task, [0], rate=0.5)
    assert one.hard_accuracy == 0.75
    assert one.silent == 0.5
    assert one.loss > 0.1 * math.log(2)  # the samples that stay at F = 0
    assert not robustness.in_order(one)
    limit = mf.train(task, mf.Transformer(omega=0.3), mf.GradientDescent(0.5, 4000, save_every=4000)).dataset.isel(
        time=-1
    )
    rare = (limit.probability < 0.1) & limit.hard
    assert (limit.z.values[:, rare.values] <= 0).all()  # no accident of a draw: infinitely wide, it is the same


def test_samples_know_their_least_loss():
    samples = Samples(label_noise(imbalanced(2, priors=(0.9, 0.1)), probability=0.25))
    entropy = -0.25 * math.log(0.25) - 0.75 * math.log(0.75)
    np.testing.assert_allclose(samples.least_loss, entropy)
    np.testing.assert_allclose(samples.evenly.reshape(8, 2), np.tile([0.75, 0.25], (8, 1)) / 8)
    assert samples.likeliest.tolist() == [True, False] * 8
    losses = dict.fromkeys(("loss", "loss_easy", "loss_hard"), np.array([entropy + 0.5, entropy - 1e-15]))
    above = above_least(losses, samples.least_loss, samples.evenly, samples.task.hard)
    for name in losses:
        assert above[name] == pytest.approx([0.5, 1e-12])
        assert above["least"][name] == pytest.approx(entropy)
    twice = mf.FiniteTask(features=("v",), atoms=[[("v", 1)]] * 2, labels=[1.0, 3.0], loss="squared")
    np.testing.assert_allclose(Samples(twice).least_loss, 0.5)  # half the variance of 1 and 3
    thrice = [[("c1", 1), ("v1", 1)]] * 3 + [[("c1", 1), ("v1", -1)]]
    listed = mf.FiniteTask(
        features=("c1", "v1"), atoms=thrice, labels=[1, 1, 1, -1], probabilities=[0.1, 0.2, 0.3, 0.4]
    )
    assert not Samples(listed).least_loss.any()  # listed thrice with one label: nothing is uncertain
    assert Samples(listed).likeliest.all()
    never = mf.FiniteTask(features=("v",), atoms=[[("v", 1)], [("v", -1)]], labels=[1, -1], probabilities=[1, 0])
    assert Samples(never).evenly.tolist() == [1, 0]
