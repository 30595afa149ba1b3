"""Every option that keeps the classes exchangeable, by symmetry: equal to the list of atoms, at any K, in as many numbers."""

import math

import numpy as np
import pytest

import mixflow as mf
from mixflow.engines.symmetric import Symmetric
from mixflow.tasks.finite import SIGNED

# Several options at a time: each costs two compilations.
NETWORKS = {
    "one head, offset, sum": {"heads": 1, "offset": True, "queries": "sum"},
    "four heads, bias, ReLU first": {"heads": 4, "train_bias": True, "activate": "before"},
    "tied values, W_K = W_Q": {"tie_values": True, "attention": "tied"},
    "shared attention, four heads, bias": {"shared_attention": True, "heads": 4, "train_bias": True},
    "direct scores, linear": {"attention": "direct", "activation": "linear"},
    "identifier asks, product, shared keys": {
        "queries": "one",
        "value_neurons": 3,
        "value_scale": 0.4,
        "shared_keys": True,
    },
    "three heads, all at once": {
        "heads": 3,
        "offset": True,
        "shared_attention": True,
        "activate": "before",
        "queries": "sum",
    },
    "tied values, no mirror": {"tie_values": True, "offset": True},
}
RULES = [{}, {"momentum": 0.5, "weight_decay": 0.01}, {"normalised": True}]
FLOWS = {
    "four heads, bias, ReLU first": "exponential",
    "identifier asks, product, shared keys": "squared",
    "three heads, all at once": "logistic",
    "direct scores, linear": "logistic",
}


def compared(options, method, loss):
    """The largest difference between the symmetric and the Gram engine at K = 3, over whatever both record."""
    network, task = mf.Transformer(omega=0.6, **options), mf.Mixture(3, loss=loss)
    found = {model: mf.train(task, network, method, model=model).dataset for model in ("symmetric", "gram")}
    gram = found["gram"]
    names = [name for name in gram.data_vars if "time" in gram[name].dims]
    assert {"loss", "w", "A", "z", "margin"} <= set(names)
    assert float(np.abs(gram.w[-1] - gram.w[0]).max()) > 1e-3  # it has moved
    return max(float(np.nanmax(np.abs(gram[name] - found["symmetric"][name]))) for name in names)


@pytest.mark.filterwarnings("ignore:at infinite width")
@pytest.mark.parametrize("place", range(len(NETWORKS)), ids=NETWORKS)
def test_descent_is_that_of_every_atom(place):
    method = mf.GradientDescent(0.05, 30, save_every=10, **RULES[place % 3])
    assert compared([*NETWORKS.values()][place], method, SIGNED[place % 4]) < 1e-12


@pytest.mark.filterwarnings("ignore:at infinite width")
@pytest.mark.parametrize(("name", "loss"), FLOWS.items(), ids=FLOWS)
def test_flow_is_that_of_every_atom(name, loss):
    assert compared(NETWORKS[name], mf.GradientFlow(until=4.0, save_at=3, rtol=1e-11), loss) < 1e-12


@pytest.mark.parametrize(
    ("loss", "options"),
    [
        ("logistic", {"activate": "before"}),
        ("squared", {"heads": 3, "activate": "before"}),
        ("exponential", {"heads": 4}),
    ],
)
def test_types_are_measured_like_their_atoms(loss, options):
    """A state of no run, written out atom by atom and by type: K = 4."""
    K, rng, network = 4, np.random.default_rng(1), mf.Transformer(**options)
    engine = Symmetric(mf.Mixture(K, loss=loss), network, mf.GradientDescent())
    history = {name: rng.normal(size=(1, *x.shape)) for name, x in engine.start(network).items()}
    atoms, types = (
        {name: x for name, (_, x) in engine.measure(history, network, listed).items()} for listed in (True, False)
    )
    for name in ("loss", "loss_easy", "loss_hard", "accuracy"):
        np.testing.assert_allclose(types[name], atoms[name], rtol=1e-12)
    population, hard = mf.Mixture(K).population(), engine.coordinates(False)["hard"][1]
    for a, (tokens, y) in enumerate(zip(population.atoms, population.labels)):
        own, signs = tokens[0][0].replace("c", "v"), dict(tokens)
        others = [s for name, s in tokens[1:] if name != own]
        place = (0 if y > 0 else K) + others.count(1.0)
        assert types["margin"][0, place] == pytest.approx(atoms["margin"][0, a])
        assert hard[place] == population.hard[a]
        if "activate" not in options:
            np.testing.assert_allclose(types["z"][0, :, place], atoms["z"][0, :, a])
            continue
        kind = [0 if name[0] == "c" else 1 if name == own else 2 if signs[name] > 0 else 3 for name, _ in tokens]
        np.testing.assert_allclose(types["z"][0, :, place][:, kind], atoms["z"][0, :, a])


