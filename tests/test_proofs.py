"""Runs that are theorems: the arithmetic, the derivatives, the enclosures, the file and its independent checker."""

import copy
import dataclasses
import json
import pathlib
import types
from fractions import Fraction

import flint
import numpy as np
import pytest
from altered import alter, refused

import mixflow as mf
from mixflow.cli import main
from mixflow.intervals import Interval, around, interval, matmul
from mixflow.proofs import checker, cover, finite, hessian, network
from mixflow.proofs.file import contents, seal, verdict
from mixflow.proofs.series import Series, expansion
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


@pytest.fixture(scope="module")
def short():
    """The contents of a proof of twelve cells, which the checker reads in a tenth of a second."""
    return json.loads(json.dumps(contents(mf.prove(TASK, TRANSFORMER, until=3))))


def random_state(K, seed=0, size=0.5):
    return network.start(K, Fraction(3, 10)).mid + size * np.random.default_rng(seed).normal(size=34)


# --- the arithmetic


def test_interval_expressions_contain_what_arb_finds():
    rng = np.random.default_rng(1)
    flint.ctx.prec = 200
    x, y = rng.normal(size=(2, 300)) * 10.0 ** rng.integers(-3, 2, 300)
    X, Y = interval(x), interval(y)
    found = {
        "sum": ((X + Y) * 3.0 - Y / 7.0, lambda a, b: (a + b) * 3 - b / 7),
        "softmax": (X.exp() / (X.exp() + Y.exp()), lambda a, b: a.exp() / (a.exp() + b.exp())),
        "root": ((X.square() + Y.square()).sqrt(), lambda a, b: (a * a + b * b).sqrt()),
        "log": ((1.0 + (X - Y).exp()).log(), lambda a, b: (1 + (a - b).exp()).log()),
        "inverse": (1.0 / (X * Y), lambda a, b: 1 / (a * b)),
    }
    for name, (enclosure, exact) in found.items():
        for a, b, low, high in zip(x, y, enclosure.lo, enclosure.hi):
            value = exact(flint.arb(a), flint.arb(b))
            assert flint.arb(low) < value < flint.arb(high), (name, a, b)
            assert high - low <= 1e-12 * (1 + abs(high)), (name, a, b)


def test_matrix_products_contain_every_product_of_their_members():
    rng = np.random.default_rng(2)
    X, Y = rng.normal(size=(2, 5, 7, 7))
    enclosure = matmul(around(X, np.full(X.shape, 0.1)), around(Y, np.full(Y.shape, 0.01)))
    for _ in range(20):
        inside = (X + 0.1 * rng.choice([-1, 1], X.shape)) @ (Y + 0.01 * rng.choice([-1, 1], Y.shape))
        assert (enclosure.lo <= inside).all()
        assert (inside <= enclosure.hi).all()
    thin = matmul(X[0], Y[0])
    for i, j in np.ndindex(7, 7):
        exact = sum(Fraction(a) * Fraction(b) for a, b in zip(X[0, i], Y[0, :, j]))
        assert Fraction(thin.lo[i, j]) <= exact <= Fraction(thin.hi[i, j])


def test_series_are_taylor_series():
    """exp(s)/(1 + s²) about s = 0.3: coefficients against Arb's series."""
    flint.ctx.prec, flint.ctx.cap = 200, 9
    s = expansion(interval(np.array([[0.0], [1.0]])), 0.3, 9)
    found = s.exp() / (1.0 + s * s)
    t = flint.arb_series([flint.arb(0.3), 1])
    exact = (t.exp() / (1 + t * t)).coeffs()
    for low, each, high in zip(found.c.lo[:, 0], exact, found.c.hi[:, 0]):
        assert flint.arb(low) <= each <= flint.arb(high)
        assert high - low < 1e-12
    assert isinstance(found, Series)


# --- the network in 34 numbers


@pytest.mark.parametrize("K", [2, 3, 5])
def test_34_numbers_move_as_the_symmetric_model_does(K):
    from mixflow.engines.symmetric_field import symmetric_field

    tables, x = network.symmetric(K), random_state(K)
    field = symmetric_field(mf.Mixture(classes=K), TRANSFORMER)
    u, pairs = tables.parts(x)
    scale = (2, 2 * (K - 1))

    def grams(first, second):
        return np.array([a.T @ b / n for (a, b), n in zip(zip(first, second), scale)])

    keys, queries = zip(*pairs)
    y = field.pack(
        {"w": u / np.sqrt(2 * K), "A": grams(keys, queries), "G_K": grams(keys, keys), "G_Q": grams(queries, queries)}
    )
    z = network.preactivations(tables, x, 0.5)
    assert np.abs(z - field.z(y)).max() < 1e-14
    assert abs(network.loss(tables, x, 0.5) - field.loss(y)) < 1e-14
    gates = (z > 0).astype(float)
    velocity = field.unpack(field.velocity(y, gates))
    g_u, g_pairs = tables.parts(-network.gradient(tables, x, 0.5, gates))
    g_keys, g_queries = zip(*g_pairs)
    assert np.abs(velocity["w"] - g_u / np.sqrt(2 * K)).max() < 1e-14
    assert np.abs(velocity["A"] - grams(g_keys, queries) - grams(keys, g_queries)).max() < 1e-14
    assert np.abs(velocity["G_K"] - grams(g_keys, keys) - grams(keys, g_keys)).max() < 1e-14


