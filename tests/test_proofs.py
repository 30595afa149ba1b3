"""Runs that are theorems: enclosures contain the flow, boxes their members, regions are covered, and what stops is said."""

import types
from fractions import Fraction

import numpy as np
import pytest
from altered import refused

import mixflow as mf
from mixflow.proofs import cover, network
from mixflow.proofs.file import contents
from mixflow.proofs.tube import SHARES

TASK, TRANSFORMER = mf.Mixture(classes=2), mf.Transformer(omega=0.3)


@pytest.fixture(scope="module")
def proof():
    """K = 2 beyond the first switch-off."""
    return mf.prove(TASK, TRANSFORMER, until=13)


@pytest.fixture(scope="module")
def box():
    """Every ω and b near 0.3 and 0.5, beyond the first switch-off."""
    return mf.prove(TASK, TRANSFORMER, until=16, omega_radius=1e-3, bias_radius=2e-4)


def test_the_first_switch_off_is_enclosed(proof):
    low, high = proof.switch_off
    flow = mf.train(TASK, TRANSFORMER, mf.GradientFlow(until=13, rtol=1e-11, atol=1e-13))
    assert low - 1e-8 < flow.events[0].time < high + 1e-8
    assert 0 < high - low < 1e-8
    assert proof.every_sample_right
    assert proof.right_from < 13


def test_enclosures_contain_the_flow(proof):
    flow = mf.train(TASK, TRANSFORMER, mf.GradientFlow(until=13, rtol=1e-11, atol=1e-13, save_at=[4.0, 12.8]))
    for t in (4.0, 12.8):
        now = flow.dataset.sel(time=t)
        low, high = proof.loss(t)
        assert high - low < 1e-10
        assert low - 1e-9 < float(now.loss) < high + 1e-9
        lows, highs = proof.margins(t)
        for n, atom in enumerate(("c1 +v1 -v2", "c1 +v1 +v2")):
            assert lows[n] - 1e-9 < float(now.margin.sel(atom=atom)) < highs[n] + 1e-9
        lows, highs = proof.scores(t)
        A = now.A.sel(head="+").values  # c1, c2, v1, v2
        for i, j in np.ndindex(2, 2):
            for other, place in enumerate((2 * j, 2 * j + 1)):
                assert lows[other, i, j] - 1e-9 < A[2 * i, place] < highs[other, i, j] + 1e-9


def test_a_box_of_parameters_contains_the_flows_inside_it(box):
    """Frames before and after the first switch-off, balls around it; corners of the box stay inside."""
    small = mf.prove(TASK, TRANSFORMER, until=2, omega_radius=1e-6, bias_radius=1e-6)
    assert refused(contents(small)) is None
    assert small.tube.frame is None
    proof = box
    assert small.radius < 1e-5 < 1e-3 < proof.radius
    framed = proof.tube.frame.any((1, 2))
    assert framed[0]
    assert framed[-1]
    assert not framed[proof.tube.cell(12.2)]
    for omega, bias in ((0.299, 0.5002), (0.301, 0.4998)):
        flow = mf.train(TASK, mf.Transformer(omega=omega, bias=bias), mf.GradientFlow(until=15, save_at=[11.0, 15.0]))
        for t in (11.0, 15.0):
            low, high = proof.loss(t)
            now = flow.dataset.sel(time=t)
            assert low < float(now.loss) < high < low + 0.02
            low, high = proof.margins(t)
            assert low[1] < float(now.margin.sel(atom="c1 +v1 +v2")) < high[1]


@pytest.mark.parametrize(("side", "push"), [(1, 1), (-1, 1), (0.5, -1)])
def test_a_frame_carries_the_flow(box, side, push):
    """Runge and Kutta from a start and a bias inside the box: what x̂ + Yξ misses is of second order, and within its bound.

    ξ is known at the start, and again where the ball around the first switch-off becomes a frame.
    """
    tables, tube = network.symmetric(2), box.tube
    x, bias = network.start(2, Fraction(3, 10) + Fraction(side) / 1000).mid, 0.5 + push * 2e-4
    xi, framed = np.zeros(35), tube.frame.any((1, 2))
    xi[[0, -1]] = side / SHARES[0], push / SHARES[1]

    def speed(x):
        return -network.gradient(tables, x, bias, (network.preactivations(tables, x, bias) > 0).astype(float))

    for cell in range(box.cells):
        begin, end = tube.times[cell]
        away = x - tube.pieces[tube.owner[cell]].at(begin)
        assert np.linalg.norm(away) <= tube.radius[cell]
        if framed[cell] and cell and not framed[cell - 1]:
            xi[:-1] = away / np.diag(tube.frame[cell])
        if framed[cell]:
            missed = np.linalg.norm(away - tube.frame[cell] @ xi)
            assert missed <= min(tube.loose[cell], 5e-6)
            assert tube.loose[cell] < 0.1 * tube.radius[cell]
        steps = int(np.ceil((end - begin) / 0.05))
        for _ in range(steps):
            h = (end - begin) / steps
            a = speed(x)
            b = speed(x + h / 2 * a)
            c = speed(x + h / 2 * b)
            x = x + h / 6 * (a + 2 * b + 2 * c + speed(x + h * c))
    assert framed[-1]


