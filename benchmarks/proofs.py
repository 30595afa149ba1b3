"""The theorems of docs/proofs.md: prove them, check them independently, offer altered proofs, and see where proofs stop.

python benchmarks/proofs.py [runs] [stages] [altered] [finite] [stretch] [region] [stops] [--json FILE]

Default: runs and altered.
"""

import argparse
import json
import math
import re
import sys
import time
from fractions import Fraction
from pathlib import Path

import numpy as np

import mixflow as mf
from mixflow.intervals import interval
from mixflow.proofs import checker, hessian, network
from mixflow.proofs.approximate import pieces, whole
from mixflow.proofs.cover import cover
from mixflow.proofs.file import contents

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from altered import alter, refused

TWO, TRANSFORMER = mf.Mixture(classes=2), mf.Transformer(omega=0.3)
ALTERATIONS, ALTERED = 60, 30  # how many, of a proof that goes how far: beyond the first switch-off
# At K = 3 the easy margins never reach the default 1.5; from t = 3213 on a neuron slides in stage 1.
LONG = mf.ThreeStage(mf.GradientFlow(), neurons=3000, attention=369, converge=mf.Until("loss", 0.01))
THREE_STAGES = mf.Mixture(classes=3), TRANSFORMER, LONG
DISTANCE, FINITE_TIME, SEEDS = 0.012, 92, 8  # |S − ω| of the finite theorem, how far it is proven, and seeds to compare


def timed(function, *arguments, **options):
    """The result, and the seconds of one processor it took."""
    began = time.process_time()
    result = function(*arguments, **options)
    return result, time.process_time() - began


def told(proof):
    """The facts, and the numbers of the statement, which are rounded outwards."""
    return {
        **proof.facts(),
        "told": [float(each) for each in re.findall(r"(?<=[ [])\d+\.\d+(?:e-\d+)?", proof.statement())],
    }


def runs():
    """K = 2 and 3 until loss 0.1, proved and checked; and when A_cv of the contrast passes 1 (findings, section 2)."""
    proofs = [checked(mf.Mixture(classes=K), TRANSFORMER) for K in (2, 3)]
    for proof, found in proofs:
        found["contrast"] = contrast(proof)
        print(f"K = {found['classes']}: A_cv of the contrast passes 1 between t = {found['contrast']}")
    return [found for _, found in proofs]


def contrast(proof):
    """Two times between which A_cv = A[own signal] − A[another signal] of the identifier passes 1, rounded outwards."""
    ends = []
    for proven in (lambda low, high: low > 1, lambda low, high: not high < 1):
        below, above = 0.0, proof.end
        while above - below > 1e-7 * above:
            middle = 0.5 * (below + above)
            low, high = proof.scores(middle)
            apart = low[0, 0, 1] - high[1, 0, 1], high[0, 0, 1] - low[1, 0, 1]
            below, above = (below, middle) if proven(*apart) else (middle, above)
        ends.append((below, above))
    return [math.floor(1e4 * ends[1][0]) / 1e4, math.ceil(1e4 * ends[0][1]) / 1e4]


def stages():
    """The paper's three stages, proved and checked: K = 2 as `mixflow train --three-stage` ends them, K = 3 by durations."""
    return [checked(TWO, TRANSFORMER, mf.ThreeStage(mf.GradientFlow()))[1], checked(*THREE_STAGES)[1]]


def checked(*question):
    proof, seconds = timed(mf.prove, *question)
    check = timed(checker.check, contents(proof), lambda done, cells: None)[1]
    print(f"{proof.statement()}\nproved in {seconds:.1f} s, checked in {check:.1f} s of one processor\n", flush=True)
    return proof, {**told(proof), "seconds": seconds, "check_seconds": check}