@pytest.mark.parametrize("K", [2, 3])
def test_hessian_is_the_derivative_of_the_gradient(K):
    tables, x = network.symmetric(K), random_state(K)
    gates = (network.preactivations(tables, x, 0.5) > 0).astype(float)
    exact = hessian.curvature(tables, interval(x), 0.5).hessian(gates)
    assert (exact.hi - exact.lo).max() < 1e-12
    step = 1e-6 * np.eye(34)
    slope = [network.gradient(tables, x + e, 0.5, gates) - network.gradient(tables, x - e, 0.5, gates) for e in step]
    assert np.abs(np.array(slope) / 2e-6 - exact.mid).max() < 1e-9
    assert hessian.growth(exact).hi == pytest.approx(np.linalg.eigvalsh(-exact.mid)[-1], rel=1e-9)


@pytest.mark.parametrize(("radius", "slack"), [(1e-6, 1e-4), (0.01, 0.01)])
def test_growth_on_a_ball_bounds_every_member(radius, slack):
    """Radii on both sides of `SMALL`: boxes, and third derivatives."""
    x = mf.prove(TASK, TRANSFORMER, until=1).tube.pieces[-1].at(1.0)
    tables = network.symmetric(2)
    gates = (network.preactivations(tables, x, 0.5) > 0).astype(float)
    around_x = hessian.curvature(tables, interval(x), 0.5, radius)
    mu = hessian.growth(around_x.hessian(gates)).hi + around_x.change(interval(gates))
    slopes, margins = around_x.slopes(), around_x.slopes(gates)
    H = hessian.curvature(tables, interval(x), 0.5).hessian(gates).mid
    g = network.gradient(tables, x, 0.5, gates)
    rng = np.random.default_rng(3)
    for _ in range(10):
        d = rng.normal(size=34)
        member = x + radius * d / np.linalg.norm(d)
        value = np.linalg.eigvalsh(-hessian.curvature(tables, interval(member), 0.5).hessian(gates).mid)[-1]
        assert value <= mu <= value + slack
        change = network.preactivations(tables, member, 0.5) - network.preactivations(tables, x, 0.5)
        assert (np.abs(change) <= radius * slopes + 1e-15).all()
        change = network.margins(tables, member, 0.5) - network.margins(tables, x, 0.5)
        assert (np.abs(change) <= radius * margins + 1e-15).all()
        if radius > hessian.SMALL:
            frame = np.outer(member - x, d) / np.linalg.norm(d)
            bent = np.linalg.norm(network.gradient(tables, member, 0.5, gates) - g - H @ (member - x))
            bound = around_x.remainder(interval(gates), frame, np.array(0.0))
            assert bent <= bound <= around_x.remainder(interval(gates), radius * np.eye(34), np.array(0.0)) < radius**2


def test_without_symmetry_the_network_is_the_same_on_symmetric_weights():
    small, full, U, n = network.symmetric(2), finite.tables(), finite.embedding(), finite.neurons()
    x = random_state(2)
    assert np.array_equal(U.T @ U, np.eye(34))
    z = network.preactivations(small, x, 0.5)
    gates = (z > 0).astype(float)
    assert np.abs(network.preactivations(full, U @ x, 0.5) - z[n]).max() < 1e-14
    g = network.gradient(full, U @ x, 0.5, gates[n])
    assert np.abs(g - U @ network.gradient(small, x, 0.5, gates)).max() < 1e-15
    W = U @ network.start(2, Fraction(3, 10)).mid
    S = np.hstack([W[8:40].reshape(8, 4), W[40:72].reshape(8, 4)])
    assert np.abs(S.T @ S - 0.09 * np.eye(8)).max() < 1e-15
    # One direction of each orbit stands for all of them.
    every = dataclasses.replace(full, orbits=(np.arange(40), ((np.arange(40), np.ones(40)),)))
    few, all_ = (hessian.curvature(t, interval(U @ x), 0.5, 1e-3).change(interval(gates[n])) for t in (full, every))
    assert few == pytest.approx(all_, rel=1e-9)
    # A start O S, S symmetric, is off x̂(0) in directions that `starts` keeps; those of O times a skew matrix it drops.
    P, M = finite.space().starts, np.random.default_rng(6).normal(size=(8, 8))
    for sign in (1, -1):
        change = S / 0.3 @ (M + sign * M.T)
        x = np.concatenate([np.zeros(8), change[:, :4].ravel(), change[:, 4:].ravel(), np.zeros(64)])
        assert np.abs(P @ x - (x if sign > 0 else 0)).max() < 1e-14


