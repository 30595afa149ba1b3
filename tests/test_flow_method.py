"""GradientFlow as a method: its saves, its interruptions, its named errors, its steps against SciPy's."""

import dataclasses
import json
import math

import numpy as np
import pytest

from mixflow import train, train_many
from mixflow.engines.gated import flow
from mixflow.engines.gram_field import gram_field
from mixflow.engines.symmetric_field import symmetric_field
from mixflow.errors import DivergedError, Interrupted, SpecError
from mixflow.filippov import dop853, walk
from mixflow.filippov.field import prepare
from mixflow.filippov.gates import ChatteringError
from mixflow.methods import flow as methods_flow
from mixflow.methods.flow import GradientFlow
from mixflow.networks.transformer import Transformer
from mixflow.tasks import Mixture

MEAN_FIELD = Transformer(omega=0.3)


@pytest.mark.parametrize("most", [1, dop853.STEPS])
def test_compiled_steps_are_scipys(most):
    from scipy.integrate import DOP853

    field = gram_field(Mixture(2), Transformer(width=16, seed=2))
    gates, rtol, atol = np.ones(field.n_gates), 1e-9, 1e-12
    solver = DOP853(lambda t, y: field.velocity(y, gates), 0, field.y0, 11, rtol=rtol, atol=atol, first_step=9.0)
    ready = prepare(field.field, field.y0)
    rejected = 0  # the first size is too large on purpose
    t, y, slope, h, slack = 0.0, field.y0, None, 9.0, np.zeros(field.n_gates)
    mode = dop853.Mode(gates, np.zeros(0, int), -np.ones(field.n_gates), rtol, atol, 1e-11)
    while t < 11:
        steps = dop853.advance(ready, mode, t, y, slope, h, slack, 11.0, most)
        for i in range(len(steps.t)):
            solver.step()
            end = steps.time if i + 1 == len(steps.t) else steps.t[i + 1]
            assert end == pytest.approx(solver.t, rel=1e-6)  # a size comes from the root of a small difference
            middle = solver.t_old + 0.3 * (solver.t - solver.t_old)
            np.testing.assert_allclose(steps.at(np.array([middle]))[0], solver.dense_output()(middle), atol=1e-11)
        t, y, slope, h, slack = steps.time, steps.end, steps.slope, steps.next_size, steps.slack
        rejected += steps.rejected
        np.testing.assert_allclose(y, solver.y, rtol=0, atol=1e-6)  # at times a rounding apart
        assert not steps.over
    assert solver.status == "finished"
    assert t == 11
    assert rejected > 0


def test_how_many_steps_a_call_makes_changes_nothing(monkeypatch):
    field = gram_field(Mixture(2), Transformer(width=16, omega=0.3, seed=2))
    method = GradientFlow(until=300.0)
    many = flow(field, field.y0, method)
    calls, advance = [], dop853.advance
    monkeypatch.setattr(dop853, "advance", lambda *given: calls.append(advance(*given[:-1], 1)) or calls[-1])
    single = flow(field, field.y0, method)
    assert max(len(steps.t) for steps in calls) == 1
    assert np.array_equal(many.states, single.states)
    assert many.events == single.events
    assert many.counts == single.counts


def test_save_at_gives_exactly_what_was_asked():
    field = symmetric_field(Mixture(2), MEAN_FIELD)
    asked = (0.0, 3.5, 12.5, 20.0)
    run = flow(field, field.y0, GradientFlow(until=20.0, save_at=asked))
    assert tuple(run.times) == asked
    assert len(flow(field, field.y0, GradientFlow(until=20.0, save_at=7)).times) == 7


def test_an_interrupt_keeps_what_was_computed():
    field = symmetric_field(Mixture(2), MEAN_FIELD)

    def interrupt(t, until):
        if t > 5:
            raise KeyboardInterrupt

    run = flow(field, field.y0, GradientFlow(until=2000.0), progress=interrupt)
    assert run.ended == "interrupted"
    assert 5 < run.time < 2000
    assert len(run.times) > 1


