"""Every option of the one-layer transformer: right by an independent forward pass, the same on every engine, at every width."""

import math
from dataclasses import replace

import numpy as np
import pytest
from odd import ODD

import mixflow as mf
from mixflow.measure.stages import NAMES
from mixflow.networks.initial import embedding, start
from mixflow.summary import summary, table

BASE = mf.Transformer(width=16, seed=3)
METHOD = mf.GradientDescent(0.1, 300, save_every=50)
# One entry for each thing that can be changed, and some together; random values have a test of their own.
OPTIONS = {
    "trained bias": {"train_bias": True},
    "ReLU before the average": {"activate": "before"},
    "three values": {"values": 3},
    "standard initialisation": {"initialisation": "standard"},
    "scaled scores": {"scaled_scores": True},
    "one head": {"heads": 1},
    "one head, offset": {"heads": 1, "offset": True},
    "four heads": {"heads": 4},
    "three heads": {"heads": 3},
    "offset": {"offset": True},
    "shared attention": {"shared_attention": True},
    "direct attention": {"attention": "direct"},
    "sum over queries": {"queries": "sum"},
    "linear": {"activation": "linear"},
    "value product": {"value_neurons": 2},
    "products of several values": {"value_neurons": 2, "values": 2},
    "W_K = W_Q": {"attention": "tied"},
    "shared keys": {"shared_keys": True, "heads": 3},
    "tied values, shared attention": {"tie_values": True, "shared_attention": True},
    "together": {
        "values": 2, "activate": "before", "queries": "sum", "offset": True, "train_bias": True, "shared_attention": True
    },
}  # fmt: skip
# The same options several at a time, for what costs more: a flow and a limit differ where the bookkeeping does.
MIXED = {
    "paper": {},
    "bias, sum": {"train_bias": True, "queries": "sum"},
    "before, offset": {"activate": "before", "offset": True},
    "values, scaled": {"values": 3, "scaled_scores": True},
    "standard": OPTIONS["standard initialisation"],
    "one head, offset": OPTIONS["one head, offset"],
    "shared keys": OPTIONS["shared keys"],
    "direct": OPTIONS["direct attention"],
    "four linear heads": {"activation": "linear", "heads": 4},
    "linear, bias of each query": {
        "activation": "linear",
        "activate": "before",
        "queries": "sum",
        "heads": 1,
        "train_bias": True,
    },
    "value product": OPTIONS["value product"],
    "W_K = W_Q": OPTIONS["W_K = W_Q"],
    "tied values, shared attention": OPTIONS["tied values, shared attention"],
    "together": OPTIONS["together"],
}
LOSSES = ("logistic", "exponential", "linear", "squared", "softmax")
G = np.eye(4) + 0.2 * (np.ones((4, 4)) - np.eye(4))
COHERENT = mf.Mixture(classes=2, gram=G, priors=(0.6, 0.4))


def numpy_loss(task, network, weights):
    """The loss from the weights, atom by atom, token by token: no token types, no feature coordinates."""
    Phi = embedding(task, network.dimension)
    place = {name: i for i, name in enumerate(task.features)}
    total, mean = 0.0, network.queries == "mean"

    def act(z):
        return z if network.activation == "linear" else np.maximum(z, 0)

    def pooled(x):
        return x.mean() if mean else x.sum()

    for atom, y, p in zip(task.atoms, task.labels, task.probabilities):
        X = np.stack([coefficient * Phi[:, place[name]] for name, coefficient in atom], axis=1)  # (d, L)
        F = -float(weights.get("offset", 0.0))
        for h in range(network.heads):
            a = 0 if network.shared_attention else h
            if "W_KQ" in weights:
                S = X.T @ weights["W_KQ"][a] @ X
            else:
                W_K = weights["W_K"][0 if network.shared_keys else a]
                S = (W_K @ X).T @ ((weights["W_Q"][a] if "W_Q" in weights else W_K) @ X)
            S = S / math.sqrt(network.width) if network.scaled_scores else S
            P = np.exp(S) / np.exp(S).sum(axis=0)
            for r in range(network.values):
                b, tied = weights["bias"][h, r], network.tie_values
                if network.value_neurons:
                    w = sum(
                        (-1) ** j * each @ weights["W_V"][h, r] for j, each in enumerate(weights["value_neurons"][h, r])
                    )
                else:
                    w = (-1) ** h * weights["w"][0, r] if tied else weights["w"][h, r]
                z = b + w @ X @ P  # (L,) one for each query
                on = (
                    pooled(act(z))
                    if network.activate == "before"
                    else act(z.mean() if mean else z.sum() - (len(z) - 1) * b)
                )
                F += (-1) ** h * on * (weights["read_out"][h, r] if network.values > 1 else 1)
        total += p * math.log1p(math.exp(-y * F))
    return total


