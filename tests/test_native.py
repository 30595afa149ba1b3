"""Steps in machine code: what JAX computes, from a cache that is believed only if it is ours, without JAX where it is there."""

import json
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import mixflow as mf
from mixflow import native
from mixflow.engines import choose
from mixflow.jaxed import jit
from mixflow.methods.chunks import _record
from mixflow.native import machine
from mixflow.native.graph import FOLDED, Graph, Untranslated
from mixflow.native.text import Traced, Writer

MIXTURE = mf.Mixture()
EVERYTHING = mf.Transformer(
    width=8, heads=2, values=2, train_bias=True, offset=True, activate="before", value_scale=0.1
)
CASES = {
    "symmetric": (MIXTURE, mf.Transformer(), mf.GradientDescent()),
    "symmetric, seven classes": (mf.Mixture(classes=7), mf.Transformer(tie_values=True), mf.GradientDescent()),
    "gram": (MIXTURE, mf.Transformer(width=8), mf.GradientDescent()),
    "gram, four classes, compiled hastily": (mf.Mixture(classes=4), mf.Transformer(width=8), mf.GradientDescent()),
    "options": (MIXTURE, EVERYTHING, mf.GradientDescent()),
    "rules": (
        MIXTURE,
        mf.Transformer(width=8, value_neurons=4, value_scale=0.4, shared_keys=True),
        mf.GradientDescent(0.002, momentum=0.5, weight_decay=1e-3, normalised=True),  # longer steps make rounding grow
    ),
    "minibatches": (
        MIXTURE,
        mf.Transformer(width=8),
        mf.Optimizer(kind="sgd", batch_size=4),
    ),  # each lane draws its own
}


def sides(name):
    """(record by LLVM, record by JAX, state, parameters) with lanes that differ in their rates."""
    task, network, method = CASES[name]
    engine = choose(task, network, method)
    rate = method.learning_rate * np.linspace(1, 2, engine.lanes)
    state = engine.stack([engine.start(network)] * engine.lanes)
    networks = [replace(network, seed=seed) for seed in range(engine.lanes)]
    return native.program(engine), jit(_record(engine)), state, engine.parameters(networks, rate, rate)


@pytest.mark.parametrize("name", CASES)
def test_machine_code_computes_what_jax_computes(name):
    ours, jax, state, parameters = sides(name)
    (a, rows_a), (b, rows_b) = (record(state, parameters, 0, 3, 700) for record in (ours, jax))
    assert {*a} == {*b}
    assert {*rows_a} == {*rows_b}
    for after, other in ((a, b), (rows_a, {key: np.asarray(x)[:3] for key, x in rows_b.items()})):
        for key, x in after.items():
            np.testing.assert_allclose(x, other[key], rtol=0, atol=1e-12, err_msg=key)
    for key, x in a.items():  # a row is the state at its save, and three strides of 700 are one of 2100
        if key in rows_a:
            np.testing.assert_array_equal(rows_a[key][-1], x)
        np.testing.assert_array_equal(ours(state, parameters, 0, 1, 2100)[0][key], x)
    if "key" in parameters:  # other seeds draw other batches, in the block of steps that was drawn last too
        parameters |= {"key": parameters["key"][::-1]}
        for key, x in ours(state, parameters, 2100, 1, 30)[0].items():
            np.testing.assert_allclose(x, jax(state, parameters, 2100, 1, 30)[0][key], rtol=0, atol=1e-12)


def test_nothing_is_computed_twice_or_for_nothing():
    graph = Graph()
    x, y, zero, one = graph.node("given", 0), graph.node("given", 1), graph.constant(0.0), graph.constant(1.0)
    assert graph.apply("mul", x, y) == graph.apply("mul", y, x)
    assert graph.apply("add", graph.apply("mul", zero, x), graph.apply("mul", one, y)) == y
    assert graph.apply("add", x, graph.apply("mul", y, graph.constant(-1.0))) == graph.apply("sub", x, y)
    assert graph.value(graph.apply("mul", graph.constant(3.0), graph.constant(4.0))) == 12.0
    assert graph.apply("select", graph.constant(True), x, y) == y


@pytest.mark.parametrize(("second", "after"), [("y", [12.0, 12.0]), ("x", [8.0, 8.0])])
def test_a_number_at_two_places_is_stored_in_every_step_where_both_are_read(second, after):
    graph = Graph()
    given = {"x": graph.node("given", 0), "y": graph.node("given", 1)}
    both = [graph.apply("add", given["x"], given[second])] * 2
    code = machine._compiled(Writer(Traced(graph, both, [0, 0], 0, 0), 1).text())
    record = machine._loaded(code, *machine.RECORD)
    state, rows = np.array([1.0, 2.0]), np.empty(2)
    record(state.ctypes.data, rows.ctypes.data, rows.ctypes.data, rows.ctypes.data, 1, 3)
    assert state.tolist() == rows.tolist() == after


