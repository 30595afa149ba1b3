"""`make mutants`: break one line of the mathematics at a time and see whether the tests nearest to it notice.

    python tests/mutants/run.py                 all of list.toml; what is known from an earlier run is not run again
    python tests/mutants/run.py loss gates      only those of files whose path contains one of these words

A mutant is killed if a test of its group fails, or runs for longer than PATIENCE. Exit code 1 if the score is below GOAL, a
survivor has no argument, an argued one is killed after all, or a line of the list is no longer in its file.
"""

import argparse
import hashlib
import json
import multiprocessing
import os
import pathlib
import resource
import shutil
import sys
import tempfile
import time
import tomllib
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIST = pathlib.Path(__file__).with_name("list.toml")
KNOWN = ROOT / "build" / "mutants.jsonl"
LEFT_OUT = shutil.ignore_patterns(".git", ".venv*", "build", "results", "__pycache__", ".*_cache", ".hypothesis")
PATIENCE = 300  # seconds of the processor a mutant's tests may take
SOUND = 3600  # and those of all of them on the sound tree
BUSY = 20  # times as long by the clock, on a machine that has other things to do
GOAL = 0.95
FRESH = multiprocessing.get_context("forkserver")
FRESH.set_forkserver_preload(
    ["jax", "xarray", "pytest", "numpy.testing", "scipy.linalg", "scipy.optimize", "scipy.stats"]
)
KILLED, SURVIVED, STALE, UNTESTED = "killed", "survived", "not in the file once", "no such test"


@dataclass(frozen=True)
class Mutant:
    """One change of one line.

    file, old, new  `old` stands once in the file and becomes `new`
    tests           what pytest is asked for
    why             for a mutant that no test can kill: why not
    """

    file: str
    old: str
    new: str
    tests: tuple
    why: str = ""

    def applied(self, text):
        """The text with the change, or None if `old` does not stand there exactly once."""
        return text.replace(self.old, self.new) if text.count(self.old) == 1 else None

    def key(self, root):
        """What the verdict depends on, as far as it can be seen from here."""
        read = [self.file, *sorted({test.split("::")[0] for test in self.tests})]
        parts = [self.old, self.new, *self.tests, *((root / path).read_text() for path in read)]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def listed(path=LIST):
    """Every mutant of the list."""
    found = []
    for group in tomllib.loads(path.read_text())["near"]:
        tests = tuple(f"tests/{test}" for test in group["tests"])
        for old, new, *own in group.get("mutants", ()):
            found.append(Mutant(group["file"], old, new, tuple(f"tests/{test}" for test in own) or tests))
        found += [Mutant(group["file"], old, new, tests, why) for old, new, why in group.get("survivors", ())]
    return found


def judge(mutant, scratch, patience=PATIENCE):
    """The verdict on one mutant, in a copy of the tree that is left as it was."""
    path = scratch / mutant.file
    sound = path.read_text()
    broken = mutant.applied(sound)
    if broken is None:
        return STALE
    path.write_text(broken)
    try:
        code = tested(scratch, mutant.tests, patience)
    finally:
        path.write_text(sound)
    return {0: SURVIVED, 1: KILLED, 2: KILLED}.get(code, UNTESTED)


def tested(scratch, tests, patience):
    """Pytest's exit code; 1 if it was not done in time."""
    process = FRESH.Process(target=_pytest, args=(str(scratch), tests, patience), daemon=True)
    process.start()
    process.join(BUSY * patience)
    if process.is_alive():
        process.kill()
        process.join()
        return 1
    return 1 if process.exitcode < 0 else process.exitcode  # a signal: out of time, or it crashed


def _pytest(scratch, tests, patience):
    """In a process that has everything but mixflow imported, which takes longer than most of the tests."""
    resource.setrlimit(resource.RLIMIT_CPU, (patience, patience + 1))
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nothing, stream)
    os.chdir(scratch)
    os.environ["PYTHONPATH"] = scratch
    sys.path.insert(0, scratch)
    sys.dont_write_bytecode = True
    import pytest

    os._exit(pytest.main(["-x", "-q", "-n", "0", "-p", "no:cacheprovider", *tests]))


def run(mutants, known, scratch, report=print):
    """{mutant: verdict}; verdicts that are not yet in the file `known` are found and added to it."""
    earlier = {}
    if known.exists():
        earlier = {line["key"]: line["verdict"] for line in map(json.loads, known.read_text().splitlines())}
    known.parent.mkdir(parents=True, exist_ok=True)
    keys = {mutant: mutant.key(scratch) for mutant in mutants}
    new = [mutant for mutant in mutants if keys[mutant] not in earlier]
    if new and tested(scratch, sorted({test for mutant in new for test in mutant.tests}), SOUND) != 0:
        raise SystemExit("the tests fail on the sound tree: mend them first")
    for number, mutant in enumerate(new, 1):
        began = time.monotonic()
        verdict = earlier[keys[mutant]] = judge(mutant, scratch)
        line = {"key": keys[mutant], "verdict": verdict, "file": mutant.file, "old": mutant.old, "new": mutant.new}
        with known.open("a") as file:
            file.write(json.dumps(line) + "\n")
        seconds = time.monotonic() - began
        report(f"{number:4} of {len(new)}  {verdict:8} {seconds:4.0f} s  {mutant.file}: {mutant.new}", flush=True)
    return {mutant: earlier[key] for mutant, key in keys.items()}


def summary(verdicts):
    """The lines to print at the end, and the exit code."""
    of = {name: [mutant for mutant, verdict in verdicts.items() if verdict == name] for name in set(verdicts.values())}
    judged = len(of.get(KILLED, ())) + len(of.get(SURVIVED, ()))
    score = len(of.get(KILLED, ())) / judged if judged else 0.0
    lines = [f"{len(of.get(KILLED, ()))} of {judged} mutants killed: {score:.1%}"]
    bad = score < GOAL
    for mutant, verdict in verdicts.items():
        if verdict == KILLED and not mutant.why:
            continue
        text = f"{mutant.file}: {mutant.old}  ->  {mutant.new}"
        if verdict == KILLED:
            lines.append(f"argued, yet killed (move it among the mutants)  {text}")
        else:
            lines.append(f"{verdict}  {text}" + (f"\n    {mutant.why}" if verdict == SURVIVED and mutant.why else ""))
        bad |= verdict != SURVIVED or not mutant.why
    return lines, int(bad)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("words", nargs="*", help="parts of the paths to take; all if none is given")
    words = parser.parse_args().words
    mutants = [mutant for mutant in listed() if not words or any(word in mutant.file for word in words)]
    with tempfile.TemporaryDirectory(prefix="mixflow-mutants-") as folder:
        scratch = pathlib.Path(folder) / "tree"
        shutil.copytree(ROOT, scratch, ignore=LEFT_OUT)
        lines, code = summary(run(mutants, KNOWN, scratch))
    print("\n".join(lines))
    return code


if __name__ == "__main__":
    sys.exit(main())