def numpy_gradient(task, network, weights, trained, size=1e-6):
    gradient = {}
    for name in trained:
        g = np.zeros_like(weights[name])
        for index in np.ndindex(g.shape):
            moved = []
            for sign in (1, -1):
                other = weights[name].copy()
                other[index] += sign * size
                moved.append(numpy_loss(task, network, {**weights, name: other}))
            g[index] = (moved[0] - moved[1]) / (2 * size)
        gradient[name] = g
    return gradient


SMALL = mf.Transformer(width=3, omega=0.8, seed=5, dimension=6)
LONG = mf.GradientDescent(0.1, 200, save_every=1)


def network_of(options, base=SMALL):
    """The network with random values, without which its first step would not move the attention."""
    random = {} if options.get("initialisation") == "standard" else {"value_scale": 0.4}
    return replace(base, **random, **options)


@pytest.fixture(scope="module")
def base():
    return mf.train(ODD, network_of({}), LONG).dataset


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_every_option_is_right_in_its_first_step_and_equals_every_weight(options, base):
    """One step against finite differences of an independent forward pass; the whole run against every weight, with features
    that are not orthogonal and more dimensions than features (wider and longer: benchmarks/options.py); and it is not the
    run of the unchanged network."""
    network = network_of(options)
    weights = network.start(ODD)
    trained = [name for name in weights if name not in network.frozen_weights]
    g = numpy_gradient(ODD, network, weights, trained)
    attention = "W_KQ" if network.direct else "W_K"
    assert np.abs(g[attention]).max() > 1e-4
    expected = {**weights, **{name: weights[name] - 0.1 * g[name] for name in trained}}
    run = mf.train(ODD, network, LONG)
    data = run.dataset
    assert data.attrs["model"] == "gram"
    np.testing.assert_allclose(data.loss[0], numpy_loss(ODD, network, weights), rtol=1e-13)
    np.testing.assert_allclose(data.loss[1], numpy_loss(ODD, network, expected), rtol=1e-9)
    seen = network.observe(expected, ODD)
    w = np.asarray(seen["w"])
    np.testing.assert_allclose(data.w.values[1], w if network.values > 1 else w[:, 0], atol=1e-9)
    A = np.asarray(seen["A"])
    np.testing.assert_allclose(data.A.values[1], np.broadcast_to(A, data.A.values[1].shape), atol=1e-9)
    for name in ("read_out", "offset", "bias"):
        if name in trained:
            np.testing.assert_allclose(data[name].values[1].ravel(), expected[name].ravel(), atol=1e-9)
            assert not np.array_equal(data[name].values[0], data[name].values[1])
    full = mf.train(ODD, network, LONG, model="full").dataset
    for name in ("w", "A", "z", "margin", "loss"):
        np.testing.assert_allclose(data[name], full[name], rtol=0, atol=1e-11)
    assert abs(data.loss.values[-1] - base.loss.values[-1]) > 1e-3
    assert [stage.name for stage in run.stages] == list(NAMES)
    if network.activate == "before":  # a neuron for each token of each atom: 3, 4, 2 and 4 of them
        assert np.isfinite(data.z.values[0].reshape(-1, *data.z.shape[-2:])[0]).sum(axis=1).tolist() == [3, 4, 2, 4]


