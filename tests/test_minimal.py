"""minimal.py prints the reference figures, and its hand-derived gradient is the derivative of its loss."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

SCRIPT = Path(__file__).parents[1] / "minimal.py"


@pytest.fixture(scope="module")
def printed():
    done = subprocess.run([sys.executable, "-W", "error", SCRIPT], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def minimal():
    spec = importlib.util.spec_from_file_location("minimal", SCRIPT)
    minimal = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(minimal)
    return minimal


@pytest.mark.parametrize(
    "line",
    [
        "first neuron off after 122 steps, loss below 0.5 after 135",
        "loss below 0.3 after 1774 steps, below 0.1 after 2464",
        "loss below 0.01 after 7124 steps, and 0.0032966415 before step 20000",
        "w·c 5.6661  w·v 4.2723",
        "A[c1,v1] 4.8889  A[c1,v2] -5.0293  A[v1,c1] -3.5211",
    ],
)
def test_prints_the_reference_figures(printed, line):
    assert line in printed


def test_gradient_is_the_derivative_of_the_loss(minimal):
    rng = np.random.default_rng(0)
    n, L = len(minimal.Y), minimal.L
    S, u = rng.standard_normal((2, n, L, L)), rng.standard_normal((2, n, L))
    dS, du = rng.standard_normal(S.shape), rng.standard_normal(u.shape)
    eps = 1e-6
    loss = lambda t: minimal.model(S + t * dS, u + t * du)[2]  # noqa: E731
    *_, gS, gu = minimal.model(S, u)
    z = minimal.model(S, u)[0]
    assert np.abs(z).min() > 1e-4  # no neuron at its kink, where the difference quotient would mix two slopes
    assert (z > 0).any()
    assert (z < 0).any()
    assert (loss(eps) - loss(-eps)) / (2 * eps) == pytest.approx((gS * dS).sum() + (gu * du).sum(), rel=1e-7)


def test_reduction_is_exact_at_other_widths(minimal):
    assert minimal.reduction_error(m=3, d=7, steps=300, seed=1) < 1e-10


def test_imports_only_numpy_and_the_standard_library():
    imports = [line for line in SCRIPT.read_text().splitlines() if line.startswith(("import", "from"))]
    assert imports == ["from itertools import product", "import numpy as np"]
