"""Shared by all tests: the folders on the path, float64 for tests of internals, reproducible Hypothesis."""

import sys
from pathlib import Path

import pytest
from hypothesis import settings

from mixflow.jaxed import float64, jax

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent / "attack")]

# derandomize: the same examples on every machine and every day, so that a failure is a change in the code.
settings.register_profile("mixflow", deadline=None, derandomize=True, max_examples=25)
settings.load_profile("mixflow")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Tests reach behind the public functions, so they open the door (mixflow/jaxed.py) themselves.

    Where that would hide a public function without one, in tests marked `as_user` and in doctests, it stays shut.
    """
    if item.get_closest_marker("as_user"):
        return (yield)
    with float64():
        jax()  # a test that imports JAX later by itself expects float64 too
        return (yield)
