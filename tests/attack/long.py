"""`make attack`: every attacker for as long as is asked, on every core; the counts now and then, and at the end.

    python tests/attack/long.py --minutes 60 --record docs/trust.md

The counts go into the file, between its two lines MARKS, if everything was answered.

Each attacker gets its share of the goals, whatever the time allowed; when they are reached it goes on in the same shares.
A failure is printed with the attack that caused it, smallest first as Hypothesis finds it, and the exit code is 1; so it is if a
process hangs, dies, or takes more memory than MEMORY.
"""

import argparse
import collections
import contextlib
import faulthandler
import multiprocessing
import os
import pathlib
import resource
import shutil
import sys
import tempfile
import time
import traceback
from multiprocessing.connection import wait

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

# attacker: (goal, what it is, what must be true)
ATTACKS = {
    "specification": (
        100_000,
        "constructors and functions of `mf.variants`",
        "what is made comes back from its own JSON",
    ),
    "table": (10_000, "tables of specifications, as a file holds them", "made, or one sentence"),
    "toml file": (10_000, "files that are TOML, nearly, or bytes", "made, or one sentence"),
    "command line": (10_000, "words for `mixflow`", "exit code 0, 1 or 2, and one line with 2"),
    "run file": (5_000, "a run's bytes changed, cut, repeated", "refused; read where nothing was changed after all"),
    "sealed file": (2_000, "other bytes under a right checksum", "all refused"),
    "forged run": (500, "a run that somebody else wrote, right checksum and all", "read through, or refused"),
    "sweep": (5_000, "descriptions of sweeps", "planned, or one sentence"),
    "sweep folder": (1_000, "a sweep's file that somebody else wrote", "read through, or refused"),
    "report": (1_000, "a report that somebody else wrote", "verified or refused, never believed"),
    "forged proof": (2_000, "a proof that somebody else wrote, right checksum and all", "a verdict, or one sentence"),
    "page request": (5_000, "requests with the token and without", "nobody inside without it"),
    "page message": (
        20_000,
        "frames on a real socket: nearly right, broken, half, of strangers",
        "one sentence or a closed connection; the next question is answered; the server says nothing else and stays below 2 GB",
    ),
    "kill": (
        200,
        "-9 while files and batches are written",
        "nothing lost that was said to be written, everything there is whole",
    ),
    "Ctrl-C": (
        100,
        "half while the program starts, half at work",
        "exit code 130, no traceback, a run if there is a file",
    ),
}
GOALS = {name: goal for name, (goal, _, _) in ATTACKS.items()}
MARKS = "<!-- the counts of make attack: begin -->", "<!-- the counts of make attack: end -->"
ROUNDS = 100  # batches of each attacker to its goal
FEWEST = 5  # attacks in a batch: its first is the simplest of all, always the same
HANGS = 300  # seconds in which nothing returned
MEMORY = 2_000  # MB a process may take
FAILURES = 20  # after which a process gives up
EVERY = 300  # seconds between two lines of counts


