"""How long until the attention knows the correspondence? Bounds and prediction of the critical sub-system over ω and b."""

import json

from ..theory.critical import separation

OMEGAS = (0.05, 0.1, 0.2, 0.4, 0.8)
BIASES = (0.1, 0.25, 0.5, 1.0, 2.0)


def grid(classes=2, omegas=OMEGAS, biases=BIASES, **settings):
    """The points of the grid, row by row."""
    return [separation(classes, omega, bias, **settings) for omega in omegas for bias in biases]


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
