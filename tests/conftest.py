"""Shared by all tests: the folders on the path, float64 for tests of internals, reproducible Hypothesis, a browser."""

import sys
from pathlib import Path

import pytest
from hypothesis import settings

from mixflow.jaxed import float64, jax

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent / "attack")]

# derandomize: the same examples on every machine and every day, so that a failure is a change in the code.
settings.register_profile("mixflow", deadline=None, derandomize=True, max_examples=25)
settings.load_profile("mixflow")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Tests reach behind the public functions, so they open the door (mixflow/jaxed.py) themselves.

    Where that would hide a public function without one, in tests marked `as_user` and in doctests, it stays shut.
    """
    if item.get_closest_marker("as_user"):
        return (yield)
    with float64():
        jax()  # a test that imports JAX later by itself expects float64 too
        return (yield)


@pytest.fixture(scope="module")
def browser():
    from pages import FLAGS, require_browser

    path = require_browser()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        chromium = play.chromium.launch(executable_path=path, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The address of the exported page on disk."""
    from mixflow.cli import main

    path = tmp_path_factory.mktemp("page") / "playground.html"
    assert main(["playground", "--export", str(path)]) == 0
    assert path.stat().st_size < 400_000
    return path.as_uri()


@pytest.fixture(scope="module")
def served():
    from pages import playground, require_browser

    require_browser()
    with playground() as (found, _):
        yield found


@pytest.fixture
def visit(browser, alone):
    """visit(fragment) opens the page and waits for its run; at the end: no console message, no request to another host."""
    from browsing import SECONDS, TALL, finished
    from pages import TOKEN

    contexts, trouble = [], []

    def open_page(fragment="", *, address=None, settle=True, **options):
        options = {"viewport": TALL, "offline": address is None, **options}
        contexts.append(browser.new_context(**options))
        page = contexts[-1].new_page()
        page.set_default_timeout(SECONDS * 1000)
        ours = (address or alone, "data:", "blob:")
        page.on("console", lambda m: trouble.append(m.text))
        page.on("pageerror", lambda e: trouble.append(str(e)))
        page.on("request", lambda r: None if r.url.startswith(ours) else trouble.append(r.url))
        page.goto(f"{address}?token={TOKEN}{fragment}" if address else alone + fragment)
        if settle:
            finished(page)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert trouble == []