def test_a_region_is_covered_by_the_boxes_that_hold(monkeypatch):
    """A box is halved until it is proven, nothing is left out, and what never holds is said."""

    def proved(box):
        if box["omega"][1] - box["omega"][0] > Fraction(1, 1000):
            raise mf.ProofError("no proof beyond t = 0: too wide.")
        right = None if box["bias"][1] > 1 else 1.0
        return types.SimpleNamespace(right_from=right, end=2.0, classes=2, cells=3, radius=0.1, box=box)

    monkeypatch.setattr(cover, "proved", proved)
    found = cover.cover(TASK, TRANSFORMER, until=2, omega_radius=0.005, bias_radius=0.003)
    assert "rests on the prover alone" in found.statement()
    areas = [
        np.prod([float(box[name][1] - box[name][0]) for name in ("omega", "bias")])
        for box in (p.box for p in found.proofs)
    ]
    assert sum(areas) == pytest.approx(0.01 * 0.006)
    points = np.random.default_rng(0).uniform([0.295, 0.497], [0.305, 0.503], (200, 2))
    for omega, bias in points:
        boxes = [p.box for p in found.proofs]
        assert any(b["omega"][0] <= omega <= b["omega"][1] and b["bias"][0] <= bias <= b["bias"][1] for b in boxes)
    assert "every ω in [0.295, 0.305]" in found.statement()
    assert found.facts()["boxes"] == len(found.proofs)
    with pytest.raises(mf.ProofError, match="a sample may be wrong"):
        cover.cover(TASK, mf.Transformer(omega=0.3, bias=1.5), until=2, omega_radius=0.0, bias_radius=0.001)


@pytest.mark.parametrize(("K", "time"), [(4, "151.97"), (5, "126.877")])
def test_more_classes_stop_where_a_neuron_begins_to_slide(K, time):
    with pytest.raises(mf.ProofError, match=rf"no proof beyond t = {time}.*slides on z = 0 from there"):
        mf.prove(mf.Mixture(classes=K), TRANSFORMER)


def test_where_the_argument_stops_is_said():
    with pytest.raises(mf.ProofError, match="no proof beyond t = 0"):
        mf.prove(TASK, TRANSFORMER, until=3, omega_radius=0.29)
    for task, transformer, until in (
        (mf.Mixture(classes=1), TRANSFORMER, None),
        (mf.Mixture(classes=2, priors=(0.7, 0.3)), TRANSFORMER, None),
        (mf.Mixture(classes=2, loss="exponential"), TRANSFORMER, None),
        (TASK, mf.Transformer(width=8), None),
        (TASK, mf.Vanilla(), None),
        (TASK, TRANSFORMER, -1),
    ):
        with pytest.raises(mf.SpecError):
            mf.prove(task, transformer, until=until)
    for changed in ({"shared_attention": True}, {"heads": 4}, {"activation": "linear"}, {"attention": "direct"}):
        with pytest.raises(mf.SpecError, match=f"the paper's network: leave out {next(iter(changed))}"):
            mf.prove(TASK, mf.Transformer(omega=0.3, **changed), until=0.5)
    flow = mf.ThreeStage(mf.GradientFlow())
    for method, options in (
        (mf.ThreeStage(), {}),
        (mf.GradientFlow(), {}),
        (flow, {"until": 3}),
        (flow, {"distance": 0.1}),
    ):
        with pytest.raises(mf.SpecError, match="expected"):
            mf.prove(TASK, TRANSFORMER, method, **options)
    with pytest.raises(mf.ProofError, match="which stages have not"):
        mf.prove(TASK, TRANSFORMER, flow, omega_radius=1e-3)
    with pytest.raises(mf.ProofError, match="holds from the start"):
        mf.prove(
            TASK, TRANSFORMER, mf.ThreeStage(mf.GradientFlow(), neurons=1, attention=mf.Until("loss", 0.69), converge=1)
        )
    with pytest.raises(mf.ProofError, match="is not reached"):
        mf.prove(TASK, TRANSFORMER, until=mf.Until("loss", 0.1, limit=3))


