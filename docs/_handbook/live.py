"""{live}: a picture that comes alive where scripts may run: views of the playground's page, which stands in the handbook whole.

Without scripts the picture stays. The page itself is written to playground.html when the handbook is built.
"""

from html import escape
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import directives

from .pictures import Picture

PAGE = "playground.html"
KNOWN = {"network", "probe", "samples", "loss", "scores"}


def setup(app):
    app.add_directive("live", Live)
    app.add_js_file("live.js", loading_method="defer")
    app.connect("build-finished", write)


def write(app, error):
    """Write the page beside the handbook's own."""
    from mixflow.playground.page import exported

    if error is None and app.builder.format == "html":
        (Path(app.outdir) / PAGE).write_text(exported(), encoding="utf-8")


class Live(Picture):
    """Like {picture}, and :views: of the page, :settings: of it in the form of its links, :height: in pixels."""

    option_spec = {  # noqa: RUF012 (Sphinx expects it here)
        **Picture.option_spec,
        "views": directives.unchanged_required,
        "settings": directives.unchanged,
        "height": directives.positive_int,
    }

    def run(self):
        still, *problems = super().run()
        views = self.options.get("views", "network")
        if not set(views.split(",")) <= KNOWN:
            raise self.error(f":views: {views}: expected some of {', '.join(sorted(KNOWN))}")
        page = "../" * self.env.docname.count("/") + PAGE
        source = escape(f"{page}?figure={views}#{self.options.get('settings', '')}")
        height = self.options.get("height", 460)
        begin = (
            f'<div class="live" data-src="{source}" data-height="{height}" data-title="{escape(self.options["alt"])}">'
        )
        whole = nodes.paragraph("", "", nodes.reference("", "Open the whole page.", refuri=page, classes=["live-link"]))
        raw = [nodes.raw("", text, format="html") for text in (begin, "</div>")]
        return [raw[0], still, whole, raw[1], *problems]
