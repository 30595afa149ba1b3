"""The plan of the house: imports only point down the list, public names are pinned, every file says what it holds."""

import ast
from pathlib import Path

import mixflow as mf

PACKAGE = Path(mf.__file__).parent
# A room may import the rooms above it, never one below.
PLAN = [
    "errors", "checks", "sealed", "jaxed", "progress", "provenance", "ctrl_c", "tasks", "networks", "filippov", "engines",
    "methods", "measure", "dataset", "store", "running", "training", "side_by_side", "sweeping", "plot", "summary", "paper",
    "playground", "commands", "cli", "__main__",
]  # fmt: skip
FILES = sorted(PACKAGE.rglob("*.py"))


def room(path):
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imported_rooms(path):
    inside = path.relative_to(PACKAGE).parts[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = inside[: len(inside) - node.level + 1]
            target = [*base, *(node.module.split(".") if node.module else [])]
            yield from [target[0]] if target else [alias.name for alias in node.names]
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module]
            assert not any(name.split(".")[0] == "mixflow" for name in names), f"{path}: import relatively"


def test_imports_point_down():
    for path in FILES:
        here = room(path)
        if here in ("__init__", "commands", "cli"):  # the front doors: they may open every room
            continue
        for target in imported_rooms(path):
            assert target in PLAN, f"{path} imports {target}, which has no place in the plan"
            assert PLAN.index(target) <= PLAN.index(here), f"{path} imports {target}, which lies below it"


def test_every_room_is_on_the_plan():
    assert {room(path) for path in FILES} - {"__init__"} == set(PLAN)


def test_every_file_says_what_it_holds():
    for path in FILES:
        first = (ast.get_docstring(ast.parse(path.read_text())) or "").split("\n")[0]
        assert first.endswith((".", ":", ";", ",")) or len(first) > 20, path


def test_public_names_are_sorted_and_exist():
    assert mf.__all__ == sorted(mf.__all__, key=str)
    assert all(hasattr(mf, name) for name in mf.__all__)


def test_no_public_name_is_hidden_by_a_module():
    """Importing mixflow.x sets the attribute x of the package, so a public x must not also be a module."""
    assert not {room(path) for path in FILES} & set(mf.__all__)


def test_public_names():
    assert set(mf.__all__) >= {
        "DivergedError", "FiniteTask", "GradientDescent", "Mixture", "Run", "SpecError", "Transformer",
        "load", "open_sweep", "sweep", "train", "train_many",
    }  # fmt: skip
