"""How long until the attention knows the correspondence? Bounds and prediction of the critical sub-system over ω and b.

python -m mixflow.paper.experiments.claims_critical --out results     25 points, two minutes
"""

import argparse

import mixflow as mf

from ..files import dump, make_folder, write
from ..theory.comparison import separation

OMEGAS = (0.05, 0.1, 0.2, 0.4, 0.8)
BIASES = (0.1, 0.25, 0.5, 1.0, 2.0)


def grid(classes=2, omegas=OMEGAS, biases=BIASES, **settings):
    """The points of the grid, row by row."""
    return [separation(classes, omega, bias, **settings) for omega in omegas for bias in biases]


def table(points):
    """The grid for people."""

    def show(x):
        return f"{x:9.2f}" if x is not None else "        –"

    lines = ["    ω     b     lower    actual     upper predicted  holds  proven"]
    for p in points:
        numbers = " ".join(show(p[name]) for name in ("lower", "actual", "upper", "predicted"))
        lines.append(f"{p['omega']:5.2f} {p['bias']:5.2f} {numbers}  {p['holds']}  {p['proven']}")
    return "\n".join(lines)


def main(arguments=None):
    """Compute, print, write the numbers and the figure."""
    from ..figures.theory import plot_critical

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="four points instead of 25")
    parser.add_argument("--out", default="results", help="folder for the figure and the numbers")
    options = parser.parse_args(arguments)
    folder = make_folder(options.out)
    found = grid(omegas=(0.1, 0.8), biases=(0.1, 1.0), saves=1000) if options.quick else grid()
    print(table(found))
    write(folder / "critical.json", dump(found))
    print(
        "written: "
        + ", ".join(map(str, [folder / "critical.json", *mf.plot.save(plot_critical(found), folder / "critical")]))
    )
    return found


if __name__ == "__main__":
    main()