def attack(said, seed, minutes, processes):
    """One process: says (attacker, counts {(attacker, verdict): number}, failures, (MB, whose attack)) after each batch."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="mixflow-attack-"))
    counts, failures = collections.Counter(), []
    faulthandler.dump_traceback_later(HANGS, exit=True)
    import attackers

    each = attackers.everyone(folder)
    assert set(each) == set(GOALS)
    end, tried, name = time.monotonic() + 60 * minutes, collections.Counter(), "the start"
    most = (0, name)  # MB, and whose attack it was
    while time.monotonic() < end and len(failures) < FAILURES:
        name = min(GOALS, key=lambda one: tried[one] / GOALS[one])
        many = max(FEWEST, GOALS[name] // (ROUNDS * processes))
        tried[name] += many
        said.send((name, counts, failures, most))
        failures += batch(name, each[name], many, seed + sum(tried.values()), counts)
        most = max(most, (_memory(), name), key=lambda one: one[0])
    faulthandler.cancel_dump_traceback_later()
    os.chdir("/")
    shutil.rmtree(folder, ignore_errors=True)
    said.send((None, counts, failures, most))


def batch(name, attacker, many, seed, counts):
    """Attack so many times; the failures, at most one."""
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis import seed as seeded
    from hypothesis import strategies as st

    quiet = settings(
        max_examples=many, deadline=None, database=None, suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )  # fmt: skip

    def once(data):
        faulthandler.dump_traceback_later(HANGS, exit=True)
        counts[name, attacker(data)] += 1

    try:
        seeded(seed)(quiet(given(st.data())(once)))()
    except Exception:
        lines = traceback.format_exc(limit=-4).splitlines()
        return ["\n".join([f"{name}:", *(line[:200] for line in lines)])]
    return []


def _memory():
    """The most memory that this process, or one of those it started, has taken, in MB."""
    return max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)) // 1024


def gathered(seed, minutes, processes):
    """(counts, failures, (MB, whose attack)) of so many processes; a line of the counts so far now and then."""
    fresh, latest, began = multiprocessing.get_context("spawn"), {}, time.monotonic()
    for i in range(processes):
        ours, theirs = fresh.Pipe(duplex=False)
        fresh.Process(target=attack, args=(theirs, seed + 10**6 * i, minutes, processes)).start()
        theirs.close()
        latest[ours] = ("the start", collections.Counter(), [], (0, ""))
    left, told, died = set(latest), began, []
    with contextlib.suppress(KeyboardInterrupt):  # the counts so far
        while left:
            for ours in wait(left, timeout=10):
                try:
                    known, latest[ours] = latest[ours][2], ours.recv()
                    for failure in latest[ours][2][len(known) :]:
                        print(f"\n{failure}", flush=True)
                except EOFError:
                    left.remove(ours)
                    if latest[ours][0] is not None:
                        died.append(f"a process died or hung for {HANGS} s; its last attacker was {latest[ours][0]}")
            if time.monotonic() > told + EVERY:
                told = time.monotonic()
                print(f"{(told - began) / 60:.0f} min: {_so_far(latest)}", flush=True)
    counts, failures, most = total(latest.values())
    for process in multiprocessing.active_children():
        process.kill()
    return counts, failures + died, most


def _so_far(latest):
    """The counts in one line."""
    counts, failures, _ = total(latest.values())
    shares = [f"{sum(counts[name, x] for x in VERDICTS):,} {name}" for name in GOALS]
    return ", ".join([*shares, f"{len(failures)} not answered"])


VERDICTS = ("made", "refused")


def total(parts):
    """Counts, failures and the largest memory of all processes."""
    _, counts, failures, most = zip(*parts, strict=True)
    return sum(counts, collections.Counter()), [text for texts in failures for text in texts], max(most)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--seed", type=int, default=int(time.time()) % 10**6)
    parser.add_argument("--record", type=pathlib.Path, help="a file whose table of counts is replaced")
    options = parser.parse_args()
    began = time.monotonic()
    counts, failures, (most, whose) = gathered(options.seed, options.minutes, options.processes)
    print(f"{'attack':16} {'made':>9} {'refused':>9} {'goal':>9}   seed {options.seed}")
    for name, goal in GOALS.items():
        made, refused = (counts[name, verdict] for verdict in VERDICTS)
        print(f"{name:16} {made:9,} {refused:9,} {goal:9,} {'' if made + refused >= goal else '  not reached'}")
    print(f"largest memory of a process: {most:,} MB")
    if most > MEMORY:
        failures.append(f"a process took {most:,} MB, more than {MEMORY:,}, in an attack of {whose}")
    for text in dict.fromkeys(failures):
        print(f"\n{text}")
    print(f"{len(failures)} not answered by a result or one sentence")
    if options.record and not failures:
        minutes = (time.monotonic() - began) / 60
        how = f"{minutes:.0f} minutes, {options.processes} processes, seed {options.seed}"
        record(
            options.record, table(counts), f"{how}; largest memory of a process {most:,} MB; everything was answered."
        )
    return 1 if failures else 0


def table(counts):
    """The counts in Markdown."""
    lines = ["| attack | tried | a result | one sentence | what must be true |", "|---|---|---|---|---|"]
    for name, (_, what, true) in ATTACKS.items():
        made, refused = (counts[name, verdict] for verdict in VERDICTS)
        lines.append(f"| {name}: {what} | {made + refused:,} | {made:,} | {refused:,} | {true} |")
    return "\n".join(lines)


def record(path, *parts):
    """Put parts of text between the two lines MARKS of a file."""
    before, _, rest = path.read_text().partition(MARKS[0])
    after = rest.partition(MARKS[1])[2]
    path.write_text("\n\n".join([f"{before}{MARKS[0]}", *parts, f"{MARKS[1]}{after}"]))


if __name__ == "__main__":
    sys.exit(main())
