"""One file for each figure or question, all of one shape (`shape.Experiment`): config with reasons -> run -> verdict, figures."""

import mixflow as mf

# In the order of the report. Modules are imported when asked for, so that `mixflow --help` needs none of them.
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
}
NAMES = tuple(_HOME)
# Questions beyond the paper that take longer than all of the paper's together: run when asked for by name, or with all in full.
OPTIONAL = ("robustness",)


def experiment(name):
    """The experiment of this name."""
    from importlib import import_module

    return import_module(f".{_HOME[mf.checks.one_of('experiment', name, NAMES)]}", __name__).EXPERIMENT
