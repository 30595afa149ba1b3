"""The handbook as it is built: no warning, nothing from elsewhere, every link inside it leads somewhere."""

import html.parser
import os
import re
import subprocess
import sys
import urllib.parse

import blocks
import pytest
from test_handbook import flags

import mixflow as mf

ROOT = blocks.ROOT


class Reader(html.parser.HTMLParser):
    """What a page loads, what it links to, and the anchors it has."""

    def __init__(self, text):
        super().__init__()
        self.loads, self.links, self.anchors, self.tags = [], [], set(), set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.tags.add(tag)
        self.anchors |= {given[name] for name in ("id", "name") if given.get(name)}
        loads = given.get("src") or (given.get("href") if tag == "link" and given.get("rel") != "canonical" else None)
        if loads:
            self.loads.append(loads)
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The folder of the built pages. Runs every example, because the pictures are made by them."""
    folder = tmp_path_factory.mktemp("handbook")
    words = [
        sys.executable,
        "-m",
        "sphinx",
        "-W",
        "--keep-going",
        "-q",
        "-b",
        "html",
        "-d",
        str(folder / "trees"),
        "docs",
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([*words, str(folder / "html")], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    return folder / "html"


@pytest.fixture(scope="module")
def pages(built):
    return {path.relative_to(built).as_posix(): Reader(path.read_text()) for path in built.rglob("*.html")}


def test_every_page_is_built(pages):
    sources = [page for page in blocks.PAGES if page.startswith("docs/")]
    assert {page.removeprefix("docs/").replace(".md", ".html") for page in sources} <= set(pages)


def test_nothing_is_loaded_from_elsewhere(built, pages):
    for page, seen in pages.items():
        away = [url for url in seen.loads if re.match(r"(https?:)?//", url)]
        assert not away, f"{page} loads {away}"
    for style in built.rglob("*.css"):
        assert not re.search(r"url\(['\"]?(https?:)?//|@import ['\"]?(https?:)?//", style.read_text()), style


def test_links_and_pictures_inside_the_handbook_resolve(built, pages):
    missing = []
    for page, seen in pages.items():
        for url in [*seen.links, *seen.loads]:
            if re.match(r"[a-z]+:", url) or (url.startswith("#") and page in ("genindex.html", "search.html")):
                continue
            file, _, anchor = urllib.parse.unquote(url.partition("?")[0]).partition("#")
            target = os.path.normpath(os.path.join(os.path.dirname(page), file)) if file else page
            if not (built / target).exists():
                missing.append(f"{page}: {url}")
            elif anchor and target in pages and anchor not in pages[target].anchors:
                missing.append(f"{page}: {url} (no such anchor)")
    assert not missing, missing[:20]


def test_mathematics_is_mathml(built, pages):
    assert "math" in pages["story.html"].tags
    text = (built / "story.html").read_text()
    assert "MathJax" not in text
    assert "\\frac" not in re.sub(r"<annotation.*?</annotation>", "", text, flags=re.S)


def test_the_gallery_shows_every_example(built):
    text = (built / "gallery.html").read_text()
    for script in (ROOT / "examples").glob("*.py"):
        assert f"source/examples/{script.name}.html" in text
        picture = built / "_images" / f"{script.stem}.svg"
        assert picture.stat().st_size > 5000, script.stem


def test_the_command_line_page_has_every_flag(built):
    text = (built / "reference/command-line.html").read_text()
    for command, known in flags().items():
        (part,) = re.findall(rf'<section id="mixflow-{command}">.*?</section>', text, re.S)
        shown = set(re.findall(r"--?[a-zA-Z][\w-]*", re.sub(r"<[^>]+>", "", part.split("<table")[1])))
        assert known - {"-h", "--help"} <= shown, f"mixflow {command}: {known - shown} missing"


def test_the_reference_page_has_every_public_name_with_its_example(pages):
    assert {f"mixflow.{name}" for name in mf.__all__} <= pages["reference/api.html"].anchors


def test_search_finds_words_of_the_story(built):
    index = (built / "searchindex.js").read_text()
    assert all(word in index for word in ("filippov", "contrast", "outvot"))