def test_an_interrupt_during_the_certificate_keeps_the_run(monkeypatch):
    def interrupted(*given, **named):
        raise KeyboardInterrupt

    monkeypatch.setattr(methods_flow, "certify", interrupted)
    with pytest.raises(Interrupted, match="before its certificate") as caught:
        train(Mixture(2), MEAN_FIELD, GradientFlow(until=10.0))
    assert caught.value.run.dataset.time.values[-1] == 10
    assert "evaluations" in json.loads(caught.value.run.dataset.attrs["certificate"])


def test_chattering_is_a_named_error_with_the_run(monkeypatch):
    field = symmetric_field(Mixture(2), MEAN_FIELD)
    monkeypatch.setattr(walk, "MOST_EVENTS", 2)
    with pytest.raises(ChatteringError, match="switch without end") as caught:
        flow(field, field.y0, GradientFlow(until=2000.0))
    assert len(caught.value.run.events) == 3
    assert caught.value.run.time > 250


def test_a_batch_keeps_its_other_members_when_one_chatters(monkeypatch):
    monkeypatch.setattr(walk, "MOST_EVENTS", 2)
    models = [Transformer(width=16, omega=0.3, seed=2), Transformer(width=16, omega=0.3, seed=2, bias=5.0)]
    batch = train_many(Mixture(2), models, GradientFlow(until=40.0, save_at=5)).dataset
    assert np.isnan(batch.loss.values[0, -1])  # ended at its third switch
    assert np.isfinite(batch.loss.values[1]).all()


def test_a_state_beyond_float64_is_a_named_error():
    field = symmetric_field(Mixture(2), MEAN_FIELD)
    for bad in (np.nan, 1e4):
        y = field.y0.copy()
        y[2:6] = bad
        with pytest.raises(DivergedError, match="float64"):
            flow(field, y, GradientFlow(until=10.0))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"until": 0}, "until"),
        ({"until": -1.0}, "above 0"),
        ({"until": math.inf}, "finite"),
        ({"rtol": 0}, "rtol"),
        ({"rtol": 0.1}, "at most 0.001"),
        ({"rtol": 1e-14}, "at least 1e-11"),
        ({"atol": -1e-9}, "atol"),
        ({"save_at": 1}, "save_at = 1"),
        ({"save_at": "often"}, "a number of times, or a list of them"),
        ({"save_at": (0.0, 3000.0)}, "save_at ends at 3000: expected times up to until = 2000"),
        ({"save_at": (-1.0,)}, r"save_at\[0\]"),
        ({"save_at": (2.0, 1.0)}, "increasing"),
        ({"save_at": ()}, "at least one"),
    ],
)
def test_bad_methods(arguments, message):
    with pytest.raises(SpecError, match=message):
        GradientFlow(**arguments)


def test_bad_starts_and_models():
    field = symmetric_field(Mixture(2), MEAN_FIELD)
    with pytest.raises(SpecError, match="start_time"):
        flow(field, field.y0, GradientFlow(until=10.0), start_time=10.0)
    with pytest.raises(SpecError, match="width = 8"):
        symmetric_field(Mixture(2), Transformer(width=8))
    with pytest.raises(SpecError, match="uniform"):
        symmetric_field(Mixture(2, priors=(0.3, 0.7)), MEAN_FIELD)


def test_a_flow_with_listed_times_goes_on_and_saves_its_new_end():
    short = train(Mixture(2), Transformer(), GradientFlow(2.0, save_at=[0.0, 1.0, 2.0]))
    longer = short.extend(2.0)
    assert longer.dataset.time.values.tolist() == [0.0, 1.0, 2.0, 4.0]
    assert longer.method.save_at == (0.0, 1.0, 2.0, 4.0)
    whole = train(Mixture(2), Transformer(), GradientFlow(4.0, save_at=[0.0, 1.0, 2.0, 4.0]))
    np.testing.assert_allclose(longer.dataset.A, whole.dataset.A, rtol=0, atol=1e-8)


@pytest.mark.parametrize("save_at", [None, 9, (0.0, 1.5)])
def test_spec_round_trip(save_at):
    method = GradientFlow(until=12.0, rtol=1e-7, save_at=save_at)
    assert GradientFlow.from_spec(json.loads(json.dumps(method.spec()))) == method
    with pytest.raises(dataclasses.FrozenInstanceError):
        method.until = 3
