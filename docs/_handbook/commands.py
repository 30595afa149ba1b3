"""The command line, page {command-line}: sections, usage and flags straight from the parser that the commands use."""

import argparse
import re

from docutils import nodes
from sphinx.util.docutils import SphinxDirective


def setup(app):
    app.add_directive("command-line", CommandLine)


class CommandLine(SphinxDirective):
    def run(self):
        from mixflow.cli import _parser

        top = _parser()
        (commands,) = (action for action in top._actions if isinstance(action, argparse._SubParsersAction))
        return [self.section(name, parser) for name, parser in commands.choices.items()]

    def section(self, name, parser):
        section = nodes.section(ids=[f"mixflow-{name}"], names=[f"mixflow {name}"])
        section += nodes.title("", "", nodes.Text(f"mixflow {name}"))
        section += nodes.paragraph("", parser.description)
        example = parser.epilog.removeprefix("example: ")
        section += nodes.literal_block(example, example, language="bash")
        rows = [(words(action), said(parser, action)) for action in parser._actions if action.dest != "help"]
        section += table(("argument", "meaning"), rows)
        self.state.document.note_implicit_target(section, section)
        return section


def words(action):
    value = "" if action.nargs == 0 else f" {action.metavar or _choices(action) or action.dest.upper()}"
    return f"{', '.join(action.option_strings)}{value}" if action.option_strings else value.strip()


def said(parser, action):
    """The help text as `--help` prints it, default included."""
    formatter = parser._get_formatter()
    text = formatter._expand_help(action)
    return re.sub(r"\s+", " ", text)


def _choices(action):
    return "{" + ",".join(map(str, action.choices)) + "}" if action.choices else ""


def table(head, rows):
    """A two-column table, the first column as code."""
    group = nodes.tgroup(cols=2)
    group += [nodes.colspec(colwidth=30), nodes.colspec(colwidth=70)]
    header, body = nodes.thead(), nodes.tbody()
    header += _row([nodes.paragraph("", cell) for cell in head])
    for code, text in rows:
        body += _row([nodes.paragraph("", "", nodes.literal(code, code)), nodes.paragraph("", text)])
    group += [header, body]
    whole = nodes.table(classes=["flags"])
    whole += group
    return whole


def _row(cells):
    row = nodes.row()
    for cell in cells:
        entry = nodes.entry()
        entry += cell
        row += entry
    return row
