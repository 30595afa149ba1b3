"""The paper's experiment: K = 2, every weight trained at once by gradient descent; do three stages appear?"""

import json
import math
import pathlib

from ..dynamics.descent import GradientDescent
from ..models.transformer import Transformer
from ..plot.run import plot_run
from ..plot.style import save
from ..store import write_whole
from ..summary import summary, table
from ..tasks.mixture import Mixture
from ..training import train

TASK = Mixture(classes=2)
# The paper fixes learning rate 0.1 and zero w; ω and b are ours: ω = 0.3 < 1, b = 1/2. Infinite width, so no seed.
TRANSFORMER = Transformer(width=math.inf, omega=0.3, bias=0.5)
METHOD = GradientDescent(learning_rate=0.1, steps=20_000, save_every=10)
ORDER = ["neurons", "attention", "convergence"]


def verdict(run):
    """Whether all three stages were found, in the paper's order, and the task was learned."""
    found = [stage for stage in run.stages if stage.found]
    in_order = [stage.name for stage in found] == ORDER and all(a.start < b.start for a, b in zip(found, found[1:]))
    return in_order and float(run.dataset.accuracy[-1]) == 1.0


def reproduce(folder, *, as_json=False):
    """Run, print, write the run file and the figure; returns the verdict."""
    folder = pathlib.Path(folder)
    make_folder(folder)
    run = train(TASK, TRANSFORMER, METHOD, progress=True)
    learned = verdict(run)
    written = [run.save(folder / "simultaneous.nc"), *save(plot_run(run), folder / "simultaneous")]
    result = {**summary(run), "verdict": learned, "written": [str(path) for path in written]}
    write_whole(folder / "simultaneous.json", json.dumps(result, indent=1, allow_nan=False).encode())
    if as_json:
        print(json.dumps(result, allow_nan=False))
    else:
        print(table(run))
        print(f"\nthree stages in the paper's order, task learned: {'yes' if learned else 'NO'}")
        print("written: " + ", ".join(map(str, written)))
    return learned


def make_folder(folder):
    """Make the output folder, or say in one sentence why not."""
    from ..errors import StoreError

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"cannot make the folder {folder}: {error.strerror}; choose another with --out.") from None
