"""What is timed, and how: the least processor time of several turns, compilation excluded."""

import time
from functools import partial

import numpy as np

from ..jaxed import in_float64, jax
from ..methods.chunks import descend

LEAST = 0.02  # seconds of a timed call: long enough for the clock
MOST = 10**6  # steps of one


def best(calls, seconds):
    """{name: the least seconds of a call}; they take turns for `seconds` in all, each at least twice.

    Processor time of this process: on one core it is wall time less what other programs took.
    """
    least, began, turns = dict.fromkeys(calls, float("inf")), time.perf_counter(), 0
    while turns < 2 or time.perf_counter() - began < seconds:
        for name, call in calls.items():
            start = time.process_time()
            call()
            least[name] = min(least[name], time.process_time() - start)
        turns += 1
    return least


@in_float64
def descent(engine, network, rate=0.1):
    """(call, steps): descent of one run on an engine that is compiled, long enough to be timed."""
    rates = np.full(engine.lanes, rate)
    parameters = engine.parameters([network] * engine.lanes, rates, rates)
    states, steps = [engine.start(network)] * engine.lanes, 1

    def run(steps):
        if descend(engine, states, parameters, steps, save_every=steps).interrupted:
            raise KeyboardInterrupt

    run(1)
    while steps < MOST and best({"run": partial(run, steps)}, 0.0)["run"] < LEAST:
        steps *= 4
    return in_float64(lambda: run(steps)), steps


@in_float64
def arithmetic(engine, network):
    """Floating-point operations of one step of all lanes, as the compiler counts them."""
    J = jax()
    ones = np.ones(engine.lanes)
    state, parameters = (
        engine.stack([engine.start(network)] * engine.lanes),
        engine.parameters([network] * engine.lanes, ones, ones),
    )
    compiled = J.jit(lambda state, parameters: engine.step(0, state, parameters)).lower(state, parameters).compile()
    found = compiled.cost_analysis()
    return float((found[0] if isinstance(found, list) else found)["flops"])


def peak(seconds):
    """Operations a second of a matrix product in float64, all cores: no program of small steps reaches it."""
    X, call = np.ones((512, 512)), []

    def product():
        call[:] = [X @ X]

    began, least = time.perf_counter(), float("inf")
    while time.perf_counter() - began < seconds:
        start = time.process_time()
        product()
        least = min(least, time.process_time() - start)  # of all threads together: the rate of one core
    return 2 * 512**3 / max(least, 1e-9)
