"""`make attack`: every attacker in turn for as long as is asked, on every core; the counts at the end.

    python tests/attack/long.py --minutes 60

A failure is printed with the attack that caused it, smallest first as Hypothesis finds it, and the exit code is 1.
"""

import argparse
import collections
import multiprocessing
import os
import pathlib
import resource
import sys
import tempfile
import time
import traceback

sys.path.insert(0, os.path.dirname(__file__))

FEWER = {
    "forged run": 20,
    "sweep folder": 40,
    "report": 40,
    "kill": 3,
    "Ctrl-C": 2,
}  # in a round, where others have 200


def attack(seed, minutes):
    """One process: (counts {(attacker, verdict): number}, failures)."""
    import attackers
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis import seed as seeded
    from hypothesis import strategies as st

    counts, failures = collections.Counter(), []
    folder = pathlib.Path(tempfile.mkdtemp(prefix="mixflow-attack-"))
    each = attackers.everyone(folder)
    rounds, end = 0, time.time() + 60 * minutes

    def once(name, data):
        counts[name, each[name](data)] += 1

    while time.time() < end and len(failures) < 20:
        for name in each:
            quiet = settings(
                max_examples=FEWER.get(name, 200), deadline=None, database=None, suppress_health_check=list(HealthCheck),
                phases=[Phase.generate, Phase.shrink],
            )  # fmt: skip
            try:
                seeded(1000 * seed + rounds)(quiet(given(st.just(name), st.data())(once)))()
            except Exception:
                lines = traceback.format_exc(limit=-4).splitlines()
                failures.append("\n".join([f"{name}:", *(line[:200] for line in lines)]))
        rounds += 1
    counts["largest memory, MB", "made"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return counts, failures


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--seed", type=int, default=int(time.time()) % 10**6)
    options = parser.parse_args()
    jobs = [(options.seed + i, options.minutes) for i in range(options.processes)]
    with multiprocessing.get_context("spawn").Pool(options.processes) as pool:
        results = pool.starmap(attack, jobs)
    counts = sum((found for found, _ in results), collections.Counter())
    failures = [text for _, texts in results for text in texts]
    print(f"{'attack':16} {'made':>9} {'refused':>9}   seed {options.seed}")
    for name in dict.fromkeys(name for name, _ in counts):
        print(f"{name:16} {counts[name, 'made']:9} {counts[name, 'refused']:9}")
    for text in dict.fromkeys(failures):
        print(f"\n{text}")
    print(f"{len(failures)} not answered by a result or one sentence")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
