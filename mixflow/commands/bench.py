"""`mixflow bench`: how fast it is on this machine, as ratios, and how cost grows."""

import json

from .common import DONE, JSON

SUMMARY = "Measure how fast it is on this machine, beside the obvious programs, and how cost grows."
EXAMPLE = "mixflow bench --seconds 45"


def flags():
    return [
        (["--seconds"], {"type": float, "default": 45.0, "metavar": "S", "help": "about how long to measure"}),
        *JSON,
    ]


def run(options):
    from ..bench import bench

    found = bench(options.seconds, progress=True)
    print(json.dumps(found) if options.json else _text(found))
    return DONE


def _text(found):
    lines = ["a step of descent, K = 2" + " " * 60 + "µs    ratio"]
    for row in found["step"]:
        against = f"  ({row['against']})" if "against" in row else ""
        lines.append(f"  {row['what']:78} {row['microseconds']:8.3f} {row['ratio']:8.3g}{against}")
    lines.append("\na gradient flow, K = 2, width 64, to t = 2000" + " " * 40 + "s    ratio")
    lines += [f"  {row['what']:78} {row['seconds']:8.3f} {row['ratio']:8.3g}" for row in found["flow"]]
    lines.append("\nhow cost grows")
    for row in found["growth"]:
        values = "   ".join(f"{x}: {y:.3g}" for x, y in row["values"].items())
        lines.append(f"  with {row['what']:16} exponent {row['exponent']:5.2f}   ({row['unit']}: {values})")
    return "\n".join(lines)