def test_operations_on_single_numbers_are_jaxs_on_arrays():
    """Products over any axis, what is moved about, truth as a number, and minus a minus: computed one by one."""
    from mixflow.jaxed import jax

    jnp, rng, graph = jax().numpy, np.random.default_rng(3), Graph()
    given = [rng.normal(size=(2, 3)), rng.normal(size=(3, 2, 2))]

    def function(x, y):
        first = jnp.tensordot(x, y, ((1,), (0,))), jnp.tensordot(y, x, ((1,), (0,))), y.transpose(1, 2, 0)
        return (
            *first,
            (x > 0) * 2.0,
            y[1] - (-x[:, 1:]),
            x - (-y[:2, 0, :1]),
            x**3,
            jnp.max(y, axis=1),
            1.0 * (y[0] <= 0),
        )

    places = [np.arange(6).reshape(2, 3), 6 + np.arange(12).reshape(3, 2, 2)]
    numbers = np.array([graph.node("given", i) for i in range(18)])
    found = graph.evaluate(jax().make_jaxpr(function)(*given), [numbers[place] for place in places])
    flat, values = np.concatenate([x.ravel() for x in given]), []
    for operation, *rest in graph.nodes:
        if operation in ("given", "float", "bool"):
            (x,) = rest
            values.append(flat[x] if operation == "given" else float.fromhex(x) if operation == "float" else x)
        elif operation == "select":
            values.append(values[rest[1 + values[rest[0]]]])
        else:
            values.append(FOLDED[operation](*(values[i] for i in rest)))
    for ours, theirs in zip(found, function(*map(jnp.asarray, given)), strict=True):
        np.testing.assert_allclose(np.array(values)[ours].astype(float), theirs, rtol=0, atol=1e-14)


def test_what_cannot_be_translated_is_left_to_jax(tmp_path, monkeypatch):
    from mixflow.jaxed import jax

    with pytest.raises(Untranslated, match="sin"):
        Graph().evaluate(jax().make_jaxpr(jax().numpy.sin)(1.0), [np.array(0)])
    engine = choose(*CASES["gram"])
    monkeypatch.setattr("mixflow.native.graph.LIMIT", 100)
    monkeypatch.setenv("MIXFLOW_CACHE", os.devnull)  # no cache: what is there was translated before
    assert native.program(engine) is None
    assert not native.apt(choose(mf.Mixture(6), *CASES["gram"][1:]))
    monkeypatch.setenv("MIXFLOW_CACHE", str(tmp_path))
    assert native.program(engine) is None
    monkeypatch.delattr(machine, "traced")  # what was found out once is not asked again
    assert native.program(engine) is None


def test_a_program_needs_room_on_the_stack(monkeypatch):
    engine = choose(*CASES["gram"])
    assert native.program(engine) is not None
    monkeypatch.setattr(machine, "_stack", lambda: 1 << 14)
    assert native.program(engine) is None


def test_only_ones_own_untouched_files_are_believed(tmp_path, monkeypatch):
    monkeypatch.setenv("MIXFLOW_CACHE", str(tmp_path))
    compiled, texts = machine._compiled, []
    monkeypatch.setattr(machine, "_compiled", lambda text: texts.append(text) or compiled(text))
    engine = choose(*CASES["symmetric"])

    def compilations():
        before = len(texts)
        assert native.program(engine) is not None
        return len(texts) - before

    assert (compilations(), compilations()) == (1, 0)
    (file,) = (tmp_path / "native").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    file.chmod(0o666)
    assert (compilations(), compilations()) == (1, 0)  # written anew, for this user alone
    code = bytearray(file.read_bytes())
    code[1000] ^= 1
    file.write_bytes(code)
    assert (compilations(), compilations()) == (1, 0)
    monkeypatch.setattr(os, "getuid", lambda: -1)
    assert compilations() == 1
    monkeypatch.undo()
    place = machine._name(engine)
    monkeypatch.setattr(type(engine), "step", lambda self, i, state, parameters: state)
    assert (
        machine._name(engine) != place
    )  # a replaced step is neither served by the old program nor kept as if it were it


WARM = """
import json, sys
import mixflow as mf
run = mf.train(mf.Mixture(), mf.Transformer(width=8), mf.GradientDescent(steps=100))
print(json.dumps([sys.modules.keys() >= {"jax"}, float(run.dataset.loss[-1]).hex()]))
"""


@pytest.mark.as_user
def test_a_run_whose_program_is_there_needs_no_jax(tmp_path):
    environment = {**os.environ, "MIXFLOW_CACHE": str(tmp_path)}
    command = [sys.executable, "-c", WARM]
    (cold, first), (warm, second) = (
        json.loads(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)
        for _ in range(2)
    )
    assert (cold, warm) == (True, False)
    assert first == second
