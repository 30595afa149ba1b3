"""Docstrings, written for a terminal, as reStructuredText: aligned rows become definitions, the rest is taken literally.

width       m, rows of W_K and W_Q in each head
omega       ω, scale of the initial W_K, W_Q
"""

import re

ROW = re.compile(r"^(?P<names>[A-Za-z_]\w*(?:, (?:[A-Za-z_]\w*|…))*(?:\([\w, ]*\))?)  +(?P<text>\S.*)$")
SPECIAL = re.compile(r"([*_|\\<>])")


def setup(app):
    app.connect("autodoc-process-docstring", process)


def process(app, what, name, thing, options, lines):
    lines[:] = converted(lines)


def converted(lines):
    """The same text as safe reStructuredText."""
    out, i = [], 0
    while i < len(lines):
        line = lines[i]
        if line.startswith(">>>"):
            block = []
            while i < len(lines) and lines[i].strip():
                block.append(lines[i])
                i += 1
            out += ["", ".. code-block:: pycon", "", *(f"   {each}" for each in block), ""]
        elif line.startswith("    "):
            block = []
            while i < len(lines) and (lines[i].startswith("    ") or not lines[i].strip()):
                block.append(lines[i])
                i += 1
            out += ["", "::", "", *block, ""]
        elif row := ROW.match(line):
            text, i = row["text"], i + 1
            while i < len(lines) and lines[i].startswith("  ") and lines[i].strip():
                text, i = f"{text} {lines[i].strip()}", i + 1
            out += ["", f"``{row['names']}``", f"    {safe(text)}", ""]
        else:
            out.append(safe(line))
            i += 1
    return out


def safe(text):
    """Inline text with `code` as literals and every other special character escaped."""
    parts = re.split(r"(`[^`]+`)", text)
    return "".join(f"`{part}`" if part.startswith("`") else SPECIAL.sub(r"\\\1", part) for part in parts)