def altered():
    """How many of the random alterations of one proof are accepted (none should be), and why the others are refused."""
    content, rng, reasons, accepted = (
        contents(mf.prove(TWO, TRANSFORMER, until=ALTERED)),
        np.random.default_rng(0),
        {},
        0,
    )
    content = json.loads(json.dumps(content))
    for _ in range(ALTERATIONS):
        name, new = alter(content, rng)
        reason = refused(new)
        accepted += reason is None
        reasons.setdefault(name, []).append(reason)
    print(f"{ALTERATIONS} alterations of K = 2 to t = {ALTERED} under fresh checksums: {accepted} accepted")
    for name, each in sorted(reasons.items()):
        print(f"  {len(each):3d} {name}: {', '.join(sorted(map(str, set(each))))}")
    return {"tried": ALTERATIONS, "accepted": accepted, "kinds": {name: len(each) for name, each in reasons.items()}}


def finite():
    """The theorem about finite width, and when seeds of that width, and of far smaller ones, have every sample right."""
    proof, seconds = timed(mf.prove, TWO, TRANSFORMER, until=FINITE_TIME, distance=DISTANCE)
    print(f"{proof.statement()}\nproved in {seconds:.1f} s of one processor")
    times = np.arange(1.0, FINITE_TIME + 1)
    found = {**told(proof), "seconds": seconds, "seeds": {}}
    for width in (proof.width, 1024, 64):
        right = []
        for seed in range(SEEDS):
            flow = mf.GradientFlow(until=FINITE_TIME, save_at=list(times))
            run = mf.train(TWO, mf.Transformer(width=width, omega=0.3, seed=seed), flow)
            wrong = times[(run.dataset.margin.values[-len(times) :] <= 0).any(-1)]
            right.append(float(wrong[-1] + 1) if len(wrong) else float(times[0]))
        found["seeds"][str(width)] = sorted(right)
        print(f"width {width:,}: every sample right from t = {min(right):g} to {max(right):g}, {SEEDS} seeds")
    return found


def stretch():
    """How much the linear flow stretches errors while finite width would have to be proven: frames lose the square of that."""
    from scipy.linalg import expm

    found = {}
    for K, end in ((2, FINITE_TIME), (3, 548)):  # at K = 3 every sample is right from there on
        tables, Y = network.symmetric(K), np.eye(34)
        for piece in pieces(tables, whole(network.start(K, Fraction(3, 10)).mid), 0.5, lambda piece: False, end=end):
            steps = int(np.ceil(piece.end - piece.begin))
            h = (piece.end - piece.begin) / steps
            x, gates = piece.at(piece.begin + (np.arange(steps) + 0.5) * h), np.abs(piece.gates)
            for H in hessian.curvature(tables, interval(x), 0.5).hessian(np.repeat(gates[None], steps, 0)).mid:
                Y = expm(-0.5 * h * (H + H.T)) @ Y
        found[K] = float(np.linalg.norm(Y, 2))
        print(f"K = {K}: to first order an error grows {found[K]:.3g}-fold until t = {end}")
    return found


def region():
    """A region of ω and b, covered by boxes; and how much of the plane an hour of one processor proves."""
    found, seconds = timed(cover, TWO, TRANSFORMER, until=75, omega_radius=0.01, bias_radius=0.02, progress=True)
    area = 3600 / seconds * 0.02 * 0.04
    print(f"{found.statement()}\nproved in {seconds:.0f} s of one processor: an area of {area:.2g} in an hour")
    return {**told(found), "seconds": seconds, "area_per_hour": area}


def stops():
    """Where the proof of K = 4 and 5 ends, and why."""
    found = {}
    for K in (4, 5):
        try:
            mf.prove(mf.Mixture(classes=K), TRANSFORMER)
        except mf.ProofError as error:
            print(f"K = {K}: {error}")
            found[K] = float(re.search(r"t = ([\d.]+)", str(error))[1])
    return found


PARTS = {each.__name__: each for each in (runs, stages, altered, finite, stretch, region, stops)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=["runs", "altered"])
    parser.add_argument("--json", metavar="FILE", help="write what was found, for mixflow.paper.report.numbers")
    options = parser.parse_args()
    found = {name: PARTS[name]() for name in options.parts}
    if options.json:
        Path(options.json).write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
