"""report.json and the figures beside it -> one HTML page that needs nothing else; the same input gives the same bytes."""

import html
import math
import pathlib
import re

from ..check import JUDGED, printed
from .card import card

LIFTED = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#767676")  # lighter in the dark, by style.css
HERE = pathlib.Path(__file__).parent


def render(folder, report):
    """The page as text."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"number": number, "interval": interval, "value": value, "seconds": seconds}
    figures = {
        (record["name"], figure["name"]): Markup(
            inline_svg((folder / figure["svg"]).read_text(), f"{record['name']}-{figure['name']}", figure["alt"])
        )
        for record in report["experiments"]
        for figure in record["figures"]
    }
    style = Markup((HERE / "style.css").read_text())
    failed = [(record, check) for record in report["experiments"] for check in record["checks"] if check["ok"] is False]
    page = environment.get_template("page.html")
    return page.render(report=report, figures=figures, style=style, failed=failed, card=card(report), judged=JUDGED)


def inline_svg(text, name, alt):
    """A figure's SVG fit to stand inside the page: its own ids, the page's colours, an alternative text, no outside name.

    Ids get the figure's name in front, because all figures share the page's one namespace. Black becomes the colour of the
    page's text and white that of its paper, so that the figure follows light and dark.
    """
    text = text[text.index("<svg") :]
    # matplotlib's style sheet names every element there is, so the page's own repeats it for figures only.
    text = re.sub(r"<(metadata|style)\b.*?</\1>\s*", "", text, flags=re.DOTALL)
    text = re.sub(r'\s(?:xmlns(?::\w+)?|version)="[^"]*"', "", text)
    text = text.replace("xlink:href=", "href=")
    text = re.sub(r'(\bid=")', rf"\g<1>{name}-", text)
    text = re.sub(r'(href="#|url\(#)', rf"\g<1>{name}-", text)
    text = re.sub(r"#000000\b", "currentColor", text)
    text = re.sub(r"#ffffff\b", "var(--paper)", text)
    text = re.sub("|".join(LIFTED), lambda found: f"var(--{found.group()[1:]})", text)
    text = text.replace("'DejaVu Sans'", "'DejaVu Sans', Verdana, sans-serif")
    head, rest = text.split(">", 1)
    width, height = (re.search(rf'\b{side}="([\d.]+)pt"', head).group(1) for side in ("width", "height"))
    view = re.search(r'viewBox="[^"]*"', head)
    box = view.group(0) if view else f'viewBox="0 0 {width} {height}"'
    label = html.escape(alt, quote=True)
    return f'<svg role="img" aria-label="{label}" style="--natural: {width}pt" {box}>\n<title>{label}</title>{rest}'


def number(x):
    """A measured value for people: text as it is, numbers to seven digits."""
    if x is None:
        return "none"
    if isinstance(x, str):
        return x
    if isinstance(x, bool) or (float(x).is_integer() and abs(x) < 1e7):
        return f"{x:,.0f}".replace("-", "−")
    return printed(x, 4 if abs(x) < 1e-4 else 7)


def interval(check):
    """[low, high] of a check, or nothing."""
    if check["low"] is None or check["high"] is None:
        return ""
    return f"{_short(check['low'], check)} to {_short(check['high'], check)}"


def _short(x, check):
    """As many digits as the interval's width makes meaningful: three of its width."""
    width = abs(check["high"] - check["low"])
    if width == 0 or not math.isfinite(width):
        return number(x)
    places = max(0, 2 - math.floor(math.log10(width)))
    return f"{x:.{places}f}".replace("-", "−")


def value(x):
    """A setting's value: lists as words, large numbers with separators."""
    if isinstance(x, (list, tuple)):
        return ", ".join(value(each) for each in x)
    if isinstance(x, bool) or not isinstance(x, (int, float)):
        return str(x)
    return f"{x:,}" if isinstance(x, int) else f"{x:g}"


def seconds(x):
    """A duration for people."""
    if x < 100:
        return f"{x:.1f} s"
    return f"{int(x // 60)} min {int(x % 60)} s"
