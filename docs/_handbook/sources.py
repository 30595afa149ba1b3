"""The code beside the text: the role {source}`mixflow/engines/gram.py#Gram.step` links to a page with that line.

A page is made of every file that some text points to. A file or a name that does not exist is a warning, so the build fails:
a moved function cannot leave a dangling pointer behind.
"""

import ast
from pathlib import Path

from docutils import nodes
from sphinx.util import logging

ROOT = Path(__file__).resolve().parents[2]
LOG = logging.getLogger(__name__)


def setup(app):
    app.add_role("source", role)
    app.connect(
        "builder-inited", lambda app: setattr(app.env, "shown_sources", getattr(app.env, "shown_sources", set()))
    )
    app.connect("html-collect-pages", pages)


def role(name, rawtext, text, lineno, inliner, options=None, content=None):
    file, _, target = text.partition("#")
    env = inliner.document.settings.env
    return [link(env, file, target, (env.docname, lineno))], []


def link(env, file, target="", place=None, words=None):
    """A link node to a line of a file's page; the page itself is made at the end."""
    path = ROOT / file
    shown = words or (f"{target} in {file}" if target else file)
    if not path.is_file():
        LOG.warning("there is no file %s", file, location=place)
        return nodes.literal(shown, shown)
    line = 1
    if target:
        line = line_of(path, target)
        if line is None:
            LOG.warning("%s has no %s", file, target, location=place)
            return nodes.literal(shown, shown)
    env.shown_sources.add(file)
    up = "../" * env.docname.count("/")
    node = nodes.reference("", "", internal=True, refuri=f"{up}source/{file}.html#line-{line}", classes=["source"])
    node += nodes.literal(shown, shown)
    return node


def line_of(path, target):
    """The line on which `target`, a dotted name, is defined at the top of a module; None if it is not."""
    body, line = ast.parse(path.read_text()).body, None
    for name in target.split("."):
        found = next((node for node in body if name in _names(node)), None)
        if found is None:
            return None
        body, line = getattr(found, "body", []), found.lineno
    return line


def _names(node):
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return [node.name]
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    return [node.target.id] if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) else []


def pages(app):
    """(page name, context, template) of every file that was pointed to."""
    for file in sorted(app.env.shown_sources):
        text = (ROOT / file).read_text()
        code = app.builder.highlighter.highlight_block(text, "python", linenos=False, linespans="line")
        yield f"source/{file}", {"title": file, "body": f"<h1>{file}</h1>{code}"}, "page.html"
