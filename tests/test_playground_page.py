"""The playground's page in a real browser: curves, linked views, links, stories, scripts, and nothing from elsewhere."""

import re
import subprocess
import sys
import time

import pytest
from pages import FLAGS, playground, require_browser

from mixflow.playground.frames import decode
from mixflow.playground.presets import PRESETS

TIMED = ("loss", "neurons", "scores", "switchboard", "sectors")
QUICK = "?steps=4000"
SECONDS = 90  # the longest any wait may last; compiling on a busy machine takes most of it


@pytest.fixture(scope="module")
def browser():
    path = require_browser()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        chromium = play.chromium.launch(executable_path=path, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def address():
    require_browser()
    with playground() as (found, _):
        yield found


@pytest.fixture(scope="module")
def window(browser):
    """Shared by most tests, so that plotly.js is fetched and compiled once."""
    context = browser.new_context(viewport={"width": 1300, "height": 1900})
    yield context
    context.close()


@pytest.fixture
def visit(browser, window, address):
    """visit(query) opens the page and waits for its run; at the end: no console error, no request to another host."""
    pages, contexts, trouble = [], [], []

    def open_page(query="", *, settle=True, **options):
        if options:
            contexts.append(browser.new_context(**options))
        page = (contexts[-1] if options else window).new_page()
        pages.append(page)
        page.set_default_timeout(SECONDS * 1000)
        ours = (address, "data:", "blob:")
        page.on("console", lambda m: trouble.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda e: trouble.append(str(e)))
        page.on("request", lambda r: None if r.url.startswith(ours) else trouble.append(r.url))
        page.goto(address + query)
        if settle:
            finished(page)
        return page

    yield open_page
    for opened in [*pages, *contexts]:
        opened.close()
    assert trouble == []


def until(page, expression):
    """Wait for a JavaScript expression. (Playwright's own wait evaluates text in the page, which the page's policy forbids.)"""
    end = time.monotonic() + SECONDS
    while not page.evaluate(expression):
        assert time.monotonic() < end, f"{expression} after {SECONDS} s: {page.inner_text('#status')!r}"
        page.wait_for_timeout(30)


def painted(page):
    """Wait until nothing on screen is left to draw."""
    until(page, "document.documentElement.dataset.painting === 'no'")


def finished(page, unlike="-"):
    """Wait until a finished run (other than `unlike`) is drawn in every view it fills by itself; returns its key."""
    drawn = "document.documentElement.dataset.drawn"
    state = "document.querySelector('#status').dataset.state"
    until(page, f"{state} === 'done' && ![undefined, 'partial', {unlike!r}].includes({drawn})")
    painted(page)
    return page.evaluate(drawn)


def ready(page):
    """Wait until the views that are asked for after the run are there too."""
    until(page, "document.querySelectorAll('#attention .map-value').length === 18")
    until(page, "(document.getElementById('geometry').data ?? []).length > 2")
    until(page, "document.querySelector('#switchboard > .cursor') !== null")


def curve(page, view="loss", trace=0):
    return page.evaluate(f"Array.from(document.getElementById('{view}').data[{trace}].y)")


def read(page, name):
    return page.inner_text(f"#read-{name}")


def picture(page):
    """What every view shows at the cursor."""
    painted(page)
    drawn = {view: page.evaluate(f"document.querySelector('#{view} > .cursor')?.style.left") for view in TIMED}
    texts = "[...document.querySelectorAll('#{} .map-value')].map((x) => x.textContent).join(' ')"
    for view in ("matrix", "attention"):
        drawn[view] = page.evaluate(texts.format(view))
    points = "JSON.stringify(document.getElementById('geometry').data.slice(-2).map((t) => t.x))"
    drawn["geometry"] = page.evaluate(points)
    drawn["numbers"] = page.inner_text("#readout")
    return drawn


def slide(page, control, tick):
    """Move a slider as a hand does: the value changes, then the hand lets go."""
    move = f"s.value = {tick}; for (const e of ['input', 'change']) s.dispatchEvent(new Event(e))"
    page.evaluate(f"(s) => {{ {move} }}", page.query_selector(f"#{control}"))


def test_first_paint_shows_curves_everywhere(visit):
    page = visit()
    ready(page)
    assert len(curve(page)) == 1001
    assert curve(page)[-1] == pytest.approx(0.00329647, rel=1e-5)
    assert read(page, "loss") == "0.00329647"
    assert read(page, "stage") == "convergence"
    assert page.evaluate("document.getElementById('loss').layout.shapes.length") == 3
    for view in TIMED:
        assert page.locator(f"#{view} .js-line, #{view} .heatmaplayer image").count() > 0, view
    told = "[...document.querySelectorAll('section.card a.why')].map((a) => a.getAttribute('aria-label').length)"
    assert min(page.evaluate(told)) > 40
    assert page.locator("#preset option").count() == len(PRESETS) + 1


def test_a_slider_changes_the_curves(visit):
    page = visit(QUICK)
    before, key = curve(page), finished(page)
    page.locator("#control-omega").focus()
    for _ in range(10):  # with the keyboard, as everyone can
        page.keyboard.press("ArrowRight")
    finished(page, unlike=key)
    assert curve(page) != before
    until(page, "location.search.includes('omega=')")
    assert float(page.input_value("[aria-label='initial scale ω, exact value']")) > 0.3


def test_play_and_scrub_move_every_view_together(visit):
    page = visit(QUICK + "&speed=0.5")
    ready(page)
    end = picture(page)
    page.evaluate("const s = document.getElementById('scrub'); s.value = 700; s.dispatchEvent(new Event('input'))")
    middle = picture(page)
    assert [view for view in end if end[view] == middle[view]] == []
    began = float(read(page, "time"))
    page.click("#play")
    until(page, f"Number(document.getElementById('read-time').textContent) > {1.5 * began}")
    page.click("#play")
    later = picture(page)
    assert [view for view in middle if middle[view] == later[view]] == []
    index = lambda: int(page.evaluate("document.documentElement.dataset.index"))  # noqa: E731
    at = index()
    page.click("#forward")
    assert index() == at + 1
    page.click("#back")
    page.click("#back")
    assert index() == at - 1


def test_a_shared_link_restores_the_view(visit):
    first = visit("?steps=4000&omega=0.4&t=150&axis=linear&head=minus&sample=2&theme=dark&compare=three")
    ready(first)
    until(first, "document.getElementById('loss').data.length === 4")
    second = visit(first.evaluate("location.search"))
    ready(second)
    until(second, "document.getElementById('loss').data.length === 4")
    assert second.evaluate("location.search") == first.evaluate("location.search")
    assert picture(first) == picture(second)
    assert curve(first, "neurons") == curve(second, "neurons")
    assert second.evaluate("document.documentElement.dataset.theme") == "dark"
    assert second.evaluate("document.getElementById('neurons').layout.xaxis.type") == "linear"


def drag(page, view, share_from, share_to):
    """Drag the mouse over a chart between two places of its time axis."""
    box = page.evaluate(
        f"""(() => {{ const body = document.getElementById('{view}'), {{ xaxis, _size }} = body._fullLayout;
        const at = body.getBoundingClientRect();
        return [at.left + xaxis._offset, at.top + _size.t + _size.h / 2, xaxis._length]; }})()"""
    )
    left, y, length = box
    page.mouse.move(left + share_from * length, y)
    page.mouse.down()
    page.mouse.move(left + 0.5 * (share_from + share_to) * length, y + 2, steps=4)
    page.mouse.move(left + share_to * length, y + 2, steps=4)
    page.mouse.up()


def ranges(page):
    """The stretch of time each chart shows, and which of its curves."""
    painted(page)
    seen = (
        "(({layout, data}) => [layout.xaxis.range, data.map((t) => t.visible ?? true)])(document.getElementById('%s'))"
    )
    return {view: page.evaluate(seen % view) for view in TIMED}


@pytest.mark.parametrize("axis", ["log", "linear"])
def test_zoom_and_hidden_curves_are_shared_by_every_chart_and_by_the_link(visit, axis):
    first = visit(f"{QUICK}&axis={axis}")
    ready(first)
    whole = ranges(first)
    drag(first, "loss", 0.3, 0.7)
    until(first, "location.search.includes('zoom=')")
    first.locator("#loss .legendtoggle").nth(1).click()
    until(first, "location.search.includes('off=loss.1')")
    zoomed = ranges(first)
    low, high = zoomed["loss"][0]
    full_low, full_high = whole["loss"][0]
    assert low == pytest.approx(full_low + 0.3 * (full_high - full_low), rel=0.05)
    assert high == pytest.approx(full_low + 0.7 * (full_high - full_low), rel=0.05)
    assert all(zoomed[view][0] == [low, high] for view in TIMED)
    assert zoomed["loss"][1] == [True, "legendonly", True]
    second = visit(first.evaluate("location.search"))
    ready(second)
    assert ranges(second) == zoomed
    assert picture(second) == picture(first)
    assert second.evaluate("location.search") == first.evaluate("location.search")
    centre = second.locator("#neurons .nsewdrag").first
    centre.dblclick()
    until(second, "!location.search.includes('zoom')")
    assert ranges(second)["scores"][0] == whole["scores"][0]


def executed(page):
    """What the script behind "copy as Python" prints: {name: number}."""
    page.click("#python")
    until(page, "document.getElementById('code').value.includes('mixflow')")
    script = page.input_value("#code")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, done.stderr
    return {name: float(number) for name, number in re.findall(r"^(\w+) = (\S+)", done.stdout, re.MULTILINE)}


def shown(page):
    """The read-out under the names the scripts use."""
    names = {"time": "time", "loss": "loss", "easy": "loss_easy", "hard": "loss_hard", "accuracy": "accuracy"}
    return {scripts: float(read(page, here)) for here, scripts in names.items() if read(page, here) != "–"}


@pytest.mark.parametrize(
    "query",
    [
        "?steps=3000&width=16&seed=7&t=99&omega=0.4",
        "?steps=3000&task=unequal&prior=0.7&t=99",
        "?steps=3000&task=coherent&coherence=0.4",
    ],
    ids=["finite", "unequal", "coherent"],
)
def test_copy_as_python_reproduces_the_numbers(visit, query):
    page = visit(query)
    numbers = shown(page)
    assert len(numbers) == 5
    assert executed(page) == numbers


def test_the_constructed_transformer_has_every_view_and_no_time(visit):
    page = visit(QUICK)
    key = finished(page)
    page.select_option("#preset", label="The constructed transformer")
    finished(page, unlike=key)
    until(page, "document.querySelectorAll('#attention .map-value').length === 32")
    until(page, "(document.getElementById('geometry').data ?? []).length > 2")
    for view in ("loss", "neurons", "scores", "sectors"):
        until(page, f"document.querySelectorAll('#{view} .barlayer .point').length > 2")
    until(page, "document.querySelectorAll('#switchboard .heatmaplayer image').length === 1")
    assert page.evaluate("document.querySelectorAll('.cursor:not([hidden])').length") == 0
    assert page.is_disabled("#play")
    assert page.is_disabled("#scrub")
    assert "not trained" in page.inner_text("#status")
    assert "margin 3" in page.inner_text("#verdict")
    page.keyboard.press("Escape")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("ArrowLeft")  # nothing to step through, and nothing breaks
    numbers = shown(page)
    assert "time" not in numbers
    printed = executed(page)
    assert printed.pop("margin") == 3
    assert printed == numbers
    page.click("#close")
    again = visit(page.evaluate("location.search"))
    assert again.inner_text("#story") == page.inner_text("#story") != ""
    assert curve(again) == curve(page)
    page.select_option("#control-method", "gd")
    until(page, "document.querySelectorAll('#loss .js-line').length >= 3")
    assert page.is_enabled("#play")


def test_waiting_for_the_compiler_is_explained(visit):
    page = visit(QUICK)
    held = ("chunk", "done")

    def hold(socket):
        server = socket.connect_to_server()
        server.on_message(lambda frame: None if decode(frame)[0]["kind"] in held else socket.send(frame))

    page.route_web_socket("**/socket", hold)
    page.reload()
    until(page, "document.querySelector('#status').textContent.includes('compiling')")


def test_a_bad_address_is_explained_and_the_page_works(visit):
    page = visit("?steps=4000&omega=banana&classes=1e99&colour=red&width=7&zoom=9,3&off=<b>&task=none")
    said = page.inner_text("#alert")
    assert "banana" in said
    assert "expected a number from 0.01 to 3" in said
    assert "colour" in said
    assert "two times such as 12,300" in said
    assert "curves such as loss.1" in said
    assert "one of plain, unequal, coherent, noisy, longer" in said
    assert len(curve(page)) > 100
    page.select_option("#control-width", "64")
    slide(page, "control-classes", 200)
    until(page, "document.querySelector('#status').dataset.state === 'refused'")
    assert "infinite width" in page.inner_text("#alert")
    slide(page, "control-classes", 0)
    finished(page)
    assert not page.is_visible("#alert")


def test_downloads(visit, tmp_path):
    page = visit(QUICK)
    ready(page)
    for view in ("loss", "matrix"):
        for kind, begins in (("SVG", b"<svg"), ("PNG", b"\x89PNG")):
            with page.expect_download() as waiting:
                page.locator(f"section:has(#{view}) .tools button", has_text=kind).click()
            path = tmp_path / f"{view}.{kind}"
            waiting.value.save_as(path)
            assert path.read_bytes().lstrip().startswith(begins), (view, kind)
    with page.expect_download() as waiting:
        page.click("#csv")
    waiting.value.save_as(tmp_path / "run.csv")
    assert (tmp_path / "run.csv").read_text().startswith("time,step,")


def test_narrow_dark_and_still(visit):
    narrow = {"width": 390, "height": 800}
    page = visit(QUICK, viewport=narrow, color_scheme="dark", reduced_motion="reduce")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(15, 18, 20)"
    # count how often the cursor moves in a second of playing: it must jump, not glide
    moves = page.evaluate(
        """async () => {
          let moves = 0;
          const seen = new MutationObserver(() => { moves += 1; });
          seen.observe(document.documentElement, { attributes: true, attributeFilter: ["data-index"] });
          document.getElementById("play").click();
          await new Promise((done) => setTimeout(done, 1200));
          document.getElementById("play").click();
          return moves;
        }"""
    )
    assert moves <= 8


def test_everything_is_named_and_reachable(visit):
    page = visit(QUICK)
    unnamed = page.evaluate(
        """[...document.querySelectorAll('button, select, input, a, textarea')].filter((e) => e.offsetParent &&
        !(e.getAttribute('aria-label') || e.textContent.trim() || e.labels?.length)).map((e) => e.outerHTML)"""
    )
    assert unnamed == []
    reached = set()
    outlined = (
        "document.activeElement === document.body || getComputedStyle(document.activeElement).outlineStyle !== 'none'"
    )
    for _ in range(60):
        page.keyboard.press("Tab")
        name, focus = page.evaluate(f"[document.activeElement.id, {outlined}]")
        reached.add(name)
        assert focus, name
    assert {"play", "scrub", "preset", "python", "control-omega", "sample"} <= reached


def test_a_story_of_fifty_mixtures(visit):
    page = visit(QUICK)
    key = finished(page)
    page.select_option("#preset", label="Fifty mixtures")
    finished(page, unlike=key)
    until(page, "location.search.includes('classes=50')")
    assert "Fifty" in page.inner_text("#story")
    assert float(read(page, "accuracy")) > 0.5
    until(page, "document.querySelectorAll('#sectors .scatterlayer .js-line').length === 8")
    assert "cannot be listed" in page.inner_text("section:has(#geometry)")


def test_the_page_waits_for_a_lost_server(browser):
    with playground() as (address, process):
        page = browser.new_page()
        page.goto(address + QUICK)
        key = finished(page)
        process.terminate()
        process.wait(10)
        until(page, "document.querySelector('#status').dataset.state === 'gone'")
        assert "server is gone" in page.inner_text("#status")
        with playground(int(address.rsplit(":", 1)[1].rstrip("/"))):
            finished(page)
            slide(page, "control-omega", 100)
            finished(page, unlike=key)
        page.close()