@pytest.mark.parametrize("options", MIXED.values(), ids=MIXED)
def test_infinite_width_is_the_limit(options):
    """The distance falls like m^(-1/2); random values are the same at every width. Scaled scores have limits of their own."""
    if options.get("initialisation") == "standard" or options.get("scaled_scores"):
        return
    network, method = network_of(options, BASE), mf.GradientDescent(0.1, 100, save_every=100)
    limit = mf.train(mf.Mixture(2), replace(network, width=math.inf), method, model="gram").dataset
    widths = np.array([256, 4096, 65536])
    far = [
        np.abs(mf.train(mf.Mixture(2), replace(network, width=int(m)), method).dataset.A - limit.A).values.max()
        for m in widths
    ]
    slope = np.polyfit(np.log(widths), np.log(far), 1)[0]
    assert -0.75 < slope < -0.3


@pytest.mark.filterwarnings("ignore:at infinite width")
def test_scaled_scores_at_infinite_width_are_uniform_or_random():
    """Entries N(0, ω²/m): attention stays uniform. Entries N(0, 1/d): random scores, trained directly at the rate 2/d."""
    method = mf.GradientDescent(0.1, 100, save_every=50)
    frozen = mf.Transformer(scaled_scores=True)
    assert np.abs(mf.train(mf.Mixture(2), frozen, method).dataset.A).max() == 0
    assert "stays uniform" in frozen.limit()
    standard = [mf.Transformer(initialisation="standard", scaled_scores=True, seed=seed) for seed in range(40)]
    A = mf.train_many(mf.Mixture(2), standard, method).dataset.A.values
    assert abs(A[:, 0].std() * 4 - 1) < 0.1  # d = 4
    wide = replace(standard[0], width=200_000)
    moved = mf.train(mf.Mixture(2), wide, method).dataset.A.values
    w = mf.train(mf.Mixture(2), wide, method).dataset.w.values
    np.testing.assert_allclose(w[0], mf.train(mf.Mixture(2), standard[0], method).dataset.w.values[0], atol=1e-12)
    # From the wide network's own scores and values, direct training at the rate 2/d moves them alike.
    limit = mf.train(mf.Mixture(2), replace(standard[0], attention="product"), method)
    assert np.abs(moved[-1] - moved[0]).max() > 1e-3
    assert np.abs(limit.dataset.A.values[-1] - limit.dataset.A.values[0]).max() > 1e-3


@pytest.mark.parametrize("options", MIXED.values(), ids=MIXED)
def test_flow_is_the_limit_of_descent(options):
    """Half the rate, half the error, before and after kinks."""
    network = network_of(options, mf.Transformer(width=5, omega=0.5, seed=3))
    flow = mf.train(COHERENT, network, mf.GradientFlow(until=8.0, save_at=[4.0, 8.0]))
    errors = []
    for rate in (0.02, 0.01, 0.005):
        data = mf.train(COHERENT, network, mf.GradientDescent(rate, round(8 / rate), save_every=10**6)).dataset
        errors.append(max(np.abs(data[name][-1] - flow.dataset[name][-1]).values.max() for name in ("w", "A")))
    assert errors[-1] < 1e-2
    assert 0.7 < np.log2(errors[0] / errors[2]) / 2 < 1.4
    if not network.direct and network.attention != "tied":  # with W_K = W_Q there is nothing to compare
        assert flow.certificate["relative_drift_tr_C2"] < 1e-9


