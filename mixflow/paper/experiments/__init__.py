"""One file for each figure or question, all of one shape (`shape.Experiment`): config with reasons -> run -> verdict, figures."""

import mixflow as mf

# In the order of the report. Modules are imported when asked for, so that `mixflow --help` needs none of them. Other papers are
# rooms of their own, below this one; the report is about all.
_HOME = {
    "simultaneous": "simultaneous",
    "three-stage": "three_stage",
    "flow": "flow",
    "width": "width",
    "geometry": "geometry",
    "classes": "classes",
    "construction": "construction",
    "mnist": "mnist",
    "questions": "questions",
    "practice": "practice",
    "claims": "claims",
    "robustness": "robustness",
    "co-occurrence": "...papers.co_occurrence",
    "even-pairs": "...papers.even_pairs",
    "token-selection": "...papers.token_selection",
    "single-head": "...papers.single_head",
}
NAMES = tuple(_HOME)
# Beyond the paper, and other papers: run when asked for by name, or with all in full.
OPTIONAL = NAMES[NAMES.index("robustness") :]


def experiment(name):
    """The experiment of this name, or the EXPERIMENT of a Python file of the reader's own."""
    from importlib import import_module

    if name.endswith(".py"):
        return own(name)
    return import_module(home(mf.checks.one_of("experiment", name, NAMES)), __name__).EXPERIMENT


def home(name):
    """The module of an experiment, relative to this one."""
    return _HOME[name] if _HOME[name].startswith(".") else f".{_HOME[name]}"


def own(path):
    """The EXPERIMENT of a Python file; SpecError for a file that has none, or whose name is taken or no name."""
    import dataclasses
    import re
    import runpy

    from .shape import Experiment

    try:
        found = runpy.run_path(path).get("EXPERIMENT")
    except Exception as error:
        raise mf.SpecError(
            f"{path} cannot be run: {type(error).__name__}: {error}; mend it, or give another file."
        ) from error
    if not isinstance(found, Experiment):
        raise mf.SpecError(f"{path} has no EXPERIMENT: end it with EXPERIMENT = Experiment(…) of mixflow.papers.")
    if found.name in NAMES or not re.fullmatch(r"[a-z0-9][a-z0-9-]*", found.name):
        raise mf.SpecError(
            f"{path}: name = {found.name!r}: expected a name of its own in small letters, such as my-paper."
        )
    return dataclasses.replace(found, file=path)
