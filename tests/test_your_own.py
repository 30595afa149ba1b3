"""docs/your-own.md: its programs run, are short and do what the page says; networks that are not whole are refused."""

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import mixflow as mf
from mixflow.plot.run import plot_run
from mixflow.summary import table

pytestmark = pytest.mark.as_user

PAGE = (Path(__file__).parent.parent / "docs" / "your-own.md").read_text()
TASK, NETWORK, READ_OUT = re.findall(r"^```python\n(.*?)^```", PAGE, re.S | re.M)


def execute(program):
    """The names a program leaves behind."""
    names = {"__name__": "your_own"}
    exec(compile(program, "docs/your-own.md", "exec"), names)
    return names


@pytest.mark.parametrize("program", [TASK, NETWORK, READ_OUT])
def test_programs_are_short(program):
    assert len(program.splitlines()) < 40


def test_the_task(capsys):
    names = execute(TASK)
    printed = capsys.readouterr().out
    assert names["liar"].names == ("ct +v1", "ct -v1", "cl +v1", "cl -v1")
    end = names["seeds"].dataset.isel(time=-1)
    assert (end.accuracy.values == 1).tolist() == [True, False, True, True]  # "three of the four networks learn it"
    off = (end.z <= 0).all("head").transpose("run", "atom").values
    assert off.sum(axis=1).tolist() == [0, 1, 0, 0]  # "both of its neurons are off there"
    assert "neurons: 0 to" in printed
    assert "convergence" in printed
    np.testing.assert_allclose(names["full"].dataset.A, names["gram"].dataset.A, atol=1e-12)


def test_the_network(capsys, tmp_path):
    names = execute(NETWORK)
    printed = capsys.readouterr().out
    assert (names["runs"].dataset.accuracy.values[:, -1] == 1).all()
    assert "attention:" in printed
    network, short = names["LinearAttention"](seed=2), mf.GradientDescent(0.1, 40)
    run = mf.train(mf.Mixture(2), network, short)
    softmax = mf.train(mf.Mixture(2), mf.Transformer(width=64, seed=2), short)
    assert abs(run.dataset.loss.values[-1] - softmax.dataset.loss.values[-1]) > 1e-6
    again = mf.load(run.save(tmp_path / "run.nc"))
    assert [str(stage) for stage in again.stages] == [str(stage) for stage in run.stages]
    assert "network LinearAttention, model full" in table(again)
    with pytest.raises(mf.SpecError, match="no named features"):
        plot_run(again)
    with pytest.raises(mf.SpecError, match="trained LinearAttention, a network of its own"):
        _ = again.transformer
    single = mf.train(mf.Mixture(2), names["LinearAttention"](seed=1), names["method"]).dataset
    assert np.array_equal(single.loss.values, names["runs"].dataset.loss.values[1])


def test_the_read_out():
    names = execute(READ_OUT)
    assert float(names["run"].dataset.loss[-1]) < 0.6
    np.testing.assert_allclose(names["gram"].dataset.A, names["full"].dataset.A, atol=1e-12)


class Constant(mf.Network):
    """Answers the same whatever it sees."""

    def start(self, task):
        return {"b": np.zeros(())}

    def answer(self, weights, task):
        return weights["b"] * np.ones(len(task.labels))

    def observe(self, weights, task):
        return {"w": weights["b"]}


@dataclass(frozen=True)
class Quiet(Constant):
    """Shows what it must, and has no width."""

    seed: int = 0

    def observe(self, weights, task):
        return {"w": weights["b"], "A": weights["b"], "z": weights["b"]}


@dataclass(frozen=True)
class Whole(Constant):
    seed: int = 0


def test_networks_that_are_not_whole():
    with pytest.raises(mf.SpecError, match="Constant is not a frozen dataclass with a field `seed`"):
        mf.train(mf.Mixture(2), Constant())
    with pytest.raises(mf.SpecError, match="observe gives no A, z"):
        mf.train(mf.Mixture(2), Whole(), mf.GradientDescent(0.1, 2))
    assert "mixture, Quiet, descent" in repr(mf.train(mf.Mixture(2), Quiet(), mf.GradientDescent(0.1, 2)))