def test_a_value_product_conserves_its_balance():
    """tr Γ⁻¹G_V − N/m₁, in which W_V and the neurons behind it take part; and at infinite width it starts from w = 0."""
    network = network_of(OPTIONS["value product"], mf.Transformer(width=5, omega=0.5, seed=3))
    data = mf.train(COHERENT, network, mf.GradientFlow(until=8.0, save_at=[4.0, 8.0])).dataset
    balance = np.trace(data.G_V.values @ np.linalg.inv(G), axis1=-2, axis2=-1) - data.N.values / 2
    assert np.ptp(data.N.values) > 0.1
    np.testing.assert_allclose(balance - balance[0], 0, atol=1e-8)
    limit = mf.train(mf.Mixture(2), replace(network, width=math.inf), METHOD).dataset
    assert np.abs(limit.w[0]).max() == 0
    np.testing.assert_allclose(limit.N[0], 0.16)
    np.testing.assert_array_equal(limit.G_V.values[0, 0], 0.25 * np.eye(4))


@pytest.mark.parametrize("options", [{"shared_attention": True}, {"activation": "linear"}])
def test_mean_field_traps(options):
    """Shared attention and linear output keep A_cv = 0 for ever at infinite width, and say so: no hard sample is learned."""
    trapped, method = mf.Transformer(**options), mf.GradientDescent(0.1, 6000, save_every=6000)
    with pytest.warns(UserWarning, match=r"scores between c1 c2 c3 and v1 v2 v3 stay 0.*value_scale=0.01"):
        run = mf.train(mf.Mixture(3), trapped, method)
    loss = {"shared_attention": 0.502547, "activation": 0.494039}[next(iter(options))]
    np.testing.assert_allclose(run.dataset.loss[-1], loss, atol=5e-7)
    assert across(run.dataset) < 1e-12
    assert moving(run.dataset) == {"shared_attention": 14, "activation": 13}[next(iter(options))]  # of 22
    perturbed = replace(trapped, value_scale=0.01)  # as it offers
    free = mf.train(mf.Mixture(2), perturbed, mf.GradientDescent(0.1, 8000, save_every=8000)).dataset
    assert across(free) > 3
    assert free.loss[-1] < 0.1 < np.log(2) / 2


def moving(data):
    """Independent numbers of a symmetric state that differ between the first and the last save."""
    moved = {name: np.triu(np.abs(data[f"{name}_sector"][-1] - data[f"{name}_sector"][0])) for name in ("G_K", "G_Q")}
    moved |= {name: np.abs(data[f"{name}_sector"][-1] - data[f"{name}_sector"][0]).values for name in ("w", "A")}
    return sum(int(np.sum(x > 1e-12)) for x in moved.values())


def across(data):
    """The largest final score of an identifier for a signal."""
    c, v = ([name for name in data.feature.values if name[0] == kind] for kind in "cv")
    return float(np.abs(data.A.isel(time=-1).sel(key=c, query=v)).max())


# What keeps the mirror image of the mixture at infinite width, and what breaks it.
KEEPS = [
    {"activation": "linear", "heads": 1, "bias": 0.0},
    {"activation": "linear", "value_neurons": 2, "value_scale": 0.3},
]
BREAKS = [{}, {"activation": "linear", "heads": 1}, {"shared_keys": True}, {"shared_attention": True, "heads": 3}]


@pytest.mark.filterwarnings("ignore:at infinite width")
@pytest.mark.parametrize(("options", "keeps"), [*((each, True) for each in KEEPS), *((each, False) for each in BREAKS)])
def test_what_is_said_of_infinite_width_is_what_happens(options, keeps):
    network, method = mf.Transformer(**options), mf.GradientDescent(0.1, 3000, save_every=3000)
    assert (network.limit(mf.Mixture(2).population()) is not None) == keeps
    data = mf.train(mf.Mixture(2), network, method, model="gram").dataset
    assert (across(data) < 1e-12) == keeps