def test_a_network_of_finite_width_stays_in_the_tube_of_its_distance():
    proof = mf.prove(TASK, TRANSFORMER, until=1, distance=0.02)
    wide = mf.Transformer(width=1_000_000, omega=0.3, seed=1)
    flow = mf.train(TASK, wide, mf.GradientFlow(until=1, rtol=1e-10))
    start = flow.dataset.isel(time=0)
    far = 0.0
    for head in ("+", "-"):
        G_K, A, G_Q = (start[name].sel(head=head).values for name in ("G_K", "A", "G_Q"))
        values, vectors = np.linalg.eigh(np.block([[G_K, A], [A.T, G_Q]]))
        far += np.sum(((vectors * np.sqrt(values)) @ vectors.T - 0.3 * np.eye(8)) ** 2)
    assert np.sqrt(far) < 0.02
    low, high = proof.loss(1.0)
    assert low < float(flow.dataset.loss[-1]) < high
    assert proof.width == finite.width(0.02, 0.3)
    with pytest.raises(mf.SpecError, match="balls only"):
        proof.save("never.json")
    with pytest.raises(mf.SpecError, match="expected 2 classes"):
        mf.prove(mf.Mixture(classes=3), TRANSFORMER, until=1, distance=0.02)


def test_random_starts_are_as_near_as_the_bound_says():
    """The 99th of a hundred draws at width 1000 is within 0.068 of mean-field; the bound says 0.087."""
    rng = np.random.default_rng(0)
    draws = 0.3 / np.sqrt(1000) * rng.normal(size=(100, 2, 1000, 8))
    distance = np.sqrt(((np.linalg.svd(draws, compute_uv=False) - 0.3) ** 2).sum((1, 2)))
    assert 0.95 * finite.start_distance(1000, 0.3, 0.0) < distance.mean() < finite.start_distance(1000, 0.3, 0.0)
    assert distance.max() < finite.start_distance(1000, 0.3) < 1.4 * np.quantile(distance, 0.99)
    width = finite.width(0.05, 0.3)
    assert finite.start_distance(width, 0.3) <= 0.05 < finite.start_distance(width - 1, 0.3)


def test_growth_bounds_every_matrix_of_an_interval():
    rng = np.random.default_rng(4)
    middle = rng.normal(size=(9, 9))
    middle = middle + middle.T
    bound = hessian.growth(Interval(middle - 0.1, middle + 0.1)).hi
    for _ in range(50):
        noise = rng.choice([-0.1, 0.1], (9, 9))
        member = middle + np.triu(noise) + np.triu(noise, 1).T
        assert np.linalg.eigvalsh(-member)[-1] <= bound
    assert bound <= np.linalg.eigvalsh(-middle)[-1] + 0.9 + 1e-9


# --- what is proven


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
        (TASK, mf.Transformer(width=8), None),
        (TASK, TRANSFORMER, -1),
        (TASK, TRANSFORMER, mf.Until("easy_margin", 1)),
    ):
        with pytest.raises(mf.SpecError):
            mf.prove(task, transformer, until=until)


# --- the file and its checker


def test_a_file_reads_back(proof, tmp_path):
    path = tmp_path / "proof.json"
    proof.save(path)
    again = mf.Proof.load(path)
    assert again.facts() == proof.facts()
    assert again.loss(10.0) == proof.loss(10.0)
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
        cells = new["cells"]
        cells[name] = [value / 10 for value in cells[name]]
        r = new["first_radius"]
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


# --- the command


def test_the_command_proves_draws_and_checks(proof, tmp_path, capsys, monkeypatch):
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
    content["cells"]["delta"][2] /= 3
    path.write_text(json.dumps({**content, "checksum": seal(content)}))
    assert main(["prove", "--check", str(path), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["accepted"] is False
    monkeypatch.setattr(cover, "proved", lambda question: proof)
    assert main(["prove", "--time", "13", "--cover", "--omega-radius", "1e-9"]) == 0
    assert "every ω in [0.299999999, 0.300000001]" in capsys.readouterr().out
    assert main(["prove", "--cover"]) == 2
    assert main(["prove", "--time", "1", "--loss", "0.1"]) == 2
    assert main(["prove", "--classes", "1"]) == 2


def test_the_time_of_a_loss_is_enclosed():
    proof = mf.prove(TASK, TRANSFORMER, until=mf.Until("loss", 0.6))
    flow = mf.train(
        TASK, TRANSFORMER, mf.GradientFlow(until=proof.end, rtol=1e-11, atol=1e-13, save_at=list(proof.time))
    )
    low, high = proof.time
    assert high - low < 1e-9
    assert flow.dataset.loss.values[-2:] == pytest.approx([0.6, 0.6], abs=1e-10)
    assert "The loss is above 0.6 until" in proof.statement()
