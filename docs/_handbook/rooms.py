"""The map of the rooms, {rooms}: the plan that the tests enforce, what each room holds, and who really imports whom."""

import ast
import functools
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from .sources import ROOT

PACKAGE = ROOT / "mixflow"


def setup(app):
    app.add_directive("rooms", Rooms)


def plan():
    """The order of the rooms, read from the test that enforces it."""
    for node in ast.parse((ROOT / "tests" / "test_house.py").read_text()).body:
        if isinstance(node, ast.Assign) and node.targets[0].id == "PLAN":
            return ast.literal_eval(node.value)
    raise LookupError("tests/test_house.py has no PLAN")


def files(room):
    path = PACKAGE / room
    return sorted(path.rglob("*.py")) if path.is_dir() else [path.with_suffix(".py")]


def holds(room):
    """The first line of the room's docstring."""
    path = PACKAGE / room / "__init__.py" if (PACKAGE / room).is_dir() else PACKAGE / f"{room}.py"
    return (ast.get_docstring(ast.parse(path.read_text())) or "").split("\n")[0]


@functools.cache
def imports(room):
    """The other rooms this one imports, in the plan's order; `types` only names them, for annotations."""
    found = set()
    if room == "types":
        return []
    for path in files(room):
        inside = Path(path).relative_to(PACKAGE).parts[:-1]
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.level:
                base = [*inside[: len(inside) - node.level + 1], *(node.module.split(".") if node.module else [])]
                found |= {base[0]} if base else {alias.name for alias in node.names}
    order = plan()
    return [name for name in order if name in found - {room}]


def drawing():
    """An SVG: rooms from top to bottom, an arc from each to every room above that it imports."""
    order, step = plan(), 26
    place = {room: 18 + step * i for i, room in enumerate(order)}
    lines = [
        f'<svg class="rooms" viewBox="0 0 640 {step * len(order) + 12}" role="img" '
        'aria-label="The rooms of the package from top to bottom; arcs lead from each room up to those it imports.">'
    ]
    for room in order:
        for other in imports(room):
            a, b = place[room], place[other]
            reach = 150 + min(470, 26 + (a - b) * 0.8)
            up = "" if b < a else " up"
            lines.append(f'<path class="arc{up}" d="M150 {a} C{reach:.0f} {a} {reach:.0f} {b} 150 {b}"/>')
    for room in order:
        y = place[room]
        lines.append(f'<circle cx="150" cy="{y}" r="3"/><text x="140" y="{y + 4}" text-anchor="end">{room}</text>')
    return "\n".join([*lines, "</svg>"])


class Rooms(SphinxDirective):
    def run(self):
        from .commands import _row

        group = nodes.tgroup(cols=3)
        group += [nodes.colspec(colwidth=15), nodes.colspec(colwidth=50), nodes.colspec(colwidth=35)]
        header, body = nodes.thead(), nodes.tbody()
        header += _row([nodes.paragraph("", text) for text in ("room", "holds", "imports")])
        for room in plan():
            opens = ", ".join(imports(room)) or "–"
            body += _row([nodes.paragraph("", "", nodes.literal(room, room)), nodes.paragraph("", holds(room)),
                          nodes.paragraph("", opens)])  # fmt: skip
        group += [header, body]
        table = nodes.table()
        table += group
        return [nodes.raw("", drawing(), format="html"), table]
