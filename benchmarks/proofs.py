"""Prove K = 2 and 3 to loss 0.1, check both with the independent program, and offer it random alterations of one.

python benchmarks/proofs.py [--alterations 60] [--classes 2 3] [--json]
"""

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np

import mixflow as mf
from mixflow.proofs import checker
from mixflow.proofs.file import contents

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from altered import alter, refused


def proved(K):
    """A proof, and its facts with the processor time of proving and of checking."""
    began = time.process_time()
    proof = mf.prove(mf.Mixture(classes=K), mf.Transformer(omega=0.3))
    middle = time.process_time()
    checker.check(contents(proof), lambda done, cells: None)
    return proof, {**proof.facts(), "seconds": middle - began, "check_seconds": time.process_time() - middle}


def alterations(proof, number):
    """How many of how many random alterations are accepted (none should be), and why the others are refused."""
    content, rng, reasons, accepted = json.loads(json.dumps(contents(proof))), np.random.default_rng(0), {}, 0
    for _ in range(number):
        name, altered = alter(content, rng)
        reason = refused(altered)
        accepted += reason is None
        reasons.setdefault(name, []).append(reason)
    return {"classes": proof.classes, "tried": number, "accepted": accepted, "reasons": reasons}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--alterations", type=int, default=60, help="how many random alterations of the first proof")
    parser.add_argument("--classes", type=int, nargs="*", default=[2, 3])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    runs = [proved(K) for K in options.classes]
    result = {"proofs": [facts for _, facts in runs], "alterations": alterations(runs[0][0], options.alterations)}
    if options.json:
        print(json.dumps(result))
        return
    for proof, facts in runs:
        print(proof.statement())
        print(f"proved in {facts['seconds']:.1f} s, checked in {facts['check_seconds']:.1f} s of one processor\n")
    tried = result["alterations"]
    print(f"{tried['tried']} alterations of K = {tried['classes']} under fresh checksums: {tried['accepted']} accepted")
    for name, each in sorted(tried["reasons"].items()):
        print(f"  {len(each):3d} {name}: {', '.join(sorted(map(str, set(each))))}")


if __name__ == "__main__":
    main()
