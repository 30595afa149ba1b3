"""The plan of the house: imports only point down the list, public names are pinned, every file says what it holds."""

import ast
from pathlib import Path

import mixflow as mf

PACKAGE = Path(mf.__file__).parent
# A room may import the rooms above it, never one below.
PLAN = [
    "types", "lazy", "errors", "extras", "checks", "sealed", "display", "spec", "jaxed", "native", "guest", "progress",
    "provenance", "variables", "ctrl_c", "intervals",
    "tasks", "networks", "filippov", "engines", "methods", "measure", "plot", "summary", "runs", "export", "bench", "proofs",
    "sweeping", "paper", "papers",
    "playground", "commands", "cli", "__main__",
]  # fmt: skip
FILES = sorted(PACKAGE.rglob("*.py"))
STUDIES = ("paper", "papers")


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
            outside = any(name.split(".")[0] == "mixflow" for name in names)
            assert not outside or room(path) in STUDIES, f"{path}: import relatively"


def test_imports_point_down():
    for path in FILES:
        here = room(path)
        if here in ("__init__", "commands", "cli"):  # the front doors: they may open every room
            continue
        for target in imported_rooms(path):
            assert target in PLAN, f"{path} imports {target}, which has no place in the plan"
            assert PLAN.index(target) <= PLAN.index(here), f"{path} imports {target}, which lies below it"


def test_the_studies_import_public_names_only():
    """`import mixflow as mf` and their own files: what hangs on `mf` must be public, in public modules too."""
    for path in (path for path in FILES if room(path) in STUDIES):
        assert set(imported_rooms(path)) <= {*STUDIES}, f"{path} reaches outside the studies"
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            where = f"{path}:{getattr(node, 'lineno', 0)}"
            if isinstance(node, ast.ImportFrom):
                assert node.level or (node.module or "").split(".")[0] != "mixflow", (
                    f"{where}: write import mixflow as mf"
                )
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    if alias.name.split(".")[0] == "mixflow":
                        assert (alias.name, alias.asname) == ("mixflow", "mf"), f"{where}: write import mixflow as mf"
        for names in public_chains(tree):
            owner, chain = mf, "mf"
            for name in names:
                chain = f"{chain}.{name}"
                assert name in owner.__all__, f"{path}: {chain} is not public"
                owner = getattr(owner, name)
                if not hasattr(owner, "__all__"):  # an object's own attributes are its business
                    break


def public_chains(tree):
    """The attributes of every `mf.a.b.c`, from the left."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            names = []
            while isinstance(node, ast.Attribute):
                names.append(node.attr)
                node = node.value
            if isinstance(node, ast.Name) and node.id == "mf":
                yield names[::-1]


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
    """Importing mixflow.x sets the attribute x of the package, so a public x that is also a module must be that module."""
    for name in {room(path) for path in FILES} & set(mf.__all__):
        assert getattr(mf, name).__name__ == f"mixflow.{name}"


def test_public_modules_say_what_they_offer():
    for module in (mf.checks, mf.filippov, mf.intervals, mf.measure, mf.plot, mf.provenance):
        assert module.__all__ == sorted(module.__all__)
        assert all(hasattr(module, name) for name in module.__all__)


def test_public_names():
    """A name that comes or goes is a decision: it is made here too."""
    assert mf.__all__ == [
        "ChatteringError", "DivergedError", "FiniteTask", "GradientDescent", "GradientFlow", "Interrupted",
        "MixflowError", "Mixture", "Mnist", "Network", "Optimizer", "Proof", "ProofError", "Run", "Runs", "Sample",
        "SpecError", "StoreError", "ThreeStage", "Transformer", "Until", "Vanilla", "checks", "compare", "construct",
        "export", "extend", "field", "filippov", "intervals", "load", "measure", "open_sweep", "plot", "plot_run", "prove",
        "provenance", "sweep", "train", "train_many", "variants", "view",
    ]  # fmt: skip


def test_the_solver_knows_no_transformer():
    rooms = {target for path in FILES if room(path) == "filippov" for target in imported_rooms(path)}
    assert rooms <= {"types", "errors", "checks", "jaxed", "progress", "ctrl_c", "filippov"}