def numbers(**options):
    return Symmetric(mf.Mixture(5), mf.Transformer(**options), mf.GradientDescent()).numbers


def test_the_numbers_of_each_option():
    """Independent numbers of a state at any K, from the shapes of its parts and the symmetry of products."""
    assert numbers() == numbers(heads=4) == numbers(activate="before") == numbers(queries="sum") == 22
    assert numbers(heads=1) == numbers(queries="one") == 22
    assert numbers(heads=1, offset=True) == numbers(train_bias=True) == 23
    assert numbers(tie_values=True) == 21
    assert numbers(shared_attention=True) == 14
    assert numbers(attention="tied") == 8
    assert numbers(attention="direct") == 10
    assert numbers(value_neurons=2, value_scale=0.3) == 29
    assert numbers(heads=3) == 66  # no mirror: every head has its own


@pytest.mark.parametrize(("queries", "moving"), [("mean", 22), ("one", 14)])
def test_how_many_numbers_move(queries, moving):
    """Where only the identifier asks, what v asks stands still: half of A, and G_Q but for c with c."""
    network = mf.Transformer(omega=0.6, queries=queries)
    data = mf.train(mf.Mixture(3), network, mf.GradientDescent(0.1, 3000, save_every=3000), model="symmetric").dataset
    moved = {name: data[f"{name}_sector"][-1] != data[f"{name}_sector"][0] for name in ("w", "A", "G_K", "G_Q")}
    count = {name: int(x.sum()) for name, x in moved.items()}
    halves = sum(int(moved[name].sel(key_kind="c", query_kind="v").sum()) for name in ("G_K", "G_Q"))  # symmetric
    assert sum(count.values()) - halves == moving


@pytest.fixture(scope="module")
def many():
    """K = 20 with options, by descent: what it computes has twice the room of K = 9, whose atoms nobody lists."""
    network = mf.Transformer(omega=0.6, heads=3, train_bias=True, activate="before", queries="sum")
    return mf.train(mf.Mixture(20), network, mf.GradientDescent(0.002, 40, save_every=20))


def test_twenty_classes_with_options(many):
    data = many.dataset
    assert data.attrs["model"] == "symmetric"
    assert dict(data.A_sector.sizes) == {"time": 3, "head": 3, "sector": 2, "key_kind": 2, "query_kind": 2}
    assert data.z.dims == ("time", "head", "atom_type", "token_type")
    assert np.all(np.diff(data.loss) < 0)
    assert np.isnan(data.z.sel(atom_type="y=+ n=0", token_type="+ others")).all()  # there is none
    names = [f"{'+-'[(i + j) % 2]}v{j + 1}" for i in (0,) for j in range(20)]
    (answer,) = many.predict([" ".join(["c1", *names])])
    margin = data.margin.sel(atom_type="y=+ n=9")[-1]  # of 19 others nine are +
    assert float(answer) == pytest.approx(float(margin), rel=1e-12)


def test_a_run_of_many_classes_goes_on(many):
    """Head, bias and sectors are read back from what was recorded."""
    short = mf.train(many.task, many.transformer, mf.GradientDescent(0.002, 20, save_every=20))
    longer = short.extend(20).dataset
    for name in ("w_sector", "A_sector", "bias", "loss"):
        np.testing.assert_array_equal(longer[name][-1], many.dataset[name][-1])


def test_three_stages_of_flow_at_twenty_classes():
    network = mf.Transformer(heads=1, offset=True)
    run = mf.train(mf.Mixture(20), network, mf.ThreeStage(mf.GradientFlow(until=3.0, save_at=3), 1.0, 1.0, 1.0))
    data = run.dataset
    assert [float(switch["end"]) for switch in run.switches] == [1.0, 2.0, 3.0]
    first = data.time.values <= 1.0
    np.testing.assert_array_equal(data.A_sector.values[first], 0)
    assert float(np.abs(data.A_sector[-1]).max()) > 0
    assert np.all(np.diff(data.loss) <= 0)


@pytest.mark.parametrize(
    ("network", "why"),
    [
        (mf.Transformer(value_scale=0.1), "value_scale = 0.1 draws a random start.*leave it out"),
        (mf.Transformer(scaled_scores=True, initialisation="standard"), "initialisation='standard' draws a random"),
        (mf.Transformer(width=8), "width = 8 breaks the symmetry"),
    ],
)
def test_what_breaks_the_symmetry_is_refused(network, why):
    with pytest.raises(mf.SpecError, match=why):
        mf.train(mf.Mixture(3), network, model="symmetric")
    assert math.isinf(mf.Transformer().width)