@pytest.mark.filterwarnings("ignore:at infinite width")
@pytest.mark.parametrize(
    ("classes", "options", "trapped"),
    [(2, {}, True), (3, {"bias": 0.6}, True), (2, {"bias": 0.45}, False), (2, {"queries": "sum"}, True),
     (2, {"train_bias": True, "offset": True}, True)],
)  # fmt: skip
def test_squared_loss_is_least_before_a_neuron_switches_off(classes, options, trapped):
    task, network = mf.Mixture(classes, loss="squared"), mf.Transformer(**options)
    assert (network.limit(task.population()) is not None) == trapped
    data = mf.train(task, network, mf.GradientDescent(0.1, 6000, save_every=10)).dataset
    assert bool((data.z > 0).all()) == trapped
    if trapped:
        assert across(data) < 1e-12
        assert data.loss[-1] > 0.2


@pytest.mark.parametrize("loss", LOSSES)
def test_losses_on_every_engine(loss):
    base = mf.variants.multiclass(2, values=2) if loss == "softmax" else mf.Mixture(2).population()
    task = base if loss == "softmax" else replace(base, loss=loss)
    network, method = network_of({}, mf.Transformer(width=7, seed=1)), mf.GradientDescent(0.05, 100, save_every=100)
    gram, full = (mf.train(task, network, method, model=model).dataset for model in ("gram", "full"))
    np.testing.assert_allclose(gram.A, full.A, rtol=0, atol=1e-12)
    flow = mf.train(task, network, mf.GradientFlow(until=5.0, save_at=[5.0])).dataset
    np.testing.assert_allclose(gram.loss[-1], flow.loss[-1], rtol=0.1)


def test_one_asking_token():
    """queries="one": only the task's asking token reads; an outsider that stands in no atom may ask as well."""
    task = mf.Mixture(2).population()  # its identifiers ask
    network = network_of({"queries": "one"}, mf.Transformer(width=6, seed=2))
    method = mf.GradientDescent(0.1, 200, save_every=100)
    gram, full = (mf.train(task, network, method, model=model).dataset for model in ("gram", "full"))
    np.testing.assert_allclose(gram.A, full.A, rtol=0, atol=1e-12)
    outside = mf.FiniteTask(
        features=("0", "1", "ask"), atoms=[[("0", 1), ("0", 1)], [("0", 1), ("1", 1)]], labels=[-1, 1], loss="linear",
        query=[("ask", 1), ("ask", 1)],
    )  # fmt: skip
    linear = mf.Transformer(heads=1, activation="linear", queries="one", attention="direct", bias=0.0)
    # The source sums over its two samples, at the rate 0.001; here they are averaged.
    run = mf.train(outside, linear, mf.GradientDescent(0.002, 4000, save_every=1000))
    A = run.dataset.A.values[[1, 2, 4], 0]
    share = 1 / (1 + np.exp(A[:, 0, 2] - A[:, 1, 2]))  # of the deciding token in {0, 1}
    np.testing.assert_allclose(share, [0.563062, 0.730254, 0.937104], atol=5e-7)
    flow = mf.train(outside, linear, mf.GradientFlow(until=2.0, save_at=[2.0])).dataset.A.values[0, 0]
    assert abs(1 / (1 + np.exp(flow[0, 2] - flow[1, 2])) - share[0]) < 1e-4
    with pytest.raises(mf.SpecError, match="does not say which token asks"):
        mf.train(replace(task, query=None), network, method)


def test_random_values_change_the_run(base):
    zero = mf.train(ODD, SMALL, LONG).dataset
    assert np.abs(zero.w.values[0]).max() == 0 < np.abs(base.w.values[0]).max()
    np.testing.assert_array_equal(zero.A.values[0], base.A.values[0])
    assert abs(zero.loss.values[-1] - base.loss.values[-1]) > 1e-3