def test_the_time_of_a_loss_is_enclosed():
    proof = mf.prove(TASK, TRANSFORMER, until=mf.Until("loss", 0.6))
    flow = mf.train(
        TASK, TRANSFORMER, mf.GradientFlow(until=proof.end, rtol=1e-11, atol=1e-13, save_at=list(proof.time))
    )
    low, high = proof.time
    assert high - low < 1e-9
    assert flow.dataset.loss.values[-2:] == pytest.approx([0.6, 0.6], abs=1e-10)
    assert "The loss is above 0.6 until" in proof.statement()


def test_the_stages_of_a_simultaneous_run_are_enclosed():
    """T1 and T2 as `run.stages` measures them, and the separation, at an ω where learning is quick."""
    quick = mf.Transformer(omega=2.5)
    proof = mf.prove(TASK, quick, until=mf.Until("loss_hard", 0.3))
    run = mf.train(TASK, quick, mf.GradientFlow(until=proof.end, rtol=1e-10, atol=1e-12))
    assert [name for name, _ in proof.stages] == ["neurons", "attention"]
    for (_, (low, high)), measured in zip(proof.stages, run.stages):
        assert low - 1e-7 < measured.end < high + 1e-7
        assert high - low < 1e-4
    low, high = proof.separated
    assert high - low < 1e-4
    assert proof.stages[0][1][1] < low < high < proof.stages[1][1][0]  # neurons, then features, then the hard samples
    margin = mf.measure.feature_margin(TASK, run.dataset.A.interp(time=high).values)
    assert margin == pytest.approx(0.1, abs=1e-4)
    assert "The stage of attention, until the hard samples' loss is half its plateau, ends between" in proof.statement()


def test_three_stages_are_enclosed():
    """Both events of stages, the switch-off, and what is read later than an event: against the flow, which errs by some 1e-10."""
    ends = {"neurons": mf.Until("easy_margin", 1.03), "attention": mf.Until("feature_margin", 1e-4), "converge": 1}
    proof = mf.prove(TASK, TRANSFORMER, mf.ThreeStage(mf.GradientFlow(), **ends))
    assert refused(contents(proof)) is None
    run = mf.train(TASK, TRANSFORMER, mf.ThreeStage(mf.GradientFlow(rtol=1e-11, atol=1e-13), **ends))
    for (name, (low, high)), switch in zip(proof.stages, run.switches):
        assert name == switch["name"]
        assert low - 1e-8 < switch["end"] < high + 1e-8
        assert high - low < 1e-4
    low, high = proof.switch_off
    assert low - 1e-8 < run.events[0].time < high + 1e-8
    for i in (5, -1):
        low, high = proof.loss(min(float(run.dataset.time[i]), proof.end))
        assert low - 1e-9 < float(run.dataset.loss[i]) < high + 1e-9
        assert high - low < 1e-6
    assert proof.radius < 1e-6


def test_a_cell_knows_what_stands_still():
    """δ of a stage bounds the residual for every frozen coordinate within `held`, not only for those of x̂."""
    from mixflow.proofs.bounds import Curves, pulled, residual
    from mixflow.proofs.stages import moved

    proof = mf.prove(TASK, TRANSFORMER, until=2)
    tube, held = proof.tube, 1e-3
    rng, piece, times = np.random.default_rng(7), tube.pieces[tube.owner[-1]], tube.times[-1:]
    for what in ("w", "attention"):
        tables = moved(network.symmetric(2), what)
        gates = np.ones((1, 4))
        curves = Curves.of([piece], times)
        wide = curves.widened(held * (1 - tables.moving))
        bound = pulled(tables, wide, 0.5, gates, held)[0]
        x = piece.at(times.mean())
        away = rng.normal(size=34) * (1 - tables.moving)
        away *= held / np.linalg.norm(away)
        change = network.gradient(tables, x + away, 0.5, gates[0]) - network.gradient(tables, x, 0.5, gates[0])
        assert 0 < np.linalg.norm(change) <= bound < 50 * np.linalg.norm(change)
        assert residual(tables, curves, 0.5, gates).shape == (1,)
