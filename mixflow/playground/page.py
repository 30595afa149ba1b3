"""The page as text: served by the server, or whole in one file that needs none."""

import base64
import hashlib
import json
import re

from .bundle import STATIC, bundle
from .controls import CONTROLS
from .presets import PRESETS
from .recipes import METHODS, labels

SERVER_ONLY = ("flow",)  # methods that need Python


def config(*, served):
    """What the page offers, JSON-ready; without a server only what its own engine can compute.

    >>> "flow" in config(served=True)["methods"], "flow" in config(served=False)["methods"]
    (True, False)
    """
    left_out = () if served else SERVER_ONLY
    methods = {name: label for name, label in labels(METHODS).items() if name not in left_out}
    controls = [_without(control.describe(), left_out) for control in CONTROLS.values()]
    presets = [
        preset for preset in PRESETS if not {preset["state"].get(x) for x in ("method", "compare")} & set(left_out)
    ]
    return {
        "controls": [control for control in controls if control is not None],
        "methods": methods,
        "presets": presets,
        "served": served,
    }


def _without(control, methods):
    """The description of a control without these methods, None if they are all it is for."""
    only = dict(control.get("only", {}))
    if "method" in only:
        only["method"] = [name for name in only["method"] if name not in methods]
        if not only["method"]:
            return None
        control = {**control, "only": only}
    if control["name"] == "method":
        choices = {name: label for name, label in control["choices"].items() if name not in methods}
        control = {**control, "choices": choices}
    return control


def served():
    """The page for the server: scripts and styles are files beside it."""
    return _template(config(served=True))


def exported(given=None, **settings):
    """The page as one file: opens from disk, needs no server and no network, and may be put on any host.

    given     a run to show instead of computing one, its frame in base64; settings  what the page is told besides

    >>> text = exported()
    >>> len(text.encode()) < 400_000, 'src="' in text
    (True, False)
    """
    text = _template(config(served=False) | settings)
    icon = base64.b64encode((STATIC / "icon.svg").read_bytes()).decode()
    style, script = (STATIC / "style.css").read_text(encoding="utf-8"), bundle("main.js")
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; worker-src blob:; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
    beside = {"worker": bundle("worker.js")} if given is None else {"given": given}
    block = "".join(f'<script type="text/plain" id="{name}">{_inside(text)}</script>' for name, text in beside.items())
    return _replaced(
        text,
        {
            '<meta charset="utf-8">': '<meta charset="utf-8">\n'
            f'  <meta http-equiv="content-security-policy" content="{policy}">',
            "/static/icon.svg": f"data:image/svg+xml;base64,{icon}",
            '<link rel="stylesheet" href="/static/style.css">': f"<style>{style}</style>",
            '<script type="module" src="/static/main.js"></script>': f"{block}\n  <script>{_inside(script)}</script>",
        },
    )


def _template(settings):
    text = (STATIC / "index.html").read_text(encoding="utf-8")
    safe = json.dumps(settings, ensure_ascii=False).replace("<", "\\u003c")  # nothing in it can end its element
    return _replaced(text, {">CONFIG<": f">{safe}<"})


def _replaced(text, pairs):
    for old, new in pairs.items():
        if text.count(old) < 1:
            raise ValueError(f"the page lacks {old!r}")
        text = text.replace(old, new)
    return text


def _inside(script):
    """The script, if nothing in it ends the element it stands in."""
    if re.search(r"</script|<!--", script, re.IGNORECASE):
        raise ValueError("a script holds text that would end its element")
    return script


def _hash(text):
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