@pytest.mark.parametrize("model", ["gram", "full"])
def test_minibatches_draw_the_same_on_every_engine(model):
    method = mf.GradientDescent(0.1, 200, save_every=50, batch_size=3, batch_seed=4)
    runs = [mf.train(mf.Mixture(2), BASE, method, model=model).dataset for model in ("gram", "full")]
    np.testing.assert_allclose(runs[0].A, runs[1].A, rtol=0, atol=1e-12)
    other = mf.train(mf.Mixture(2), BASE, replace(method, batch_seed=5), model=model).dataset
    assert np.abs(other.A - runs[0].A).max() > 1e-4


@pytest.mark.parametrize("model", ["gram", "full"])
def test_members_equal_single_runs_bit_for_bit(model):
    networks = [
        replace(BASE, seed=s, value_scale=0.1, values=2, offset=True) for s in range(9)
    ]  # more than one group of lanes
    method = mf.GradientDescent(0.1, 60, save_every=30)
    batch = mf.train_many(mf.Mixture(2), networks, method, model=model)
    for i in (0, 3, 8):
        single = mf.train(mf.Mixture(2), networks[i], method, model=model).dataset
        for name in ("w", "A", "z", "loss"):
            assert np.array_equal(batch.dataset[name].values[i], single[name].values)
            assert np.array_equal(batch[i].dataset[name].values, single[name].values)
    assert batch.dataset.seed.values.tolist() == list(range(9))


def test_named_dimensions():
    query = mf.train(mf.Mixture(2), replace(BASE, activate="before", shared_attention=True), METHOD).dataset
    assert query.z.dims == ("time", "head", "atom", "token")
    assert np.isfinite(query.z).all()
    np.testing.assert_array_equal(query.A.sel(head="+"), query.A.sel(head="-"))


@pytest.mark.parametrize("model", ["gram", "full"])
def test_a_saved_run_gives_back_its_network_and_goes_on(tmp_path, model):
    network = replace(
        BASE, heads=3, value_scale=0.2, values=2, train_bias=True, offset=True, shared_keys=True, value_neurons=2
    )
    run = mf.train(mf.Mixture(2), network, METHOD, model=model)
    again = mf.load(run.save(tmp_path / "run.nc"))
    assert again.transformer == network
    assert again.dataset["head"].values.tolist() == ["+1", "-1", "+2"]
    assert again.dataset.w.dims == ("time", "head", "value", "feature")
    assert again.dataset.z.dims == ("time", "head", "value", "atom")
    assert len(summary(again)["stages"]) == 3
    assert "mean over classes" in table(again)
    longer = mf.train(mf.Mixture(2), network, replace(METHOD, steps=400), model=model).dataset
    extended = mf.extend(again, 100).dataset
    for name in ("w", "A", "loss", "bias", "offset"):
        np.testing.assert_array_equal(extended[name], longer[name])


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: mf.Transformer(heads=0), "heads = 0: expected a whole number from 1 to 64"),
        (lambda: mf.Transformer(values=4), "values = 4 with value_scale = 0.*set value_scale"),
        (lambda: mf.Transformer(value_scale=-1), "value_scale = -1"),
        (lambda: mf.Transformer(initialisation="xavier"), "initialisation = 'xavier': expected one of 'paper', 'standard'"),
        (lambda: mf.Transformer(8, initialisation="standard", value_scale=0.1), "leave out value_scale"),
        (lambda: mf.Transformer(initialisation="standard"), "grow like .width; set scaled_scores"),
        (lambda: mf.Transformer(train_bias=1), "train_bias = 1: expected True or False"),
        (lambda: replace(BASE, tie_values=True, heads=4), "heads = 4 with tie_values"),
        (lambda: replace(BASE, shared_keys=True, attention="tied"), "shared_keys with attention='tied'"),
        (lambda: mf.Transformer(attention="tied", initialisation="standard", scaled_scores=True), "'tied' and width = inf"),
        (lambda: replace(BASE, tie_values=True, value_neurons=4), "value_neurons = 4 with tie_values"),
        (lambda: mf.Transformer(value_neurons=4, values=2, value_scale=0.1), "values = 2 with value_neurons at infinite"),
        (lambda: mf.train(mf.Mixture(2), BASE, mf.GradientFlow(until=1), model="full"), "no gradient flow"),
        (lambda: mf.train(mf.variants.multiclass(2), mf.Transformer(heads=4)), "softmax loss has one head for each class"),
        (lambda: mf.train(mf.Mixture(30), mf.Transformer(8, heads=4)), "atoms, above the limit"),
        (lambda: mf.train(mf.Mixture(2), mf.Transformer(), mf.Optimizer(kind="adam")), "width = inf.*set the width"),
        (lambda: mf.train(mf.Mixture(2), BASE, mf.Optimizer(kind="adam"), model="gram"), "Adam looks at every weight"),
    ],
)  # fmt: skip
def test_bad_input(call, says):
    with pytest.raises(mf.SpecError, match=says):
        call()


