"""Mathematics as MathML, converted by docutils itself: readable offline, without a script, a font or a request."""

from docutils.nodes import SkipNode
from docutils.utils.math import MathError, latex2mathml
from sphinx.util import logging

LOG = logging.getLogger(__name__)


def setup(app):
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))


def _inline(writer, node):
    writer.body.append(_converted(node))
    raise SkipNode


def _block(writer, node):
    writer.body.append(f'<div class="math">{_converted(node, as_block=True)}</div>\n')
    raise SkipNode


def _converted(node, **form):
    try:
        return latex2mathml.tex2mathml(node.astext(), **form)
    except MathError as error:
        LOG.warning("%s in %s", error, node.astext(), location=node)
        return ""
