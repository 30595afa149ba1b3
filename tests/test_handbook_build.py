"""The handbook as it is built: no warning, nothing from elsewhere, every link inside it leads somewhere."""

import html.parser
import os
import re
import subprocess
import sys
import urllib.parse

import blocks
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


def build(folder):
    """Build the pages and return their folder. Runs every example, because the pictures are made by them."""
    words = [
        sys.executable,
        "-m",
        "sphinx",
        "-D",
        "nb_execution_mode=off",  # tests/test_notebooks.py runs them
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


def test_the_handbook(tmp_path):
    """One build for all checks: spread over several processes, each would build its own."""
    built = build(tmp_path)
    pages = {path.relative_to(built).as_posix(): Reader(path.read_text()) for path in built.rglob("*.html")}
    failed = []
    for check in CHECKS:
        try:
            check(built, pages)
        except AssertionError as error:
            failed.append(f"{check.__name__}: {error}")
    assert not failed, "\n".join(failed)


def every_page_is_built(built, pages):
    sources = [page for page in blocks.PAGES if page.startswith("docs/")]
    assert {page.removeprefix("docs/").replace(".md", ".html") for page in sources} <= set(pages)


def nothing_is_loaded_from_elsewhere(built, pages):
    for page, seen in pages.items():
        away = [url for url in seen.loads if re.match(r"(https?:)?//", url)]
        assert not away, f"{page} loads {away}"
    for style in built.rglob("*.css"):
        assert not re.search(r"url\(['\"]?(https?:)?//|@import ['\"]?(https?:)?//", style.read_text()), style


def links_and_pictures_inside_the_handbook_resolve(built, pages):
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


def live_figures_have_their_page_and_a_still_picture(built, pages):
    for name in ("index.html", "start.html", "story.html"):
        figures = re.findall(
            r'<div class="live" data-src="([^"]*)"(.*?)</figure>', (built / name).read_text(), flags=re.S
        )
        assert figures, name
        for source, still in figures:
            assert source.startswith("playground.html?figure=network")
            assert "<img" in still, name  # what is there without scripts
    assert "<title>mixflow playground" in (built / "playground.html").read_text()


def mathematics_is_mathml(built, pages):
    assert "math" in pages["story.html"].tags
    text = (built / "story.html").read_text()
    assert "MathJax" not in text
    assert "\\frac" not in re.sub(r"<annotation.*?</annotation>", "", text, flags=re.S)


def the_gallery_shows_every_example(built, pages):
    text = (built / "gallery.html").read_text()
    for script in (ROOT / "examples").glob("*.py"):
        assert f"source/examples/{script.name}.html" in text
        picture = built / "_images" / f"{script.stem}.svg"
        assert picture.exists(), script.stem
        assert picture.stat().st_size > 5000, script.stem


def the_command_line_page_has_every_flag(built, pages):
    text = (built / "reference/command-line.html").read_text()
    for command, known in flags().items():
        (part,) = re.findall(rf'<section id="mixflow-{command}">.*?</section>', text, re.S)
        shown = set(re.findall(r"--?[a-zA-Z][\w-]*", re.sub(r"<[^>]+>", "", part.split("<table")[1])))
        assert known - {"-h", "--help"} <= shown, f"mixflow {command}: {known - shown} missing"


def the_reference_page_has_every_public_name_with_its_example(built, pages):
    anchors = {anchor.removeprefix("module-") for anchor in pages["reference/api.html"].anchors}
    assert {f"mixflow.{name}" for name in mf.__all__} <= anchors


def search_finds_words_of_the_story(built, pages):
    index = (built / "searchindex.js").read_text()
    assert all(word in index for word in ("filippov", "contrast", "outvot"))


CHECKS = (
    every_page_is_built,
    nothing_is_loaded_from_elsewhere,
    links_and_pictures_inside_the_handbook_resolve,
    live_figures_have_their_page_and_a_still_picture,
    mathematics_is_mathml,
    the_gallery_shows_every_example,
    the_command_line_page_has_every_flag,
    the_reference_page_has_every_public_name_with_its_example,
    search_finds_words_of_the_story,
)