NOISY = mf.variants.NoisyMixture(sigma=0.5, samples=8, test_samples=4)


@pytest.mark.parametrize(
    ("task", "network", "model"),
    [
        (mf.Mixture(2), {}, "gram"),
        (mf.Mixture(2), {"activate": "before"}, "gram"),
        (mf.Mixture(2), {}, "symmetric"),
        (mf.Mixture(2), {"width": 4}, "full"),
        (NOISY, {}, "gram"),
        (NOISY, {"width": 4}, "full"),
    ],
)
def test_neurons_at_a_tie_stay_silent(task, network, model):
    """z = b = 0 exactly: the ReLU's derivative there is 0 on every engine, so nothing ever moves."""
    with pytest.warns(UserWarning, match="no neuron is on at the start, and nothing moves; raise bias"):
        data = mf.train(task, mf.Transformer(bias=0.0, **network), mf.GradientDescent(0.1, 2), model=model).dataset
    assert np.all(data.w.values == 0)
    assert data.loss.values == pytest.approx(math.log(2))


def test_starts_have_the_stated_scales():
    task = COHERENT.population()
    wide = mf.Transformer(width=4000, omega=0.5, dimension=6, values=4, value_scale=0.2, seed=1)
    weights = wide.start(task)
    assert weights["W_K"].std() * 4000**0.5 == pytest.approx(0.5, rel=0.02)
    assert weights["w"].std() == pytest.approx(0.2, rel=0.3)
    assert weights["read_out"] == pytest.approx(0.5)  # 1/√r
    np.testing.assert_allclose(start(replace(wide, width=math.inf), task)["G_K"][0], 0.25 * G, rtol=1e-14)
    np.testing.assert_allclose(start(wide, task)["G_K"][0], 0.25 * G, atol=0.03)
    w = start(replace(wide, tie_values=True), task)["w"]
    assert np.array_equal(w[0], -w[1])
    standard = mf.Transformer(width=2000, initialisation="standard", dimension=6)
    assert standard.start(task)["W_Q"].std() == pytest.approx(6**-0.5, rel=0.02)
    scaled = mf.Transformer(width=16, scaled_scores=True)
    rates = [scaled, replace(scaled, attention="direct"), replace(standard, width=math.inf, scaled_scores=True)]
    assert [network.score_rate(task) for network in rates] == [1 / 4, 1 / 16, 2 / 6]
    flat = mf.variants.coherent(2, coherence=1.0).population()  # rank 1
    for dimension in (1, 3, 4, 6):
        Phi = embedding(flat, dimension)
        np.testing.assert_allclose(Phi.T @ Phi, flat.gram, atol=1e-12)


def test_every_weight_where_nothing_is_regular():
    """Atoms of different lengths: each is averaged over its own tokens."""
    runs = [mf.train(ODD, SMALL, mf.GradientDescent(0.1, 20, save_every=10), model=model) for model in ("gram", "full")]
    for name in ("w", "A", "z", "loss"):
        np.testing.assert_allclose(runs[0].dataset[name], runs[1].dataset[name], rtol=0, atol=1e-12)
