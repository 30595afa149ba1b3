"""Pictures of the examples, made when the handbook is built by running the scripts themselves; no number is stored.

{picture} shows the picture of one script with a caption that links to it; {gallery} shows all. A picture is kept under the
checksum of its script and of the package, so that a second build draws only what changed.
"""

import ast
import hashlib
import os
import subprocess
import sys
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective

from .sources import ROOT, link

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
# One process runs all scripts that are due, so that the library is loaded once; each works in the folder of pictures.
RUNNER = """
import runpy, sys, matplotlib
matplotlib.use("Agg")
for script in sys.argv[1:]:
    runpy.run_path(script, run_name="__main__")
    sys.modules["matplotlib.pyplot"].close("all") if "matplotlib.pyplot" in sys.modules else None
"""


def setup(app):
    app.add_config_value("pictures", "", "env")
    app.add_directive("picture", Picture)
    app.add_directive("gallery", Gallery)
    app.connect("builder-inited", draw)


def draw(app):
    """Run every script whose picture is missing; fail with the script's own words."""
    folder = Path(app.config.pictures or Path(app.doctreedir).parent / "pictures").resolve()
    folder.mkdir(parents=True, exist_ok=True)
    app.env.picture_folder = folder
    package = [path.read_bytes() for path in sorted((ROOT / "mixflow").rglob("*.py"))]
    due = []
    for script in EXAMPLES:
        key = hashlib.sha256(b"".join([script.read_bytes(), *package])).hexdigest()
        made, stamp = folder / f"{script.stem}.svg", folder / f"{script.stem}.key"
        if not made.exists() or not stamp.exists() or stamp.read_text() != key:
            made.unlink(missing_ok=True)
            due.append((script, made, stamp, key))
    if not due:
        return
    words = [sys.executable, "-W", "error", "-c", RUNNER, *(str(script) for script, *_ in due)]
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(words, cwd=folder, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True)
    for script, made, stamp, key in due:
        if done.returncode or not made.exists():
            raise ExtensionError(f"{script.name} did not make {made.name}:\n{done.stderr[-2000:]}")
        stamp.write_text(key)


def described(script):
    """(title, sentence) from a script's docstring, "Title: sentence."."""
    title, _, sentence = (ast.get_docstring(ast.parse(script.read_text())) or "").partition(": ")
    return title, " ".join(sentence.split())


class Picture(SphinxDirective):
    """The picture that examples/NAME.py makes; the content is the caption, :alt: what it shows."""

    required_arguments = 1
    has_content = True
    option_spec = {"alt": directives.unchanged_required}  # noqa: RUF012 (Sphinx expects it here)

    def run(self):
        name = self.arguments[0]
        if not (ROOT / "examples" / f"{name}.py").exists():
            raise self.error(f"there is no examples/{name}.py")
        if "alt" not in self.options:
            raise self.error("a picture needs :alt:, what it shows for those who cannot see it")
        figure = nodes.figure("", image(self.env, name, self.options["alt"]))
        caption = nodes.caption()
        words, problems = self.parse_inline(" ".join(self.content), lineno=self.lineno)
        caption += [*words, nodes.Text(" Made by ")]
        caption += link(self.env, f"examples/{name}.py", words=f"examples/{name}.py")
        caption += nodes.Text(".")
        figure += caption
        return [figure, *problems]


class Gallery(SphinxDirective):
    """All pictures, small, each with its title and a link to its script."""

    def run(self):
        grid = nodes.container(classes=["gallery"])
        for script in EXAMPLES:
            title, sentence = described(script)
            cell = nodes.container(classes=["gallery-cell"])
            anchor = link(self.env, f"examples/{script.name}", words=title)
            picture = image(self.env, script.stem, sentence)
            whole = nodes.reference("", "", internal=True, refuri=anchor["refuri"])
            whole += picture
            cell += nodes.paragraph("", "", whole)
            cell += nodes.paragraph("", "", nodes.strong("", "", nodes.Text(title)))
            cell += nodes.paragraph("", sentence[:1].upper() + sentence[1:])
            cell += nodes.paragraph("", "", link(self.env, f"examples/{script.name}"))
            grid += cell
        return [grid]


def image(env, name, alt):
    up = os.path.relpath(env.picture_folder / f"{name}.svg", Path(env.doc2path(env.docname)).parent)
    return nodes.image(uri=Path(up).as_posix(), alt=alt)
