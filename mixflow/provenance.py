"""Where a result came from: versions, commit, command line, hardware; everything a reader needs to repeat it.

Every Run carries it; stamp your own results alike. Raises nothing: what cannot be known says so.

>>> import mixflow as mf
>>> sorted(mf.provenance.provenance())
['command', 'commit', 'compiler_options', 'hardware', 'precision', 'versions']
"""

from __future__ import annotations

import functools
import json
import os
import pathlib
import platform
import shlex
import sys

from .jaxed import compiler_options

__all__ = ["cores", "provenance", "threads", "versions"]

PACKAGES = ("mixflow", "jax", "jaxlib", "llvmlite", "numpy", "scipy", "xarray", "h5netcdf", "matplotlib")


def provenance() -> dict[str, str]:
    """Attributes of a dataset, as strings."""
    return {
        "versions": json.dumps(versions()),
        "commit": _commit(),
        "command": _text(shlex.join([pathlib.Path(sys.argv[0]).name or "python", *sys.argv[1:]])),
        "hardware": json.dumps(_hardware()),
        "precision": "float64",
        "compiler_options": json.dumps(compiler_options()),
    }


def _text(words):
    """Words of the command line as a file can hold them: bytes that are no text are written out."""
    return words.encode(errors="backslashreplace").decode()


def versions() -> dict[str, str]:
    """Installed versions of Python and of everything numbers or figures depend on."""
    return {"python": platform.python_version(), **_installed()}


def cores() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threads() -> str:
    """How many processors this process may use, and what limits its libraries' threads."""
    limits = {name: os.environ[name] for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS") if name in os.environ}
    return ", ".join([f"{cores()} processors allowed", *(f"{name} = {value}" for name, value in limits.items())])


@functools.cache
def _installed():
    from importlib import metadata  # slow to import, and only needed when a dataset is made

    found = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


@functools.cache
def _commit():
    """The commit of the source tree mixflow runs from, with +changes if it was edited since."""
    import subprocess

    here = pathlib.Path(__file__).resolve().parent
    if not (here.parent / ".git").exists():
        return "unknown: not run from a git checkout"

    # Without its optional lock: a git that is killed while it refreshes the index (a full disk, Ctrl-C) would leave the lock
    # behind, and the reader's next commit would be refused.
    def git(*words):
        return subprocess.run(
            ["git", "--no-optional-locks", "-C", str(here), *words],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        ).stdout

    try:
        edited = git("status", "--porcelain", "--untracked-files=no", "--", ".").strip()
        return git("rev-parse", "HEAD").strip() + ("+changes" if edited else "")
    except (OSError, subprocess.SubprocessError):
        return "unknown: git did not answer"


@functools.cache
def _hardware():
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "memory_gib": _memory(),
        "system": f"{platform.system()} {platform.machine()}",
    }


def _cpu():
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or "unknown"


def _memory():
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (ValueError, OSError, AttributeError):
        return None
