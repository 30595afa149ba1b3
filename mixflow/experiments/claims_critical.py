"""How long until the attention knows the correspondence? Bounds and prediction of the critical sub-system over ω and b."""

import json

import numpy as np

from ..dynamics.flow import GradientFlow, flow
from ..models.symmetric_field import symmetric_field
from ..models.transformer import Transformer
from ..tasks.mixture import Mixture
from ..theory.critical import CV, critical, enclosed, first_time, predict

OMEGAS = (0.05, 0.1, 0.2, 0.4, 0.8)
BIASES = (0.1, 0.25, 0.5, 1.0, 2.0)
LEVEL = 1.0  # own signals look at the identifier e times more than others do
LIMIT = 1e5


def point(classes, omega, bias, *, windows=60, saves=600):
    """One (ω, b): the time at which A_cv reaches LEVEL, its bounds and its prediction; None where it is not reached."""
    task, transformer = Mixture(classes=classes), Transformer(omega=omega, bias=bias)
    field = symmetric_field(task, transformer)
    score = lambda y: float(field.unpack(y)["A"][1, 0, 1])  # noqa: E731
    found = flow(field, field.y0, GradientFlow(until=LIMIT, save_at=2), stop=lambda t, y: score(y) - 2 * LEVEL)
    facts = {"classes": classes, "omega": omega, "bias": bias}
    if found.ended != "stop":
        return facts | {"actual": None, "lower": None, "upper": None, "predicted": None, "holds": None}
    times = np.linspace(0, found.time, saves)
    run = flow(field, field.y0, GradientFlow(until=found.time, save_at=tuple(times)))
    system = critical(field, run.times, run.states)
    holds, lower, upper = enclosed(system, windows)
    time = lambda path: first_time(system.time, path[:, *CV], LEVEL)  # noqa: E731
    return facts | {
        "actual": time(system.B),
        "lower": time(upper),  # the faster comparison system is early
        "upper": time(lower),
        "predicted": predict(task, transformer, 3 * found.time, level=LEVEL),
        "holds": holds,
        "defect": float(system.defect.max()),
        "driven": float(np.interp(time(system.B), system.time, system.driven)) / LEVEL,
    }


def grid(classes=2, omegas=OMEGAS, biases=BIASES, **settings):
    """The points of the grid, row by row."""
    return [point(classes, omega, bias, **settings) for omega in omegas for bias in biases]


def table(points):
    """The grid for people."""
    show = lambda x: f"{x:9.2f}" if x is not None else "        –"  # noqa: E731
    lines = ["    ω     b     lower    actual     upper predicted  holds"]
    for p in points:
        numbers = " ".join(show(p[name]) for name in ("lower", "actual", "upper", "predicted"))
        lines.append(f"{p['omega']:5.2f} {p['bias']:5.2f} {numbers}  {p['holds']}")
    return "\n".join(lines)


if __name__ == "__main__":
    found = grid()
    print(table(found))
    print(json.dumps(found))
