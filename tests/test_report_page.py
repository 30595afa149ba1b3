"""The report's page: one file that needs nothing else, as wide as the screen, and whole on paper."""

import dataclasses
import html.parser
import json

import pytest

from mixflow.cli import main
from mixflow.paper import experiments
from mixflow.paper.report.render import inline_svg, number
from mixflow.paper.report.reproduce import write_report

VOID = {"meta", "br", "img", "link", "hr", "input"}
PHONE = {"width": 390, "height": 844}
SHEET = {"width": 718, "height": 1047}  # A4 less margins of 10 mm, in CSS pixels
DIGEST = "0123456789abcdef" * 4


class Page(html.parser.HTMLParser):
    """Open tags, ids, links and everything that could fetch."""

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.links, self.fetched, self.tags, self.images = [], [], [], [], set(), []

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.tags.add(tag)
        if tag not in VOID:
            self.open.append(tag)
        self.note(tag, found)

    def handle_startendtag(self, tag, attributes):
        self.tags.add(tag)
        self.note(tag, dict(attributes))

    def note(self, tag, found):
        if "id" in found:
            self.ids.append(found["id"])
        if tag in ("a", "use") and "href" in found:
            self.links.append(found["href"])
        self.fetched += [found[name] for name in ("src", "srcset", "data", "poster", "xlink:href") if name in found]
        if tag in ("svg", "img"):
            self.images.append(found.get("aria-label") or found.get("alt") or "")

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A small report, and in it what is hard to set: a table of nine columns, checksums, long words, a setting of many values."""
    folder = tmp_path_factory.mktemp("page")
    each = experiments.experiment("width")
    small = {"widths": [8, 64, 512], "seeds": 2, "steps": 2200}
    config = {k: dataclasses.replace(entry, quick=small.get(k, entry.quick)) for k, entry in each.config.items()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mixflow.paper.report.reproduce.experiment", lambda _: dataclasses.replace(each, config=config))
        main(["reproduce", "--only", "width", "--out", str(folder)])
    report = json.loads((folder / "report.json").read_text())
    (record,) = report["experiments"]
    cells = ["class imbalance: 0.95", "0/10", "0.738", "10/10", "510", "2.51 (2.45 to 2.57)", "10/10"]
    rows = [[*cells, "breaks: no seed learns the hard samples; " * 2, "holds, T2 = 1234"]] * 3
    table = {"name": "answers", "caption": "Nine columns", "columns": [f"Column {i}" for i in range(9)], "rows": rows}
    record["tables"] = [table | {"file": record["figures"][0]["svg"]}]
    source = {"name": "Images", "origin": "a package", "licence": "free", "sha256": DIGEST}
    record["sources"] = [source | {"split": ", ".join(f"seed {i}: {DIGEST}" for i in range(16))}]
    record["settings"]["widths"] = list(range(100))
    record["answer"] = record["answer"] + " A longer word: " + "plateau" * 12 + "."
    write_report(folder, report)
    return folder


@pytest.fixture(scope="module")
def page(finished):
    reader = Page()
    reader.feed((finished / "report.html").read_text())
    return reader


def test_the_page_is_well_formed_and_needs_nothing_from_outside(page, finished):
    assert page.open == []
    assert len(page.ids) == len(set(page.ids))
    assert page.fetched == []
    assert not page.tags & {"script", "link", "iframe", "object", "img"}
    text = (finished / "report.html").read_text()
    assert "http" not in text
    assert "@import" not in text


def test_every_link_leads_somewhere(page, finished):
    for link in page.links:
        assert link[1:] in page.ids if link.startswith("#") else (finished / link).is_file(), link


def test_every_figure_has_an_alternative_text(page):
    assert len(page.images) == 2
    assert all(len(text) > 60 for text in page.images)


def test_numbers_for_people():
    assert [number(x) for x in (None, 1.0, -0.5, 1.23456789, 2.5e-9, "word")] == [
        "none", "1", "−0.5", "1.234568", "2.5·10⁻⁹", "word",
    ]  # fmt: skip


def test_two_figures_in_one_page_share_no_id():
    svg = (
        '<svg width="1pt" height="1pt" xmlns="http://x.org/svg"><g id="a"/><use xlink:href="#a" fill="#000000"/></svg>'
    )
    text = inline_svg(svg, "one", 'says "this"')
    assert 'id="one-a"' in text
    assert 'href="#one-a"' in text
    assert "http" not in text
    assert "currentColor" in text
    assert 'aria-label="says &quot;this&quot;"' in text


@pytest.fixture
def shown(browser, finished):
    """shown(size, media) opens the page; no script runs in it, and it asks for nothing."""
    contexts = []

    def look(size, media="screen"):
        contexts.append(browser.new_context(viewport=size, offline=True))
        sheet = contexts[-1].new_page()
        sheet.emulate_media(media=media)
        sheet.goto((finished / "report.html").as_uri())
        return sheet

    yield look
    for context in contexts:
        context.close()


# What reaches past the right edge of the page, and of those what cannot be scrolled to.
OUTSIDE = """(scrolled) => [...document.querySelectorAll("body *")]
    .filter((e) => e.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
    .filter((e) => !(scrolled && e.closest(".wide")))
    .map((e) => e.tagName + "." + e.getAttribute("class") + ": " + e.textContent.trim().slice(0, 60))"""


def test_the_page_is_no_wider_than_a_phone(shown):
    page = shown(PHONE)
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    assert page.evaluate(OUTSIDE, True) == []
    assert page.evaluate("[...document.querySelectorAll('.judged thead')].every((e) => !e.checkVisibility())")


def test_on_paper_nothing_is_clipped_and_the_evidence_of_stages_is_there(shown, tmp_path):
    page = shown(SHEET, "print")
    assert page.evaluate(OUTSIDE, False) == []
    assert page.evaluate("[...document.querySelectorAll('pre')].every((e) => e.scrollWidth <= e.clientWidth)")
    stages = "[...document.querySelectorAll('.stages table')].map((e) => e.checkVisibility())"
    assert page.evaluate(stages) == [True]
    page.emulate_media(media="screen")
    assert page.evaluate(stages) == [False]  # folded on the screen
    page.pdf(
        path=tmp_path / "report.pdf", format="A4", margin=dict.fromkeys(("top", "bottom", "left", "right"), "10mm")
    )
    assert (tmp_path / "report.pdf").read_bytes().count(b"/Type /Page\n") > 3
