"""The page's modules as one script: each becomes a function that returns what it exports, in the order of their imports."""

import pathlib
import re

STATIC = pathlib.Path(__file__).parent / "static"

_IMPORT = re.compile(
    r'^import (?:\{(?P<names>[^}]*)\}|\* as (?P<all>\w+)) from "\./(?P<file>[\w-]+\.js)";\n', re.MULTILINE
)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function\*?|class|const) ([\w$]+))", re.MULTILINE)


def bundle(entry):
    """The text of one classic script that does what the module `entry` (a file in static/) and all it imports do.

    >>> "import " in bundle("worker.js")
    False
    """
    written, parts = set(), []

    def add(name):
        if name in written:
            return
        written.add(name)
        text = (STATIC / name).read_text(encoding="utf-8")
        for found in _IMPORT.finditer(text):
            add(found["file"])
        parts.append(_wrapped(name, text))

    add(entry)
    return '"use strict";\n' + "".join(parts)


def _wrapped(name, text):
    exported = _EXPORT.findall(text)
    text = _EXPORT.sub("", _IMPORT.sub(_taken, text))
    if re.search(r"^(import|export)\b", text, re.MULTILINE):
        raise ValueError(f"{name}: only imports and exports on a line of their own, by name, can be bundled.")
    return f"const {_variable(name)} = (() => {{\n{text}return {{ {', '.join(exported)} }};\n}})();\n"


def _taken(found):
    """The line that stands for an import."""
    source = _variable(found["file"])
    if found["all"]:
        return f"const {found['all']} = {source};\n"
    return f"const {{{found['names'].replace(' as ', ': ')}}} = {source};\n"


def _variable(name):
    return "module_" + name.removesuffix(".js").replace("-", "_")
