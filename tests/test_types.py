"""Types: every public function, method and property says what it takes and gives; the words of annotations cost nothing."""

import ast
import functools
import inspect
import sys

import pytest

import mixflow as mf
from mixflow.engines.base import Engine
from tests.test_house import FILES, PACKAGE, room


def modules():
    yield mf
    yield from (value for value in map(functools.partial(getattr, mf), mf.__all__) if inspect.ismodule(value))


def public():
    """(name, function) of every public function, and of every public method and property of a public class."""
    for module in modules():
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isclass(value):
                yield from methods(name, value)
            elif inspect.isfunction(value):
                yield name, value
    yield from methods("Engine", Engine)


def methods(owner, cls):
    for name, value in vars(cls).items():
        function = value
        for inside in ("__func__", "fget", "func"):  # class and static methods, properties, cached properties
            function = getattr(function, inside, function)
        if not name.startswith("_") and inspect.isfunction(function):
            yield f"{owner}.{name}", function


def test_every_public_function_says_what_it_takes_and_gives():
    found = dict(public())
    assert len(found) > 200
    for name, function in found.items():
        signature = inspect.signature(function)
        taken = {p: x.annotation for p, x in signature.parameters.items() if p not in ("self", "cls")}
        missing = [
            p for p, x in {**taken, "return": signature.return_annotation}.items() if x is inspect.Signature.empty
        ]
        assert not missing, f"{name} does not say the type of {', '.join(missing)}"


@pytest.mark.parametrize("name", ["mixflow", "mixflow.measure", "mixflow.plot"])
def test_type_checkers_see_the_names_that_are_imported_on_first_use(name):
    module = sys.modules.get(name) or getattr(mf, name.removeprefix("mixflow."))
    tree = ast.parse(inspect.getsource(module))
    blocks = [
        node for node in tree.body if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"
    ]
    seen = {}
    for node in (node for block in blocks for node in block.body):
        for alias in node.names:
            seen[alias.asname] = "." * (node.level - 1) + (node.module or "")
    assert seen == module._HOME


def test_a_program_never_imports_the_words_of_annotations():
    """`types` names every room, so only type checkers may read it: each import of it stands under TYPE_CHECKING."""
    for path in FILES:
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ImportFrom) and node.level and room(path) != "types":
                names = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
                assert "types" not in names, path
    assert (PACKAGE / "types.py").exists()
