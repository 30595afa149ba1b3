"""The formulas of docs/mathematics.md, which its source writes as plain text, set as MathML; its section numbers stay.

    z_h(X) = b + (1/L) Σ_l w_hᵀ X softmax(…)      _x and _{…} are indices, ^x, ^{…}, ^(…), ᵀ, ² are exponents

Words of three letters and more are text, names of functions upright, single letters variables. A line with a relation is
aligned at it; four spaces and more are a gap.
"""

import html
import re

from docutils import nodes

PAGES = ("mathematics",)
FUNCTIONS = {
    "softmax",
    "ReLU",
    "log",
    "exp",
    "tr",
    "sign",
    "LayerNorm",
    "dim",
    "loss",
    "head",
    "gate",
    "ln",
    "sup",
    "max",
    "min",
    "diag",
}
LONG = 76  # characters of a line that fit the page
PROSE_WORD = re.compile(r"(?<![\w^])(?!softmax|loss|exp|log)[a-z]{3,}(?!\()")
PROSE = {"of", "on", "in", "is", "as", "by", "to", "or", "at"}
RAISED = dict(zip("ᵀ²³⁺⁻ⁿ⁴", "T23+−n4"))
LOWERED = dict(zip("₀₁₂₃", "0123"))
SPACE = "\u00a0"
RELATION = re.compile(r"(?<![<>=!])(←|=|≤|≥|∈|>)")
TOKEN = re.compile(
    r"(?P<code>`[^`]+`)|(?P<word>[A-Za-z]{2,})|(?P<number>\d+(?:\.\d+)?(?:e-?\d+)?)"
    r"|(?P<letter>[^\W\d_][\u0300-\u036f]*)|(?P<space>\s+)|(?P<other>.)"
)
SCRIPT = re.compile(
    r"(?P<low>_(?:\{[^}]*\}|[KQ],h|[A-Za-z]+|\d+|[^\W_]|[+−±∓]))|(?P<high>\^(?:\{[^}]*\}|\([^)]*\)|[−∓+]?(?:[A-Za-z]+|\d+|[^\W_])'?))"
    r"|(?P<raised>[ᵀ²³⁺⁻ⁿ⁴]+)|(?P<lowered>[₀₁₂₃]+)|(?P<prime>')"
)
SYMBOL = re.compile(r"[A-Za-zΑ-ωÃ̃]{1,2}\u0303?(_[A-Za-z0-9+−±]{1,2}|_\{[^}]+\})?'?")
NAMES = re.compile(r"[a-z]{3,}_[a-z]|[a-z]{2,}\.[a-z]{2}|\w/\w{2,}|[a-z]{2,}=|mixflow|https?:")


def setup(app):
    app.connect("doctree-read", _replace)


def _replace(app, doctree):
    if app.env.docname not in PAGES:
        return
    for block in list(doctree.findall(nodes.literal_block)):
        if block.get("language", "default") in ("default", "none"):
            block.replace_self(nodes.raw("", display(block.astext()), format="html"))
    for inline in list(doctree.findall(nodes.literal)):
        if is_formula(inline.astext()):
            inline.replace_self(nodes.raw("", f"<math>{formula(inline.astext())}</math>", format="html"))


def is_formula(text):
    """Whether text between backticks is mathematics: symbols, not names of the code."""
    if NAMES.search(text):
        return False
    return not text.isascii() or all(SYMBOL.fullmatch(part) for part in re.split(r"[,;] ?| = ", text))


def display(text):
    """A block of lines as one table of formulas, aligned at the first relation of each; long lines break at their gaps."""
    rows = []
    for line in text.splitlines():
        for i, part in enumerate(_broken(line)):
            found = None if i else RELATION.search(part)
            if i == 0 and (found is None or len(PROSE_WORD.findall(part[: found.start()])) > 1):
                rows.append(f'<mtd columnspan="2" style="text-align:left">{formula(part)}</mtd>')
                continue
            left, right = (part[: found.start()], part[found.start() :]) if found else ("", part)
            cells = zip(("right", "left"), (left, right))
            rows.append("".join(f'<mtd style="text-align:{side}">{formula(cell)}</mtd>' for side, cell in cells))
    table = "".join(f"<mtr>{row}</mtr>" for row in rows)
    return f'<div class="math"><math display="block"><mtable displaystyle="true">{table}</mtable></math></div>\n'


def _broken(line):
    """The line, or its pieces where it is too long for the page."""
    return (
        [line]
        if len(line.strip()) <= LONG
        else [piece for piece in re.split(r" {3,}(?![←=≤≥>])", line.strip()) if piece]
    )


def formula(text):
    """The <mrow> of a formula in plain text.

    >>> formula("w_h")
    '<mrow><msub><mi>w</mi><mrow><mi>h</mi></mrow></msub></mrow>'
    """
    parts, at = [], 0
    text = text.strip()
    while at < len(text):
        token = TOKEN.match(text, at)
        at = token.end()
        if token["space"]:
            if len(token["space"]) > 3:
                parts.append('<mspace width="2em"/>')
            elif len(token["space"]) > 1:
                parts.append('<mspace width="0.6em"/>')
            continue
        base = _base(
            token,
            text[at:],
            bool(parts) and text[token.start() - 1] == " " and not parts[-1].endswith(f"{SPACE}</mtext>"),
        )
        low = high = ""
        while script := SCRIPT.match(text, at):
            at = script.end()
            low += _script(script, ("low", "lowered"))
            high += _script(script, ("high", "raised", "prime"))
        parts.append(_with(base, low, high))
    return f"<mrow>{''.join(parts)}</mrow>"


def _base(token, rest, before):
    kind, text = token.lastgroup, html.escape(token.group())
    if kind == "code":
        return f"<mtext><code>{text[1:-1]}</code></mtext>"
    if kind == "number":
        return f"<mn>{text}</mn>"
    if kind == "letter":
        return f"<mi>{text}</mi>"
    if kind == "word":
        if text in FUNCTIONS or rest.startswith("("):
            return f'<mi mathvariant="normal">{text}</mi>'
        if len(text) == 2 and text not in PROSE:
            return "".join(f"<mi>{letter}</mi>" for letter in text).join(("<mrow>", "</mrow>"))
        # MathML drops common spaces at the ends of text.
        return f"<mtext>{SPACE * before}{text}{SPACE * rest.startswith(' ')}</mtext>"
    return f'<mo stretchy="false">{text}</mo>' if text in "()[]⟨⟩|‖" else f"<mo>{text}</mo>"


def _script(script, kinds):
    text = next((script[kind] for kind in kinds if script[kind]), "")
    if not text:
        return ""
    if text == "'":
        return "<mo>′</mo>"
    text = "".join(RAISED.get(c, LOWERED.get(c, c)) for c in text)
    text = text.removeprefix("_").removeprefix("^")
    if text[:1] + text[-1:] in ("{}", "()"):
        text = text[1:-1]
    return formula(text)


def _with(base, low, high):
    if low and high:
        return f"<msubsup>{base}{_one(low)}{_one(high)}</msubsup>"
    if low or high:
        kind = "msub" if low else "msup"
        return f"<{kind}>{base}{_one(low or high)}</{kind}>"
    return base


def _one(content):
    """A single element of several."""
    return content if content.count("<mrow>") == 1 and content.startswith("<mrow>") else f"<mrow>{content}</mrow>"
