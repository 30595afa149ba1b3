"""Piecewise-linear systems, solved exactly by matrix exponentials from event to event: an independent twin of the solver."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import expm
from scipy.optimize import brentq

from mixflow.filippov import Field, solve

UNTIL, RTOL = 6.0, 1e-9
SEEDS = (1, 4, 5, 6, 7, 8, 9, 10, 12, 13, 14, 15, 16, 18, 20, 21, 22, 23, 24, 26)  # of 0 to 26, those with an event


def velocity(c, y, gates):
    return c["A"] @ y + c["b"] + c["jump"] * gates[0]


def surface(c, y):
    return jnp.stack([c["normal"] @ y - c["level"]])


def system(seed):
    """A damped random system of 2 to 4 numbers with one surface, and a start off it."""
    rng = np.random.default_rng(seed)
    n = rng.integers(2, 5)
    A = rng.standard_normal((n, n)) - 0.6 * np.eye(n)
    normal = rng.standard_normal(n)
    normal /= np.linalg.norm(normal)
    # Most jumps push towards the surface, so that sliding is common.
    jump = rng.standard_normal(n) - 3 * normal * rng.uniform(0, 1)
    c = {"A": A, "b": rng.standard_normal(n), "jump": jump, "normal": normal, "level": 0.3}
    return c, rng.standard_normal(n)


class Twin:
    """y' = A y + b in each mode, with the sliding mode's own A and b: λ is an affine function of y there."""

    def __init__(self, c):
        self.normal, self.level = c["normal"], c["level"]
        self.off, self.on = (c["A"], c["b"]), (c["A"], c["b"] + c["jump"])
        push = self.normal @ c["jump"]
        self.share = -(self.normal @ c["A"]) / push, -(self.normal @ c["b"]) / push  # λ = row · y + number
        slide = c["A"] + np.outer(c["jump"], self.share[0]), c["b"] + c["jump"] * self.share[1]
        self.modes = {"off": self.off, "on": self.on, "sliding": slide}

    def matrix(self, mode, t):
        A, b = self.modes[mode]
        M = np.zeros((len(b) + 1, len(b) + 1))
        M[:-1, :-1], M[:-1, -1] = A, b
        return expm(M * t)

    def at(self, mode, y, t):
        return (self.matrix(mode, t) @ np.append(y, 1.0))[:-1]

    def looks(self, mode, y, span, count=1000):
        """How far beyond the end of the mode the state is at evenly spaced times, to find a bracket."""
        step, y, seen = self.matrix(mode, span / count), np.append(y, 1.0), []
        for _ in range(count + 1):
            seen.append(self.excess(mode, y[:-1]))
            y = step @ y
        return np.linspace(0, span, count + 1), np.array(seen)

    def excess(self, mode, y):
        """Positive beyond the end of the mode."""
        z = self.normal @ y - self.level
        share = self.share[0] @ y + self.share[1]
        return {"off": z, "on": -z, "sliding": max(-share, share - 1)}[mode]

    def next_mode(self, mode, y):
        if mode == "sliding":
            return "on" if self.share[0] @ y + self.share[1] > 0.5 else "off"
        speeds = [self.normal @ (A @ y + b) for A, b in (self.off, self.on)]
        return "sliding" if speeds[0] > 0 > speeds[1] else "on" if speeds[1] > 0 else "off"

    def root(self, mode, y, a, b):
        return brentq(lambda s: self.excess(mode, self.at(mode, y, s)), a, b, xtol=1e-15)

    def run(self, y):
        """[(time, mode, state at that time)] of every mode until UNTIL."""
        t, mode = 0.0, "on" if self.normal @ y > self.level else "off"
        path = [(t, mode, y)]
        while True:
            grid, beyond = self.looks(mode, y, UNTIL - t)
            # A crossing needs a moment inside the mode first: at its beginning the state is on the surface.
            inside = np.flatnonzero(beyond < -1e-9)
            ends = [k for k in np.flatnonzero(beyond > 1e-9) if len(inside) and k > inside[0]]
            if not ends:
                return path
            k = ends[0]
            s = self.root(mode, y, grid[k - 1], grid[k])
            t, y = t + s, self.at(mode, y, s)
            mode = self.next_mode(mode, y)
            path.append((t, mode, y))

    def state(self, path, time):
        t, mode, y = [row for row in path if row[0] <= time][-1]
        return self.at(mode, y, time - t)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_piecewise_linear_systems_are_met_to_their_tolerance(seed):
    c, y0 = system(seed)
    twin = Twin(c)
    path = twin.run(y0)
    result = solve(Field(velocity=velocity, surface=surface, gates=("gate",), constants=c), y0, UNTIL, rtol=RTOL)
    assert [e.after for e in result.events] == [mode for _, mode, _ in path[1:]]
    np.testing.assert_allclose([e.time for e in result.events], [t for t, _, _ in path[1:]], rtol=0, atol=1e-7)
    times = np.linspace(0, UNTIL, 61)
    exact = np.array([twin.state(path, t) for t in times])
    scale = np.maximum(np.abs(exact).max(axis=1, keepdims=True), 1.0)
    assert np.max(np.abs(result(times) - exact) / scale) < 10 * RTOL


def test_the_twenty_systems_cross_slide_and_leave():
    modes = [[mode for _, mode, _ in Twin(c).run(y0)] for c, y0 in map(system, SEEDS)]
    pairs = [(a, b) for row in modes for a, b in zip(row, row[1:])]
    assert sum(b == "sliding" for _, b in pairs) >= 5
    assert sum(a == "sliding" for a, _ in pairs) >= 2
    assert sum("sliding" not in pair for pair in pairs) >= 5


def pendulum(c, y, gates):
    """A driven pendulum with dry friction: smooth and not linear inside its modes; time is the third number."""
    return jnp.stack([y[1], -jnp.sin(y[0]) + 1.2 * jnp.sin(0.7 * y[2]) - 0.4 * (2 * gates[0] - 1), 1.0])


def test_the_error_of_an_event_falls_with_the_tolerance_at_first_order():
    field = Field(velocity=pendulum, surface=lambda c, y: y[1:2], gates=("forward",))

    def last_event(rtol):
        return solve(field, [0.5, 0.3, 0.0], 60.0, rtol=rtol).events[-1].time

    exact = last_event(1e-11)
    rtols = 10.0 ** -np.arange(3, 8.5, 0.5)
    errors = [max(abs(last_event(rtol) - exact), 1e-15) for rtol in rtols]
    slope = np.polyfit(np.log(rtols), np.log(errors), 1)[0]
    assert slope == pytest.approx(1.0, abs=0.25)
